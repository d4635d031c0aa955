//! A link through the memory of the host: the device copies to pinned memory, another thread swaps it with
//! the other rank, and the device copies what came back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hlx_core::{Buffer, Device, HostBuffer, PendingCopy};
use hlx_nn::Result;
use hlx_ranks::Group;

use super::link::{Cut, Link};
use super::times::Span;
use super::worker::Worker;
use super::{broken, lost};

/// Pieces of 16 MiB: while one is sent, the device copies the next.
pub(super) const CUT: Cut = Cut {
    bucket: 4 << 20,
    least: 4 << 20,
    capacity: 4 << 20,
    lag: 3,
};

/// Between two looks whether the device has copied.
const LOOK: Duration = Duration::from_micros(20);

/// The link of one rank.
pub(super) struct HostLink {
    device: Device,
    swaps: Worker<Job, Done>,
    free: Vec<Slot>,
    /// Slots that the device copies received words from.
    uploads: VecDeque<(PendingCopy, HostBuffer)>,
    /// Words received, on the device.
    received: Buffer,
    began: Instant,
    spans: Vec<Span>,
    /// Notes when the device has copied; none on the CPU, which has done what is launched.
    marks: Option<Worker<PendingCopy, f64>>,
    passes_end_ms: Option<f64>,
}

/// Pinned memory of a swap.
struct Slot {
    out: HostBuffer,
    into: HostBuffer,
}

enum Out {
    Words(PendingCopy, usize),
    Nothing(HostBuffer),
}

struct Job {
    peer: usize,
    out: Out,
    into: HostBuffer,
    n_into: usize,
}

struct Done {
    slot: Slot,
    /// The words that came.
    n_into: usize,
    span: Span,
}

impl HostLink {
    /// A link with room for `n_slots` swaps of `slot_words` words.
    pub fn new(device: &Device, group: &Group, n_slots: usize, slot_words: usize) -> Result<Self> {
        let slot = |_| {
            Ok(Slot {
                out: device.alloc_host(slot_words)?,
                into: device.alloc_host(slot_words)?,
            })
        };
        let began = Instant::now();
        let group = group.clone();
        let swaps = Worker::new("swaps", move |job| carry_out(&group, job, began));
        let note = move |copy| wait(copy).map(|_| ms_since(began));
        let marks = (!device.is_cpu()).then(|| Worker::new("marks", note));
        Ok(Self {
            device: device.clone(),
            swaps,
            free: (0..n_slots).map(slot).collect::<Result<_>>()?,
            uploads: VecDeque::new(),
            received: device.alloc(slot_words)?,
            began,
            spans: Vec::new(),
            marks,
            passes_end_ms: None,
        })
    }

    fn slot(&mut self) -> Result<Slot> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        match self.uploads.pop_front() {
            Some((copy, out)) => Ok(Slot {
                out,
                into: copy.wait()?,
            }),
            None => Err(broken("more swaps than it was made for")),
        }
    }
}

impl Link for HostLink {
    fn name(&self) -> String {
        "host memory".to_owned()
    }

    fn begin(&mut self, peer: usize, out: Option<&Buffer>, n_into: usize) -> Result<()> {
        let Slot { out: memory, into } = self.slot()?;
        let out = match out {
            Some(buffer) => {
                let copy = self.device.copy_to_host(buffer, memory)?;
                Out::Words(copy, buffer.len())
            }
            None => Out::Nothing(memory),
        };
        self.swaps.give(Job {
            peer,
            out,
            into,
            n_into,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<Buffer> {
        let Done { slot, n_into, span } = self.swaps.take()?;
        self.spans.push(span);
        let received = self.received.slice(0, n_into)?;
        if n_into == 0 {
            self.free.push(slot);
            return Ok(received);
        }
        let Slot { out, into } = slot;
        let copy = self.device.copy_from_host(into, &received)?;
        self.uploads.push_back((copy, out));
        Ok(received)
    }

    fn passes_end(&mut self) -> Result<()> {
        match &mut self.marks {
            None => self.passes_end_ms = Some(ms_since(self.began)),
            Some(marks) => {
                let word = self.received.slice(0, 1)?;
                marks.give(
                    self.device
                        .copy_to_host(&word, self.device.alloc_host(1)?)?,
                );
            }
        }
        Ok(())
    }

    fn take_spans(&mut self) -> Result<(Vec<Span>, f64)> {
        let end = match &mut self.marks {
            Some(marks) => marks.take_all()?.pop(),
            None => self.passes_end_ms.take(),
        };
        Ok((std::mem::take(&mut self.spans), end.unwrap_or(0.0)))
    }
}

impl Drop for HostLink {
    fn drop(&mut self) {
        self.swaps.join();
    }
}

fn ms_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// Waits for a copy without holding the device's lock.
fn wait(copy: PendingCopy) -> Result<HostBuffer> {
    while !copy.is_done()? {
        std::thread::sleep(LOOK);
    }
    Ok(copy.wait()?)
}

/// What the worker does.
fn carry_out(group: &Group, job: Job, began: Instant) -> Result<Done> {
    let Job {
        peer,
        out,
        mut into,
        n_into,
    } = job;
    let (out, n_out) = match out {
        Out::Words(copy, n) => (wait(copy)?, n),
        Out::Nothing(memory) => (memory, 0),
    };
    let begin_ms = ms_since(began);
    let sent = bytemuck::cast_slice(&out.words()[..n_out]);
    let received = bytemuck::cast_slice_mut(&mut into.words_mut()[..n_into]);
    group.swap(peer, sent, received).map_err(lost)?;
    let span = Span {
        begin_ms,
        end_ms: ms_since(began),
        bytes: 4 * (n_out + n_into) as u64,
    };
    Ok(Done {
        slot: Slot { out, into },
        n_into,
        span,
    })
}
