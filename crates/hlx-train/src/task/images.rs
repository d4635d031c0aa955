//! The classifier of images.

use std::sync::Arc;

use anyhow::Result;
use hlx_autograd::{Tensor, no_grad};
use hlx_data::{Dataset as _, ImageTransform};
use hlx_nn::{Classifier, Mode, Model, Module};

use super::images_ahead::{ImageRows, ImagesAhead};
use super::{Images, Samples};
use crate::config::Config;
use crate::data::{Batches, Split};
use crate::evaluate::{Evaluation, SampleLoss, mean_of};
use crate::rows::{Batch, BatchSizes, Rows};
use crate::sample::greedy;

/// A classifier and the images that it learns.
pub struct ImageTask {
    /// The model.
    pub model: Model<Classifier>,
    /// The images.
    pub data: Images,
    rows: Arc<ImageRows>,
    /// What is done to the images of an evaluation.
    plain: ImageTransform,
    ahead: ImagesAhead,
}

/// What the model makes of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The image's number in the data.
    pub index: usize,
    /// Its class.
    pub truth: u32,
    /// The class of the largest logit; the lowest of equals.
    pub read: u32,
    /// The cross-entropy, in nats.
    pub loss: f32,
}

impl ImageTask {
    /// Puts a task together.
    ///
    /// # Errors
    /// Means and deviations that do not fit the images' channels.
    pub fn new(model: Model<Classifier>, data: Images, config: &Config) -> Result<Self> {
        let section = &config.data;
        let plain = section.transform(data.set.shape()[0])?;
        let training = plain.clone().with_augment(section.augment())?;
        let trained = Split::at_end(data.set.len(), section.eval_fraction).train;
        let batches = Batches::new(trained, config.train.batch_size, config.seed);
        let rows = Arc::new(ImageRows {
            set: Arc::clone(&data.set),
            seed: config.seed,
        });
        let workers = section.workers();
        Ok(Self {
            ahead: ImagesAhead::new(Arc::clone(&rows), training, batches, workers),
            model,
            data,
            rows,
            plain,
        })
    }

    /// Classifies images, `batch_size` at a time, in the order of `samples`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(&self, samples: &[usize], batch_size: usize) -> Result<Vec<Reading>> {
        let mut readings = Vec::with_capacity(samples.len());
        for part in samples.chunks(batch_size.max(1)) {
            let chosen: Vec<Option<usize>> = part.iter().copied().map(Some).collect();
            let rows = self.rows.rows(&chosen, 0, &self.plain)?;
            let (logits, losses) = no_grad(|| self.logits_and_losses(&rows))?;
            let rows = logits
                .chunks(self.data.set.n_classes())
                .zip(losses)
                .zip(&rows.targets);
            readings.extend(
                part.iter()
                    .zip(rows)
                    .map(|(&index, ((logits, loss), &truth))| {
                        let read = greedy(logits) as u32;
                        Reading {
                            index,
                            truth,
                            read,
                            loss,
                        }
                    }),
            );
        }
        Ok(readings)
    }

    fn logits_and_losses(&self, rows: &Rows) -> Result<(Vec<f32>, Vec<f32>)> {
        let device = self.model.weights().device();
        let rows = rows.to_tensors(device)?;
        let one = Tensor::from_slice(device, &[1.0], &[1])?;
        let logits = self.model.forward(&rows.inputs, &Mode::eval())?;
        let (_, losses) = logits.cross_entropy_with_rows(&rows.targets, &one, 0.0)?;
        Ok((logits.to_vec::<f32>()?, losses.to_vec::<f32>()?))
    }
}

/// A batch with the counts of its images.
fn batch_of(micro_batches: Vec<Rows>) -> Batch {
    let n_real = |rows: &Rows| rows.len() - rows.n_empty;
    let n_images = micro_batches.iter().map(n_real).sum();
    Batch {
        micro_batches,
        n_targets: n_images,
        n_inputs: n_images,
    }
}

impl Samples for ImageTask {
    fn digest(&self) -> &str {
        &self.data.digest
    }

    fn n_samples(&self) -> usize {
        self.data.set.len()
    }

