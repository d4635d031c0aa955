//! The product of f32 values with a number, which [`Tensor::mul`] takes.

use hlx_kernels::elementwise::scale;

use crate::{Result, Tensor};

impl Tensor {
    /// Computes x times a number, of contiguous f32 values: one launch, where [`Tensor::binary`] makes a tensor
    /// of the number first.
    pub(super) fn times(&self, factor: f32) -> Result<Tensor> {
        let device = self.device();
        let y = device.alloc(self.n_elements())?;
        if !y.is_empty() {
            scale(device, &self.buffer()?, factor, &y)?;
        }
        let x = self.input();
        Tensor::of_rule("mul", &[self], (y, self.shape()), move |pass, dy, _| {
            pass.add_tensor(&x, &dy.mul(factor)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("mul", &[input(1, &[3, 5])], |x| x[0].mul(-2.5));
        check("mul", &[input(1, &[3, 5])], |x| {
            x[0].transpose(0, 1)?.mul(-2.5)
        });
    }
}
