//! The data loader: which samples a batch holds, and batches made ahead by worker threads.
//!
//! The order of an epoch is a permutation drawn by seed and epoch. A batch is a function of the data
//! set, the options and its [`Cursor`]; threads only decide when it is made.

mod batches;
mod device;
mod ordered;

use std::sync::Arc;

use hlx_core::Device;
use hlx_core::cpu::with_flush;
use serde::{Deserialize, Serialize};

pub use batches::Batches;
pub use device::DeviceBatches;
pub use ordered::{Ordered, Outcome};

use crate::random::{EPOCH_ORDER, permutation};
use crate::{DataError, Dataset, Item, Plain, Result, SampleKey, ToDevice, Transform};

/// How a [`DataLoader`] makes batches. The names are those of `torch.utils.data.DataLoader`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Samples of a batch.
    pub batch_size: usize,
    /// Whether each epoch has its own order, drawn by `seed`; else samples come by index.
    pub shuffle: bool,
    /// Keys the order and the augmentations.
    pub seed: u64,
    /// What happens to a last batch that the samples do not fill; `drop_last` in PyTorch.
    pub last: LastBatch,
    /// Worker threads; with 0 the thread that takes a batch makes it.
    pub workers: usize,
    /// Batches that workers begin before they are taken; workers beyond this number have no work.
    pub prefetch: usize,
}

impl Default for LoaderOptions {
    /// PyTorch's defaults: batches of one sample by index, made when they are taken.
    fn default() -> Self {
        Self {
            batch_size: 1,
            shuffle: false,
            seed: 0,
            last: LastBatch::Keep,
            workers: 0,
            prefetch: 4,
        }
    }
}

/// What happens to the last batch of an epoch where the samples do not fill it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastBatch {
    /// It is smaller.
    #[default]
    Keep,
    /// It is left out, as with `drop_last=True`.
    Drop,
    /// It begins with rows of zeros ([`Batch::n_empty`]), so that a recorded graph and its shards
    /// have their shapes. Its loss must leave these rows out.
    Fill,
}

/// The place of a batch in a run: saved in a checkpoint, it is where a loader of the same data and
/// options continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cursor {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The batch within the epoch, from 0.
    pub batch: u64,
}

impl Cursor {
    /// The first batch of an epoch.
    pub fn start_of(epoch: u64) -> Self {
        Self { epoch, batch: 0 }
    }
}

/// A batch and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<B> {
    /// Its place in the run.
    pub cursor: Cursor,
    /// The samples' indices in the data set, in the order of the rows.
    pub indices: Vec<usize>,
    /// The rows of zeros in front of the samples'; 0 but in a filled last batch.
    pub n_empty: usize,
    /// The stacked samples.
    pub data: B,
}

impl<B: ToDevice> Batch<B> {
    /// Uploads the batch, without waiting for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn to_device(&self, device: &Device) -> Result<Batch<B::OnDevice>> {
        Ok(Batch {
            cursor: self.cursor,
            indices: self.indices.clone(),
            n_empty: self.n_empty,
            data: self.data.to_device(device)?,
        })
    }
}

/// Makes the batches of a data set, epoch by epoch, as `torch.utils.data.DataLoader`.
#[derive(Debug)]
pub struct DataLoader<D, T = Plain> {
    source: Arc<Source<D, T>>,
}

/// What worker threads share.
#[derive(Debug)]
struct Source<D, T> {
    dataset: Arc<D>,
    transform: T,
    options: LoaderOptions,
}

/// The batches of a loader.
type BatchOf<D, T> = <<T as Transform<<D as Dataset>::Item>>::Output as Item>::Batch;

impl<D: Dataset> DataLoader<D> {
    /// Makes a loader that stacks the samples as they are.
    ///
    /// # Errors
    /// [`DataError::Argument`] for batches of no sample, no batch ahead, or more than 2^32 samples.
    pub fn new(dataset: D, options: LoaderOptions) -> Result<Self> {
        check(&options, dataset.len())?;
        let source = Source {
            dataset: Arc::new(dataset),
            transform: Plain,
            options,
        };
        Ok(Self {
            source: Arc::new(source),
        })
    }

    /// The same loader with a transform of each sample.
    #[must_use]
    pub fn with_transform<T: Transform<D::Item>>(&self, transform: T) -> DataLoader<D, T> {
        let source = Source {
            dataset: Arc::clone(&self.source.dataset),
            transform,
            options: self.source.options.clone(),
        };
        DataLoader {
            source: Arc::new(source),
        }
    }
}

