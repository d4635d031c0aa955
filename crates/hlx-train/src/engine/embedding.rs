//! Embeddings of texts.

use anyhow::{Result, ensure};
use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_core::arith::{add, div, mul, sqrt};
use hlx_core::cpu::with_flush;
use hlx_nn::{CausalInput, CausalLm, Mode};

/// The mean over a text's tokens of what the projection to logits reads, divided by its Euclidean norm; sums are in the
/// order of the tokens and of the columns.
///
/// # Errors
/// Values that are not finite, and what the device reports.
pub(super) fn embedding(model: &CausalLm, device: &Device, tokens: &[u32]) -> Result<Vec<f32>> {
    let ids = Tensor::from_slice::<u32>(device, tokens, &[1, tokens.len()])?.with_samples(0)?;
    let hidden = model.hidden(&CausalInput::new(&ids), &Mode::eval())?;
    let hidden = hidden.to_vec::<f32>()?;
    let width = hidden.len() / tokens.len();
    let normalised = with_flush(|| {
        let mut mean = vec![0.0_f32; width];
        for row in hidden.chunks(width) {
            for (sum, &value) in mean.iter_mut().zip(row) {
                *sum = add(*sum, value);
            }
        }
        for value in &mut mean {
            *value = div(*value, tokens.len() as f32);
        }
        let squares = mean
            .iter()
            .fold(0.0, |sum, &value| add(sum, mul(value, value)));
        let norm = sqrt(squares);
        // A vector of zeros has no direction, and stays.
        let norm = if norm == 0.0 { 1.0 } else { norm };
        mean.into_iter()
            .map(|value| div(value, norm))
            .collect::<Vec<f32>>()
    });
    ensure!(
        normalised.iter().all(|value| value.is_finite()),
        "the model's hidden states are not finite: its weights are damaged, or the run has diverged"
    );
    Ok(normalised)
}
