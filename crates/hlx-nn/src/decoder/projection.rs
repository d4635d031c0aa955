//! Projections of a branch's input, and back into the residual stream.

use hlx_autograd::Tensor;

use super::ParameterLayout;
use super::norm::Normed;
use crate::layers::Linear;
use crate::{Mode, Module, Parameter, Result};

/// Shows what layers read to the observer of a pass, if there is one.
pub(super) fn observe(linears: &[&Linear], x: &Tensor, mode: &Mode) -> Result<()> {
    let weights: Vec<&Parameter> = linears.iter().map(|linear| &linear.weight).collect();
    mode.observe(&weights, x)
}

/// Applies layers without adapters to one input by an operation that takes its norm in, others one by one.
pub(super) fn project(linears: &[&Linear], x: &Normed<'_>, mode: &Mode) -> Result<Vec<Tensor>> {
    if linears.iter().any(|linear| linear.lora.is_some()) {
        let x = x.value(mode)?;
        observe(linears, &x, mode)?;
        return linears.iter().map(|one| one.forward(&x, mode)).collect();
    }
    if mode.is_observed() {
        observe(linears, &x.value(mode)?, mode)?;
    }
    let tensors = linears.iter().map(|linear| linear.tensors());
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let maps = tensors.iter().map(|(weight, bias)| (weight, bias.as_ref()));
    let maps: Vec<_> = maps.collect();
    let (x, norm) = x.operand(mode)?;
    let norm = norm.as_ref().map(|(gain, eps)| (gain, *eps));
    Ok(x.linears(norm, &maps)?)
}

/// Applies the layer that projects back, and adds the result to a residual, if there is one. The layouts differ in the
/// order of the sum with an adapter: packed, its part comes last; apart, the whole branch.
pub(super) fn project_back(
    linear: &Linear,
    x: &Tensor,
    residual: Option<&Tensor>,
    layout: ParameterLayout,
    mode: &Mode,
) -> Result<Tensor> {
    observe(&[linear], x, mode)?;
    match residual {
        None => linear.forward(x, mode),
        Some(residual) if linear.lora.is_some() && layout == ParameterLayout::Apart => {
            Ok(residual.add(&linear.forward(x, mode)?)?)
        }
        Some(residual) => linear.forward_add(x, residual, mode),
    }
}
