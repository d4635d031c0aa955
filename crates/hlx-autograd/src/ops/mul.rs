//! The elementwise product of two tensors of one shape.

use hlx_kernels::elementwise::mul;

use crate::{Backward, DataType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes a b, element by element; the shapes must be equal.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if they are not.
    pub fn mul(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_type("mul", "the left operand", DataType::F32)?;
        other.expect_shape("mul", "the right operand", self.shape())?;
        let ctx = self.context();
        let out = ctx.alloc(self.n_elements())?;
        mul(ctx, self.buffer(), other.buffer(), &out)?;
        let (a, b) = (self.clone(), other.clone());
        Tensor::from_operation("mul", &[self, other], out, self.shape(), move |pass, dy| {
            add_product(pass, &a, &dy, &b)?;
            add_product(pass, &b, &dy, &a)
        })
    }
}

/// Adds dy times the other factor to an input's gradient.
fn add_product(
    pass: &mut Backward<'_>,
    input: &Tensor,
    dy: &Gradient,
    other: &Tensor,
) -> Result<()> {
    if !input.requires_grad() {
        return Ok(());
    }
    let dx = pass.context().alloc(input.n_elements())?;
    mul(pass.context(), dy.buffer(), other.buffer(), &dx)?;
    pass.add(input, Gradient::owned(dx))
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("mul", &[input(1, &[3, 5]), input(2, &[3, 5])], |x| {
            x[0].mul(&x[1])
        });
        check("square", &[input(3, &[7])], |x| x[0].mul(&x[0]));
    }
}
