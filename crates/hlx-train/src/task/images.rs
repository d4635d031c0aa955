//! The classifier of images.

use anyhow::{Context as _, Result, anyhow};
use hlx_autograd::{DType, IGNORE_INDEX, Tensor, no_grad};
use hlx_data::{Dataset as _, HostArray, ImageTransform, SampleKey, Transform};
use hlx_nn::{Classifier, ForwardContext, Model, Module, Weights};

use super::images_ahead::ImagesAhead;
use super::{Batch, BatchSizes, Images, Rows, Sizes, Task};
use crate::config::Config;
use crate::data::Split;
use crate::evaluate::{Evaluation, SampleLoss};
use crate::sample::greedy;

/// A classifier and the images that it learns.
pub struct ImageTask {
    /// The model.
    pub model: Model<Classifier>,
    /// The images.
    pub data: Images,
    seed: u64,
    /// What is done to the images of a training batch, and to those of an evaluation.
    training: ImageTransform,
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
        let n_trained = Split::at_end(data.set.len(), section.eval_fraction)
            .train
            .len();
        let numbers = (config.seed, config.train.batch_size, section.workers());
        Ok(Self {
            ahead: ImagesAhead::new(&data.set, n_trained, training.clone(), numbers)?,
            model,
            data,
            seed: config.seed,
            training,
            plain,
        })
    }

    /// Lays samples out as rows; a missing one is a row of zeros without a target.
    fn rows(&self, samples: &[Option<usize>], epoch: u64, with: &ImageTransform) -> Result<Rows> {
        let shape = self.data.set.shape();
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
            let item = self.data.set.get(index);
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

    /// The micro-batches of samples in no batch of the run's, made on this thread.
    fn micro_batches(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Vec<Rows>> {
        let mut rows = vec![None; sizes.batch_size.saturating_sub(samples.len())];
        rows.extend(samples.iter().copied().map(Some));
        let parts = rows[sizes.mine()].chunks(sizes.micro_batch_size);
        let made = parts.map(|part| self.rows(part, epoch, &self.training));
        made.collect::<Result<_>>().context("the batch")
    }

    /// Classifies images, `batch_size` at a time, in the order of `samples`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(&self, samples: &[usize], batch_size: usize) -> Result<Vec<Reading>> {
        let mut readings = Vec::with_capacity(samples.len());
        for part in samples.chunks(batch_size.max(1)) {
            let chosen: Vec<Option<usize>> = part.iter().copied().map(Some).collect();
            let rows = self.rows(&chosen, 0, &self.plain)?;
            let (logits, losses) = no_grad(|| self.logits_and_losses(&rows))?;
            let rows = logits
                .chunks(self.n_classes())
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
        let ctx = self.model.weights().context();
        let rows = rows.to_tensors(ctx)?;
        let one = Tensor::from_slice(ctx, &[1.0], &[1])?;
        let logits = self.model.forward(&rows.inputs, &ForwardContext::eval())?;
        let (_, losses) = logits.cross_entropy_with_rows(&rows.targets, &one, 0.0)?;
        Ok((logits.to_vec()?, losses.to_vec()?))
    }
}

/// Cuts a batch into micro-batches; its empty rows have no target.
fn micro_batches(
    made: &hlx_data::Batch<(HostArray<f32>, HostArray<u32>)>,
    micro_batch_size: usize,
) -> Vec<Rows> {
    let (images, labels) = &made.data;
    let inner = &images.shape()[1..];
    let n_values: usize = inner.iter().product();
    let parts = images
        .values()
        .chunks(micro_batch_size * n_values)
        .zip(labels.values().chunks(micro_batch_size));
    let parts = parts.enumerate().map(|(part_idx, (values, labels))| {
        let n_empty = made.n_empty.saturating_sub(part_idx * micro_batch_size);
        let n_empty = n_empty.min(labels.len());
        let mut targets = vec![IGNORE_INDEX; n_empty];
        targets.extend_from_slice(&labels[n_empty..]);
        Rows {
            shape: [&[labels.len()], inner].concat(),
            dtype: DType::F32,
            inputs: values.iter().map(|value| value.to_bits()).collect(),
            documents: None,
            lengths: None,
            target_shape: vec![labels.len()],
            targets,
            n_empty,
        }
    });
    parts.collect()
}

impl Task for ImageTask {
    fn weights(&self) -> &Weights {
        self.model.weights()
    }

    fn module(&self) -> &dyn Module {
        self.model.module()
    }

    fn sizes(&self) -> Sizes {
        Sizes::Classifier(self.model.config().clone())
    }

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
        // A rank among several makes its own images alone, on this thread.
        let is_whole = sizes.n_samples == sizes.batch_size;
        let made = match is_whole {
            true => self.ahead.batch(samples, epoch).context("the batch")?,
            false => None,
        };
        let micro_batches = match made {
            Some(made) if made.n_empty + samples.len() == sizes.batch_size => {
                micro_batches(&made, sizes.micro_batch_size)
            }
            _ => self.micro_batches(samples, epoch, sizes)?,
        };
        let n_real = |rows: &Rows| rows.len() - rows.n_empty;
        let n_images = micro_batches.iter().map(n_real).sum();
        Ok(Batch {
            micro_batches,
            n_targets: n_images,
            n_inputs: n_images,
        })
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
        let n = losses.len().max(1) as f64;
        let right: u64 = losses.iter().map(|one| one.n_ends).sum();
        let loss: f64 = losses.iter().map(|one| one.sum).sum();
        Evaluation::of_images(loss / n, right as f64 / n, losses.len() as u64)
    }

    fn n_classes(&self) -> usize {
        self.data.set.n_classes()
    }

    fn as_images(&self) -> Option<&ImageTask> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Corpus, make};

    /// 23 drawn digits, of which 20 are trained on in batches of 8: the third begins with empty rows.
    const CONFIG: &str = "seed = 5\n\n[model]\nkind = \"mlp\"\nhidden = [4]\n\n[data]\n\
                          format = \"digits\"\ncount = 23\neval_fraction = 0.15\n\
                          crop_padding = 2\nnoise = 0.1\n\n[train]\nmax_steps = 1\nbatch_size = 8\n";

    /// What workers make ahead, in any order of epochs and batches, is what the thread itself makes.
    #[test]
    fn batches_have_the_same_bits_whatever_the_number_of_workers() -> Result<()> {
        let sizes = BatchSizes::whole(8, 4);
        for workers in [0, 1, 3] {
            let set = format!("data.workers={workers}")
                .parse()
                .map_err(|text: String| anyhow!(text))?;
            let config = Config::parse(CONFIG, "a.toml", &[set])?;
            let corpus = Corpus::load("".as_ref(), &config)?;
            let task = make(&hlx_core::testing::cpu()?, &config, corpus, None)?;
            let Some(images) = task.as_images() else {
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
                assert!(
                    images.ahead.batch(&samples, epoch)?.is_some(),
                    "{epoch} {batch_idx}"
                );
                let found = task.batch(&samples, epoch, sizes)?;
                let expected = images.micro_batches(&samples, epoch, sizes)?;
                assert_eq!(
                    found.micro_batches, expected,
                    "{workers}: {epoch} {batch_idx}"
                );
            }
            let found = task.batch(&[7, 2, 21], 1, sizes)?;
            assert_eq!(
                found.micro_batches,
                images.micro_batches(&[7, 2, 21], 1, sizes)?
            );
        }
        Ok(())
    }
}
