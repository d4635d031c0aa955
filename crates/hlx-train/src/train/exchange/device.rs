//! A link from GPU to GPU, whatever copies the words there.
//!
//! A thread waits until the device has done what comes before a copy, launches the copy, and lets a timeline
//! rise that the device's next work waits for. If the copy waited for the device instead, the GPU would go
//! back and forth between the two all the while.

use std::collections::VecDeque;

use hlx_core::{Buffer, Device, Timeline};
use hlx_nn::Result;
use hlx_ranks::{CudaMemory, Gpu};

use super::link::Link;
use super::times::Span;
use super::worker::Worker;
use super::{broken, copy, lost};

/// Above every value of a timeline: nothing waits for a link that is broken.
const BROKEN: u64 = 1 << 30;

/// What copies words between the slots of two ranks.
pub(super) trait Carrier: Send + 'static {
    /// A moment on its clock.
    type Moment: Send + 'static;

    /// Copies what the other rank has in its slot to this rank's, where both have work done up to this swap, and
    /// sees to it that the timeline of copies has the swap's number when this rank may use both. Returns when it
    /// begins and when it is done.
    fn carry(&self, swap: &Swap) -> Result<[Self::Moment; 2]>;

    /// What tells this moment, on another thread.
    fn clock(&self) -> Box<dyn Fn() -> Result<Self::Moment> + Send>;

    /// The milliseconds from one moment to a later one, when the device has come to both.
    fn ms(from: &Self::Moment, to: &Self::Moment) -> f64;
}

/// A swap of two ranks' slots.
pub(super) struct Swap {
    pub peer: usize,
    /// Swaps are counted from 1.
    pub number: u64,
    pub slot: usize,
    /// The words that go.
    pub n_out: usize,
    /// The words that come.
    pub n_into: usize,
}

/// The memory of a swap, as the device knows it.
pub(super) struct Slot {
    pub out: Buffer,
    pub into: Buffer,
}

/// Device memory of this many words, and what CUDA knows of it.
pub(super) fn shared_memory(
    device: &Device,
    gpu: &Gpu,
    words: usize,
) -> Result<(Buffer, CudaMemory)> {
    let shared = device.alloc_shared(words)?;
    let there = gpu.import_memory(shared.file, shared.bytes);
    Ok((shared.buffer, there.map_err(lost)?))
}

/// A link of one rank.
pub(super) struct DeviceLink<C: Carrier> {
    device: Device,
    name: String,
    slots: Vec<Slot>,
    /// Has a swap's number when the device has done what comes before its copy.
    ready: Timeline,
    /// Has a swap's number when its copy is done.
    copied: Timeline,
    /// Swaps that have begun.
    n_begun: u64,
    /// The words that come in the swaps under way, the oldest first.
    under_way: VecDeque<usize>,
    copies: Worker<Swap, Launched<C::Moment>>,
    /// Notes when the device comes to a swap.
    marks: Worker<u64, C::Moment>,
}

/// A copy that was launched.
struct Launched<M> {
    begin: M,
    end: M,
    bytes: u64,
}

impl<C: Carrier> DeviceLink<C> {
    /// A link over slots that the carrier knows, too, and the timeline of copies that it lets rise.
    pub fn new(
        device: &Device,
        name: String,
        carrier: C,
        slots: Vec<Slot>,
        copied: Timeline,
    ) -> Result<Self> {
        let (ready, _) = device.timeline()?;
        let (marked, clock) = (ready.clone(), carrier.clock());
        let marks = Worker::new("marks", move |number| {
            marked.wait(number)?;
            clock()
        });
        let (before, unblocked) = (ready.clone(), copied.clone());
        let copies = Worker::new("copies", move |swap| {
            launch(&carrier, &before, &swap).inspect_err(|_| {
                let _ = unblocked.raise(BROKEN);
            })
        });
        Ok(Self {
            device: device.clone(),
            name,
            slots,
            ready,
            copied,
            n_begun: 0,
            under_way: VecDeque::new(),
            copies,
            marks,
        })
    }

    /// Where the words of a swap lie.
    fn slot_of(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }
}

