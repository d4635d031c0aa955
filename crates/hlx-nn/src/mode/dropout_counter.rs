//! The counter of dropouts: which masks a training pass draws.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hlx_core::{Buffer, DType, Device};
use hlx_kernels::elementwise::{Binary, binary};
use hlx_kernels::{Layout, Operand};

use crate::Result;

/// The step and the number of the first sample, from which dropouts draw their masks.
///
/// Unless the caller sets them, they move on by themselves, so that no mask is drawn twice: a pass has a counter
/// of its own, and the first dropout that draws again in it begins the next pass. That is done on the device, so
/// that the replays of a recorded graph move on, too.
#[derive(Debug)]
pub(super) struct DropoutCounter {
    device: Device,
    /// The numbers that the caller has set, or those of the next pass.
    numbers: Buffer,
    /// What is added to the numbers from one pass to the next.
    one: Buffer,
    /// Whether the caller sets the numbers.
    is_set: AtomicBool,
}

/// The masks of a forward pass, which the memory of the numbers remembers until the next pass.
#[derive(Debug)]
struct CountedPass {
    counter: Buffer,
    is_recorded: bool,
    /// The dropouts that have drawn.
    drawn: Mutex<HashSet<u32>>,
}

impl DropoutCounter {
    /// Starts at step 0 and sample 0.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            numbers: device.buffer_of::<u32>(&[0, 0])?,
            one: device.buffer_of::<u32>(&[1, 0])?,
            is_set: AtomicBool::new(false),
        })
    }

    /// Sets the numbers, which from here on stay until they are set again.
    ///
    /// # Errors
    /// What the device reports.
    pub fn set(&self, step: u32, sample_base: u32) -> Result<()> {
        self.is_set.store(true, Ordering::Relaxed);
        Ok(self
            .device
            .upload_words(&self.numbers, &[step, sample_base])?)
    }

    /// The counter from which the dropout of this purpose draws now.
    ///
    /// # Errors
    /// What the device reports.
    pub fn draw(&self, purpose: u32) -> Result<Buffer> {
        if self.is_set.load(Ordering::Relaxed) {
            return Ok(self.numbers.clone());
        }
        hlx_autograd::counter(|| self.of_pass(purpose))
    }

    /// The counter of the pass, or of the next one if this dropout has drawn in it.
    fn of_pass(&self, purpose: u32) -> Result<Buffer> {
        let is_recorded = self.device.is_recording();
        let last = self
            .numbers
            .recall(|pass: &Arc<CountedPass>| pass.is_recorded == is_recorded);
        if let Some(pass) = last {
            let mut drawn = pass.drawn.lock().unwrap_or_else(PoisonError::into_inner);
            if drawn.insert(purpose) {
                return Ok(pass.counter.clone());
            }
        }
        let counter = self.advance()?;
        let pass = Arc::new(CountedPass {
            counter: counter.clone(),
            is_recorded,
            drawn: Mutex::new(HashSet::from([purpose])),
        });
        self.device
            .remember(&self.numbers, pass, |_: &Arc<CountedPass>| true);
        Ok(counter)
    }

    /// Returns a copy of the numbers, and counts the step.
    fn advance(&self) -> Result<Buffer> {
        let [counter, next] = [(); 2].map(|()| self.device.alloc_typed(DType::U32, 2));
        let (counter, next, layout) = (counter?, next?, Layout::contiguous(&[2])?);
        self.device.copy(&self.numbers, &counter)?;
        let [now, one] = [&counter, &self.one].map(|buffer| Operand {
            buffer,
            layout: &layout,
        });
        binary(&self.device, Binary::Add, DType::U32, now, one, &next)?;
        self.device.copy(&next, &self.numbers)?;
        Ok(counter)
    }
}
