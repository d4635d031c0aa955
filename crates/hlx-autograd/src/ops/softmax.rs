//! Softmax over the last dimension.

use hlx_kernels::softmax::{softmax_backward, softmax_forward};

use crate::{Result, Tensor};

impl Tensor {
    /// Computes y = exp(x - max x) / sum exp(x - max x) over the last dimension, as
    /// `torch.softmax(x, dim=-1)`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for a scalar.
    pub fn softmax(&self) -> Result<Tensor> {
        let (rows, columns) = self.rows_and_columns("softmax")?;
        self.unary_of_output(
            "softmax",
            |ctx, x, y| softmax_forward(ctx, x, y, rows, columns),
            |y| {
                let y = y.clone();
                move |ctx, dy, dx| softmax_backward(ctx, &y, dy, dx, rows, columns)
            },
        )
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
