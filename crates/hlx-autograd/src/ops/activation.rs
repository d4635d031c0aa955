//! Activations, an element at a time.

use std::sync::Arc;

use hlx_kernels::activation::{Activation, activation_backward, activation_forward};

use crate::{DataType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes y = f(x) for each element; the shape is kept.
    ///
    /// # Errors
    /// [`AutogradError::DataType`](crate::AutogradError::DataType) for ids, and what the device
    /// reports.
    pub fn activation(&self, kind: Activation) -> Result<Tensor> {
        self.expect_type("activation", "the input", DataType::F32)?;
        let ctx = self.context();
        let y = ctx.alloc(self.n_elements())?;
        activation_forward(ctx, kind, self.buffer(), &y)?;
        let x = self.clone();
        let y = Tensor::from_operation("activation", &[self], y, self.shape(), move |pass, dy| {
            let dx = pass.context().alloc(x.n_elements())?;
            activation_backward(pass.context(), kind, x.buffer(), dy.buffer(), &dx)?;
            pass.add(&x, Gradient::owned(dx))
        })?;
        let x = self.clone();
        Ok(y.with_recipe(Arc::new(move || {
            let y = x.context().alloc(x.n_elements())?;
            activation_forward(x.context(), kind, x.buffer(), &y)?;
            Ok(y)
        })))
    }

    /// Computes the exact GELU, x Φ(x), as PyTorch's default `torch.nn.functional.gelu`.
    ///
    /// # Errors
    /// As [`Tensor::activation`].
    pub fn gelu(&self) -> Result<Tensor> {
        self.activation(Activation::Gelu)
    }

    /// Computes max(x, 0).
    ///
    /// # Errors
    /// As [`Tensor::activation`].
    pub fn relu(&self) -> Result<Tensor> {
        self.activation(Activation::Relu)
    }

    /// Computes the hyperbolic tangent.
    ///
    /// # Errors
    /// As [`Tensor::activation`].
    pub fn tanh(&self) -> Result<Tensor> {
        self.activation(Activation::Tanh)
    }

    /// Computes 1 / (1 + exp(-x)).
    ///
    /// # Errors
    /// As [`Tensor::activation`].
    pub fn sigmoid(&self) -> Result<Tensor> {
        self.activation(Activation::Sigmoid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, ids, input, message, values};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        use Activation::{Gelu, GeluTanh, Sigmoid, Silu, Tanh};
        for kind in [Gelu, GeluTanh, Silu, Sigmoid, Tanh] {
            check("activation", &[input(1, &[5, 7])], |x| {
                x[0].activation(kind)
            });
        }
    }

    #[test]
    fn relu_away_from_its_corner() {
        let ctx = hlx_core::testing::cpu().expect("the CPU device opens");
        let away: Vec<f32> = values(2, 33)
            .iter()
            .map(|x| x + 0.1_f32.copysign(*x))
            .collect();
        let x = Tensor::from_slice(&ctx, &away, &[33]).expect("uploads");
        check("relu", &[x], |x| x[0].relu());
    }

    #[test]
    fn ids_are_refused() {
        let text = message(ids(1, 4, &[3]).gelu());
        assert_eq!(
            text,
            "activation: the input holds u32 ids, expected f32 values"
        );
    }
}
