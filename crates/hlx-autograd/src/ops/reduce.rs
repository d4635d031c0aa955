//! Sums and means, of all elements or along dimensions.

use hlx_core::{Buffer, Device};
use hlx_kernels::Layout;
use hlx_kernels::elementwise::scale_by;
use hlx_kernels::reduce::sum;
use hlx_kernels::reduce_axes::{Reduction, reduce};

use super::movement::axis_of;
use crate::samples::Samples;
use crate::{DType, Gradient, Result, Tensor};

impl Tensor {
    /// Sums all elements into a scalar, in the order of general reductions: pieces of 4,096 elements
    /// by the lane rule, until one value is left. As `torch.sum`; integers and truth values are summed
    /// in 32 bits and wrap (PyTorch sums them in 64), f16 and bf16 in f32.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(x: "assert_eq!(x.sum()?.item::<f32>()?, 21.0);")]
    pub fn sum(&self) -> Result<Tensor> {
        if self.dtype() != DType::F32 {
            return self.sum_dim(&[], false);
        }
        let total = self.device().alloc(1)?;
        sum(self.device(), &self.buffer()?, &total)?;
        let (x, from) = (self.input(), self.shape().to_vec());
        let sum = Tensor::of_rule("sum", &[self], (total, &[]), move |pass, dy, _| {
            pass.add_tensor(&x, &dy.expand_with("sum", &from, Samples::Lost)?)
        })?;
        Ok(sum.with_samples_of(self.samples().moved(|_| None)))
    }

    /// Computes the mean of all elements: their sum times 1 / n. As `torch.mean`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(x: "assert_eq!(x.mean()?.item::<f32>()?, 3.5);")]
    pub fn mean(&self) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(Tensor::mean);
        }
        self.expect_type("mean", "the input", DType::F32)?;
        let total = self.sum()?;
        total.mul(1.0 / self.n_elements() as f32)
    }

    /// Sums along dimensions, which are dropped or stay with extent 1, as `torch.sum(x, dim)`. The
    /// order and the types are those of [`Tensor::sum`], over the summed dimensions in row-major order.
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if a dimension does not exist or is
    /// named twice.
    #[doc = example!(x: "assert_eq!(x.sum_dim(&[1], false)?.to_vec::<f32>()?, [6.0, 15.0]);")]
    pub fn sum_dim(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(|x| x.sum_dim(dims, keepdim));
        }
        let axes = reduced_axes("sum", dims, self.rank())?;
        if !self.dtype().is_float() {
            let sum = self.reduced(Reduction::Sum, &axes)?.signed(self.dtype())?;
            return sum.with_keepdim(&axes, keepdim);
        }
        let shape = shape_without(self.shape(), &axes, true);
        let sum = self.sum_dims(&axes, &shape)?;
        match keepdim {
            true => Ok(sum),
            false => sum.without_axes(&axes),
        }
    }

    /// Computes the mean along dimensions: the sum times 1 / n. As `torch.mean(x, dim)`.
    ///
    /// # Errors
    /// As [`Tensor::sum_dim`].
    #[doc = example!(x: "assert_eq!(x.mean_dim(&[0], true)?.shape(), [1, 3]);")]
    pub fn mean_dim(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(|x| x.mean_dim(dims, keepdim));
        }
        self.expect_type("mean", "the input", DType::F32)?;
        let axes = reduced_axes("mean", dims, self.rank())?;
        let count: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
        self.sum_dim(dims, keepdim)?.mul(1.0 / count as f32)
    }

    /// Sums along axes into a shape of as many elements as are left.
    pub(crate) fn sum_dims(&self, axes: &[usize], shape: &[usize]) -> Result<Tensor> {
        let total = self.sum_buffer(axes)?;
        let (x, from) = (self.input(), self.shape().to_vec());
        let with_axes = shape_without(self.shape(), axes, true);
        let samples = self.samples();
        let sum = Tensor::of_rule("sum", &[self], (total, shape), move |pass, dy, _| {
            let dx = dy.reshape(&with_axes)?.expand_with("sum", &from, samples)?;
            pass.add_tensor(&x, &dx)
        })?;
        let samples = self
            .samples()
            .moved(|axis| (!axes.contains(&axis)).then_some(axis));
        Ok(sum.with_samples_of(samples.reshaped(&shape_without(self.shape(), axes, true), shape)))
    }

    /// Sums along axes; the elements that are left in row-major order.
    pub(crate) fn sum_buffer(&self, axes: &[usize]) -> Result<Buffer> {
        if axes.is_empty() {
            return self.buffer();
        }
        let left = Layout::count(&shape_without(self.shape(), axes, true))?;
        let out = self.device().alloc(left)?;
        reduce(self.device(), Reduction::Sum, self.operand(), axes, &out)?;
        Ok(out)
    }

    /// Drops axes of extent 1.
    pub(crate) fn without_axes(&self, axes: &[usize]) -> Result<Tensor> {
        self.reshape(&shape_without(self.shape(), axes, false))
    }
}

/// The axes that dimensions name, ascending; all of them if none is named. A tensor without dimensions
/// has one to name, as in PyTorch.
pub(crate) fn reduced_axes(op: &'static str, dims: &[isize], rank: usize) -> Result<Vec<usize>> {
    if rank == 0 && matches!(dims, [0 | -1]) {
        return Ok(Vec::new());
    }
    let named = dims.iter().map(|&dim| axis_of(op, dim, rank));
    let mut axes = named.collect::<Result<Vec<_>>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(crate::AutogradError::Argument {
            op,
            reason: format!("dimensions {dims:?} name one of {rank} twice"),
        });
    }
    match axes.is_empty() {
        true => Ok((0..rank).collect()),
        false => Ok(axes),
    }
}

/// A shape whose axes have extent 1, or are dropped.
pub(crate) fn shape_without(shape: &[usize], axes: &[usize], keepdim: bool) -> Vec<usize> {
    let left = |(axis, &extent): (usize, &usize)| match (axes.contains(&axis), keepdim) {
        (false, _) => Some(extent),
        (true, true) => Some(1),
        (true, false) => None,
    };
    shape.iter().enumerate().filter_map(left).collect()
}

/// Sums a loss's rows and multiplies the sum by a factor in device memory.
pub(super) fn scaled_sum(device: &Device, rows: &Buffer, factor: &Buffer) -> Result<Buffer> {
    let total = device.alloc(1)?;
    sum(device, rows, &total)?;
    let out = device.alloc(1)?;
    scale_by(device, &total, factor, &out)?;
    Ok(out)
}

/// Computes the factor of a loss's derivative: its own factor times the upstream gradient.
pub(super) fn upstream_factor(device: &Device, factor: &Buffer, dy: &Gradient) -> Result<Buffer> {
    let out = device.alloc(1)?;
    scale_by(device, factor, &dy.buffer()?, &out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("sum", &[input(1, &[3, 5])], |x| x[0].mul(&x[0])?.sum());
        check("mean", &[input(1, &[3, 5])], |x| x[0].mul(&x[0])?.mean());
        check("sum", &[input(1, &[2, 3, 5])], |x| {
            x[0].mul(&x[0])?.sum_dim(&[0, -1], false)
        });
        check("mean", &[input(1, &[2, 3, 5])], |x| {
            x[0].mul(&x[0])?.mean_dim(&[1], true)
        });
    }
}
