//! A link from GPU to GPU by NCCL.
//!
//! A thread waits until the device has done what comes before a copy, launches the copy, and lets it raise a
//! timeline that the device's next work waits for. If the copy's stream waited for the device instead, the
//! GPU would go back and forth between the two all the while.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};

use hlx_core::{Buffer, Context, Timeline};
use hlx_nn::{NnError, Result};
use hlx_ranks::{CudaMemory, CudaTimeline, Group, Moment, Nccl, NcclCandidate};

use super::link::{Cut, Link};
use super::times::Span;
use super::{broken, lost};

/// Few and large: each swap takes the GPU from the device's own work for some 0.4 ms, whatever its size
/// (measured on two H100s).
pub(super) const CUT: Cut = Cut {
    bucket: 48 << 20,
    capacity: 64 << 20,
    lag: 1,
};
/// Above every value of a timeline: nothing waits for a link that is broken.
const BROKEN: u64 = 1 << 30;

/// The link of one rank.
pub(super) struct NcclLink {
    ctx: Context,
    name: String,
    slots: Vec<[Buffer; 2]>,
    next: usize,
    /// The device has done what comes before a copy.
    ready: (Timeline, u64),
    /// The copy is done.
    copied: (Timeline, u64),
    /// Swaps under way: the slot, the words that come, and the value of `copied` behind it.
    under_way: VecDeque<(usize, usize, u64)>,
    n_launched: usize,
    jobs: Sender<Job>,
    launched: Receiver<Result<Launched>>,
}

enum Job {
    Swap(SwapJob),
    /// To be noted when `ready` has this value.
    PassesEnd(u64),
}

struct SwapJob {
    peer: usize,
    slot: usize,
    n_out: usize,
    n_into: usize,
    ready: u64,
    copied: u64,
}

/// What the thread has launched.
enum Launched {
    Swap {
        begin: Moment,
        end: Moment,
        bytes: u64,
    },
    PassesEnd(Moment),
}

/// What the thread has.
struct Launcher {
    nccl: Nccl,
    /// Of each slot, what is sent and what is received.
    slots: Vec<[CudaMemory; 2]>,
    ready: Timeline,
    copied: CudaTimeline,
}

impl Launcher {
    fn launch(&self, job: &Job) -> Result<Launched> {
        match job {
            Job::PassesEnd(ready) => {
                self.ready.wait(*ready)?;
                Ok(Launched::PassesEnd(self.nccl.now().map_err(lost)?))
            }
            Job::Swap(job) => self.swap(job),
        }
    }

    fn swap(&self, job: &SwapJob) -> Result<Launched> {
        let SwapJob { n_out, n_into, .. } = *job;
        let [out, into] = &self.slots[job.slot];
        self.ready.wait(job.ready)?;
        let nccl = &self.nccl;
        let begin = nccl.moment().map_err(lost)?;
        let out = (n_out > 0).then_some((out, 0..4 * n_out));
        let into = (n_into > 0).then_some((into, 0..4 * n_into));
        nccl.swap(job.peer, out, into).map_err(lost)?;
        nccl.raise(&self.copied, job.copied).map_err(lost)?;
        Ok(Launched::Swap {
            begin,
            end: nccl.moment().map_err(lost)?,
            bytes: 4 * (n_out + n_into) as u64,
        })
    }
}

