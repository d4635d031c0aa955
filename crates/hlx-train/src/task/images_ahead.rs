//! Training images as rows, made ahead of their steps by worker threads.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use hlx_autograd::{DType, IGNORE_INDEX};
use hlx_data::{Dataset as _, ImageSet, ImageTransform, SampleKey, Transform};

use super::ahead::Ahead;
use crate::data::Batches;
use crate::rows::{BatchSizes, Rows};

/// Lays images out as rows.
pub(super) struct ImageRows {
    pub set: Arc<ImageSet>,
    /// Keys the augmentations.
    pub seed: u64,
}

impl ImageRows {
    /// Lays samples out as rows; a missing one is a row of zeros without a target.
    ///
    /// # Errors
    /// An image that cannot be made.
    pub fn rows(
        &self,
        samples: &[Option<usize>],
        epoch: u64,
        with: &ImageTransform,
    ) -> Result<Rows> {
        let shape = self.set.shape();
        let n_pixels: usize = shape.iter().product();
        let mut inputs = Vec::with_capacity(samples.len() * n_pixels);
        let mut targets = Vec::with_capacity(samples.len());
        for sample in samples {
            let Some(index) = *sample else {
                inputs.resize(inputs.len() + n_pixels, 0);
                targets.push(IGNORE_INDEX);
                continue;
            };
            let key = SampleKey {
                seed: self.seed,
                epoch,
                sample: index,
            };
            let item = self.set.get(index);
            let item = item.map_err(|error| anyhow!("image {index}: {error}"))?;
            let made = hlx_core::cpu::with_flush(|| with.apply(item, key));
            let (pixels, label) = made.map_err(|error| anyhow!("image {index}: {error}"))?;
            inputs.extend(pixels.values().iter().map(|value| value.to_bits()));
            targets.push(label);
        }
        Ok(Rows {
            shape: [&[samples.len()], &shape[..]].concat(),
            dtype: DType::F32,
            inputs,
            documents: None,
            lengths: None,
            target_shape: vec![samples.len()],
            n_empty: samples.iter().take_while(|sample| sample.is_none()).count(),
            targets,
        })
    }
}

/// The batches of a run's training images, of which a rank's rows alone are made. A batch depends on its
/// epoch and its samples, whatever the number of workers; they continue with the batch after the last one that
/// was taken. An error reaches the step that needs the batch.
pub(super) struct ImagesAhead {
    source: Arc<Source>,
    ahead: Ahead<Vec<Rows>>,
}

/// What the workers share.
struct Source {
    images: Arc<ImageRows>,
    transform: ImageTransform,
    batches: Batches,
    /// The epoch of the last batch, and its order.
    order: Mutex<(u64, Arc<Vec<usize>>)>,
}

impl ImagesAhead {
    /// Batches of images that `batches` puts in order; without workers they are made when they are taken.
    pub fn new(
        images: Arc<ImageRows>,
        transform: ImageTransform,
        batches: Batches,
        workers: usize,
    ) -> Self {
        let source = Source {
            order: Mutex::new((0, Arc::new(batches.order(0)))),
            images,
            transform,
            batches,
        };
        Self {
            source: Arc::new(source),
            ahead: Ahead::new(workers),
        }
    }

    /// The micro-batches of the batch of an epoch that holds these samples in this order; `None` if none does.
    ///
    /// # Errors
    /// An image that cannot be made.
    pub fn batch(
        &self,
        samples: &[usize],
        epoch: u64,
        sizes: BatchSizes,
    ) -> Result<Option<Vec<Rows>>> {
        let Some(number) = self.source.number_of(samples, epoch) else {
            return Ok(None);
        };
        let source = Arc::clone(&self.source);
        let make = move |number| source.batch(number, sizes);
        self.ahead.take(number, sizes, make).map(Some)
    }

    /// The micro-batches of any samples, made on this thread.
    ///
    /// # Errors
    /// An image that cannot be made.
    pub fn batch_apart(
        &self,
        samples: &[usize],
        epoch: u64,
        sizes: BatchSizes,
    ) -> Result<Vec<Rows>> {
        self.source.rows(samples, epoch, sizes)
    }
}

impl Source {
    fn order(&self, epoch: u64) -> Arc<Vec<usize>> {
        let mut last = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != epoch {
            *last = (epoch, Arc::new(self.batches.order(epoch)));
        }
        Arc::clone(&last.1)
    }

    /// The number, over all epochs, of the batch that holds these samples in this order.
    fn number_of(&self, samples: &[usize], epoch: u64) -> Option<u64> {
        let order = self.order(epoch);
        let first = samples.first()?;
        let place = order.iter().position(|index| index == first)?;
        let batch_idx = place / self.batches.batch_size();
        let is_wanted = self.batches.samples(&order, batch_idx) == samples;
        is_wanted.then(|| epoch * self.batches.per_epoch() as u64 + batch_idx as u64)
    }

    fn batch(&self, number: u64, sizes: BatchSizes) -> Result<Vec<Rows>> {
        let n = self.batches.per_epoch() as u64;
        let (epoch, batch_idx) = (number / n, (number % n) as usize);
        let samples = self.batches.samples(&self.order(epoch), batch_idx);
        self.rows(&samples, epoch, sizes)
    }

    /// The micro-batches of a rank's samples; a batch that is short of samples begins with empty rows.
    fn rows(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Vec<Rows>> {
        let mut rows = vec![None; sizes.batch_size.saturating_sub(samples.len())];
        rows.extend(samples.iter().copied().map(Some));
        let parts = rows[sizes.mine()].chunks(sizes.micro_batch_size);
        let made = parts.map(|part| self.images.rows(part, epoch, &self.transform));
        made.collect::<Result<_>>().context("the batch")
    }
}
