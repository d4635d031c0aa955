//! The rest of an epoch as an iterator of batches in device memory.

use std::collections::VecDeque;

use hlx_core::Device;

use super::{Batch, Batches, Cursor};
use crate::{Result, ToDevice};

/// The batches of an epoch in order, uploaded ahead of their use. Each has memory of its own, so that
/// a batch may be held as long as is wanted.
pub struct DeviceBatches<B: ToDevice> {
    batches: Batches<B>,
    device: Device,
    ahead: usize,
    uploaded: VecDeque<Result<Batch<B::OnDevice>>>,
}

impl<B: Send + 'static> Batches<B> {
    /// Uploads the batches: `ahead` of them, where they are ready, before they are taken. Uploads are
    /// launched by the thread that takes batches, so that they never fall into a recording.
    pub fn to_device(self, device: &Device, ahead: usize) -> DeviceBatches<B>
    where
        B: ToDevice,
    {
        DeviceBatches::new(self, device, ahead)
    }
}

impl<B: ToDevice + Send + 'static> DeviceBatches<B> {
    pub(super) fn new(batches: Batches<B>, device: &Device, ahead: usize) -> Self {
        Self {
            batches,
            device: device.clone(),
            ahead,
            uploaded: VecDeque::new(),
        }
    }

    /// The place of the batch that comes next; after the epoch's last one, the start of the next
    /// epoch.
    pub fn cursor(&self) -> Cursor {
        match self.uploaded.front() {
            Some(Ok(batch)) => batch.cursor,
            _ => self.batches.cursor(),
        }
    }

    /// Waits for the batch that is needed now, and takes of the others those that are ready.
    fn fill(&mut self) {
        while self.uploaded.len() <= self.ahead {
            let batch = match self.uploaded.is_empty() {
                true => self.batches.next(),
                false => self.batches.next_ready(),
            };
            let Some(batch) = batch else { return };
            let uploaded = batch.and_then(|batch| batch.to_device(&self.device));
            self.uploaded.push_back(uploaded);
        }
    }
}

impl<B: ToDevice + Send + 'static> Iterator for DeviceBatches<B> {
    type Item = Result<Batch<B::OnDevice>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        self.uploaded.pop_front()
    }
}