    /// The end of the data is held out.
    fn split(&self, fraction: f64, _seed: u64) -> Split {
        Split::at_end(self.data.set.len(), fraction)
    }

    fn batch(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        let micro_batches = match self.ahead.batch(samples, epoch, sizes)? {
            Some(made) => made,
            None => self.ahead.batch_apart(samples, epoch, sizes)?,
        };
        Ok(batch_of(micro_batches))
    }

    fn batch_apart(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        Ok(batch_of(self.ahead.batch_apart(samples, epoch, sizes)?))
    }

    fn sample_losses(&self, samples: &[usize], batch_size: usize) -> Result<Vec<SampleLoss>> {
        let readings = self.read(samples, batch_size)?;
        let loss = |one: &Reading| SampleLoss {
            sum: f64::from(one.loss),
            n: 1,
            n_ends: u64::from(one.read == one.truth),
            ..SampleLoss::default()
        };
        Ok(readings.iter().map(loss).collect())
    }

    fn mean(&self, losses: &[SampleLoss]) -> Evaluation {
        let n = losses.len() as u64;
        let right: u64 = losses.iter().map(|one| one.n_ends).sum();
        let loss: f64 = losses.iter().map(|one| one.sum).sum();
        Evaluation::of_images(mean_of(loss, n), mean_of(right as f64, n), n)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::task::{Corpus, Task, make};

    /// 23 drawn digits, of which 20 are trained on in batches of 8: the third begins with empty rows.
    const CONFIG: &str = "seed = 5\n\n[model]\nkind = \"mlp\"\nhidden = [4]\n\n[data]\n\
                          format = \"digits\"\ncount = 23\neval_fraction = 0.15\n\
                          crop_padding = 2\nnoise = 0.1\n\n[train]\nmax_steps = 1\nbatch_size = 8\n";

    /// What workers make ahead, in any order of epochs and batches, is what the thread itself makes.
    #[test]
    fn batches_have_the_same_bits_whatever_the_number_of_workers() -> Result<()> {
        let whole = BatchSizes::whole(8, 4);
        // Of 4 ranks, the first has empty rows alone in the third batch.
        let part = |first_sample| BatchSizes {
            micro_batch_size: 2,
            first_sample,
            n_samples: 2,
            ..whole
        };
        let sizes = [whole, part(0), part(4)];
        for (workers, sizes) in [0, 1, 3]
            .into_iter()
            .flat_map(|n| sizes.map(|one| (n, one)))
        {
            let set = format!("data.workers={workers}")
                .parse()
                .map_err(|text: String| anyhow!(text))?;
            let config = Config::parse(CONFIG, "a.toml", &[set])?;
            let corpus = Corpus::load("".as_ref(), &config)?;
            let task = make(&hlx_core::testing::cpu()?, &config, corpus, None)?;
            let Task::Images(images) = &task else {
                return Err(anyhow!("the task reads images"));
            };
            let split = task.split(config.data.eval_fraction, config.seed);
            let batches = crate::data::Batches::new(split.train, 8, config.seed);
            // In order, then an epoch again, from its middle, and samples in no batch.
            let places = [
                (0, 0),
                (0, 1),
                (0, 2),
                (1, 0),
                (0, 1),
                (0, 2),
                (1, 0),
                (3, 2),
            ];
            for (epoch, batch_idx) in places {
                let order = batches.order(epoch);
                let samples = batches.samples(&order, batch_idx);
                let made = images.ahead.batch(&samples, epoch, sizes)?;
                assert!(made.is_some(), "{epoch} {batch_idx}");
                let found = task.batch(&samples, epoch, sizes)?;
                let expected = images.ahead.batch_apart(&samples, epoch, sizes)?;
                // A batch made apart leaves those that are made ahead as they are.
                assert_eq!(made.as_ref(), Some(&expected));
                assert_eq!(
                    found.micro_batches, expected,
                    "{workers}: {epoch} {batch_idx}"
                );
            }
            let found = task.batch(&[7, 2, 21], 1, sizes)?;
            assert_eq!(
                found.micro_batches,
                images.ahead.batch_apart(&[7, 2, 21], 1, sizes)?
            );
        }
        Ok(())
    }
}
