//! How far a model, such as a quantised one, is from another one with the same vocabulary, measured on a text.

use anyhow::{Result, ensure};
use hlx_autograd::{Tensor, no_grad};
use hlx_nn::wide::{exp, ln};
use hlx_nn::{CausalInput, CausalLm, CausalModel, Mode};
use serde::Serialize;

use crate::calibration::{batches, check_tokens};

/// A mean over windows with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the windows' means over the root of their number; 0 of one window.
    pub error: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean) * (value - mean));
        let error = match values.len() {
            1 => 0.0,
            _ => (squares.sum::<f64>() / (n - 1.0) / n).sqrt(),
        };
        Self { mean, error }
    }
}

/// Two models on one text. A window has equal weight, as its tokens have within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Windows of the text.
    pub windows: usize,
    /// Tokens of each.
    pub length: usize,
    /// The perplexity per token of the first model.
    pub reference_perplexity: f64,
    /// The perplexity per token of the second model.
    pub perplexity: f64,
    /// The second model's cross-entropy less the first one's, in nats per token.
    pub loss_difference: Mean,
    /// The divergence KL(first || second) of the distributions of the next token, in nats per token.
    pub divergence: Mean,
    /// The share of tokens after which both models have the same likeliest token; of equal ones the first counts.
    pub same_top: f64,
}

/// Compares two models on tokens, in windows of `length` that do not overlap; a rest that fills none is left out, unless
/// there is no other.
///
/// # Errors
/// Models of different vocabularies; as [`Importance::measure`](crate::calibration::Importance::measure), in any
/// arithmetic.
pub fn compare(
    reference: &CausalLm,
    other: &CausalLm,
    tokens: &[u32],
    length: usize,
) -> Result<Quality> {
    check_tokens(reference, tokens, length)?;
    check_tokens(other, tokens, length)?;
    ensure!(
        reference.vocabulary() == other.vocabulary(),
        "the models have {} and {} tokens",
        reference.vocabulary(),
        other.vocabulary()
    );
    let mut windows = Vec::new();
    for (rows, shape) in batches(reference, tokens, length) {
        if shape[1] < length && !windows.is_empty() {
            continue;
        }
        let first = logits(reference, rows, shape)?;
        let second = logits(other, rows, shape)?;
        let n = shape[1] * reference.vocabulary();
        let models = first.chunks_exact(n).zip(second.chunks_exact(n));
        for (ids, (first, second)) in rows.chunks_exact(shape[1]).zip(models) {
            windows.push(Window::of(ids, first, second, reference.vocabulary()));
        }
    }
    let column = |of: fn(&Window) -> f64| windows.iter().map(of).collect::<Vec<f64>>();
    let mean = |of: fn(&Window) -> f64| Mean::of(&column(of));
    let differences = column(|window| window.losses[1] - window.losses[0]);
    Ok(Quality {
        windows: windows.len(),
        length: length.min(tokens.len()),
        reference_perplexity: exp(mean(|window| window.losses[0]).mean),
        perplexity: exp(mean(|window| window.losses[1]).mean),
        loss_difference: Mean::of(&differences),
        divergence: mean(|window| window.divergence),
        same_top: mean(|window| window.same_top).mean,
    })
}

fn logits(model: &CausalLm, rows: &[u32], shape: [usize; 2]) -> Result<Vec<f32>> {
    let ids = Tensor::from_slice::<u32>(&model.device()?, rows, &shape)?.with_samples(0)?;
    let logits = no_grad(|| model.logits(&CausalInput::new(&ids), &Mode::eval()))?;
    Ok(logits.contiguous()?.to_vec::<f32>()?)
}

/// The means of a window over its tokens but the last.
struct Window {
    losses: [f64; 2],
    divergence: f64,
    same_top: f64,
}

impl Window {
    fn of(ids: &[u32], first: &[f32], second: &[f32], vocabulary: usize) -> Self {
        let mut sums = Self {
            losses: [0.0; 2],
            divergence: 0.0,
            same_top: 0.0,
        };
        let rows = first.chunks(vocabulary).zip(second.chunks(vocabulary));
        for (&next, (first, second)) in ids[1..].iter().zip(rows) {
            let [one, other] = [first, second].map(Distribution::of);
            let next = next as usize;
            sums.losses[0] += one.log_sum - f64::from(first[next]);
            sums.losses[1] += other.log_sum - f64::from(second[next]);
            let both = first.iter().zip(second).zip(&one.parts);
            let terms = both.map(|((&p, &q), part)| {
                part / one.sum * (f64::from(p) - f64::from(q) - (one.log_sum - other.log_sum))
            });
            sums.divergence += terms.sum::<f64>();
            sums.same_top += f64::from(u8::from(one.top == other.top));
        }
        let n = (ids.len() - 1) as f64;
        Self {
            losses: sums.losses.map(|sum| sum / n),
            divergence: sums.divergence / n,
            same_top: sums.same_top / n,
        }
    }
}

/// The distribution of logits.
struct Distribution {
    /// The exponentials of the logits less the largest.
    parts: Vec<f64>,
    /// Their sum.
    sum: f64,
    /// The logarithm of the sum of the logits' exponentials.
    log_sum: f64,
    /// The first of the largest.
    top: usize,
}

impl Distribution {
    fn of(logits: &[f32]) -> Self {
        let mut top = 0;
        for (at, &logit) in logits.iter().enumerate() {
            if logit > logits[top] {
                top = at;
            }
        }
        let largest = f64::from(logits[top]);
        let parts = logits.iter().map(|&one| exp(f64::from(one) - largest));
        let parts: Vec<f64> = parts.collect();
        let sum: f64 = parts.iter().sum();
        Self {
            log_sum: largest + ln(sum),
            parts,
            sum,
            top,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_numbers_that_its_definition_says() {
        // Two tokens; the first model is sure of neither, the second prefers the other one three to one.
        let (first, second) = ([0.0, 0.0, 0.0, 0.0], [0.0, 1.098_612_3, 0.0, 0.0]);
        let window = Window::of(&[0, 1], &first, &second, 2);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-7, "{found}");
        near(window.losses[0], std::f64::consts::LN_2);
        near(window.losses[1], ln(4.0 / 3.0));
        near(
            window.divergence,
            0.5 * (std::f64::consts::LN_2 + ln(2.0 / 3.0)),
        );
        near(window.same_top, 0.0);
        let mean = Mean::of(&[1.0, 2.0, 3.0]);
        near(mean.mean, 2.0);
        near(mean.error, (1.0_f64 / 3.0).sqrt());
    }
}