impl<D, T> DataLoader<D, T>
where
    D: Dataset,
    T: Transform<D::Item>,
    T::Output: Item,
{
    /// Batches of an epoch.
    pub fn len(&self) -> usize {
        let (n, size) = (self.dataset().len(), self.options().batch_size);
        match self.options().last {
            LastBatch::Drop => n / size,
            LastBatch::Keep | LastBatch::Fill => n.div_ceil(size),
        }
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data set.
    pub fn dataset(&self) -> &D {
        &self.source.dataset
    }

    /// The options.
    pub fn options(&self) -> &LoaderOptions {
        &self.source.options
    }

    /// The samples' indices in the order of an epoch.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        self.source.order(epoch)
    }

    /// Makes one batch on this thread.
    ///
    /// # Errors
    /// [`DataError::Argument`] for a batch that an epoch does not have; [`DataError::Sample`] and
    /// [`DataError::Panic`].
    pub fn load(&self, cursor: Cursor) -> Result<Batch<BatchOf<D, T>>> {
        self.check_cursor(cursor, self.len())?;
        self.source.load(&self.order(cursor.epoch), cursor)
    }

    /// Starts the worker threads on an epoch, from the cursor's batch to the last one. What comes is
    /// what [`DataLoader::load`] gives for each, in order; after an error nothing comes.
    ///
    /// # Errors
    /// [`DataError::Argument`] for a batch that an epoch does not have; its end is none.
    pub fn batches(&self, cursor: Cursor) -> Result<Batches<BatchOf<D, T>>> {
        let end = self.len();
        self.check_cursor(cursor, end + 1)?;
        let (source, order) = (Arc::clone(&self.source), self.order(cursor.epoch));
        let epoch = cursor.epoch;
        let work = move |batch| source.load(&order, Cursor { epoch, batch });
        let options = self.options();
        let workers = options.workers.min(options.prefetch);
        Ok(Batches::new(
            cursor,
            end as u64,
            work,
            workers,
            options.prefetch,
        ))
    }

    fn check_cursor(&self, cursor: Cursor, end: usize) -> Result<()> {
        if (cursor.batch as usize) < end {
            return Ok(());
        }
        let (batch, n) = (cursor.batch, self.len());
        let reason = format!("the cursor is at batch {batch} of an epoch that has {n}");
        Err(DataError::argument("data_loader", reason))
    }
}

impl<D: Dataset, T> Source<D, T> {
    fn order(&self, epoch: u64) -> Vec<usize> {
        let n = self.dataset.len();
        match self.options.shuffle {
            true => permutation(self.options.seed, EPOCH_ORDER, epoch as u32, n),
            false => (0..n).collect(),
        }
    }

    fn load(&self, order: &[usize], cursor: Cursor) -> Result<Batch<BatchOf<D, T>>>
    where
        T: Transform<D::Item>,
        T::Output: Item,
    {
        let size = self.options.batch_size;
        let start = cursor.batch as usize * size;
        let indices = order[start..order.len().min(start + size)].to_vec();
        let n_empty = match self.options.last {
            LastBatch::Fill => size - indices.len(),
            LastBatch::Keep | LastBatch::Drop => 0,
        };
        let items: Result<Vec<T::Output>> = with_flush(|| {
            let sample = |&index: &usize| self.sample(index, cursor);
            indices.iter().map(sample).collect()
        });
        Ok(Batch {
            cursor,
            n_empty,
            data: Item::stack(items?, n_empty)?,
            indices,
        })
    }

    /// One sample; a panic of the data set or the transform is an error that names it.
    fn sample(&self, index: usize, cursor: Cursor) -> Result<T::Output>
    where
        T: Transform<D::Item>,
    {
        let key = SampleKey {
            seed: self.options.seed,
            epoch: cursor.epoch,
            sample: index,
        };
        let made = ordered::caught(|| {
            let item = self.dataset.get(index);
            item.and_then(|item| self.transform.apply(item, key))
        });
        let made = made.map_err(|message| DataError::Panic {
            batch: cursor.batch,
            sample: Some(index),
            message,
        })?;
        made.map_err(|reason| DataError::Sample { index, reason })
    }
}

/// The most worker threads: more than any machine has processors for.
const MOST_WORKERS: usize = 1 << 10;

/// The most batches that are begun before they are taken.
const MOST_BATCHES: usize = 1 << 20;

fn check(options: &LoaderOptions, n: usize) -> Result<()> {
    let wrong = |reason: String| Err(DataError::argument("data_loader", reason));
    if options.batch_size == 0 {
        return wrong("batch_size is 0, expected at least 1".to_owned());
    }
    if options.prefetch == 0 {
        return wrong("prefetch is 0, expected at least 1".to_owned());
    }
    for (name, found, most) in [
        ("batch_size", options.batch_size, u32::MAX as usize),
        ("workers", options.workers, MOST_WORKERS),
        ("prefetch", options.prefetch, MOST_BATCHES),
    ] {
        if found > most {
            return wrong(format!("{name} is {found}, expected at most {most}"));
        }
    }
    if u32::try_from(n).is_err() {
        return wrong(format!("the data set has {n} samples, expected below 2^32"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
