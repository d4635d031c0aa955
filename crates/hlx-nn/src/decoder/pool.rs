//! The memory of keys and values of all layers: pages that sequences take as they grow.

use hlx_core::{Buffer, Device};
use hlx_kernels::attention::{CachedHeads, PAGE};

use crate::mode::HeldNorms;
use crate::{NnError, Result};

/// Pages of 32 positions for the keys and values of all layers of a model. Made by
/// [`CausalModel::page_pool`](crate::CausalModel::page_pool).
#[derive(Debug)]
pub struct PagePool {
    pub(crate) device: Device,
    pub(crate) layers: Vec<CachedHeads>,
    n_pages: usize,
    norms: HeldNorms,
}

impl PagePool {
    /// The positions of a page.
    pub const PAGE: usize = PAGE;

    /// Allocates the memory; `heads` are those of the keys, and their columns.
    pub(crate) fn new(
        device: &Device,
        n_layers: usize,
        n_pages: usize,
        heads: [usize; 2],
    ) -> Result<Self> {
        let layer = |_| CachedHeads::new(device, n_pages, heads);
        Ok(Self {
            device: device.clone(),
            layers: (0..n_layers).map(layer).collect::<Result<_, _>>()?,
            n_pages,
            norms: HeldNorms::default(),
        })
    }

    /// The norms of weight-decomposed adapters, of the weights that the keys and values are of.
    pub(crate) fn norms(&self) -> &HeldNorms {
        &self.norms
    }

    /// The number of pages.
    pub fn n_pages(&self) -> usize {
        self.n_pages
    }

    /// The pages that hold this many tokens of a sequence.
    pub fn pages_of(n_tokens: usize) -> usize {
        n_tokens.div_ceil(PAGE)
    }

    /// Copies the pages with these numbers, u32 `[n]`.
    pub(crate) fn select(&self, pages: &Buffer) -> Result<Self> {
        let layers = self
            .layers
            .iter()
            .map(|layer| layer.select(&self.device, pages));
        Ok(Self {
            device: self.device.clone(),
            layers: layers.collect::<Result<_, _>>()?,
            n_pages: pages.len(),
            norms: self.norms.clone(),
        })
    }

    /// The device, and the memory of the first layer's keys, by which a recorded pass knows its cache.
    pub(crate) fn memory(&self) -> Option<(Device, Buffer)> {
        Some((self.device.clone(), self.layers.first()?.memory().clone()))
    }
}

pub(crate) fn refused(reason: String) -> NnError {
    NnError::Cache { reason }
}
