//! The product with a number.

use hlx_kernels::elementwise::scale;

use crate::{DataType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes x times a number that the host knows.
    ///
    /// # Errors
    /// What the device reports.
    pub fn scale(&self, factor: f32) -> Result<Tensor> {
        self.expect_type("scale", "the input", DataType::F32)?;
        let ctx = self.context();
        let out = ctx.alloc(self.n_elements())?;
        scale(ctx, self.buffer(), factor, &out)?;
        let x = self.clone();
        Tensor::from_operation("scale", &[self], out, self.shape(), move |pass, dy| {
            let dx = pass.context().alloc(x.n_elements())?;
            scale(pass.context(), dy.buffer(), factor, &dx)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("scale", &[input(1, &[3, 5])], |x| x[0].scale(-2.5));
    }
}