impl<C: Carrier> Link for DeviceLink<C> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn begin(&mut self, peer: usize, out: Option<&Buffer>, n_into: usize) -> Result<()> {
        let number = self.n_begun + 1;
        let slot = self.slot_of(number);
        let n_out = out.map_or(0, Buffer::len);
        if let Some(out) = out {
            copy(&self.device, out, &self.slots[slot].out.slice(0, n_out)?)?;
        }
        self.device.raise(&self.ready, number)?;
        self.n_begun = number;
        self.under_way.push_back(n_into);
        self.copies.give(Swap {
            peer,
            number,
            slot,
            n_out,
            n_into,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<Buffer> {
        let oldest = self.n_begun + 1 - self.under_way.len() as u64;
        let Some(n_into) = self.under_way.pop_front() else {
            return Err(broken("no swap is under way"));
        };
        self.device.await_value(&self.copied, oldest)?;
        Ok(self.slots[self.slot_of(oldest)].into.slice(0, n_into)?)
    }

    fn passes_end(&mut self) -> Result<()> {
        self.marks.give(self.n_begun);
        Ok(())
    }

    fn take_spans(&mut self) -> Result<(Vec<Span>, f64)> {
        let swaps = self.copies.take_all()?;
        let passes_end = self.marks.take_all()?.pop();
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

fn launch<C: Carrier>(carrier: &C, ready: &Timeline, swap: &Swap) -> Result<Launched<C::Moment>> {
    ready.wait(swap.number)?;
    let [begin, end] = carrier.carry(swap)?;
    let bytes = 4 * (swap.n_out + swap.n_into) as u64;
    Ok(Launched { begin, end, bytes })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use hlx_core::testing::vulkan_devices;

    use super::*;

    /// A rank that is its own peer: what is sent lies where it is received, and may be used a while later.
    struct Mirror {
        copied: Timeline,
        n_carried: Arc<AtomicU64>,
        last: u64,
    }

    impl Carrier for Mirror {
        type Moment = Instant;

        fn carry(&self, swap: &Swap) -> Result<[Instant; 2]> {
            if swap.number > self.last {
                return Err(broken("the other rank is lost"));
            }
            let begin = Instant::now();
            std::thread::sleep(Duration::from_millis(20));
            self.n_carried.store(swap.number, Ordering::SeqCst);
            let end = Instant::now();
            self.copied.raise(swap.number)?;
            Ok([begin, end])
        }

        fn clock(&self) -> Box<dyn Fn() -> Result<Instant> + Send> {
            Box::new(|| Ok(Instant::now()))
        }

        fn ms(from: &Instant, to: &Instant) -> f64 {
            to.saturating_duration_since(*from).as_secs_f64() * 1e3
        }
    }

    const WORDS: usize = 256;

    /// A link over this many slots whose copies fail after a swap, and the number of the last one carried.
    fn link(device: &Device, n_slots: usize, last: u64) -> (DeviceLink<Mirror>, Arc<AtomicU64>) {
        let slot = |_| {
            let memory = device.alloc(WORDS).expect("memory");
            let (out, into) = (memory.clone(), memory);
            Slot { out, into }
        };
        let slots = (0..n_slots).map(slot).collect();
        let (copied, _) = device.timeline().expect("timeline");
        let n_carried = Arc::new(AtomicU64::new(0));
        let mirror = Mirror {
            copied: copied.clone(),
            n_carried: Arc::clone(&n_carried),
            last,
        };
        let link = DeviceLink::new(device, "a mirror".to_owned(), mirror, slots, copied);
        (link.expect("a link"), n_carried)
    }

    fn words(device: &Device, of: f32) -> Buffer {
        device.buffer_of(&[of; WORDS]).expect("words")
    }

    #[test]
    fn the_device_waits_for_copies() {
        for device in vulkan_devices() {
            // Only GPUs export timelines.
            if device.sharing_uuid().is_some() {
                words_are_used_when_they_are_copied(&device);
                a_copy_that_fails_blocks_nothing(&device);
            }
        }
    }

    /// Swaps end in their order over slots taken one after another; the device waits for each copy, and the words are those
    /// of the moment when the swap began.
    fn words_are_used_when_they_are_copied(device: &Device) {
        let (mut link, n_carried) = link(device, 3, 7);
        let buffer = words(device, 0.0);
        let host = || device.alloc_host(WORDS).expect("host memory");
        let mut copies = Vec::new();
        for number in 1..=7_u16 {
            device
                .fill(&buffer, f32::from(number).to_bits())
                .expect("fills");
            link.begin(0, Some(&buffer), WORDS / 2).expect("begins");
            if number == 5 {
                link.passes_end().expect("marks");
            }
            if number > 2 {
                let received = link.end().expect("ends");
                assert_eq!(received.len(), WORDS / 2);
                copies.push(device.copy_to_host(&received, host()).expect("copies"));
            }
        }
        for _ in 0..2 {
            let received = link.end().expect("ends");
            copies.push(device.copy_to_host(&received, host()).expect("copies"));
        }
        assert!(link.end().is_err(), "no swap is under way");
        for (copy, number) in copies.into_iter().zip(1..) {
            let host = copy.wait().expect("copied");
            assert!(n_carried.load(Ordering::SeqCst) >= number, "{device:?}");
            let expected = (number as f32).to_bits();
            let words = &host.words()[..WORDS / 2];
            assert!(
                words.iter().all(|word| *word == expected),
                "{number} on {device:?}"
            );
        }
        let (spans, passes_end) = link.take_spans().expect("times");
        assert_eq!(spans.len(), 7);
        assert!(
            spans
                .iter()
                .all(|span| span.bytes == 4 * 3 * WORDS as u64 / 2)
        );
        assert!(
            spans
                .windows(2)
                .all(|pair| pair[0].end_ms <= pair[1].begin_ms)
        );
        // The device comes to the fifth swap after two copies, which take 20 ms each.
        assert!(passes_end >= spans[1].end_ms, "{passes_end} {spans:?}");
    }

    /// A copy that fails lets the device continue, and its error is told once times are taken.
    fn a_copy_that_fails_blocks_nothing(device: &Device) {
        let (mut link, _) = link(device, 3, 1);
        let buffer = words(device, 3.0);
        for _ in 0..3 {
            link.begin(0, Some(&buffer), WORDS).expect("begins");
        }
        for _ in 0..3 {
            link.end().expect("ends");
        }
        device.sync().expect("goes on");
        let error = link.take_spans().map(|_| ()).expect_err("failed");
        assert!(
            error.to_string().ends_with("the other rank is lost"),
            "{error}"
        );
    }
}
