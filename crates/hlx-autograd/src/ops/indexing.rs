//! Indexing by tensors: gather, scatter and their like, and by masks.
//!
//! Index tensors are i32 or u32. An index out of range is found on the device and is the error of the
//! next call that waits for it ([`CoreError::Fault`](hlx_core::CoreError::Fault)); the element reads as
//! 0 or is not written. Where several indices choose one element, `scatter` writes the last one in
//! row-major order, and additions follow that order.

use hlx_core::{Bool, Buffer, Context};
use hlx_kernels::elementwise::Band;
use hlx_kernels::{KernelError, Operand, indexing};

use super::movement::axis_of;
use crate::{AutogradError, DType, Result, Tensor};

/// A kernel that writes or adds by index: context, target, its shape, axis, index, source, flag.
type Writer = fn(
    &Context,
    &Buffer,
    &[usize],
    usize,
    Operand<'_>,
    Operand<'_>,
    Option<&Buffer>,
) -> Result<(), KernelError>;

fn check_index(op: &'static str, index: &Tensor) -> Result<()> {
    match index.dtype() {
        DType::I32 | DType::U32 => Ok(()),
        found => Err(AutogradError::DType {
            op,
            argument: "the index",
            found,
            expected: DType::I32,
        }),
    }
}

impl Tensor {
    /// Takes `x[i with index[i] in the place of dim]` for every place of the index, as `torch.gather`.
    ///
    /// # Errors
    /// [`AutogradError::DType`] for an index of another type than i32 or u32, and a kernel error for
    /// shapes that do not fit.
    #[doc = example!(
        x: "let index = Tensor::from_vec(&ctx, vec![2_i32, 0], &[2, 1])?;",
        "assert_eq!(x.gather(1, &index)?.to_vec()?, [3.0, 4.0]);"
    )]
    pub fn gather(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        const OP: &str = "gather";
        check_index(OP, index)?;
        self.same_context(OP, [("the index", Some(index))])?;
        if self.rank() == 0 {
            let places = index.flatten(0, -1)?;
            return self
                .unsqueeze(0)?
                .gather(dim, &places)?
                .reshape(index.shape());
        }
        let axis = axis_of(OP, dim, self.rank())?;
        let ctx = self.context();
        let out = ctx.alloc_typed(self.dtype(), index.n_elements())?;
        let flag = ctx.flag(OP)?;
        indexing::gather(
            ctx,
            self.operand(),
            axis,
            index.operand(),
            &out,
            Some(&flag),
        )?;
        let (x, shape, index) = (self.input(), self.shape().to_vec(), index.detach());
        let places = index.clone();
        let gathered = Tensor::of_rule(OP, &[self], (out, index.shape()), move |pass, dy, _| {
            let dx = Tensor::zeros(dy.context(), &shape, dy.dtype())?;
            pass.add_tensor(&x, &dx.scatter_add(axis as isize, &places, dy)?)
        })?;
        Ok(gathered.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Takes the slices at the indices along a dimension, as `torch.index_select`; the index has one
    /// dimension.
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_vec(&ctx, vec![2_i32, 0], &[2])?;",
        "assert_eq!(x.index_select(1, &index)?.to_vec()?, [3.0, 1.0, 6.0, 4.0]);"
    )]
    pub fn index_select(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        const OP: &str = "index_select";
        check_index(OP, index)?;
        self.same_context(OP, [("the index", Some(index))])?;
        if self.rank() == 0 {
            return self.as_vector(|x| x.index_select(dim, index));
        }
        let axis = axis_of(OP, dim, self.rank())?;
        let mut shape = self.shape().to_vec();
        shape[axis] = index.n_elements();
        let ctx = self.context();
        let out = ctx.alloc_typed(self.dtype(), shape.iter().product())?;
        let flag = ctx.flag(OP)?;
        indexing::index_select(
            ctx,
            self.operand(),
            axis,
            index.operand(),
            &out,
            Some(&flag),
        )?;
        let (x, from, index) = (self.input(), self.shape().to_vec(), index.detach());
        let chosen = Tensor::of_rule(OP, &[self], (out, &shape), move |pass, dy, _| {
            let dx = Tensor::zeros(dy.context(), &from, dy.dtype())?;
            pass.add_tensor(&x, &dx.index_add(axis as isize, &index, dy)?)
        })?;
        Ok(chosen.with_samples_of(self.samples().unless_along(axis)))
    }

    /// The frame of operations that write into a copy by index: checks the operands, launches `kernel`,
    /// and returns the axis and the copy.
    fn written(
        &self,
        op: &'static str,
        dim: isize,
        (index, source): (&Tensor, &Tensor),
        kernel: Writer,
    ) -> Result<(usize, Buffer)> {
        check_index(op, index)?;
        let others = [("the index", Some(index)), ("the source", Some(source))];
        self.same_context(op, others)?;
        let axis = axis_of(op, dim, self.rank())?;
        let (ctx, out) = (self.context(), self.copied()?);
        let (flag, places, from) = (ctx.flag(op)?, index.operand(), source.operand());
        kernel(ctx, &out, self.shape(), axis, places, from, Some(&flag))?;
        Ok((axis, out))
    }

    /// A write into a tensor without dimensions as one into one of one.
    fn written_as_vector(
        &self,
        (index, source): (&Tensor, &Tensor),
        write: impl FnOnce(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (index, source) = (index.flatten(0, -1)?, source.flatten(0, -1)?);
        self.as_vector(|x| write(x, &index, &source))
    }

    /// Returns a copy with `source[i]` written at `i with index[i] in the place of dim`, as
    /// `torch.scatter`.
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_vec(&ctx, vec![2_i32, 0], &[2, 1])?;",
        "let y = x.scatter(1, &index, &Tensor::zeros(&ctx, &[2, 1], DType::F32)?)?;",
        "assert_eq!(y.to_vec()?, [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);"
    )]
    pub fn scatter(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "scatter";
        if self.rank() == 0 {
            return self.written_as_vector((index, source), |x, i, y| x.scatter(dim, i, y));
        }
        let (axis, out) = self.written(OP, dim, (index, source), indexing::scatter)?;
        let shape = self.shape();
        let (x, y, index) = (self.input(), source.input(), index.detach());
        let given = source.shape().to_vec();
        let inputs = [self, source];
        let written = Tensor::of_rule(OP, &inputs, (out, shape), move |pass, dy, _| {
            let dim = axis as isize;
            let zeros = Tensor::zeros(dy.context(), index.shape(), dy.dtype())?;
            if x.requires_grad() {
                pass.add_tensor(&x, &dy.scatter(dim, &index, &zeros)?)?;
            }
            if y.requires_grad() {
                let taken = dy.gather(dim, &index)?;
                pass.add_tensor(&y, &taken.grown_to(&given)?)?;
            }
            Ok(())
        })?;
        Ok(written.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Returns a copy with `source[i]` added at `i with index[i] in the place of dim`, in row-major
    /// order of the index, as `torch.scatter_add`.
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_vec(&ctx, vec![0_i32, 0, 0, 0, 0, 0], &[2, 3])?;",
        "assert_eq!(x.scatter_add(1, &index, &x)?.to_vec()?[0], 1.0 + 6.0);"
    )]
    pub fn scatter_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "scatter_add";
        if self.rank() == 0 {
            return self.written_as_vector((index, source), |x, i, y| x.scatter_add(dim, i, y));
        }
        let (axis, out) = self.written(OP, dim, (index, source), indexing::scatter_add)?;
        let shape = self.shape();
        let (x, y, index) = (self.input(), source.input(), index.detach());
        let given = source.shape().to_vec();
        let inputs = [self, source];
        let added = Tensor::of_rule(OP, &inputs, (out, shape), move |pass, dy, _| {
            if y.requires_grad() {
                let taken = dy.gather(axis as isize, &index)?;
                pass.add_tensor(&y, &taken.grown_to(&given)?)?;
            }
            pass.add_tensor(&x, dy)
        })?;
        Ok(added.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Returns a copy with the slices of `source` added at the indices along a dimension, in their
    /// order, as `torch.index_add`.
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_vec(&ctx, vec![0_i32, 0], &[2])?;",
        "assert_eq!(x.index_add(0, &index, &x)?.to_vec()?[..3], [6.0, 9.0, 12.0]);"
    )]
    pub fn index_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "index_add";
        if self.rank() == 0 {
            return self.written_as_vector((index, source), |x, i, y| x.index_add(dim, i, y));
        }
        let (axis, out) = self.written(OP, dim, (index, source), indexing::index_add)?;
        let shape = self.shape();
        let (x, y, index) = (self.input(), source.input(), index.detach());
        let inputs = [self, source];
        let added = Tensor::of_rule(OP, &inputs, (out, shape), move |pass, dy, _| {
            if y.requires_grad() {
                pass.add_tensor(&y, &dy.index_select(axis as isize, &index)?)?;
            }
            pass.add_tensor(&x, dy)
        })?;
        Ok(added.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Takes the elements where a mask holds, as `torch.masked_select`; both broadcast. Their number is
    /// in the data: the host waits for the mask, and this cannot be recorded.
    ///
    /// # Errors
    /// [`AutogradError::DType`] for another mask than `bool`, [`AutogradError::Argument`] if the shapes
    /// do not broadcast.
    #[doc = example!(x: "assert_eq!(x.masked_select(&x.gt(4.0)?)?.to_vec()?, [5.0, 6.0]);")]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        const OP: &str = "masked_select";
        self.same_context(OP, [("the mask", Some(mask))])?;
        mask.expect_type(OP, "the mask", DType::Bool)?;
        let [x, mask] = super::frame::broadcast(OP, [("self", self), ("the mask", mask)])?;
        let held = mask.to_elements::<Bool>()?;
        let places = (0_u32..).zip(&held).filter(|(_, held)| bool::from(**held));
        let places: Vec<u32> = places.map(|(place, _)| place).collect();
        let n = places.len();
        let index = Tensor::from_vec(self.context(), places, &[n])?;
        x.flatten(0, -1)?.index_select(0, &index)
    }

    /// A copy of the elements in row-major order.
    pub(crate) fn copied(&self) -> Result<Buffer> {
        let out = self
            .context()
            .alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::elementwise::copy_strided(self.context(), self.operand(), &out)?;
        Ok(out)
    }

    /// Zeros of a shape with this tensor in their first corner.
    fn grown_to(&self, shape: &[usize]) -> Result<Tensor> {
        let sides = self.shape().iter().zip(shape).rev();
        let widths: Vec<(isize, isize)> = sides
            .map(|(&have, &want)| (0, want as isize - have as isize))
            .collect();
        self.pad(&widths, super::join::Padding::Constant(0.0))
    }
}

