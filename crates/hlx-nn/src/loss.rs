//! Losses of passes over a part of a batch. Those of `torch.nn.functional` are methods of
//! [`Tensor`], such as [`Tensor::mse_loss`] and [`Tensor::cross_entropy_loss`].

use hlx_autograd::Tensor;

use crate::Result;

/// Computes the sum over counted positions of -log softmax(logits)\[target\], times `scale`:
/// see [`Tensor::cross_entropy`].
///
/// Logits are \[B, T, V\], targets the ids \[B, T\] with
/// [`IGNORE_INDEX`](hlx_autograd::IGNORE_INDEX) where a position counts nothing, `scale` one
/// element: one over the number of counted positions of the *whole* batch.
///
/// # Errors
/// Unfitting shapes and types.
pub fn cross_entropy(
    logits: &Tensor,
    targets: &Tensor,
    scale: &Tensor,
    label_smoothing: f32,
) -> Result<Tensor> {
    Ok(logits.cross_entropy(targets, scale, label_smoothing)?)
}

/// Computes the mean of (prediction - target)²: see [`Tensor::mse`].
///
/// # Errors
/// Unequal shapes.
pub fn mse(prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
    Ok(prediction.mse(target)?)
}