impl NcclLink {
    /// Connects the ranks, with room for `n_slots` swaps of `slot_words` words.
    pub fn new(
        ctx: &Context,
        (group, candidate): (&Group, NcclCandidate),
        (n_slots, slot_words): (usize, usize),
    ) -> Result<Self> {
        let nccl = candidate.connect(group).map_err(lost)?;
        let memory = || {
            let shared = ctx.alloc_shared(slot_words)?;
            let there = nccl.import_memory(shared.file, shared.bytes);
            Ok::<_, NnError>((shared.buffer, there.map_err(lost)?))
        };
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..n_slots {
            let [out, into] = [memory()?, memory()?];
            here.push([out.0, into.0]);
            there.push([out.1, into.1]);
        }
        let ((ready, _), (copied, file)) = (ctx.timeline()?, ctx.timeline()?);
        let name = nccl.name();
        let launcher = Launcher {
            slots: there,
            ready: ready.clone(),
            copied: nccl.import_timeline(file).map_err(lost)?,
            nccl,
        };
        let ((jobs, incoming), (outgoing, launched)) = (channel::<Job>(), channel());
        let unblocked = copied.clone();
        std::thread::spawn(move || {
            for job in incoming {
                let result = launcher.launch(&job);
                let is_broken = result.is_err();
                if outgoing.send(result).is_err() || is_broken {
                    let _ = unblocked.raise(BROKEN);
                    break;
                }
            }
        });
        Ok(Self {
            ctx: ctx.clone(),
            name,
            slots: here,
            next: 0,
            ready: (ready, 0),
            copied: (copied, 0),
            under_way: VecDeque::new(),
            n_launched: 0,
            jobs,
            launched,
        })
    }

    /// Raises the timeline that a job waits for, behind all work launched so far.
    fn raise(&mut self) -> Result<u64> {
        self.ready.1 += 1;
        self.ctx.raise(&self.ready.0, self.ready.1)?;
        Ok(self.ready.1)
    }

    fn send(&mut self, job: Job) {
        self.n_launched += 1;
        // A thread that is gone has left its error.
        let _ = self.jobs.send(job);
    }

    /// What the thread has launched since the last call.
    fn take_launched(&mut self) -> Result<Vec<Launched>> {
        let next = |_| {
            let ended = || broken("the thread of NCCL has ended");
            self.launched.recv().map_err(|_| ended())?
        };
        (0..std::mem::take(&mut self.n_launched))
            .map(next)
            .collect()
    }
}

impl Link for NcclLink {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn begin(&mut self, peer: usize, out: Option<&Buffer>, n_into: usize) -> Result<()> {
        let slot = self.next;
        self.next = (slot + 1) % self.slots.len();
        let n_out = out.map_or(0, Buffer::len);
        if let Some(out) = out {
            self.ctx.copy(out, &self.slots[slot][0].slice(0, n_out)?)?;
        }
        let ready = self.raise()?;
        self.copied.1 += 1;
        let copied = self.copied.1;
        self.under_way.push_back((slot, n_into, copied));
        self.send(Job::Swap(SwapJob {
            peer,
            slot,
            n_out,
            n_into,
            ready,
            copied,
        }));
        Ok(())
    }

    fn end(&mut self) -> Result<Buffer> {
        let Some((slot, n, copied)) = self.under_way.pop_front() else {
            return Err(broken("no swap is under way"));
        };
        self.ctx.await_value(&self.copied.0, copied)?;
        Ok(self.slots[slot][1].slice(0, n)?)
    }

    fn passes_end(&mut self) -> Result<()> {
        let ready = self.raise()?;
        self.send(Job::PassesEnd(ready));
        Ok(())
    }

    fn take_spans(&mut self) -> Result<(Vec<Span>, f64)> {
        let (mut swaps, mut passes_end) = (Vec::new(), None);
        for launched in self.take_launched()? {
            match launched {
                Launched::Swap { begin, end, bytes } => swaps.push((begin, end, bytes)),
                Launched::PassesEnd(moment) => passes_end = Some(moment),
            }
        }
        let first = swaps.first().map(|(begin, _, _)| begin.clone());
        let ms = |moment: &Moment| {
            let first = first.as_ref();
            first
                .and_then(|first| moment.ms_since(first))
                .unwrap_or(0.0)
        };
        let span = |(begin, end, bytes): &(Moment, Moment, u64)| Span {
            begin_ms: ms(begin),
            end_ms: ms(end),
            bytes: *bytes,
        };
        let spans = swaps.iter().map(span).collect();
        Ok((spans, passes_end.as_ref().map_or(0.0, ms)))
    }
}
