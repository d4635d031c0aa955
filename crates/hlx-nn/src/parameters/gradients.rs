//! The gradients of all parameters in one buffer, allocated when a backward pass, an optimizer or a
//! tree of micro-batches first uses it.

use std::sync::{Mutex, OnceLock, PoisonError};

use hlx_core::{Buffer, Context, CoreError};

use super::weights::zeros;

/// One flat buffer of gradients in the layout of the values: none until a backward pass, an optimizer
/// or a tree of micro-batches asks for it.
#[derive(Debug)]
pub(super) struct FlatGradients {
    ctx: Context,
    n_words: usize,
    buffer: OnceLock<Buffer>,
    /// Held by the thread that allocates.
    allocating: Mutex<()>,
}

impl FlatGradients {
    pub fn new(ctx: &Context, n_words: usize) -> Self {
        Self {
            ctx: ctx.clone(),
            n_words,
            buffer: OnceLock::new(),
            allocating: Mutex::new(()),
        }
    }

    /// The buffer if it has been allocated.
    pub fn allocated(&self) -> Option<&Buffer> {
        self.buffer.get()
    }

    /// The buffer, zeros when it is new.
    pub fn get(&self) -> Result<&Buffer, CoreError> {
        let _allocating = self
            .allocating
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(buffer) = self.buffer.get() {
            return Ok(buffer);
        }
        // Inside of a recording the zeros would be written again by each replay.
        if self.ctx.is_recording() {
            let reason = "are not allocated yet, and a recording cannot do it: make the optimizer \
                          before, or call Weights::gradients";
            return Err(CoreError::invalid("gradients", reason));
        }
        let buffer = zeros(&self.ctx, self.n_words)?;
        Ok(self.buffer.get_or_init(|| buffer))
    }
}
