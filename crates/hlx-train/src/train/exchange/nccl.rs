//! Copies from GPU to GPU by NCCL.

use hlx_core::Device;
use hlx_nn::Result;
use hlx_ranks::{CudaMemory, CudaTimeline, Gpu, Group, Moment, Nccl, NcclLibrary};

use super::device::{Carrier, DeviceLink, Slot, Swap, shared_memory};
use super::link::Cut;
use super::lost;

/// Few and large, as NCCL's kernels take the GPU from the device's own work for some 0.4 ms per swap (H100). A
/// small last bucket costs 2 ms per step within a host, and hides 86% of the exchange instead of 48% (H200, 86
/// million parameters); between hosts, which this is for, words take several times as long.
pub(super) const CUT: Cut = Cut {
    bucket: 48 << 20,
    least: 12 << 20,
    capacity: 64 << 20,
    lag: 1,
};

/// NCCL, and what it knows of the device's memory.
pub(super) struct NcclCarrier {
    nccl: Nccl,
    /// For each slot: what is sent and what is received.
    slots: Vec<[CudaMemory; 2]>,
    copied: CudaTimeline,
}

impl NcclCarrier {
    /// Connects the ranks, with room for `n_slots` swaps of `slot_words` words.
    pub fn link(
        device: &Device,
        group: &Group,
        gpu: Gpu,
        library: NcclLibrary,
        n_slots: usize,
        slot_words: usize,
    ) -> Result<DeviceLink<Self>> {
        let nccl = library.connect(group, gpu).map_err(lost)?;
        let memory = || shared_memory(device, nccl.gpu(), slot_words);
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..n_slots {
            let [out, into] = [memory()?, memory()?];
            here.push(Slot {
                out: out.0,
                into: into.0,
            });
            there.push([out.1, into.1]);
        }
        let (copied, file) = device.timeline()?;
        let name = nccl.name();
        let carrier = Self {
            slots: there,
            copied: nccl.gpu().import_timeline(file).map_err(lost)?,
            nccl,
        };
        DeviceLink::new(device, name, carrier, here, copied)
    }
}

impl Carrier for NcclCarrier {
    type Moment = Moment;

    fn carry(&self, swap: &Swap) -> Result<[Moment; 2]> {
        let Swap { n_out, n_into, .. } = *swap;
        let [out, into] = &self.slots[swap.slot];
        let nccl = &self.nccl;
        let begin = nccl.gpu().moment().map_err(lost)?;
        let out = (n_out > 0).then_some((out, 0..4 * n_out));
        let into = (n_into > 0).then_some((into, 0..4 * n_into));
        nccl.swap(swap.peer, out, into).map_err(lost)?;
        // The device has come to this moment when it sees the timeline risen.
        let end = nccl.gpu().moment().map_err(lost)?;
        let raised = nccl.gpu().raise(&self.copied, swap.number);
        raised.map_err(lost)?;
        Ok([begin, end])
    }

    fn clock(&self) -> Box<dyn Fn() -> Result<Moment> + Send> {
        let gpu = self.nccl.gpu().clone();
        Box::new(move || gpu.now().map_err(lost))
    }

    fn ms(from: &Moment, to: &Moment) -> f64 {
        to.ms_since(from).unwrap_or(0.0)
    }
}
