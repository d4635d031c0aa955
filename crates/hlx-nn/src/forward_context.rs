//! What a forward pass needs beside its input: positions, and the counter of the dropouts.

use hlx_autograd::{DropoutMask, Tensor};
use hlx_core::{Buffer, Context};

use crate::Result;

/// The fixed shapes and the random counter of a forward pass. Make it once for a shape, before a
/// recording, and use it for every step: a recording cannot upload.
#[derive(Debug)]
pub struct ForwardContext {
    batch: usize,
    time: usize,
    positions: Tensor,
    dropout: Option<DropoutCounter>,
}

#[derive(Debug)]
struct DropoutCounter {
    ctx: Context,
    seed: u64,
    counter: Buffer,
}

impl ForwardContext {
    /// Makes the context for ids of shape \[batch, time\], without dropout: for evaluation and
    /// generation.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(ctx: &Context, batch: usize, time: usize) -> Result<Self> {
        let positions: Vec<u32> = (0..batch).flat_map(|_| 0..time as u32).collect();
        let positions = Tensor::ids(ctx, &positions, &[batch, time])?.with_samples(0)?;
        Ok(Self {
            batch,
            time,
            positions,
            dropout: None,
        })
    }

    /// Turns dropout on, for training: masks are drawn from the seed and the counter, which
    /// starts at step 0 and sample 0.
    ///
    /// # Errors
    /// What the device reports.
    pub fn with_dropout(mut self, seed: u64) -> Result<Self> {
        let ctx = self.positions.context().clone();
        let counter = ctx.buffer_u32(&[0, 0])?;
        self.dropout = Some(DropoutCounter { ctx, seed, counter });
        Ok(self)
    }

    /// Moves the dropout counter to a step and to the number that this batch's first sample has
    /// in the whole batch. Call it between steps, outside of a recording; without dropout it
    /// does nothing.
    ///
    /// # Errors
    /// What the device reports.
    pub fn set_counter(&self, step: u32, sample_base: u32) -> Result<()> {
        if let Some(dropout) = &self.dropout {
            dropout
                .ctx
                .upload_u32(&dropout.counter, &[step, sample_base])?;
        }
        Ok(())
    }

    /// The number of sequences.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The length of each.
    pub fn time(&self) -> usize {
        self.time
    }

    /// The position of every token: the ids 0, 1, .. a sequence, \[B, T\].
    pub fn positions(&self) -> &Tensor {
        &self.positions
    }

    /// Whether dropout is on.
    pub(crate) fn draws_masks(&self) -> bool {
        self.dropout.is_some()
    }

    /// The mask of a dropout, or `None` in evaluation.
    pub(crate) fn mask(&self, p: f32, purpose: u32) -> Option<DropoutMask> {
        let DropoutCounter { seed, counter, .. } = self.dropout.as_ref()?;
        Some(DropoutMask {
            p,
            seed: *seed,
            purpose,
            counter: counter.clone(),
        })
    }
}
