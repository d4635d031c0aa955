//! Addition of two tensors of one shape.

use hlx_kernels::elementwise::add;

use super::frame::Slope;
use crate::{Result, Tensor};

impl Tensor {
    /// Computes a + b; the shapes must be equal.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if they are not.
    pub fn add(&self, other: &Tensor) -> Result<Tensor> {
        self.binary("add", other, add, [Slope::Same, Slope::Same])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("add", &[input(1, &[3, 5]), input(2, &[3, 5])], |x| {
            x[0].add(&x[1])
        });
    }

    #[test]
    fn a_tensor_added_to_itself_has_twice_the_gradient() {
        check("add", &[input(1, &[7])], |x| x[0].add(&x[0])?.add(&x[0]));
    }

    #[test]
    fn unequal_shapes_are_refused() {
        let text = message(input(1, &[3, 5]).add(&input(2, &[5, 3])));
        assert_eq!(
            text,
            "add: the right operand has shape [5, 3], expected [3, 5]"
        );
    }
}
