//! The product with a number.

use hlx_kernels::elementwise::scale;

use crate::{DType, Result, Tensor};

impl Tensor {
    /// Computes x times a number, of f32 values; [`Tensor::mul`] takes a number beside any type.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(x: "assert_eq!(x.scale(0.5)?.to_vec()?[1], 1.0);")]
    pub fn scale(&self, factor: f32) -> Result<Tensor> {
        if self.dtype() != DType::F32 {
            return self.mul(factor);
        }
        let device = self.device();
        let y = device.alloc(self.n_elements())?;
        if !y.is_empty() {
            scale(device, &self.buffer()?, factor, &y)?;
        }
        let x = self.input();
        Tensor::of_rule("scale", &[self], (y, self.shape()), move |pass, dy, _| {
            pass.add_tensor(&x, &dy.scale(factor)?)
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
