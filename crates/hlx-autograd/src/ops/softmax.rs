//! Softmax over the last dimension.

use hlx_kernels::softmax::{softmax_backward, softmax_forward};

use crate::{Gradient, Result, Tensor};

impl Tensor {
    /// Computes y = exp(x - max x) / sum exp(x - max x) over the last dimension, as
    /// `torch.softmax(x, dim=-1)`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for a scalar.
    pub fn softmax(&self) -> Result<Tensor> {
        let (rows, columns) = self.rows_and_columns("softmax")?;
        let ctx = self.context();
        let y = ctx.alloc(self.n_elements())?;
        softmax_forward(ctx, self.buffer(), &y, rows, columns)?;
        let (x, saved) = (self.clone(), y.clone());
        Tensor::from_operation("softmax", &[self], y, self.shape(), move |pass, dy| {
            let dx = pass.context().alloc(x.n_elements())?;
            softmax_backward(pass.context(), &saved, dy.buffer(), &dx, rows, columns)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("softmax", &[input(1, &[2, 3, 5])], |x| x[0].softmax());
    }
}
