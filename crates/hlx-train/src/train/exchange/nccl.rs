//! A link from GPU to GPU by NCCL. The device's work and the copies follow each other by two timelines; the
//! host only launches both.

use std::collections::VecDeque;

use hlx_core::{Buffer, Context, Timeline};
use hlx_nn::{NnError, Result};
use hlx_ranks::{CudaMemory, CudaTimeline, Group, Moment, Nccl, NcclCandidate};

use super::link::Link;
use super::times::Span;
use super::{broken, lost};

/// The link of one rank.
pub(super) struct NcclLink {
    ctx: Context,
    nccl: Nccl,
    slots: Vec<Slot>,
    next: usize,
    /// The device has done what comes before a copy.
    ready: Shared,
    /// The copy is done.
    copied: Shared,
    /// Swaps under way: the slot, the words that come, and the value of `copied` behind it.
    under_way: VecDeque<(usize, usize, u64)>,
    moments: Vec<(Moment, Moment, u64)>,
    passes_end: Option<Moment>,
}

/// A timeline that both libraries know, and its last value.
struct Shared {
    here: Timeline,
    there: CudaTimeline,
    value: u64,
}

/// Device memory that both libraries know.
struct Slot {
    out: (Buffer, CudaMemory),
    into: (Buffer, CudaMemory),
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
        let slot = |_| {
            Ok(Slot {
                out: memory()?,
                into: memory()?,
            })
        };
        let timeline = || {
            let (here, file) = ctx.timeline()?;
            Ok::<Shared, NnError>(Shared {
                here,
                there: nccl.import_timeline(file).map_err(lost)?,
                value: 0,
            })
        };
        Ok(Self {
            ctx: ctx.clone(),
            slots: (0..n_slots).map(slot).collect::<Result<_>>()?,
            next: 0,
            ready: timeline()?,
            copied: timeline()?,
            under_way: VecDeque::new(),
            moments: Vec::new(),
            passes_end: None,
            nccl,
        })
    }

    /// Raises the timeline that the copies wait for, behind all work launched so far.
    fn raise(&mut self) -> Result<u64> {
        self.ready.value += 1;
        self.ctx.raise(&self.ready.here, self.ready.value)?;
        Ok(self.ready.value)
    }
}

impl Link for NcclLink {
    fn name(&self) -> String {
        self.nccl.name()
    }

    fn begin(&mut self, peer: usize, out: Option<&Buffer>, n_into: usize) -> Result<()> {
        let at = self.next;
        self.next = (at + 1) % self.slots.len();
        let n_out = out.map_or(0, Buffer::len);
        if let Some(out) = out {
            self.ctx.copy(out, &self.slots[at].out.0.slice(0, n_out)?)?;
        }
        let ready = self.raise()?;
        let Self { nccl, slots, .. } = self;
        let (sent, received) = (&slots[at].out.1, &slots[at].into.1);
        nccl.await_value(&self.ready.there, ready).map_err(lost)?;
        let begin = nccl.moment().map_err(lost)?;
        let windows = (
            (n_out > 0).then_some((sent, 0..4 * n_out)),
            (n_into > 0).then_some((received, 0..4 * n_into)),
        );
        nccl.swap(peer, windows.0, windows.1).map_err(lost)?;
        let end = nccl.moment().map_err(lost)?;
        self.copied.value += 1;
        let copied = self.copied.value;
        nccl.raise(&self.copied.there, copied).map_err(lost)?;
        self.moments.push((begin, end, 4 * (n_out + n_into) as u64));
        self.under_way.push_back((at, n_into, copied));
        Ok(())
    }

    fn end(&mut self) -> Result<Buffer> {
        let Some((at, n, copied)) = self.under_way.pop_front() else {
            return Err(broken("no swap is under way"));
        };
        self.ctx.await_value(&self.copied.here, copied)?;
        Ok(self.slots[at].into.0.slice(0, n)?)
    }

    fn passes_end(&mut self) -> Result<()> {
        let ready = self.raise()?;
        let moment = self.nccl.moment_of(&self.ready.there, ready);
        self.passes_end = Some(moment.map_err(lost)?);
        Ok(())
    }

    fn take_spans(&mut self) -> (Vec<Span>, f64) {
        let moments = std::mem::take(&mut self.moments);
        let passes_end = self.passes_end.take();
        let Some((first, _, _)) = moments.first() else {
            return (Vec::new(), 0.0);
        };
        let ms = |moment: &Moment| moment.ms_since(first).unwrap_or(0.0);
        let span = |(begin, end, bytes): &(Moment, Moment, u64)| Span {
            begin_ms: ms(begin),
            end_ms: ms(end),
            bytes: *bytes,
        };
        let spans = moments.iter().map(span).collect();
        (spans, passes_end.as_ref().map_or(0.0, ms))
    }
}
