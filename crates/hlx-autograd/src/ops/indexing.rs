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
    pub fn gather(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        const OP: &str = "gather";
        check_index(OP, index)?;
        self.same_context(OP, [("the index", Some(index))])?;
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
    pub fn index_select(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        const OP: &str = "index_select";
        check_index(OP, index)?;
        self.same_context(OP, [("the index", Some(index))])?;
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

    /// Returns a copy with `source[i]` written at `i with index[i] in the place of dim`, as
    /// `torch.scatter`.
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    pub fn scatter(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "scatter";
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
    pub fn scatter_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "scatter_add";
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
    pub fn index_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "index_add";
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

    /// Takes the elements where a mask of this shape holds, as `torch.masked_select`. Their number is
    /// in the data: the host waits for the mask, and this cannot be recorded.
    ///
    /// # Errors
    /// [`AutogradError::DType`] for another mask than `bool`, [`AutogradError::Shape`].
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        const OP: &str = "masked_select";
        self.same_context(OP, [("the mask", Some(mask))])?;
        mask.expect_type(OP, "the mask", DType::Bool)?;
        if mask.shape() != self.shape() {
            return Err(mask.shape_error(OP, "the mask", format!("{:?}", self.shape())));
        }
        let held = mask.to_elements::<Bool>()?;
        let places = (0_u32..).zip(&held).filter(|(_, held)| bool::from(**held));
        let places: Vec<u32> = places.map(|(place, _)| place).collect();
        let n = places.len();
        let index = Tensor::from_vec(self.context(), places, &[n])?;
        self.flatten(0, -1)?.index_select(0, &index)
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
        let widths: Vec<(usize, usize)> = sides.map(|(have, want)| (0, want - have)).collect();
        self.pad(&widths, super::join::Padding::Constant(0.0))
    }
}

impl Tensor {
    /// Computes the largest element along a dimension and its place, the first of equal ones: the
    /// values and u32 places of `torch.max(x, dim)`. The gradient goes to that place.
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    pub fn max_dim(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.at_place(dim, keepdim, self.argmax(Some(dim), true)?)
    }

    /// Computes the smallest element along a dimension and its place, as `torch.min(x, dim)`; see
    /// [`Tensor::max_dim`].
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    pub fn min_dim(&self, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.at_place(dim, keepdim, self.argmin(Some(dim), true)?)
    }

    fn at_place(&self, dim: isize, keepdim: bool, places: Tensor) -> Result<(Tensor, Tensor)> {
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
    pub fn sort(&self, dim: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let places = self.argsort(dim, descending)?;
        Ok((self.gather(dim, &places)?, places))
    }

    /// Computes the places of the sorted elements along a dimension, as `torch.argsort(stable=True)`.
    ///
    /// # Errors
    /// As [`Tensor::sort`].
    pub fn argsort(&self, dim: isize, descending: bool) -> Result<Tensor> {
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
    pub fn topk(&self, k: usize, dim: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        let axis = axis_of("topk", dim, self.rank())?;
        let mut shape = self.shape().to_vec();
        shape[axis] = k;
        let (ctx, n) = (self.context(), shape.iter().product());
        let values = ctx.alloc_typed(self.dtype(), n)?;
        let places = ctx.alloc_typed(DType::U32, n)?;
        hlx_kernels::sort::topk(ctx, self.operand(), k, axis, largest, &values, &places)?;
        let places = Tensor::from_buffer(ctx, places, &shape)?;
        match self.requires_grad() {
            true => Ok((self.gather(dim, &places)?, places)),
            false => Ok((Tensor::from_buffer(ctx, values, &shape)?, places)),
        }
    }

    /// Computes the running sums along a dimension, as `torch.cumsum`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist.
    pub fn cumsum(&self, dim: isize) -> Result<Tensor> {
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

    /// Computes the running products along a dimension, as `torch.cumprod`. The gradient divides by
    /// the factors: a factor of 0 gives NaN.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist.
    pub fn cumprod(&self, dim: isize) -> Result<Tensor> {
        let axis = axis_of("cumprod", dim, self.rank())?;
        let ctx = self.context();
        let out = ctx.alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::scan::cumprod(ctx, self.operand(), axis, &out)?;
        let (place, x, dims) = (self.input(), self.clone(), [axis as isize]);
        let output = (out, self.shape());
        let products = Tensor::of_output_rule("cumprod", &[self], output, move |pass, dy, y| {
            let terms = dy.mul(y.unwrap_or(dy))?;
            let sums = terms.flip(&dims)?.cumsum(dims[0])?.flip(&dims)?;
            pass.add_tensor(&place, &sums.div(&x)?)
        })?;
        Ok(products.with_samples_of(self.samples().unless_along(axis)))
    }

    /// The matrices with zeros above a diagonal, as `torch.tril`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] for fewer than two dimensions.
    pub fn tril(&self, diagonal: isize) -> Result<Tensor> {
        self.banded("tril", (None, Some(diagonal as i64)))
    }

    /// The matrices with zeros below a diagonal, as `torch.triu`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] for fewer than two dimensions.
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
