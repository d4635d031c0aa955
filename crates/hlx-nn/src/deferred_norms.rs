//! Running values of batch norms that follow the shards of several processes, in the batch's order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hlx_autograd::{BatchNormOptions, Tensor};
use hlx_core::{Buffer, DType, Device};
use hlx_kernels::batch_norm::{BatchNorm, Running, batch_norm_follow};

use crate::Result;
use crate::error::NnError;

/// The batch norms that a pass has used, in order, each with the values of its shards' pieces. Made by
/// [`Mode::with_deferred_norms`](crate::Mode::with_deferred_norms); the layers add to it
/// while the pass is computed or recorded, and a replay writes the values anew.
#[derive(Debug, Default)]
pub struct DeferredNorms(Mutex<Vec<DeferredNorm>>);

#[derive(Debug)]
struct DeferredNorm {
    /// Of the pass's shards.
    spec: BatchNorm,
    partials: Buffer,
    momentum: Option<f32>,
    mean: Buffer,
    variance: Buffer,
    tracked: Buffer,
}

impl DeferredNorm {
    /// Words of a shard.
    fn shard_len(&self) -> usize {
        self.partials.len() / self.spec.shards.max(1)
    }
}

impl DeferredNorms {
    /// Adds a norm of `x`, and returns where its pieces' values are to be left.
    pub(crate) fn add(
        &self,
        x: &Tensor,
        [mean, variance, tracked]: &[Tensor; 3],
        options: &BatchNormOptions<'_>,
    ) -> Result<Buffer> {
        let (shape, shards) = (x.shape(), options.shards.max(1));
        let spec = BatchNorm {
            shards,
            samples: shape[0] / shards,
            channels: shape[1],
            length: shape[2..].iter().product(),
        };
        let partials = x.device().alloc(spec.partials_len())?;
        self.norms().push(DeferredNorm {
            spec,
            partials: partials.clone(),
            momentum: options.momentum,
            mean: mean.buffer()?,
            variance: variance.buffer()?,
            tracked: tracked.buffer()?,
        });
        Ok(partials)
    }

    fn norms(&self) -> MutexGuard<'_, Vec<DeferredNorm>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Downloads the values of the pass's shards: shard by shard, and of each norm by norm.
    ///
    /// # Errors
    /// What the device reports.
    pub fn shards(&self, device: &Device) -> Result<Vec<u32>> {
        let norms = self.norms();
        let words = norms
            .iter()
            .map(|norm| Ok(device.download_words(&norm.partials)?));
        let words = words.collect::<Result<Vec<Vec<u32>>>>()?;
        let n_shards = norms.first().map_or(0, |norm| norm.spec.shards);
        let of_shard = |shard: usize| {
            let norms = norms.iter().zip(&words);
            norms.flat_map(move |(norm, words)| {
                let n = norm.shard_len();
                words[shard * n..(shard + 1) * n].to_vec()
            })
        };
        Ok((0..n_shards).flat_map(of_shard).collect())
    }

    /// Moves the running values by all `n_shards` shards of a batch, whose values lie behind each other as
    /// [`DeferredNorms::shards`] gives them, and of which the first `n_empty` samples are empty.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for values of another number of shards, and what the device reports.
    pub fn follow(
        &self,
        device: &Device,
        words: &[u32],
        n_shards: usize,
        n_empty: u32,
    ) -> Result<()> {
        let norms = self.norms();
        let stride: usize = norms.iter().map(DeferredNorm::shard_len).sum();
        if words.len() != stride * n_shards {
            let (found, expected) = (words.len(), stride * n_shards);
            let reason = format!("{found} values of pieces, expected {expected}");
            return Err(NnError::mismatch("batch norm", reason));
        }
        let counts = device.buffer_of::<u32>(&[n_empty])?;
        let mut first = 0;
        for norm in norms.iter() {
            let n = norm.shard_len();
            let of_shard = |shard: usize| words[shard * stride + first..][..n].to_vec();
            let all: Vec<u32> = (0..n_shards).flat_map(of_shard).collect();
            let partials = device
                .buffer_of::<u32>(&all)?
                .view_as(DType::F32, all.len())?;
            let spec = BatchNorm {
                shards: n_shards,
                ..norm.spec
            };
            let running = Running {
                mean: &norm.mean,
                variance: &norm.variance,
                tracked: &norm.tracked,
                momentum: norm.momentum,
            };
            batch_norm_follow(device, &partials, &counts, &running, &spec)?;
            let seen = device.download_words(&norm.tracked)?[0];
            let followed = spec.followed(n_empty as usize) as u32;
            device.upload_words(&norm.tracked, &[seen + followed])?;
            first += n;
        }
        Ok(())
    }
}
