//! Subtraction of two tensors of one shape.

use hlx_kernels::elementwise::{scale, sub};

use crate::{DataType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes a - b; the shapes must be equal.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if they are not.
    pub fn sub(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_type("sub", "the left operand", DataType::F32)?;
        other.expect_shape("sub", "the right operand", self.shape())?;
        let ctx = self.context();
        let out = ctx.alloc(self.n_elements())?;
        sub(ctx, self.buffer(), other.buffer(), &out)?;
        let (a, b) = (self.clone(), other.clone());
        Tensor::from_operation("sub", &[self, other], out, self.shape(), move |pass, dy| {
            pass.add(&a, Gradient::shared(dy.buffer().clone()))?;
            if !b.requires_grad() {
                return Ok(());
            }
            let negated = pass.context().alloc(b.n_elements())?;
            scale(pass.context(), dy.buffer(), -1.0, &negated)?;
            pass.add(&b, Gradient::owned(negated))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("sub", &[input(1, &[3, 5]), input(2, &[3, 5])], |x| {
            x[0].sub(&x[1])
        });
    }
}
