//! Running sums and products along a dimension.

use super::movement::axis_of;
use crate::{DType, Result, Tensor};

impl Tensor {
    /// A running operation over the types and shapes that its kernel has: 16-bit floats in f32, smaller
    /// integers and truth values in i32, a tensor without dimensions as one of one.
    fn widened_scan(
        &self,
        operation: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Option<Result<Tensor>> {
        match self.dtype() {
            _ if self.rank() == 0 => Some(self.as_vector(operation)),
            DType::F16 | DType::BF16 => Some(self.in_f32(operation)),
            DType::I8 | DType::U8 | DType::Bool => {
                Some(self.to_dtype(DType::I32).and_then(|x| operation(&x)))
            }
            _ => None,
        }
    }

    /// Computes the running sums along a dimension, as `torch.cumsum`. Types as for [`Tensor::sum`].
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the dimension does not exist.
    #[doc = example!(x: "assert_eq!(x.cumsum(1)?.to_vec::<f32>()?, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);")]
    pub fn cumsum(&self, dim: isize) -> Result<Tensor> {
        if let Some(widened) = self.widened_scan(|x| x.cumsum(dim)) {
            return widened;
        }
        let axis = axis_of("cumsum", dim, self.rank())?;
        let device = self.device();
        let out = device.alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::scan::cumsum(device, self.operand(), axis, &out)?;
        let (x, dims) = (self.input(), [axis as isize]);
        let sums = Tensor::of_rule(
            "cumsum",
            &[self],
            (out, self.shape()),
            move |pass, dy, _| pass.add_tensor(&x, &dy.flip(&dims)?.cumsum(dims[0])?.flip(&dims)?),
        )?;
        Ok(sums.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Computes the running products along a dimension, as `torch.cumprod`; a factor of 0 has the
    /// gradient that is due to it. Types as for [`Tensor::sum`].
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the dimension does not exist.
    #[doc = example!(x: "assert_eq!(x.cumprod(1)?.to_vec::<f32>()?, [1.0, 2.0, 6.0, 4.0, 20.0, 120.0]);")]
    pub fn cumprod(&self, dim: isize) -> Result<Tensor> {
        if let Some(widened) = self.widened_scan(|x| x.cumprod(dim)) {
            return widened;
        }
        let axis = axis_of("cumprod", dim, self.rank())?;
        let device = self.device();
        let out = device.alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::scan::cumprod(device, self.operand(), axis, &out)?;
        let (place, x) = (self.input(), self.clone());
        let output = (out, self.shape());
        let products = Tensor::of_output_rule("cumprod", &[self], output, move |pass, dy, y| {
            let (y, dim) = (y.unwrap_or(dy), axis as isize);
            let slope = match pass.is_recorded() {
                true => smooth_running_product_slope(&x, dim, dy, y)?,
                false => running_product_slope(&x, dim, dy, y)?,
            };
            pass.add_tensor(&place, &slope)
        })?;
        Ok(products.with_samples_of(self.samples().unless_along(axis)))
    }
}

/// The gradient of running products y of x: the sum over all products that have a factor, each without
/// it. Before the first 0 that is a quotient; the first 0 has the products of the other factors; and
/// what comes after it is in products of 0 alone.
fn running_product_slope(x: &Tensor, dim: isize, dy: &Tensor, y: &Tensor) -> Result<Tensor> {
    let later = |terms: Tensor| terms.flip(&[dim])?.cumsum(dim)?.flip(&[dim]);
    let is_zero = x.eq(0.0)?;
    let zeros = is_zero.to_dtype(DType::F32)?.cumsum(dim)?;
    let first = is_zero.logical_and(zeros.eq(1.0)?)?;
    let quotient = later(dy.mul(y)?)?.div(x.masked_fill(&is_zero, 1.0)?)?;
    let others = x.masked_fill(&first, 1.0)?.cumprod(dim)?;
    let at_first = later(dy.mul(others)?)?;
    let before = quotient.where_(&zeros.eq(0.0)?, 0.0)?;
    at_first.where_(&first, before)
}

/// As [`running_product_slope`], and right wherever it is differentiated again: a line that holds a 0 has
/// no quotient, and no choice by whether a factor is 0. The gradient of a factor is the product of the
/// factors before it times s, with s\[k\] = dy\[k\] + x\[k + 1\] s\[k + 1\].
fn smooth_running_product_slope(x: &Tensor, dim: isize, dy: &Tensor, y: &Tensor) -> Result<Tensor> {
    let is_zero = x.eq(0.0)?;
    let has_zero = is_zero.any(&[dim], true)?;
    let sums = dy.mul(y)?.flip(&[dim])?.cumsum(dim)?.flip(&[dim])?;
    let quotient = sums.div(x.masked_fill(&is_zero, 1.0)?)?;
    // Lines without a 0 are products of ones here, which neither overflow nor count.
    let factors = x.where_(&has_zero, 1.0)?;
    let product = products_before(&factors, dim)?.mul(later_terms(&factors, dim, dy)?)?;
    product.where_(&has_zero, quotient)
}

/// The products of the elements in front of each along a dimension; of the first, 1.
pub(super) fn products_before(x: &Tensor, dim: isize) -> Result<Tensor> {
    let Some(last) = extent_along(x, dim).checked_sub(1) else {
        return Ok(x.clone());
    };
    let first = x.detach().narrow(dim, 0, 1)?.ones_like()?;
    Tensor::cat(&[&first, &x.narrow(dim, 0, last)?], dim)?.cumprod(dim)
}

/// s along a dimension, with s\[k\] = dy\[k\] + x\[k + 1\] s\[k + 1\] and the last one dy. Each round
/// joins runs of twice as many terms, so that a line of n takes log2(n) rounds.
fn later_terms(x: &Tensor, dim: isize, dy: &Tensor) -> Result<Tensor> {
    let n = extent_along(x, dim);
    let (mut sums, mut run) = (dy.clone(), 1);
    // The products of the `run` factors behind each element that has as many.
    let mut products = x.narrow(dim, n.min(1), n.saturating_sub(1))?;
    while run < n {
        let others = n - run;
        let joined = products.mul(sums.narrow(dim, run, others)?)?;
        let joined = sums.narrow(dim, 0, others)?.add(joined)?;
        sums = Tensor::cat(&[&joined, &sums.narrow(dim, others, run)?], dim)?;
        let left = others.saturating_sub(run);
        let near = products.narrow(dim, 0, left)?;
        products = near.mul(products.narrow(dim, others - left, left)?)?;
        run *= 2;
    }
    Ok(sums)
}

/// The extent of a dimension that exists.
fn extent_along(x: &Tensor, dim: isize) -> usize {
    let axis = if dim < 0 {
        dim + x.rank() as isize
    } else {
        dim
    };
    x.shape().get(axis.unsigned_abs()).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[3, 4])];
        check("cumsum", &x, |x| x[0].cumsum(1)?.gelu());
        check("cumprod", &x, |x| x[0].cumprod(0));
    }
}
