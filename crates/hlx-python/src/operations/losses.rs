//! Losses; `reduction` is `none`, `mean`, `sum` or `batchmean`.

use hlx_autograd::{CrossEntropyOptions, IGNORE_INDEX, LossReduction, Result, Tensor};
use hlx_core::DType;
use pyo3::prelude::*;

use super::Handle;
use crate::error::value_error;
use crate::number::filled;
use crate::tensor::PyTensor;

fn reduction(operation: &str, name: &str) -> PyResult<LossReduction> {
    match name {
        "none" => Ok(LossReduction::None),
        "mean" => Ok(LossReduction::Mean),
        "sum" => Ok(LossReduction::Sum),
        "batchmean" => Ok(LossReduction::BatchMean),
        other => {
            let text = format!("{operation}: reduction is {other:?}, expected none, mean or sum");
            Err(value_error(text))
        }
    }
}

/// Losses of a prediction and a target, with options before the reduction.
macro_rules! losses {
    ($($(#[$documentation:meta])* $name:ident($($option:ident: $type:ty),*);)+) => {
        $(
            $(#[$documentation])*
            #[pyfunction]
            pub fn $name(py: Python<'_>, x: &PyTensor, target: Handle $(, $option: $type)*, reduction: &str) -> PyResult<PyTensor> {
                let reduction = self::reduction(stringify!($name), reduction)?;
                x.apply(py, move |x| x.$name(&target $(, $option)*, reduction))
            }
        )+
    };
}

losses! {
    /// Squares of the difference.
    mse_loss();
    /// Magnitudes of the difference.
    l1_loss();
    /// Squares up to delta, then lines.
    huber_loss(delta: f32);
    /// Squares over beta up to it, then lines.
    smooth_l1_loss(beta: f32);
    /// The Kullback-Leibler divergence of logarithms.
    kl_div(log_target: bool);
}

/// The cross-entropy of truth values, by logits.
#[pyfunction]
pub fn binary_cross_entropy_with_logits(
    py: Python<'_>,
    x: &PyTensor,
    target: Handle,
    weight: Option<Handle>,
    pos_weight: Option<Handle>,
    reduction: &str,
) -> PyResult<PyTensor> {
    let reduction = self::reduction("binary_cross_entropy_with_logits", reduction)?;
    x.apply(py, move |x| {
        x.binary_cross_entropy_with_logits(
            &target,
            weight.as_deref(),
            pos_weight.as_deref(),
            reduction,
        )
    })
}

/// Targets as HLX's numbers of classes: `ignore_index` becomes the number that is none.
fn classes(targets: &Tensor, ignore_index: i64) -> Result<Tensor> {
    if targets.dtype().is_float() {
        return Ok(targets.clone());
    }
    let ids = match targets.dtype() {
        DType::I32 => targets.view_dtype(DType::U32)?,
        _ => targets.to_dtype(DType::U32)?,
    };
    let Ok(ignored) = i32::try_from(ignore_index) else {
        return Ok(ids);
    };
    let device = targets.device();
    let is_ignored = targets.eq(&filled(device, DType::I32, ignored as u32)?)?;
    filled(device, DType::U32, IGNORE_INDEX)?.where_(&is_ignored, &ids)
}

/// The logarithms of the targets' probabilities, negative.
#[pyfunction]
pub fn nll_loss(
    py: Python<'_>,
    x: &PyTensor,
    target: Handle,
    weight: Option<Handle>,
    ignore_index: i64,
    reduction: &str,
) -> PyResult<PyTensor> {
    let reduction = self::reduction("nll_loss", reduction)?;
    x.apply(py, move |x| {
        let options = CrossEntropyOptions {
            weight: weight.as_deref(),
            reduction,
            ..CrossEntropyOptions::default()
        };
        x.nll_loss(&classes(&target, ignore_index)?, &options)
    })
}

/// The cross-entropy of classes, or of probabilities.
#[pyfunction]
pub fn cross_entropy_loss(
    py: Python<'_>,
    x: &PyTensor,
    target: Handle,
    weight: Option<Handle>,
    ignore_index: i64,
    label_smoothing: f32,
    reduction: &str,
) -> PyResult<PyTensor> {
    let reduction = self::reduction("cross_entropy", reduction)?;
    x.apply(py, move |x| {
        let options = CrossEntropyOptions {
            weight: weight.as_deref(),
            label_smoothing,
            reduction,
            ..CrossEntropyOptions::default()
        };
        x.cross_entropy_loss(&classes(&target, ignore_index)?, &options)
    })
}
