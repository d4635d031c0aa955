//! What an engine has read of a model's tokens: pages of keys and values, and what they hold.

use anyhow::Result;
use hlx_nn::{CausalLm, PagePool, Slots};

use super::pages::Pages;
use super::turns::Turns;

/// The cache of an engine.
pub(crate) struct Memory {
    pub(super) slots: Slots,
    pub(super) pages: Pages,
}

impl Memory {
    /// Allocates the cache for answers in some places, of at most `capacity` tokens each.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(
        model: &CausalLm,
        [n_places, capacity]: [usize; 2],
        n_pages: usize,
        reuses_prefixes: bool,
    ) -> Result<Self> {
        let device = model.device()?;
        let turns = Turns::of(&device);
        let _turn = turns.take();
        Ok(Self {
            slots: Slots::new(model, &device, [n_places, capacity], n_pages)?,
            pages: Pages::new(n_pages, reuses_prefixes),
        })
    }

    /// The tokens of a sequence at most.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// The pages for answers in some places of `capacity` tokens each, or as many as the device's memory holds.
    ///
    /// # Errors
    /// What the device reports.
    pub fn n_pages(model: &CausalLm, n_places: usize, capacity: usize) -> Result<usize> {
        let wanted = n_places.saturating_mul(PagePool::pages_of(capacity));
        let device = model.device()?;
        let free = device
            .info()
            .memory_bytes
            .saturating_sub(device.held_bytes());
        // The rest is what passes compute with.
        let room = free / 10 * 8 / model.page_bytes(&device).max(1);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Ok(wanted.min(room).max(1))
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({:?})", self.slots)
    }
}
