//! What all cases are made of: buffers with values in them, and the launches of one run.

use anyhow::{Context as _, Result};
use hlx_core::{Buffer, Device};
use hlx_kernels::KernelError;

/// The launches of one run of an operation.
pub type Launches = Box<dyn Fn() -> Result<(), KernelError>>;

/// Shards of a batch, as a training run has them by default.
pub(crate) const SHARDS: usize = 8;
/// An integer spread over all 32 bits (the finalizer of MurmurHash3).
pub fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// A number between -1 and 1 for each place.
pub(crate) fn value(place: usize) -> f32 {
    scramble(place as u32) as f32 / (1_u64 << 31) as f32 - 1.0
}

/// Makes buffers of a case.
pub(crate) struct Maker<'a>(pub &'a Device);

impl Maker<'_> {
    /// Values spread evenly over -1 to 1: real data, which costs a chip more power than zeros.
    pub fn values(&self, len: usize) -> Result<Buffer> {
        Ok(self.0.buffer_of(&(0..len).map(value).collect::<Vec<_>>())?)
    }

    pub fn ids(&self, len: usize, below: usize) -> Result<Buffer> {
        let ids: Vec<u32> = (0..len as u32)
            .map(|i| scramble(i) % below as u32)
            .collect();
        Ok(self.0.buffer_of::<u32>(&ids)?)
    }

    pub fn empty(&self, len: usize) -> Result<Buffer> {
        let buffer = self.0.alloc(len)?;
        self.0.fill(&buffer, 0)?;
        Ok(buffer)
    }
}

/// Runs an operation's launches once, so that what a backward needs is there.
pub(crate) fn first(launches: impl Fn() -> Result<(), KernelError>) -> Result<()> {
    launches().context("preparing")
}
