//! The mean loss over samples: no dropout, no label smoothing, and the same bits in any batch.
//!
//! The mean over pairs counts the bytes of the outputs. The end byte, which the model is trained
//! on too, is left out of it, as it is not part of the answer and the easiest byte of all;
//! [`Evaluation::loss_with_end`] has it in.

use anyhow::{Result, ensure};
use hlx_nn::{CausalLm, CausalModel};
use serde::Serialize;

use crate::data::{Dataset, TokenRows};
use crate::exp::exp;
use crate::rows::row_losses;

/// The mean loss over samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Mean cross-entropy in nats per byte, token or image.
    pub loss: f64,
    /// For bytes: the same with the end bytes of pairs counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_with_end: Option<f64>,
    /// Bytes that the first is a mean of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_bytes: Option<u64>,
    /// For tokens: how many the first is a mean of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_tokens: Option<u64>,
    /// For images: the part that is classified rightly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Samples.
    pub n_samples: u64,
}

impl Evaluation {
    /// The evaluation of classified images.
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

    /// The evaluation of predicted tokens.
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

    /// The same, if anything was counted: a loss over nothing is none.
    ///
    /// # Errors
    /// An evaluation of no byte, token or image.
    pub fn counted(self) -> Result<Self> {
        let n = self.n_bytes.or(self.n_tokens).unwrap_or(self.n_samples);
        ensure!(
            n > 0,
            "the {} samples hold nothing that counts: there is no loss over {}",
            self.n_samples,
            self.over()
        );
        Ok(self)
    }

    /// Whether the loss is at most a target, which one that is NaN or infinite never is.
    pub fn reaches(&self, target: f64) -> bool {
        self.loss.is_finite() && self.loss <= target
    }

    /// For bytes and tokens: the perplexity.
    pub fn perplexity(&self) -> Option<f64> {
        self.n_bytes.or(self.n_tokens).map(|_| exp(self.loss))
    }

    /// The same as text, such as `, perplexity 4.35`; nothing of images.
    pub fn perplexity_text(&self) -> String {
        let text = |perplexity| format!(", perplexity {perplexity:.3}");
        self.perplexity().map_or_else(String::new, text)
    }

    /// For images: how many are classified rightly, such as `, 98.60 % right`; empty for bytes.
    pub fn right(&self) -> String {
        let percent = self.accuracy.map(|accuracy| 100.0 * accuracy);
        percent.map_or_else(String::new, |percent| format!(", {percent:.2} % right"))
    }
}

/// The losses of one sample. Those of several processes are put one after another and summed in the
/// order of the samples, so that their mean has the bits of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleLoss {
    /// Sum of the losses of its bytes or tokens; for an image its loss.
    pub sum: f64,
    /// Loss of the end byte of a pair.
    pub end: f64,
    /// Bytes or tokens that the sum is over; 1 of an image.
    pub n: u64,
    /// End bytes of a pair; of an image, 1 if it is classified rightly.
    pub n_ends: u64,
}

impl SampleLoss {
    /// The words of a loss between ranks.
    const N_WORDS: usize = 8;

    /// The words of losses, one loss after the other.
    pub(crate) fn to_words(losses: &[Self]) -> Vec<u32> {
        let of = |one: &Self| [one.sum.to_bits(), one.end.to_bits(), one.n, one.n_ends];
        let halves = |number: u64| [number as u32, (number >> 32) as u32];
        losses.iter().flat_map(of).flat_map(halves).collect()
    }

    /// The losses of words that [`SampleLoss::to_words`] made; a loss that is cut short is left out.
    pub(crate) fn from_words(words: &[u32]) -> Vec<Self> {
        let (losses, _) = words.as_chunks::<{ Self::N_WORDS }>();
        let of = |words: &[u32; Self::N_WORDS]| {
            let number = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
            Self {
                sum: f64::from_bits(number(0)),
                end: f64::from_bits(number(2)),
                n: number(4),
                n_ends: number(6),
            }
        };
        losses.iter().map(of).collect()
    }
}

