//! Sorts, and the extremes along a dimension with their places.

use hlx_core::Buffer;

use super::movement::axis_of;
use crate::{AutogradError, DType, Result, Tensor};

impl Tensor {
    /// Computes the largest element along a dimension and its place, the first of equal ones: the
    /// values and u32 places of `torch.max(x, dim)`. The gradient goes to that place.
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(
        x: "let (largest, places) = x.max_dim(1, false)?;",
        "assert_eq!((largest.to_vec::<f32>()?, places.to_vec::<u32>()?), (vec![3.0, 6.0], vec![2, 2]));"
    )]
    pub fn max_dim(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.at_place(dim, keepdim, self.argmax(Some(dim), true)?)
    }

    /// Computes the smallest element along a dimension and its place, as `torch.min(x, dim)`; see
    /// [`Tensor::max_dim`].
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(x: "assert_eq!(x.min_dim(0, false)?.0.to_vec::<f32>()?, [1.0, 2.0, 3.0]);")]
    pub fn min_dim(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.at_place(dim, keepdim, self.argmin(Some(dim), true)?)
    }

    fn at_place(&self, dim: isize, keepdim: bool, places: Tensor) -> Result<(Tensor, Tensor)> {
        if self.rank() == 0 {
            return Ok((self.clone(), places));
        }
        let values = self.gather(dim, &places)?;
        let values = values.with_samples_of(places.samples());
        match keepdim {
            true => Ok((values, places)),
            false => Ok((values.squeeze(dim)?, places.squeeze(dim)?)),
        }
    }

    /// Sorts along a dimension, stable: the values and the places that they had, as u32. NaN is larger
    /// than everything. As `torch.sort(stable=True)`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the dimension does not exist.
    #[doc = example!(
        x: "let (sorted, places) = x.sort(1, true)?;",
        "assert_eq!(sorted.to_vec::<f32>()?, [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);",
        "assert_eq!(places.to_vec::<u32>()?, [2, 1, 0, 2, 1, 0]);"
    )]
    pub fn sort(&self, dim: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        if self.rank() == 0 {
            let (values, places) = self.unsqueeze(0)?.sort(dim, descending)?;
            return Ok((values.squeeze(0)?, places.squeeze(0)?));
        }
        const OP: &str = "sort";
        let axis = axis_of(OP, dim, self.rank())?;
        let (device, n) = (self.device(), self.n_elements());
        let values = device.alloc_typed(self.dtype(), n)?;
        let places = device.alloc_typed(DType::U32, n)?;
        hlx_kernels::sort::sort(device, self.operand(), axis, descending, &values, &places)?;
        let places = Tensor::from_buffer(device, places, self.shape())?;
        Ok((self.taken_from(OP, axis, values, &places)?, places))
    }

    /// Elements taken from places along a dimension, no place twice in a line, with their gradient.
    fn taken_from(
        &self,
        op: &'static str,
        axis: usize,
        values: Buffer,
        places: &Tensor,
    ) -> Result<Tensor> {
        let output = (values, places.shape());
        let samples = self.samples().unless_along(axis);
        if !self.dtype().is_float() {
            let values = Tensor::from_buffer(self.device(), output.0, output.1)?;
            return Ok(values.with_samples_of(samples));
        }
        let (x, shape, places) = (self.input(), self.shape().to_vec(), places.clone());
        let values = Tensor::of_rule(op, &[self], output, move |pass, dy, _| {
            let dx = Tensor::zeros(dy.device(), &shape, dy.dtype())?;
            pass.add_tensor(&x, &dx.scatter(axis as isize, &places, dy)?)
        })?;
        Ok(values.with_samples_of(samples))
    }

    /// Computes the places of the sorted elements along a dimension, as `torch.argsort(stable=True)`.
    ///
    /// # Errors
    /// As [`Tensor::sort`].
    #[doc = example!(x: "assert_eq!(x.argsort(1, true)?.to_vec::<u32>()?, [2, 1, 0, 2, 1, 0]);")]
    pub fn argsort(&self, dim: isize, descending: bool) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.as_vector(|x| x.argsort(dim, descending));
        }
        let axis = axis_of("argsort", dim, self.rank())?;
        let device = self.device();
        let places = device.alloc_typed(DType::U32, self.n_elements())?;
        hlx_kernels::sort::argsort(device, self.operand(), axis, descending, &places)?;
        Tensor::from_buffer(device, places, self.shape())
    }

    /// Computes the k largest (or smallest) elements along a dimension in order and their places; of
    /// equal ones the first. As `torch.topk`.
    ///
    /// # Errors
    /// As [`Tensor::sort`], and [`AutogradError::Argument`] for more than there are.
    #[doc = example!(x: "assert_eq!(x.topk(2, 1, true)?.0.to_vec::<f32>()?, [3.0, 2.0, 6.0, 5.0]);")]
    pub fn topk(&self, k: usize, dim: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        if self.rank() == 0 {
            let (values, places) = self.unsqueeze(0)?.topk(k, dim, largest)?;
            return Ok((values.squeeze(0)?, places.squeeze(0)?));
        }
        let axis = axis_of("topk", dim, self.rank())?;
        let mut shape = self.shape().to_vec();
        if k > shape[axis] {
            let extent = shape[axis];
            return Err(AutogradError::Argument {
                op: "topk",
                reason: format!(
                    "k is {k}, expected at most {extent}, the extent of dimension {axis}"
                ),
            });
        }
        shape[axis] = k;
        let (device, n) = (self.device(), shape.iter().product());
        let values = device.alloc_typed(self.dtype(), n)?;
        let places = device.alloc_typed(DType::U32, n)?;
        hlx_kernels::sort::topk(device, self.operand(), k, axis, largest, &values, &places)?;
        let places = Tensor::from_buffer(device, places, &shape)?;
        Ok((self.taken_from("topk", axis, values, &places)?, places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[3, 4])];
        check("max_dim", &x, |x| Ok(x[0].max_dim(1, false)?.0));
        check("sort", &x, |x| x[0].sort(1, true)?.0.mul(&x[0]));
        check("topk", &x, |x| Ok(x[0].topk(2, -1, true)?.0));
    }

    #[test]
    fn nan_is_the_largest_and_equal_elements_keep_their_order() -> Result<()> {
        let device = hlx_core::testing::devices()[0].clone();
        let x = Tensor::from_slice(&device, &[3.0, f32::NAN, -1.0, 3.0], &[4])?;
        let (sorted, places) = x.sort(0, false)?;
        assert_eq!(places.to_vec::<u32>()?, [2, 0, 3, 1]);
        assert_eq!(sorted.to_vec::<f32>()?[..3], [-1.0, 3.0, 3.0]);
        Ok(())
    }
}
