//! Clipping of all gradients in place, for loops that do not leave it to the optimizer.

use hlx_core::{Buffer, DType};
use hlx_kernels::elementwise::{Unary, scale_assign, unary};
use hlx_kernels::optimizer::clip_factor;
use hlx_kernels::reduce::global_norm;
use hlx_kernels::{Layout, Operand};

use super::checks::refused;
use crate::{Result, Weights};

/// Scales all gradients of a weights by `min(1, max_norm / (norm + 1e-6))` and returns their global
/// norm before, one element on the device: `torch.nn.utils.clip_grad_norm_`.
///
/// # Errors
/// [`NnError::Config`](crate::NnError::Config) for a limit that is not positive,
/// [`NnError::MissingGradient`](crate::NnError::MissingGradient), and what the device reports.
pub fn clip_grad_norm_(weights: &Weights, max_norm: f32) -> Result<Buffer> {
    check("clip_grad_norm_", weights, max_norm)?;
    let (device, gradients) = (weights.device(), weights.gradients()?);
    let (norm, factor) = (device.alloc(1)?, device.alloc(1)?);
    global_norm(device, gradients, &norm)?;
    clip_factor(device, &norm, &factor, max_norm)?;
    scale_assign(device, gradients, &factor)?;
    Ok(norm)
}

/// Holds every element of all gradients of a weights within `[-clip_value, clip_value]`; NaN stays:
/// `torch.nn.utils.clip_grad_value_`.
///
/// # Errors
/// As [`clip_grad_norm_`].
pub fn clip_grad_value_(weights: &Weights, clip_value: f32) -> Result<()> {
    check("clip_grad_value_", weights, clip_value)?;
    let (device, gradients) = (weights.device(), weights.gradients()?);
    let layout = Layout::contiguous(&[gradients.len()])?;
    let operand = Operand {
        buffer: gradients,
        layout: &layout,
    };
    let clamped = device.alloc(gradients.len())?;
    let bounds = [-clip_value, clip_value];
    unary(device, Unary::Clamp, DType::F32, operand, bounds, &clamped)?;
    Ok(device.copy(&clamped, gradients)?)
}

fn check(what: &str, weights: &Weights, limit: f32) -> Result<()> {
    if limit.is_nan() || limit <= 0.0 {
        return Err(refused(format!(
            "{what}: the limit is {limit}, expected more than 0"
        )));
    }
    weights.check_gradients()
}