/// Computes the losses of `samples` in their order, `batch_size` at a time. A sample's losses do not
/// depend on the batch that it is in.
///
/// # Errors
/// What the device reports.
pub fn sample_losses(
    model: &CausalLm,
    data: &Dataset,
    samples: &[usize],
    batch_size: usize,
) -> Result<Vec<SampleLoss>> {
    // Samples of similar length are computed together: less padding, less time.
    let mut places: Vec<usize> = (0..samples.len()).collect();
    places.sort_by_key(|&place| data.time(samples[place]));
    let mut losses = vec![SampleLoss::default(); samples.len()];
    for part in places.chunks(batch_size.max(1)) {
        let chosen: Vec<Option<usize>> = part.iter().map(|&place| Some(samples[place])).collect();
        let rows = TokenRows::new(data, &chosen, model.max_positions())?;
        let time = rows.time;
        let row_losses = row_losses(model, &rows.into())?;
        for ((&place, index), row) in part.iter().zip(&chosen).zip(row_losses.chunks(time)) {
            losses[place] = sample_loss(data, index.unwrap_or(0), row);
        }
    }
    Ok(losses)
}

fn sample_loss(data: &Dataset, index: usize, row: &[f32]) -> SampleLoss {
    let predicted = &row[data.n_given(index) - 1..data.time(index)];
    let n_ends = usize::from(data.format().is_of_pairs());
    let (bytes, ends) = predicted.split_at(predicted.len() - n_ends);
    let total = |losses: &[f32]| losses.iter().map(|&loss| f64::from(loss)).sum();
    SampleLoss {
        sum: total(bytes),
        end: total(ends),
        n: bytes.len() as u64,
        n_ends: ends.len() as u64,
    }
}

/// The mean of a sum; NaN of nothing, so that it passes for no loss.
pub(crate) fn mean_of(sum: f64, n: u64) -> f64 {
    match n {
        0 => f64::NAN,
        n => sum / n as f64,
    }
}

/// The mean over the bytes of samples, whose losses are added in order.
pub fn mean_over_bytes(losses: &[SampleLoss]) -> Evaluation {
    let (mut sum, mut end, mut n_bytes, mut n_ends) = (0.0, 0.0, 0, 0);
    for loss in losses {
        sum += loss.sum;
        end += loss.end;
        n_bytes += loss.n;
        n_ends += loss.n_ends;
    }
    Evaluation {
        loss: mean_of(sum, n_bytes),
        loss_with_end: Some(mean_of(sum + end, n_bytes + n_ends)),
        n_bytes: Some(n_bytes),
        n_tokens: None,
        accuracy: None,
        n_samples: losses.len() as u64,
    }
}

/// The mean over the tokens of samples, whose losses are added in order.
pub fn mean_over_tokens(losses: &[SampleLoss]) -> Evaluation {
    let (mut sum, mut n_tokens) = (0.0, 0);
    for loss in losses {
        sum += loss.sum;
        n_tokens += loss.n;
    }
    Evaluation::of_tokens(mean_of(sum, n_tokens), n_tokens, losses.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_not_finite_reaches_no_target() {
        let of = |loss| Evaluation::of_images(loss, 1.0, 1);
        assert!(of(0.5).reaches(0.5) && !of(0.75).reaches(0.5));
        for loss in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!of(loss).reaches(f64::MAX), "{loss}");
        }
    }

    /// A loss over no token was 0, and its perplexity 1: every target was reached.
    #[test]
    fn a_loss_over_nothing_is_none() {
        let nothing = [SampleLoss::default(); 3];
        for found in [
            mean_over_tokens(&nothing),
            mean_over_bytes(&nothing),
            mean_over_tokens(&[]),
            Evaluation::of_images(mean_of(0.0, 0), 1.0, 0),
        ] {
            assert!(found.loss.is_nan() && !found.reaches(f64::MAX));
            let line = found.counted().expect_err("nothing counts").to_string();
            assert!(line.contains("there is no loss over 0 "), "{line}");
        }
        let one = SampleLoss {
            sum: 0.0,
            n: 1,
            ..SampleLoss::default()
        };
        let found = mean_over_tokens(&[one]).counted().expect("a token counts");
        assert!(found.reaches(0.0));
    }

    #[test]
    fn losses_keep_their_bits_between_ranks() {
        let loss = |sum: f64, n| SampleLoss {
            sum,
            end: -0.0,
            n,
            n_ends: 1,
        };
        let losses = [
            loss(0.1, 3),
            loss(f64::MIN_POSITIVE, u64::MAX),
            loss(-0.0, 0),
        ];
        let words = SampleLoss::to_words(&losses);
        assert_eq!(words.len(), 3 * SampleLoss::N_WORDS);
        let found = SampleLoss::from_words(&words);
        assert_eq!(found, losses);
        assert!(found[2].sum.is_sign_negative() && found[0].end.is_sign_negative());
        assert!(SampleLoss::from_words(&words[..7]).is_empty());
    }
}
