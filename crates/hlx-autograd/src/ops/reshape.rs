//! Another shape over the same memory.

use crate::{DataType, Result, Tensor};

impl Tensor {
    /// Views the same elements, in the same order, in another shape; nothing is copied.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if the shape's product differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        let buffer = self.buffer().clone();
        if self.data_type() == DataType::U32 {
            return Tensor::ids_from_buffer(self.context(), buffer, shape);
        }
        let x = self.input();
        Tensor::from_operation("reshape", &[self], buffer, shape, move |pass, dy| {
            pass.add(&x, dy)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("reshape", &[input(1, &[3, 4])], |x| {
            x[0].reshape(&[2, 6])?.softmax()
        });
    }

    #[test]
    fn another_number_of_elements_is_refused() {
        let text = message(input(1, &[3, 4]).reshape(&[5]));
        assert_eq!(
            text,
            "reshape: the tensor has shape [5], expected one of 12 elements (and at least one)"
        );
    }
}