impl Tensor {
    /// Computes the largest element along a dimension and its place, the first of equal ones: the
    /// values and u32 places of `torch.max(x, dim)`. The gradient goes to that place.
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(
        x: "let (largest, places) = x.max_dim(1, false)?;",
        "assert_eq!((largest.to_vec()?, places.to_ids()?), (vec![3.0, 6.0], vec![2, 2]));"
    )]
    pub fn max_dim(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.at_place(dim, keepdim, self.argmax(Some(dim), true)?)
    }

    /// Computes the smallest element along a dimension and its place, as `torch.min(x, dim)`; see
    /// [`Tensor::max_dim`].
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(x: "assert_eq!(x.min_dim(0, false)?.0.to_vec()?, [1.0, 2.0, 3.0]);")]
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
    /// [`AutogradError::Argument`] if the dimension does not exist.
    #[doc = example!(
        x: "let (sorted, places) = x.sort(1, true)?;",
        "assert_eq!(sorted.to_vec()?, [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);",
        "assert_eq!(places.to_ids()?, [2, 1, 0, 2, 1, 0]);"
    )]
    pub fn sort(&self, dim: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        if self.rank() == 0 {
            let (values, places) = self.unsqueeze(0)?.sort(dim, descending)?;
            return Ok((values.squeeze(0)?, places.squeeze(0)?));
        }
        const OP: &str = "sort";
        let axis = axis_of(OP, dim, self.rank())?;
        let (ctx, n) = (self.context(), self.n_elements());
        let values = ctx.alloc_typed(self.dtype(), n)?;
        let places = ctx.alloc_typed(DType::U32, n)?;
        hlx_kernels::sort::sort(ctx, self.operand(), axis, descending, &values, &places)?;
        let places = Tensor::from_buffer(ctx, places, self.shape())?;
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
            let values = Tensor::from_buffer(self.context(), output.0, output.1)?;
            return Ok(values.with_samples_of(samples));
        }
        let (x, shape, places) = (self.input(), self.shape().to_vec(), places.clone());
        let values = Tensor::of_rule(op, &[self], output, move |pass, dy, _| {
            let dx = Tensor::zeros(dy.context(), &shape, dy.dtype())?;
            pass.add_tensor(&x, &dx.scatter(axis as isize, &places, dy)?)
        })?;
        Ok(values.with_samples_of(samples))
    }

    /// Computes the places of the sorted elements along a dimension, as `torch.argsort(stable=True)`.
    ///
    /// # Errors
    /// As [`Tensor::sort`].
    #[doc = example!(x: "assert_eq!(x.argsort(1, true)?.to_ids()?, [2, 1, 0, 2, 1, 0]);")]
    pub fn argsort(&self, dim: isize, descending: bool) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.as_vector(|x| x.argsort(dim, descending));
        }
        let axis = axis_of("argsort", dim, self.rank())?;
        let ctx = self.context();
        let places = ctx.alloc_typed(DType::U32, self.n_elements())?;
        hlx_kernels::sort::argsort(ctx, self.operand(), axis, descending, &places)?;
        Tensor::from_buffer(ctx, places, self.shape())
    }

    /// Computes the k largest (or smallest) elements along a dimension in order and their places; of
    /// equal ones the first. As `torch.topk`.
    ///
    /// # Errors
    /// As [`Tensor::sort`], and a kernel error for more than there are.
    #[doc = example!(x: "assert_eq!(x.topk(2, 1, true)?.0.to_vec()?, [3.0, 2.0, 6.0, 5.0]);")]
    pub fn topk(&self, k: usize, dim: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        if self.rank() == 0 {
            let (values, places) = self.unsqueeze(0)?.topk(k, dim, largest)?;
            return Ok((values.squeeze(0)?, places.squeeze(0)?));
        }
        let axis = axis_of("topk", dim, self.rank())?;
        let mut shape = self.shape().to_vec();
        shape[axis] = k;
        let (ctx, n) = (self.context(), shape.iter().product());
        let values = ctx.alloc_typed(self.dtype(), n)?;
        let places = ctx.alloc_typed(DType::U32, n)?;
        hlx_kernels::sort::topk(ctx, self.operand(), k, axis, largest, &values, &places)?;
        let places = Tensor::from_buffer(ctx, places, &shape)?;
        Ok((self.taken_from("topk", axis, values, &places)?, places))
    }

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
    /// [`AutogradError::Argument`] if the dimension does not exist.
    #[doc = example!(x: "assert_eq!(x.cumsum(1)?.to_vec()?, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);")]
    pub fn cumsum(&self, dim: isize) -> Result<Tensor> {
        if let Some(widened) = self.widened_scan(|x| x.cumsum(dim)) {
            return widened;
        }
        let axis = axis_of("cumsum", dim, self.rank())?;
        let ctx = self.context();
        let out = ctx.alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::scan::cumsum(ctx, self.operand(), axis, &out)?;
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
    /// [`AutogradError::Argument`] if the dimension does not exist.
    #[doc = example!(x: "assert_eq!(x.cumprod(1)?.to_vec()?, [1.0, 2.0, 6.0, 4.0, 20.0, 120.0]);")]
    pub fn cumprod(&self, dim: isize) -> Result<Tensor> {
        if let Some(widened) = self.widened_scan(|x| x.cumprod(dim)) {
            return widened;
        }
        let axis = axis_of("cumprod", dim, self.rank())?;
        let ctx = self.context();
        let out = ctx.alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::scan::cumprod(ctx, self.operand(), axis, &out)?;
        let (place, x) = (self.input(), self.clone());
        let output = (out, self.shape());
        let products = Tensor::of_output_rule("cumprod", &[self], output, move |pass, dy, y| {
            let y = y.unwrap_or(dy);
            pass.add_tensor(&place, &running_product_slope(&x, axis as isize, dy, y)?)
        })?;
        Ok(products.with_samples_of(self.samples().unless_along(axis)))
    }

    /// The matrices with zeros above a diagonal, as `torch.tril`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] for fewer than two dimensions.
    #[doc = example!(x: "assert_eq!(x.tril(0)?.to_vec()?, [1.0, 0.0, 0.0, 4.0, 5.0, 0.0]);")]
    pub fn tril(&self, diagonal: isize) -> Result<Tensor> {
        self.banded("tril", (None, Some(diagonal as i64)))
    }

    /// The matrices with zeros below a diagonal, as `torch.triu`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] for fewer than two dimensions.
    #[doc = example!(x: "assert_eq!(x.triu(0)?.to_vec()?, [1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);")]
    pub fn triu(&self, diagonal: isize) -> Result<Tensor> {
        self.banded("triu", (Some(diagonal as i64), None))
    }

    fn banded(&self, op: &'static str, (low, high): (Option<i64>, Option<i64>)) -> Result<Tensor> {
        let &[.., rows, columns] = self.shape() else {
            return Err(self.shape_error(op, "the input", "at least two dimensions"));
        };
        let ctx = self.context();
        let mask = ctx.alloc_typed(DType::Bool, rows * columns)?;
        let band = Band {
            rows,
            columns,
            low,
            high,
        };
        hlx_kernels::elementwise::band(ctx, band, &mask)?;
        let mask = Tensor::from_buffer(ctx, mask, &[rows, columns])?;
        self.where_(&mask, Tensor::zeros(ctx, &[], self.dtype())?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, ids, input};

    fn of(values: &[f32], shape: &[usize]) -> Tensor {
        let ctx = hlx_core::testing::contexts()[0].clone();
        Tensor::from_slice(&ctx, values, shape).expect("uploads")
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[3, 4]), input(2, &[2, 4])];
        let rows = ids(3, 3, &[2, 4]);
        check("gather", &x[..1], |x| x[0].gather(0, &rows)?.gelu());
        check("scatter", &x, |x| {
            x[0].scatter(0, &ids(9, 3, &[1, 4]), &x[1])?.gelu()
        });
        check("scatter_add", &x, |x| {
            x[0].scatter_add(0, &rows, &x[1])?.gelu()
        });
        let chosen = ids(4, 3, &[5]);
        check("index_select", &x[..1], |x| {
            x[0].index_select(0, &chosen)?.gelu()
        });
        check("index_add", &x, |x| {
            x[0].index_add(0, &chosen.narrow(0, 0, 2)?, &x[1])?.gelu()
        });
        check("max_dim", &x[..1], |x| Ok(x[0].max_dim(1, false)?.0));
        check("sort", &x[..1], |x| x[0].sort(1, true)?.0.mul(&x[0]));
        check("topk", &x[..1], |x| Ok(x[0].topk(2, -1, true)?.0));
        check("cumsum", &x[..1], |x| x[0].cumsum(1)?.gelu());
        check("cumprod", &x[..1], |x| x[0].cumprod(0));
        check("tril", &x[..1], |x| x[0].tril(0)?.gelu());
    }

    #[test]
    fn an_index_out_of_range_is_the_error_of_the_next_wait() -> Result<()> {
        for ctx in hlx_core::testing::own_contexts() {
            let x = Tensor::from_slice(&ctx, &[1.0, 2.0], &[2])?;
            let index = Tensor::from_vec(&ctx, vec![0_i32, -1, 7], &[3])?;
            let taken = x.gather(0, &index)?;
            let error = taken.to_vec().expect_err("two bad indices");
            assert_eq!(
                error.to_string(),
                "gather: element 1 of the index is out of range"
            );
            assert_eq!(taken.to_vec()?, [1.0, 0.0, 0.0], "reported once");
        }
        Ok(())
    }

    #[test]
    fn masks_and_sorts() -> Result<()> {
        let x = of(&[3.0, f32::NAN, -1.0, 3.0], &[4]);
        let (sorted, places) = x.sort(0, false)?;
        assert_eq!(places.to_ids()?, [2, 0, 3, 1]);
        assert_eq!(sorted.to_vec()?[..3], [-1.0, 3.0, 3.0]);
        assert_eq!(x.masked_select(&x.eq(3.0)?)?.to_vec()?, [3.0, 3.0]);
        assert_eq!(
            of(&[1.0; 4], &[2, 2]).triu(1)?.to_vec()?,
            [0.0, 1.0, 0.0, 0.0]
        );
        Ok(())
    }
}
