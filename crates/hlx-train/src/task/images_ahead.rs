//! Training images made ahead of their steps by worker threads.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use hlx_data::{
    Batch, Batches, Cursor, DataLoader, HostArray, ImageSet, ImageTransform, LastBatch,
    LoaderOptions, Subset,
};

/// Images and labels of a batch.
type Made = (HostArray<f32>, HostArray<u32>);

/// The batches of a run's training images. Which samples a batch holds, and its bits, are those of the
/// loader, whatever the number of workers; they go on with the batch behind the last one that was
/// taken.
pub(super) struct ImagesAhead {
    loader: DataLoader<Subset<Arc<ImageSet>>, ImageTransform>,
    /// The batches from the next one on; none before the first.
    running: Mutex<Option<Batches<Made>>>,
}

impl ImagesAhead {
    /// Batches of the first `n` images in the order that training visits them.
    ///
    /// # Errors
    /// A batch of no image.
    pub fn new(
        set: &Arc<ImageSet>,
        n: usize,
        transform: ImageTransform,
        (seed, batch_size, workers): (u64, usize, usize),
    ) -> Result<Self> {
        let options = LoaderOptions {
            batch_size,
            shuffle: true,
            seed,
            last: LastBatch::Fill,
            workers,
            ..LoaderOptions::default()
        };
        // The numbers of the first images are their numbers in the set, which key their augmentation.
        let images = Subset::new(Arc::clone(set), 0..n)?;
        Ok(Self {
            loader: DataLoader::new(images, options)?.with_transform(transform),
            running: Mutex::new(None),
        })
    }

    /// The batch of an epoch that holds these samples in this order; `None` if none does.
    ///
    /// # Errors
    /// An image that cannot be made.
    pub fn batch(&self, samples: &[usize], epoch: u64) -> Result<Option<Batch<Made>>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted =
            |batch: &Batch<Made>| batch.cursor.epoch == epoch && batch.indices == samples;
        if let Some(batch) = self.next(&mut running)?.filter(is_wanted) {
            return Ok(Some(batch));
        }
        // The run begins, or goes on elsewhere.
        let order = self.loader.order(epoch);
        let first = samples.first();
        let place = first.and_then(|first| order.iter().position(|index| index == first));
        let Some(place) = place else {
            return Ok(None);
        };
        let batch = (place / self.loader.options().batch_size) as u64;
        *running = Some(self.loader.batches(Cursor { epoch, batch })?);
        Ok(self.next(&mut running)?.filter(is_wanted))
    }

    /// Takes the next batch; behind an epoch's last one the workers begin the next epoch.
    fn next(&self, running: &mut Option<Batches<Made>>) -> Result<Option<Batch<Made>>> {
        let Some(batches) = running else {
            return Ok(None);
        };
        let batch = batches.next().transpose()?;
        let next = batches.cursor();
        if next.batch == 0 {
            *running = Some(self.loader.batches(next)?);
        }
        Ok(batch)
    }
}
