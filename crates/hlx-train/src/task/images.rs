//! The classifier of images.

use anyhow::{Context as _, Result, anyhow};
use hlx_autograd::{DType, IGNORE_INDEX, Tensor, no_grad};
use hlx_data::{Dataset as _, ImageTransform, SampleKey, Transform};
use hlx_nn::{Classifier, ForwardContext, Model, Module, Weights};

use super::{Batch, BatchSizes, Images, Rows, Sizes, Task};
use crate::config::Config;
use crate::data::Split;
use crate::evaluate::Evaluation;
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
        Ok(Self {
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
            target_shape: vec![samples.len()],
            n_empty: samples.iter().take_while(|sample| sample.is_none()).count(),
            targets,
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
        let (inputs, targets) = rows.to_tensors(ctx)?;
        let one = Tensor::from_slice(ctx, &[1.0], &[1])?;
        let logits = self.model.forward(&inputs, &ForwardContext::eval())?;
        let (_, losses) = logits.cross_entropy_with_rows(&targets, &one, 0.0)?;
        Ok((logits.to_vec()?, losses.to_vec()?))
    }
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
        let mut rows = vec![None; sizes.batch_size.saturating_sub(samples.len())];
        rows.extend(samples.iter().copied().map(Some));
        let parts = rows.chunks(sizes.micro_batch_size);
        let micro_batches = parts.map(|part| self.rows(part, epoch, &self.training));
        Ok(Batch {
            micro_batches: micro_batches.collect::<Result<_>>().context("the batch")?,
            n_targets: samples.len(),
            n_inputs: samples.len(),
        })
    }

    fn evaluate(&self, samples: &[usize], batch_size: usize) -> Result<Evaluation> {
        let readings = self.read(samples, batch_size)?;
        let n = readings.len().max(1) as f64;
        let right = readings.iter().filter(|one| one.read == one.truth).count();
        let loss: f64 = readings.iter().map(|one| f64::from(one.loss)).sum();
        Ok(Evaluation::of_images(
            loss / n,
            right as f64 / n,
            readings.len() as u64,
        ))
    }

    fn n_classes(&self) -> usize {
        self.data.set.n_classes()
    }

    fn as_images(&self) -> Option<&ImageTask> {
        Some(self)
    }
}
