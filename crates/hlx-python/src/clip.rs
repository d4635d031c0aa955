//! Limits on the gradients of an optimizer's parameters, or of a language model: launches over the flat memory that they
//! lie in.

use hlx_autograd::Tensor;
use hlx_nn::{Weights, clip_grad_norm_, clip_grad_value_};
use pyo3::prelude::*;

use crate::autograd::{Tensors, handles};
use crate::error::of_nn;
use crate::models::PyLanguageModel;
use crate::optimizer::PyOptimizer;
use crate::tensor::PyTensor;
use crate::wait::run_as;

/// Whether the gradients of some tensors, each named once, are all that lies in the flat memory of these weights.
fn are_all(weights: &Weights, tensors: &[Tensor]) -> bool {
    let gradients = |one: &hlx_nn::Parameter| one.tensor().ok()?.grad();
    let held: Vec<Tensor> = weights.parameters().iter().filter_map(gradients).collect();
    if held.len() != tensors.len() || weights.check_gradients().is_err() {
        return false;
    }
    let mut places = tensors.iter().enumerate();
    places.all(|(place, tensor)| {
        let Some(gradient) = tensor.grad() else {
            return false;
        };
        let is_it = |one: &Tensor| one.operand().buffer.overlaps(gradient.operand().buffer);
        // Those of a module come in the order of declaration.
        is_it(&held[place]) || held.iter().any(is_it)
    })
}

fn clip_norm(weights: &Weights, max_norm: f32) -> hlx_nn::Result<Tensor> {
    let norm = clip_grad_norm_(weights, max_norm)?;
    Ok(Tensor::from_buffer(weights.device(), norm, &[])?)
}

#[pymethods]
impl PyLanguageModel {
    /// Whether these tensors, each named once, are all that hold a gradient in the model's flat memory.
    fn holds_gradients(&self, tensors: Tensors<'_>) -> bool {
        let (held, tensors) = (self.held(), handles(&tensors));
        let model = held.whole("clip_grad_norm_");
        model.is_ok_and(|model| are_all(model.weights(), &tensors))
    }

    /// Scales all gradients by `min(1, max_norm / (norm + 1e-6))` and returns their norm before.
    fn clip_grad_norm_(&self, py: Python<'_>, max_norm: f32) -> PyResult<PyTensor> {
        let held = self.held();
        let model = held.whole("clip_grad_norm_")?;
        run_as(py, of_nn, || clip_norm(model.weights(), max_norm)).map(PyTensor::from)
    }

    /// Holds each element of all gradients within +-`clip_value`.
    fn clip_grad_value_(&self, py: Python<'_>, clip_value: f32) -> PyResult<()> {
        let held = self.held();
        let model = held.whole("clip_grad_value_")?;
        run_as(py, of_nn, || clip_grad_value_(model.weights(), clip_value))
    }
}

#[pymethods]
impl PyOptimizer {
    /// Whether these tensors, each named once, are all that hold a gradient in the optimizer's flat memory.
    fn holds_gradients(&self, tensors: Tensors<'_>) -> bool {
        are_all(&self.lock().weights, &handles(&tensors))
    }

    /// Scales all gradients by `min(1, max_norm / (norm + 1e-6))` and returns their norm before.
    fn clip_grad_norm_(&self, py: Python<'_>, max_norm: f32) -> PyResult<PyTensor> {
        self.check(py, &self.lock())?;
        let norm = self.run(py, |inner| clip_norm(&inner.weights, max_norm))?;
        Ok(norm.into())
    }

    /// Holds each element of all gradients within +-`clip_value`.
    fn clip_grad_value_(&self, py: Python<'_>, clip_value: f32) -> PyResult<()> {
        self.check(py, &self.lock())?;
        self.run(py, |inner| clip_grad_value_(&inner.weights, clip_value))
    }
}
