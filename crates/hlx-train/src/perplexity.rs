//! The perplexity of a text by windows that overlap: the strided method.
//!
//! A window has `length` tokens, and the next begins `stride` tokens after it. Each predicts the tokens that
//! the one before has not, so that all but those at the beginning have at least `length - stride` tokens of
//! context. It is the method of the `transformers` library's documentation, except for the mean, which is
//! over tokens and not over windows. For a model over bytes a token is a byte.

use std::ops::Range;

use anyhow::{Result, bail, ensure};
use hlx_autograd::{DType, IGNORE_INDEX};
use hlx_nn::{CausalLm, CausalModel};
use serde::Serialize;

use crate::exp::exp;
use crate::rows::{Rows, row_losses};

/// The perplexity of a text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Perplexity {
    /// Mean cross-entropy a predicted token, in nats.
    pub loss: f64,
    /// Its exponential.
    pub perplexity: f64,
    /// The cross-entropy of all tokens in bits, over the bytes of their text.
    pub bits_per_byte: f64,
    /// The bytes of the text: of a model over bytes those predicted, else all.
    pub n_bytes: u64,
    /// Tokens predicted, where a token is more than a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_tokens: Option<u64>,
}

impl Perplexity {
    /// The perplexity for a mean loss over tokens that make a text of `n_bytes`.
    pub fn new(loss: f64, n_tokens: u64, n_bytes: u64) -> Self {
        let bits = loss / std::f64::consts::LN_2;
        Self {
            loss,
            perplexity: exp(loss),
            bits_per_byte: bits * n_tokens as f64 / n_bytes as f64,
            n_bytes,
            n_tokens: (n_tokens != n_bytes).then_some(n_tokens),
        }
    }
}

/// Tokens of a window or of a row at most, where nobody says how many: positions of today's models go far
/// beyond what the logits of a row have memory for.
const USUAL_LENGTH: usize = 2048;

/// Rows computed at a time at most, and their logits: 1 GiB of them. No bit depends on either.
const BATCH: usize = 16;
const LOGITS: usize = 1 << 28;

/// The tokens of a window or of a row where nobody says how many: the model's positions, 2,048 at most.
pub fn usual_length(model: &CausalLm) -> usize {
    model.max_positions().min(USUAL_LENGTH)
}

/// How many rows of `length` tokens are computed at a time: as many as bound the memory of their logits.
pub fn rows_at_a_time(model: &CausalLm, length: usize) -> usize {
    let logits = length.saturating_mul(model.vocabulary()).max(1);
    (LOGITS / logits).clamp(1, BATCH)
}

/// Measures tokens, `length` of them per window and `stride` from one to the next. Their text has `n_bytes`;
/// without it each token is a byte.
///
/// # Errors
/// Fewer than two tokens, one that the model does not have, a length past the model's positions, a stride
/// of 0 or above the length, and what the device reports.
pub fn perplexity(
    model: &CausalLm,
    tokens: &[u32],
    n_bytes: Option<u64>,
    length: usize,
    stride: usize,
) -> Result<Perplexity> {
    let (positions, vocabulary) = (model.max_positions(), model.vocabulary());
    let what = if n_bytes.is_some() { "tokens" } else { "bytes" };
    ensure!(
        tokens.len() >= 2,
        "a text of {} {what} has nothing to predict",
        tokens.len()
    );
    if let Some(id) = tokens.iter().find(|&&id| id as usize >= vocabulary) {
        bail!("the token {id} is outside of the model's vocabulary of {vocabulary}");
    }
    ensure!(
        (2..=positions).contains(&length),
        "--length {length}: expected 2 to the model's {positions} positions"
    );
    ensure!(
        (1..=length).contains(&stride),
        "--stride {stride}: expected 1 to the length, {length}"
    );
    let windows = windows(tokens.len(), length, stride);
    let (mut sum, mut n_tokens) = (0.0, 0);
    for part in windows.chunks(rows_at_a_time(model, length)) {
        let rows = rows(tokens, part);
        let time = rows.shape[1];
        let losses = row_losses(model, &rows)?;
        for (losses, window) in losses.chunks(time).zip(part) {
            let predicted = &losses[window.n_given - 1..window.tokens.len() - 1];
            n_tokens += predicted.len() as u64;
            sum += predicted.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        }
    }
    let loss = sum / n_tokens as f64;
    Ok(Perplexity::new(loss, n_tokens, n_bytes.unwrap_or(n_tokens)))
}

