//! What a forward pass needs beside its input: whether it trains, the numbers of a training pass, and who is shown the
//! inputs of its layers.

mod dropout_counter;
mod held_norms;
mod observer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hlx_autograd::{DropoutMask, Recompute, Tensor};
use hlx_core::{Buffer, Device};

use crate::{DeferredNorms, Result};
use dropout_counter::DropoutCounter;
pub(crate) use held_norms::HeldNorms;
pub use observer::InputObserver;

/// Whether a forward pass trains or evaluates, and in training the counter of the dropouts and the
/// shards. Make it once, before a recording, and use it for every step: what changes from step to step
/// lies on the device, where recorded launches read it. Clones share that.
#[derive(Clone, Debug)]
pub struct Mode {
    training: Option<Arc<Training>>,
    shards: usize,
    is_part_of_shard: bool,
    recompute: Option<Recompute>,
    /// Where the running values of batch norms follow after the pass.
    deferred: Option<Arc<DeferredNorms>>,
    observer: Option<Arc<dyn InputObserver>>,
    /// The norms of a cache's passes.
    norms: Option<HeldNorms>,
}

/// The numbers of a training pass.
#[derive(Debug)]
struct Training {
    device: Device,
    seed: u64,
    counter: DropoutCounter,
    /// The number of empty samples, one word.
    empty: Buffer,
    /// What `empty` holds, so that it is uploaded only when it changes.
    n_empty: AtomicU32,
}

impl Mode {
    /// Evaluation and generation, as after PyTorch's `model.eval()`: no dropout, and norms use their
    /// running values.
    pub fn eval() -> Self {
        Self {
            training: None,
            shards: 1,
            is_part_of_shard: false,
            recompute: None,
            deferred: None,
            observer: None,
            norms: None,
        }
    }

    /// Evaluation whose passes share the norms of weight-decomposed adapters: the weights are the same in all of them.
    pub(crate) fn eval_with(norms: HeldNorms) -> Self {
        Self {
            norms: Some(norms),
            ..Self::eval()
        }
    }

    /// The norms that passes share.
    pub(crate) fn norms(&self) -> Option<&HeldNorms> {
        self.norms.as_ref()
    }

    /// Training, as after `model.train()`: dropouts draw their masks from the seed and a counter. The pass holds
    /// one shard, and no sample is empty.
    ///
    /// The counter moves on by itself: no dropout draws the same mask twice. Each forward pass has the next
    /// number, from 0; its backward pass, and what is computed again for that, draws its masks again, also behind
    /// further forward passes. A graph that is recorded counts at each replay. [`Mode::set_counter`] takes over.
    ///
    /// # Errors
    /// What the device reports.
    pub fn train(device: &Device, seed: u64) -> Result<Self> {
        let training = Training {
            device: device.clone(),
            seed,
            counter: DropoutCounter::new(device)?,
            empty: device.buffer_of::<u32>(&[0])?,
            n_empty: AtomicU32::new(0),
        };
        Ok(Self {
            training: Some(Arc::new(training)),
            ..Self::eval()
        })
    }

    /// States how many shards of the batch a pass holds
    /// ([`BackwardPlan::shards`](hlx_autograd::BackwardPlan)); `is_part` says that it holds but a part
    /// of one, which layers with statistics over a shard refuse. Does nothing in evaluation.
    #[must_use]
    pub fn with_shards(mut self, shards: usize, is_part: bool) -> Self {
        if self.training.is_some() {
            (self.shards, self.is_part_of_shard) = (shards, is_part);
        }
        self
    }

    /// Says what a training pass computes once more when it goes backward, instead of saving it: of each
    /// block of the model all or all but attention, or nothing. Less memory, more time, the same bits.
    #[must_use]
    pub fn with_recomputation(mut self, recompute: Option<Recompute>) -> Self {
        self.recompute = recompute.filter(|_| self.training.is_some());
        self
    }

    /// Leaves the running values of batch norms as they are: of a pass that holds some of a batch's shards
    /// they follow later, by the shards of all processes. Does nothing in evaluation.
    #[must_use]
    pub fn with_deferred_norms(mut self) -> Self {
        self.deferred = self.training.as_ref().map(|_| Arc::default());
        self
    }

    /// The batch norms of this pass whose running values follow later.
    pub fn deferred_norms(&self) -> Option<&Arc<DeferredNorms>> {
        self.deferred.as_ref()
    }

    /// Applies a block of a model to the residual stream; where the pass recomputes
    /// ([`Mode::with_recomputation`]), by [`Tensor::checkpoint_with`]. `block` computes it with the
    /// mode that it is given.
    ///
    /// # Errors
    /// Those of `block`.
    pub fn block<M: Clone + Send + 'static>(
        &self,
        module: &M,
        x: &Tensor,
        block: impl Fn(&M, &Tensor, &Self) -> Result<Tensor> + Send + 'static,
    ) -> Result<Tensor> {
        let Some(recompute) = self.recompute else {
            return block(module, x, self);
        };
        let (module, mode) = (module.clone(), self.clone());
        x.checkpoint_with(recompute, move |x| block(&module, x, &mode))
    }

    /// What of a block is recomputed ([`Mode::with_recomputation`]).
    pub(crate) fn recompute(&self) -> Option<Recompute> {
        self.recompute
    }

    /// Sets the dropout counter to a step and to the number that this pass's first sample has in the
    /// whole batch, so that a sample's masks do not depend on how a batch is split. From here on it stays until
    /// it is set again: passes until then draw the same masks, in a graph that is recorded from here on, too. Call it
    /// between steps, outside of a recording, and not between a forward pass and its backward pass. Does
    /// nothing in evaluation.
    ///
    /// # Errors
    /// What the device reports.
    pub fn set_counter(&self, step: u32, sample_base: u32) -> Result<()> {
        match &self.training {
            Some(training) => training.counter.set(step, sample_base),
            None => Ok(()),
        }
    }

    /// States that the first `n_empty` samples of the coming passes are empty: rows that fill a short
    /// batch and enter no statistic. Call it as [`Mode::set_counter`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn set_empty_samples(&self, n_empty: u32) -> Result<()> {
        if let Some(training) = &self.training
            && training.n_empty.swap(n_empty, Ordering::Relaxed) != n_empty
        {
            training.device.upload_words(&training.empty, &[n_empty])?;
        }
        Ok(())
    }

    /// Whether the pass trains.
    pub fn is_training(&self) -> bool {
        self.training.is_some()
    }

    /// The number of shards that a training pass holds; 1 in evaluation.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Whether a training pass holds but a part of a shard.
    pub fn is_part_of_shard(&self) -> bool {
        self.is_part_of_shard
    }

    /// The number of empty samples at the front of a training pass, one u32 on the device.
    pub fn empty_samples(&self) -> Option<&Buffer> {
        self.training.as_ref().map(|training| &training.empty)
    }

    /// The next mask of a dropout with probability `p` at a place of the model; `None` in evaluation and
    /// where nothing is dropped.
    ///
    /// # Errors
    /// What the device reports.
    pub(crate) fn mask(&self, p: f32, purpose: u32) -> Result<Option<DropoutMask>> {
        let training = self.training.as_ref().filter(|_| p > 0.0);
        let mask = |training: &Arc<Training>| {
            Ok(DropoutMask {
                p,
                seed: training.seed,
                purpose,
                counter: training.counter.draw(purpose)?,
            })
        };
        training.map(mask).transpose()
    }
}
