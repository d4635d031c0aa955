//! The mean squared error.

use hlx_kernels::mse::{mse_backward, mse_forward};

use super::reduce::{scaled_sum, upstream_factor};
use crate::{DType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes the sum of (prediction - target)² times `scale`, a tensor of one element: for
    /// the part of a batch, one over the number of elements in the whole. No gradient flows into the
    /// target. [`Tensor::mse_loss`] is PyTorch's loss.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless the shapes are equal.
    #[doc = example!(
        x: "let scale = Tensor::full(&device, &[1], 0.5, DType::F32)?;",
        "assert_eq!(x.mse_scaled(&x.add(2.0)?, &scale)?.item::<f32>()?, 12.0);"
    )]
    pub fn mse_scaled(&self, target: &Tensor, scale: &Tensor) -> Result<Tensor> {
        let others = [("the target", Some(target)), ("scale", Some(scale))];
        self.same_device("mse", others)?;
        self.expect_type("mse", "the input", DType::F32)?;
        target.expect_shape("mse", "the target", self.shape())?;
        scale.expect_shape("mse", "scale", &[1])?;
        let device = self.device();
        let rows = device.alloc(self.n_elements())?;
        let values = [self.buffer()?, target.buffer()?, scale.buffer()?];
        mse_forward(device, &values[0], &values[1], &rows)?;
        let loss = scaled_sum(device, &rows, &values[2])?;
        let saved = [
            self.save_values(&values[0]),
            target.save_values(&values[1]),
            scale.save_values(&values[2]),
        ];
        let x = self.input();
        Tensor::from_operation("mse", &[self], loss, &[], move |pass, dy| {
            let device = pass.device();
            let [prediction, target, scale] = &saved;
            let (prediction, target) = (prediction.values()?, target.values()?);
            let factor = upstream_factor(device, &scale.values()?, &dy)?;
            let dx = device.alloc(prediction.len())?;
            mse_backward(device, &prediction, &target, &factor, &dx)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let target = input(2, &[3, 5]);
        let scale = Tensor::from_slice(target.device(), &[0.2], &[1]).expect("uploads");
        check("mse", &[input(1, &[3, 5])], |x| {
            x[0].mse_scaled(&target, &scale)
        });
    }
}