/// A window: its tokens, and how many of them are given rather than predicted.
struct Window {
    tokens: Range<usize>,
    n_given: usize,
}

/// The windows of this many tokens, in order.
fn windows(n_tokens: usize, length: usize, stride: usize) -> Vec<Window> {
    let (mut windows, mut predicted) = (Vec::new(), 0);
    for begin in (0..n_tokens).step_by(stride) {
        let end = (begin + length).min(n_tokens);
        let n_given = predicted.max(begin + 1) - begin;
        if begin + n_given < end {
            windows.push(Window {
                tokens: begin..end,
                n_given,
            });
        }
        predicted = end;
        if end == n_tokens {
            break;
        }
    }
    windows
}

/// Lays windows out as rows, padded on the right.
fn rows(tokens: &[u32], windows: &[Window]) -> Rows {
    let longest = windows.iter().map(|window| window.tokens.len() - 1).max();
    let time = longest.unwrap_or(1);
    let shape = vec![windows.len(), time];
    let mut rows = Rows {
        shape: shape.clone(),
        dtype: DType::U32,
        inputs: vec![0; windows.len() * time],
        documents: None,
        lengths: None,
        target_shape: shape,
        targets: vec![IGNORE_INDEX; windows.len() * time],
        n_empty: 0,
    };
    let places = rows.inputs.chunks_mut(time);
    let places = places.zip(rows.targets.chunks_mut(time));
    for ((inputs, targets), window) in places.zip(windows) {
        let tokens = &tokens[window.tokens.clone()];
        let n = tokens.len() - 1;
        inputs[..n].copy_from_slice(&tokens[..n]);
        targets[window.n_given - 1..n].copy_from_slice(&tokens[window.n_given..]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of each window, and how many it predicts.
    fn shape(n_tokens: usize, length: usize, stride: usize) -> Vec<(usize, usize)> {
        let windows = windows(n_tokens, length, stride);
        windows
            .iter()
            .map(|one| (one.tokens.len(), one.tokens.len() - one.n_given))
            .collect()
    }

    #[test]
    fn every_token_but_the_first_is_predicted_once() {
        assert_eq!(shape(20, 8, 4), [(8, 7), (8, 4), (8, 4), (8, 4)]);
        assert_eq!(shape(20, 8, 3), [(8, 7), (8, 3), (8, 3), (8, 3), (8, 3)]);
        assert_eq!(shape(9, 8, 4), [(8, 7), (5, 1)]);
        assert_eq!(shape(5, 8, 4), [(5, 4)]);
        for (length, stride) in [(8, 1), (8, 3), (8, 7), (5, 4)] {
            let total: usize = shape(20, length, stride).iter().map(|one| one.1).sum();
            assert_eq!(total, 19, "{length} {stride}");
        }
        // Windows that do not overlap: the first byte of each has no context.
        assert_eq!(shape(20, 8, 8), [(8, 7), (8, 7), (4, 3)]);
    }

    #[test]
    fn a_loss_has_its_perplexity() {
        let found = Perplexity::new(2.0 * std::f64::consts::LN_2, 3, 3);
        assert!((found.perplexity - 4.0).abs() < 1e-6, "{found:?}");
        assert!((found.bits_per_byte - 2.0).abs() < 1e-12);
        assert_eq!(found.n_tokens, None);
        let found = Perplexity::new(2.0 * std::f64::consts::LN_2, 3, 12);
        assert!((found.bits_per_byte - 0.5).abs() < 1e-12);
        assert_eq!(found.n_tokens, Some(3));
    }
}
