//! A link from GPU to GPU, whatever copies the words there.
//!
//! A thread waits until the device has done what comes before a copy, launches the copy, and lets a timeline
//! rise that the device's next work waits for. If the copy waited for the device instead, the GPU would go
//! back and forth between the two all the while.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};

use hlx_core::{Buffer, Context, Timeline};
use hlx_nn::Result;

use super::link::Link;
use super::times::Span;
use super::{broken, copy};

/// Above every value of a timeline: nothing waits for a link that is broken.
const BROKEN: u64 = 1 << 30;

/// What copies words between the slots of two ranks.
pub(super) trait Carrier: Send + 'static {
    /// A moment on its clock.
    type Moment: Send;

    /// Copies what the other rank has in its slot to this rank's, where both have work done up to this swap, and
    /// sees to it that `copied` rises when this rank may use both. Returns when it begins and when it is done.
    fn carry(&self, swap: &Swap) -> Result<[Self::Moment; 2]>;

    /// What tells this moment, on another thread.
    fn clock(&self) -> Box<dyn Fn() -> Result<Self::Moment> + Send>;

    /// The milliseconds from one moment to a later one, when the device has come to both.
    fn ms(from: &Self::Moment, to: &Self::Moment) -> f64;
}

/// A swap of two ranks' slots.
pub(super) struct Swap {
    pub peer: usize,
    pub slot: usize,
    /// The words that go.
    pub n_out: usize,
    /// The words that come.
    pub n_into: usize,
    /// The value of the timeline that rises behind it.
    pub copied: u64,
}

/// The memory of a swap, as the device knows it.
pub(super) struct Slot {
    pub out: Buffer,
    pub into: Buffer,
}

/// A link of one rank.
pub(super) struct DeviceLink<C: Carrier> {
    ctx: Context,
    name: String,
    slots: Vec<Slot>,
    next: usize,
    /// The device has done what comes before a copy.
    ready: (Timeline, u64),
    /// The copy is done.
    copied: (Timeline, u64),
    /// Swaps under way: the slot, the words that come, and the value of `copied` behind it.
    under_way: VecDeque<(usize, usize, u64)>,
    n_launched: usize,
    jobs: Sender<(u64, Swap)>,
    launched: Receiver<Result<Launched<C::Moment>>>,
    /// Values of `ready` to be noted, and when the device came to them.
    marks: (Sender<u64>, Receiver<Result<C::Moment>>),
    n_marks: usize,
}

/// A swap that was launched.
struct Launched<M> {
    begin: M,
    end: M,
    bytes: u64,
}

impl<C: Carrier> DeviceLink<C> {
    /// A link over slots that the carrier knows, too, and the timeline that it lets rise.
    pub fn new(
        ctx: &Context,
        (name, carrier): (String, C),
        slots: Vec<Slot>,
        copied: Timeline,
    ) -> Result<Self> {
        let (ready, _) = ctx.timeline()?;
        let marks = mark(carrier.clock(), ready.clone());
        let ((jobs, incoming), (outgoing, launched)) = (channel::<(u64, Swap)>(), channel());
        let (before, unblocked) = (ready.clone(), copied.clone());
        std::thread::spawn(move || {
            for (ready, swap) in incoming {
                let result = launch(&carrier, (&before, ready), &swap);
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
            slots,
            next: 0,
            ready: (ready, 0),
            copied: (copied, 0),
            under_way: VecDeque::new(),
            n_launched: 0,
            jobs,
            launched,
            marks,
            n_marks: 0,
        })
    }

    /// What the thread has launched since the last call.
    fn take_launched(&mut self) -> Result<Vec<Launched<C::Moment>>> {
        let next = |_| {
            let ended = || broken("the thread of copies has ended");
            self.launched.recv().map_err(|_| ended())?
        };
        (0..std::mem::take(&mut self.n_launched))
            .map(next)
            .collect()
    }

    /// The last moment that was marked since the last call.
    fn take_mark(&mut self) -> Result<Option<C::Moment>> {
        let mut found = None;
        for _ in 0..std::mem::take(&mut self.n_marks) {
            let ended = |_| broken("the thread of marks has ended");
            found = Some(self.marks.1.recv().map_err(ended)??);
        }
        Ok(found)
    }
}

impl<C: Carrier> Link for DeviceLink<C> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn begin(&mut self, peer: usize, out: Option<&Buffer>, n_into: usize) -> Result<()> {
        let slot = self.next;
        self.next = (slot + 1) % self.slots.len();
        let n_out = out.map_or(0, Buffer::len);
        if let Some(out) = out {
            copy(&self.ctx, out, &self.slots[slot].out.slice(0, n_out)?)?;
        }
        self.ready.1 += 1;
        self.ctx.raise(&self.ready.0, self.ready.1)?;
        self.copied.1 += 1;
        let copied = self.copied.1;
        self.under_way.push_back((slot, n_into, copied));
        self.n_launched += 1;
        let swap = Swap {
            peer,
            slot,
            n_out,
            n_into,
            copied,
        };
        // A thread that is gone has left its error.
        let _ = self.jobs.send((self.ready.1, swap));
        Ok(())
    }

    fn end(&mut self) -> Result<Buffer> {
        let Some((slot, n, copied)) = self.under_way.pop_front() else {
            return Err(broken("no swap is under way"));
        };
        self.ctx.await_value(&self.copied.0, copied)?;
        Ok(self.slots[slot].into.slice(0, n)?)
    }

    fn passes_end(&mut self) -> Result<()> {
        self.n_marks += 1;
        // A thread that is gone has left its error.
        let _ = self.marks.0.send(self.ready.1);
        Ok(())
    }

    fn take_spans(&mut self) -> Result<(Vec<Span>, f64)> {
        let swaps = self.take_launched()?;
        let passes_end = self.take_mark()?;
        let first = swaps.first().map(|swap| &swap.begin);
        let ms = |moment: &C::Moment| first.map_or(0.0, |first| C::ms(first, moment));
        let span = |swap: &Launched<C::Moment>| Span {
            begin_ms: ms(&swap.begin),
            end_ms: ms(&swap.end),
            bytes: swap.bytes,
        };
        let spans = swaps.iter().map(span).collect();
        Ok((spans, passes_end.as_ref().map_or(0.0, ms)))
    }
}

fn launch<C: Carrier>(
    carrier: &C,
    (timeline, ready): (&Timeline, u64),
    swap: &Swap,
) -> Result<Launched<C::Moment>> {
    timeline.wait(ready)?;
    let [begin, end] = carrier.carry(swap)?;
    let bytes = 4 * (swap.n_out + swap.n_into) as u64;
    Ok(Launched { begin, end, bytes })
}

/// A thread that notes when the device comes to values of a timeline.
fn mark<M: Send + 'static>(
    clock: Box<dyn Fn() -> Result<M> + Send>,
    timeline: Timeline,
) -> (Sender<u64>, Receiver<Result<M>>) {
    let (sender, values) = channel();
    let (moments, receiver) = channel();
    std::thread::spawn(move || {
        for value in values {
            let waited = timeline.wait(value);
            let moment = waited.map_err(Into::into).and_then(|()| clock());
            if moments.send(moment).is_err() {
                break;
            }
        }
    });
    (sender, receiver)
}
