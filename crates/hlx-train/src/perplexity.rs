//! The perplexity of a text by windows that overlap: the strided method.
//!
//! A window has `length` bytes, and the next begins `stride` bytes behind it. Each predicts the bytes that
//! the one before has not, so that all but those at the beginning have at least `length - stride` bytes of
//! context. It is the method of the `transformers` library's documentation, but for the mean, which is
//! over bytes and not over windows.

use anyhow::{Result, ensure};
use hlx_nn::{Model, Transformer};
use serde::Serialize;

use crate::data::Sample;
use crate::evaluate::sample_losses;

/// The perplexity of a text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Perplexity {
    /// Mean cross-entropy a predicted byte, in nats.
    pub loss: f64,
    /// Its exponential.
    pub perplexity: f64,
    /// The same in bits.
    pub bits_per_byte: f64,
    /// Bytes predicted.
    pub n_bytes: u64,
}

impl Perplexity {
    /// Of a mean loss.
    pub fn new(loss: f64, n_bytes: u64) -> Self {
        Self {
            loss,
            perplexity: exp(loss),
            bits_per_byte: loss / std::f64::consts::LN_2,
            n_bytes,
        }
    }
}

/// The exponential by HLX's own arithmetic, so that reports are the same on every platform.
pub fn exp(loss: f64) -> f64 {
    f64::from(hlx_core::cpu::with_flush(|| {
        hlx_core::arith::exp(loss as f32)
    }))
}

/// Windows computed at a time; no bit depends on it.
const BATCH: usize = 16;

/// Measures a text, `length` bytes a window and `stride` from one to the next.
///
/// # Errors
/// A text of fewer than two bytes, a length past the model's positions, a stride of 0 or above the
/// length, and what the device reports.
pub fn perplexity(
    model: &Model<Transformer>,
    text: &[u8],
    length: usize,
    stride: usize,
) -> Result<Perplexity> {
    let positions = model.config().positions;
    ensure!(
        text.len() >= 2,
        "a text of {} bytes has nothing to predict",
        text.len()
    );
    ensure!(
        (2..=positions).contains(&length),
        "--length {length}: expected 2 to the model's {positions} positions"
    );
    ensure!(
        (1..=length).contains(&stride),
        "--stride {stride}: expected 1 to the length, {length}"
    );
    let windows = windows(text, length, stride);
    let (mut sum, mut n_bytes) = (0.0, 0);
    for part in windows.chunks(BATCH) {
        for losses in sample_losses(model, part)? {
            n_bytes += losses.len() as u64;
            sum += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        }
    }
    Ok(Perplexity::new(sum / n_bytes as f64, n_bytes))
}

/// The windows, each with the bytes that it predicts first.
fn windows(text: &[u8], length: usize, stride: usize) -> Vec<Sample<'_>> {
    let (mut windows, mut predicted) = (Vec::new(), 0);
    for begin in (0..text.len()).step_by(stride) {
        let end = (begin + length).min(text.len());
        let n_given = predicted.max(begin + 1) - begin;
        if begin + n_given < end {
            windows.push(Sample {
                tokens: &text[begin..end],
                n_given,
            });
        }
        predicted = end;
        if end == text.len() {
            break;
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &[u8], length: usize, stride: usize) -> Vec<(usize, usize)> {
        let windows = windows(text, length, stride);
        windows
            .iter()
            .map(|one| (one.tokens.len(), one.n_targets()))
            .collect()
    }

    #[test]
    fn every_byte_but_the_first_is_predicted_once() {
        let text = [b'a'; 20];
        assert_eq!(shape(&text, 8, 4), [(8, 7), (8, 4), (8, 4), (8, 4)]);
        assert_eq!(shape(&text, 8, 3), [(8, 7), (8, 3), (8, 3), (8, 3), (8, 3)]);
        assert_eq!(shape(&text[..9], 8, 4), [(8, 7), (5, 1)]);
        assert_eq!(shape(&text[..5], 8, 4), [(5, 4)]);
        for (length, stride) in [(8, 1), (8, 3), (8, 7), (5, 4)] {
            let total: usize = shape(&text, length, stride).iter().map(|one| one.1).sum();
            assert_eq!(total, 19, "{length} {stride}");
        }
        // Windows that do not overlap: the first byte of each has no context.
        assert_eq!(shape(&text, 8, 8), [(8, 7), (8, 7), (4, 3)]);
    }

    #[test]
    fn a_loss_has_its_perplexity() {
        let found = Perplexity::new(2.0 * std::f64::consts::LN_2, 3);
        assert!((found.perplexity - 4.0).abs() < 1e-6, "{found:?}");
        assert!((found.bits_per_byte - 2.0).abs() < 1e-12);
    }
}
