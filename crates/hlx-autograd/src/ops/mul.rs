//! The elementwise product of two tensors of one shape.

use hlx_kernels::elementwise::mul;

use super::frame::Slope;
use crate::{Result, Tensor};

impl Tensor {
    /// Computes a b, element by element; the shapes must be equal.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if they are not.
    pub fn mul(&self, other: &Tensor) -> Result<Tensor> {
        let times = |factor: &Tensor| -> Result<Slope> {
            let factor = factor.buffer()?;
            Ok(Slope::by(move |ctx, dy, dx| mul(ctx, dy, &factor, dx)))
        };
        self.binary("mul", other, mul, [times(other)?, times(self)?])
    }
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
