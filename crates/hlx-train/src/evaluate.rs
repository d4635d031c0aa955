//! The mean loss over samples: no dropout, no label smoothing, and the same bits in any batch.
//!
//! The mean over pairs counts the bytes of the outputs. The end byte, which the model is trained
//! on too, is left out of it, as it is no part of the answer and the easiest byte of all;
//! [`Evaluation::loss_with_end`] has it in.

use anyhow::Result;
use hlx_autograd::{Tensor, no_grad};
use hlx_nn::{CausalModel, ForwardContext, LanguageModel};
use serde::Serialize;

use crate::data::{Dataset, TokenRows};
use crate::perplexity::exp;
use crate::task::Rows;

/// The mean loss over samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Mean cross-entropy in nats, a byte, a token or an image.
    pub loss: f64,
    /// Of bytes, the same with the end bytes of pairs counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_with_end: Option<f64>,
    /// Bytes that the first is a mean of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_bytes: Option<u64>,
    /// Of tokens, how many the first is a mean of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_tokens: Option<u64>,
    /// Of images, the part that is classified rightly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Samples.
    pub n_samples: u64,
}

impl Evaluation {
    /// Of classified images.
    pub fn of_images(loss: f64, accuracy: f64, n_samples: u64) -> Self {
        Self {
            loss,
            loss_with_end: None,
            n_bytes: None,
            n_tokens: None,
            accuracy: Some(accuracy),
            n_samples,
        }
    }

    /// Of predicted tokens.
    pub fn of_tokens(loss: f64, n_tokens: u64, n_samples: u64) -> Self {
        Self {
            loss,
            loss_with_end: None,
            n_bytes: None,
            n_tokens: Some(n_tokens),
            accuracy: None,
            n_samples,
        }
    }

    /// What the loss is a mean over, such as `57 bytes`, `90 tokens` or `2000 images`.
    pub fn over(&self) -> String {
        match (self.n_bytes, self.n_tokens) {
            (Some(n_bytes), _) => format!("{n_bytes} bytes"),
            (None, Some(n_tokens)) => format!("{n_tokens} tokens"),
            (None, None) => format!("{} images", self.n_samples),
        }
    }

    /// Of bytes and tokens, the perplexity.
    pub fn perplexity(&self) -> Option<f64> {
        self.n_bytes.or(self.n_tokens).map(|_| exp(self.loss))
    }

    /// The same as text, such as `, perplexity 4.35`; nothing of images.
    pub fn perplexity_text(&self) -> String {
        let text = |perplexity| format!(", perplexity {perplexity:.3}");
        self.perplexity().map_or_else(String::new, text)
    }

    /// Of images, how many are classified rightly, such as `, 98.60 % right`; nothing of bytes.
    pub fn right(&self) -> String {
        let percent = self.accuracy.map(|accuracy| 100.0 * accuracy);
        percent.map_or_else(String::new, |percent| format!(", {percent:.2} % right"))
    }
}

/// The losses of one sample.
#[derive(Clone, Copy, Default)]
struct SampleLoss {
    sum: f64,
    end: f64,
    n_bytes: u64,
    n_ends: u64,
}

/// Computes the mean loss over `samples`, `batch_size` at a time.
///
/// A sample's losses do not depend on the batch that it is in, and the samples' sums are added
/// in the order of `samples`, so that the mean does not depend on `batch_size`.
///
/// # Errors
/// What the device reports.
pub fn evaluate(
    model: &LanguageModel,
    data: &Dataset,
    samples: &[usize],
    batch_size: usize,
) -> Result<Evaluation> {
    // Samples of similar length are computed together: less padding, less time.
    let mut places: Vec<usize> = (0..samples.len()).collect();
    places.sort_by_key(|&place| data.sample(samples[place]).time());
    let mut losses = vec![SampleLoss::default(); samples.len()];
    for part in places.chunks(batch_size.max(1)) {
        let chosen: Vec<Option<usize>> = part.iter().map(|&place| Some(samples[place])).collect();
        let rows = TokenRows::new(data, &chosen, model.max_positions());
        let time = rows.time;
        let row_losses = row_losses(model, &rows.into())?;
        for ((&place, index), row) in part.iter().zip(&chosen).zip(row_losses.chunks(time)) {
            losses[place] = sample_loss(data, index.unwrap_or(0), row);
        }
    }
    Ok(mean(&losses))
}

/// The loss of every position, 0 where nothing is predicted.
pub(crate) fn row_losses(model: &LanguageModel, rows: &Rows) -> Result<Vec<f32>> {
    let ctx = model.context()?;
    let rows = rows.to_tensors(&ctx)?;
    let one = Tensor::from_slice(&ctx, &[1.0], &[1])?;
    let losses = no_grad(|| -> hlx_nn::Result<Tensor> {
        let logits = rows.logits_of(model, &ForwardContext::eval())?;
        Ok(logits.cross_entropy_with_rows(&rows.targets, &one, 0.0)?.1)
    })?;
    Ok(losses.to_vec()?)
}

fn sample_loss(data: &Dataset, index: usize, row: &[f32]) -> SampleLoss {
    let sample = data.sample(index);
    let predicted = &row[sample.n_given - 1..sample.time()];
    let n_ends = usize::from(data.format().is_of_pairs());
    let (bytes, ends) = predicted.split_at(predicted.len() - n_ends);
    let total = |losses: &[f32]| losses.iter().map(|&loss| f64::from(loss)).sum();
    SampleLoss {
        sum: total(bytes),
        end: total(ends),
        n_bytes: bytes.len() as u64,
        n_ends: ends.len() as u64,
    }
}

fn mean(losses: &[SampleLoss]) -> Evaluation {
    let (mut sum, mut end, mut n_bytes, mut n_ends) = (0.0, 0.0, 0, 0);
    for loss in losses {
        sum += loss.sum;
        end += loss.end;
        n_bytes += loss.n_bytes;
        n_ends += loss.n_ends;
    }
    Evaluation {
        loss: sum / n_bytes.max(1) as f64,
        loss_with_end: Some((sum + end) / (n_bytes + n_ends).max(1) as f64),
        n_bytes: Some(n_bytes),
        n_tokens: None,
        accuracy: None,
        n_samples: losses.len() as u64,
    }
}
