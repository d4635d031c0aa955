//! The product with a number.

use hlx_kernels::elementwise::scale;

use crate::{Result, Tensor};

impl Tensor {
    /// Computes x times a number.
    ///
    /// # Errors
    /// What the device reports.
    pub fn scale(&self, factor: f32) -> Result<Tensor> {
        self.unary(
            "scale",
            |ctx, x, y| scale(ctx, x, factor, y),
            move |ctx, dy, dx| scale(ctx, dy, factor, dx),
        )
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
