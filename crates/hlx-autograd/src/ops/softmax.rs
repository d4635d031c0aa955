//! Softmax over the last dimension.

use hlx_kernels::softmax::{softmax_backward, softmax_forward};

use super::reduce::reduced_axes;
use crate::graph::tape::no_grad;
use crate::{DType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes y = exp(x - max x) / sum exp(x - max x) over the last dimension, as
    /// `torch.softmax(x, dim=-1)`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for a scalar.
    #[doc = example!(
        "let x = Tensor::zeros(&device, &[1, 4], DType::F32)?;",
        "assert_eq!(x.softmax()?.to_vec::<f32>()?, [0.25; 4]);"
    )]
    pub fn softmax(&self) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(Tensor::softmax);
        }
        let (rows, columns) = self.rows_and_columns("softmax")?;
        let (device, n) = (self.device(), self.n_elements());
        let y = device.alloc(n)?;
        if n > 0 {
            softmax_forward(device, &self.buffer()?, &y, rows, columns)?;
        }
        let x = self.input();
        Tensor::of_output_rule("softmax", &[self], (y, self.shape()), move |pass, dy, y| {
            let y = y.unwrap_or(dy);
            if pass.is_recorded() {
                let mean = dy.mul(y)?.sum_dim(&[-1], true)?;
                return pass.add_tensor(&x, &y.mul(dy.sub(mean)?)?);
            }
            let dx = pass.device().alloc(n)?;
            if n > 0 {
                let (y, dy) = (y.buffer()?, dy.buffer()?);
                softmax_backward(pass.device(), &y, &dy, &dx, rows, columns)?;
            }
            pass.add(&x, Gradient::owned(dx))
        })
    }

    /// Computes softmax along a dimension, as `torch.softmax(x, dim)`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the dimension does not exist.
    #[doc = example!(
        "let x = Tensor::zeros(&device, &[4, 1], DType::F32)?;",
        "assert_eq!(x.softmax_dim(0)?.to_vec::<f32>()?, [0.25; 4]);"
    )]
    pub fn softmax_dim(&self, dim: isize) -> Result<Tensor> {
        match self.rank() {
            0 => self.as_vector(|x| x.softmax_dim(dim)),
            _ => self.transpose(dim, -1)?.softmax()?.transpose(dim, -1),
        }
    }

    /// Computes d - log(sum exp(d)) along a dimension, with the distances d = x - max x, as
    /// `torch.log_softmax`. In another order, x - logsumexp(x), the logarithm would be lost beside a large x.
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the dimension does not exist.
    #[doc = example!(
        "let x = Tensor::full(&device, &[1, 4], 1e6, DType::F32)?;",
        "assert!((x.log_softmax(-1)?.to_vec::<f32>()?[0] + 1.386_294_4).abs() < 1e-6);"
    )]
    pub fn log_softmax(&self, dim: isize) -> Result<Tensor> {
        const OP: &str = "log_softmax";
        if self.is_half() {
            return self.in_f32(|x| x.log_softmax(dim));
        }
        if self.dtype() != DType::F32 {
            return self.to_dtype(DType::F32)?.log_softmax(dim);
        }
        let axes = reduced_axes(OP, &[dim], self.rank())?;
        let y = no_grad(|| self.log_probabilities(dim))?;
        let (x, output) = (self.input(), (y.buffer()?, self.shape()));
        let y = Tensor::of_output_rule(OP, &[self], output, move |pass, dy, y| {
            let p = y.unwrap_or(dy).exp()?;
            let total = match dy.n_elements() {
                0 => dy.clone(),
                _ => dy.sum_dim(&[dim], true)?,
            };
            pass.add_tensor(&x, &dy.sub(p.mul(total)?)?)
        })?;
        let samples = axes
            .iter()
            .fold(self.samples(), |samples, &axis| samples.unless_along(axis));
        Ok(y.with_samples_of(samples))
    }

    /// [`Tensor::log_softmax`] of f32 values, off the tape.
    fn log_probabilities(&self, dim: isize) -> Result<Tensor> {
        if self.n_elements() == 0 {
            return self.zeros_like();
        }
        let distances = self.sub(self.amax(&[dim], true)?)?;
        let sum = distances.exp()?.sum_dim(&[dim], true)?;
        distances.sub(sum.log()?)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("softmax", &[input(1, &[2, 3, 5])], |x| x[0].softmax());
        check("softmax", &[input(1, &[2, 3, 5])], |x| x[0].softmax_dim(1));
        check("log_softmax", &[input(1, &[2, 5])], |x| {
            x[0].log_softmax(-1)
        });
    }
}
