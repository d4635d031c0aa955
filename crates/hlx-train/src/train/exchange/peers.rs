//! Copies between the GPUs of one host by their copy engines: each rank reads what the other has written.

use std::time::Instant;

use hlx_core::{Device, Timeline};
use hlx_nn::Result;
use hlx_ranks::{CudaMemory, Gpu, Group, Lines, Peers};

use super::device::{Carrier, DeviceLink, Slot, Swap, shared_memory};
use super::link::Cut;
use super::lost;

/// A swap takes nothing of the GPU but two short copies within it and the wait of the work after it.
pub(super) const CUT: Cut = Cut {
    bucket: 24 << 20,
    least: 2 << 20,
    capacity: 24 << 20,
    lag: 2,
};

/// The GPUs, and what CUDA knows of the device's memory.
pub(super) struct PeerCarrier {
    peers: Peers,
    /// What is received in each slot.
    into: Vec<CudaMemory>,
    copied: Timeline,
}

impl PeerCarrier {
    /// Maps the ranks' memory, with room for `n_slots` swaps of `slot_words` words.
    pub fn link(
        device: &Device,
        group: &Group,
        gpu: Gpu,
        lines: Lines,
        n_slots: usize,
        slot_words: usize,
    ) -> Result<DeviceLink<Self>> {
        let bytes = 4 * slot_words as u64;
        let (peers, windows) = Peers::connect(gpu, lines, group, n_slots, bytes).map_err(lost)?;
        let (mut slots, mut into) = (Vec::new(), Vec::new());
        for window in windows {
            let (here, there) = shared_memory(device, peers.gpu(), slot_words)?;
            // SAFETY: the peer has exported memory of this device of this many bytes, and sent the descriptor here
            // alone; who may send is proved when the lines are opened.
            let out = unsafe { device.import_shared(window.file, window.bytes, slot_words) }?;
            slots.push(Slot { out, into: here });
            into.push(there);
        }
        let (copied, _) = device.timeline()?;
        let carrier = Self {
            peers,
            into,
            copied: copied.clone(),
        };
        let name = "copies between the GPUs".to_owned();
        DeviceLink::new(device, name, carrier, slots, copied)
    }
}

impl Carrier for PeerCarrier {
    type Moment = Instant;

    fn carry(&self, swap: &Swap) -> Result<[Instant; 2]> {
        let begin = Instant::now();
        let (n_out, range) = (4 * swap.n_out, 0..4 * swap.n_into);
        let into = &self.into[swap.slot];
        let swapped = self.peers.swap(swap.peer, swap.slot, n_out, into, range);
        swapped.map_err(lost)?;
        let end = Instant::now();
        self.copied.raise(swap.number)?;
        Ok([begin, end])
    }

    fn clock(&self) -> Box<dyn Fn() -> Result<Instant> + Send> {
        Box::new(|| Ok(Instant::now()))
    }

    fn ms(from: &Instant, to: &Instant) -> f64 {
        match to.checked_duration_since(*from) {
            Some(later) => later.as_secs_f64() * 1e3,
            None => -from.duration_since(*to).as_secs_f64() * 1e3,
        }
    }
}
