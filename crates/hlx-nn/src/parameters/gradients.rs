//! The gradients of all parameters in one buffer, allocated when a backward pass, an optimizer or a
//! tree of micro-batches first uses it.

use std::sync::{Mutex, OnceLock, PoisonError};

use hlx_core::{Buffer, CoreError, Device};

/// One flat buffer of gradients in the layout of the values, and behind them the gradients of other uses
/// of parameters: none until a backward pass, an optimizer or a tree of micro-batches needs it.
#[derive(Debug)]
pub(super) struct FlatGradients {
    device: Device,
    n_words: usize,
    use_words: usize,
    buffers: OnceLock<Gradients>,
    /// Held by the thread that allocates.
    allocating: Mutex<()>,
}

/// The buffers, once they are allocated.
#[derive(Debug)]
pub(super) struct Gradients {
    /// Those of the parameters.
    pub own: Buffer,
    /// These and those of other uses.
    pub all: Buffer,
}

impl FlatGradients {
    pub fn new(device: &Device, n_words: usize, use_words: usize) -> Self {
        Self {
            device: device.clone(),
            n_words,
            use_words,
            buffers: OnceLock::new(),
            allocating: Mutex::new(()),
        }
    }

    /// The buffers if they have been allocated.
    pub fn allocated(&self) -> Option<&Gradients> {
        self.buffers.get()
    }

    /// The words of all gradients.
    pub fn all_words(&self) -> usize {
        self.n_words + self.use_words
    }

    /// The buffers, zeros when they are new.
    pub fn get(&self) -> Result<&Gradients, CoreError> {
        let _allocating = self
            .allocating
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(buffers) = self.buffers.get() {
            return Ok(buffers);
        }
        // Inside of a recording the zeros would be written again by each replay.
        if self.device.is_recording() {
            let reason = "are not allocated yet, and a recording cannot do it: make the optimizer \
                          before, or call Weights::gradients";
            return Err(CoreError::invalid("gradients", reason));
        }
        let all = zeros(&self.device, self.all_words())?;
        let own = match self.use_words {
            0 => all.clone(),
            _ => all.slice(0, self.n_words)?,
        };
        Ok(self.buffers.get_or_init(|| Gradients { own, all }))
    }
}

/// A buffer of zeros.
pub(super) fn zeros(device: &Device, words: usize) -> Result<Buffer, CoreError> {
    let buffer = device.alloc(words)?;
    device.fill(&buffer, 0)?;
    Ok(buffer)
}
