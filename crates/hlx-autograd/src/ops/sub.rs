//! Subtraction of two tensors of one shape.

use hlx_kernels::elementwise::{scale, sub};

use super::frame::Slope;
use crate::{Result, Tensor};

impl Tensor {
    /// Computes a - b; the shapes must be equal.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if they are not.
    pub fn sub(&self, other: &Tensor) -> Result<Tensor> {
        let negated = Slope::by(|ctx, dy, db| scale(ctx, dy, -1.0, db));
        self.binary("sub", other, sub, [Slope::Same, negated])
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
