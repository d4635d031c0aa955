//! Indexing by tensors: gather, scatter and their like, and by masks.
//!
//! Index tensors are i32 or u32. An index out of range is found on the device and is the error of the
//! next call that waits for it ([`CoreError::Fault`](hlx_core::CoreError::Fault)); the element reads as
//! 0 or is not written. Where several indices choose one element, `scatter` writes the last one in
//! row-major order, and additions follow that order.

mod items;

use hlx_core::{Buffer, Device};
use hlx_kernels::{KernelError, Layout, Operand, indexing};

use super::movement::axis_of;
use crate::{AutogradError, DType, Result, Tensor};

pub use items::Index;
use items::multiples;

/// A kernel that writes or adds by index: device, target, its shape, axis, index, source, flag.
type Writer = fn(
    &Device,
    &Buffer,
    &[usize],
    usize,
    Operand<'_>,
    Operand<'_>,
    Option<&Buffer>,
) -> Result<(), KernelError>;

pub(super) fn check_index(op: &'static str, index: &Tensor) -> Result<()> {
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
        x: "let index = Tensor::from_slice(&device, &[2_i32, 0], &[2, 1])?;",
        "assert_eq!(x.gather(1, &index)?.to_vec::<f32>()?, [3.0, 4.0]);"
    )]
    pub fn gather(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        const OP: &str = "gather";
        // An index of no places may be of any integers, as in PyTorch.
        if index.n_elements() == 0 && matches!(index.dtype(), DType::I8 | DType::U8) {
            return self.gather(dim, &index.to_dtype(DType::U32)?);
        }
        check_index(OP, index)?;
        self.same_device(OP, [("the index", Some(index))])?;
        if self.rank() == 0 {
            let places = index.flatten(0, -1)?;
            return self
                .unsqueeze(0)?
                .gather(dim, &places)?
                .reshape(index.shape());
        }
        let axis = axis_of(OP, dim, self.rank())?;
        let device = self.device();
        let out = device.alloc_typed(self.dtype(), index.n_elements())?;
        let flag = device.flag(OP)?;
        indexing::gather(
            device,
            self.operand(),
            axis,
            index.operand(),
            &out,
            Some(&flag),
        )?;
        let (x, shape, index) = (self.input(), self.shape().to_vec(), index.detach());
        let places = index.clone();
        let gathered = Tensor::of_rule(OP, &[self], (out, index.shape()), move |pass, dy, _| {
            let dx = Tensor::zeros(dy.device(), &shape, dy.dtype())?;
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
        x: "let index = Tensor::from_slice(&device, &[2_i32, 0], &[2])?;",
        "assert_eq!(x.index_select(1, &index)?.to_vec::<f32>()?, [3.0, 1.0, 6.0, 4.0]);"
    )]
    pub fn index_select(&self, dim: isize, index: &Tensor) -> Result<Tensor> {
        const OP: &str = "index_select";
        check_index(OP, index)?;
        self.same_device(OP, [("the index", Some(index))])?;
        if self.rank() == 0 {
            return self.as_vector(|x| x.index_select(dim, index));
        }
        self.selected(OP, axis_of(OP, dim, self.rank())?, index)
    }

    /// The slices at the places of an index along an axis, by an operation that has checked both.
    pub(super) fn selected(&self, op: &'static str, axis: usize, index: &Tensor) -> Result<Tensor> {
        let mut shape = self.shape().to_vec();
        shape[axis] = index.n_elements();
        let device = self.device();
        let out = device.alloc_typed(self.dtype(), Layout::count(&shape)?)?;
        let flag = device.flag(op)?;
        indexing::index_select(
            device,
            self.operand(),
            axis,
            index.operand(),
            &out,
            Some(&flag),
        )?;
        let (x, from, index) = (self.input(), self.shape().to_vec(), index.detach());
        let chosen = Tensor::of_rule(op, &[self], (out, &shape), move |pass, dy, _| {
            let dx = Tensor::zeros(dy.device(), &from, dy.dtype())?;
            pass.add_tensor(&x, &dx.index_add(axis as isize, &index, dy)?)
        })?;
        Ok(chosen.with_samples_of(self.samples().unless_along(axis)))
    }

    /// The frame of operations that write into a copy by index along an axis: checks the operands,
    /// launches `kernel`, and returns the copy.
    fn written(
        &self,
        op: &'static str,
        axis: usize,
        index: &Tensor,
        source: &Tensor,
        kernel: Writer,
    ) -> Result<Buffer> {
        check_index(op, index)?;
        let others = [("the index", Some(index)), ("the source", Some(source))];
        self.same_device(op, others)?;
        let (device, out) = (self.device(), self.copied()?);
        let (flag, places, from) = (device.flag(op)?, index.operand(), source.operand());
        kernel(device, &out, self.shape(), axis, places, from, Some(&flag))?;
        Ok(out)
    }

    /// The type in which additions by index to elements of 8 and 16 bits are made; `None` for those of
    /// 32 bits, which are added as they are.
    fn summed_type(&self) -> Option<DType> {
        match self.dtype() {
            DType::F16 | DType::BF16 => Some(DType::F32),
            DType::I8 | DType::U8 | DType::Bool => Some(DType::I32),
            DType::F32 | DType::I32 | DType::U32 => None,
        }
    }

    /// Adds a source by index in a wider type, and converts the sums to this tensor's type, once.
    fn added_in(
        &self,
        op: &'static str,
        wide: DType,
        source: &Tensor,
        add: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        self.same_device(op, [("the source", Some(source))])?;
        source.expect_type(op, "the source", self.dtype())?;
        add(&self.to_dtype(wide)?, &source.to_dtype(wide)?)?.to_dtype(self.dtype())
    }

    /// A write into a tensor without dimensions as one into one of one.
    fn written_as_vector(
        &self,
        index: &Tensor,
        source: &Tensor,
        write: impl FnOnce(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (index, source) = (index.flatten(0, -1)?, source.flatten(0, -1)?);
        self.as_vector(|x| write(x, &index, &source))
    }

    /// Returns a copy with `source[i]` written at `i with index[i] in the place of dim`, as
    /// `torch.scatter`. Of several elements for one place the last is written, and it alone has the
    /// place's gradient (PyTorch gives it to all of them).
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_slice(&device, &[2_i32, 0], &[2, 1])?;",
        "let y = x.scatter(1, &index, &Tensor::zeros(&device, &[2, 1], DType::F32)?)?;",
        "assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);"
    )]
    pub fn scatter(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "scatter";
        if self.rank() == 0 {
            return self.written_as_vector(index, source, |x, i, y| x.scatter(dim, i, y));
        }
        self.scattered(OP, axis_of(OP, dim, self.rank())?, index, source)
    }

    /// [`Tensor::scatter`] along an axis, by an operation of another name.
    pub(super) fn scattered(
        &self,
        op: &'static str,
        axis: usize,
        index: &Tensor,
        source: &Tensor,
    ) -> Result<Tensor> {
        let out = self.written(op, axis, index, source, indexing::scatter)?;
        let shape = self.shape();
        let (x, y, index) = (self.input(), source.input(), index.detach());
        let given = source.shape().to_vec();
        let inputs = [self, source];
        let written = Tensor::of_rule(op, &inputs, (out, shape), move |pass, dy, _| {
            let dim = axis as isize;
            let zeros = Tensor::zeros(dy.device(), index.shape(), dy.dtype())?;
            if x.requires_grad() {
                pass.add_tensor(&x, &dy.scatter(dim, &index, &zeros)?)?;
            }
            if y.requires_grad() {
                let taken = dy.gather(dim, &index)?;
                let written = taken.where_(&last_writers(&index, axis, dy.shape())?, 0.0)?;
                pass.add_tensor(&y, &written.grown_to(&given)?)?;
            }
            Ok(())
        })?;
        Ok(written.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Returns a copy with `source[i]` added at `i with index[i] in the place of dim`, in row-major
    /// order of the index, as `torch.scatter_add`. Elements of f16 and bf16 are added in f32, smaller
    /// integers and truth values in i32, and the sums are converted once.
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_slice(&device, &[0_i32, 0, 0, 0, 0, 0], &[2, 3])?;",
        "assert_eq!(x.scatter_add(1, &index, &x)?.to_vec::<f32>()?[0], 1.0 + 6.0);"
    )]
    pub fn scatter_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "scatter_add";
        if self.rank() == 0 {
            return self.written_as_vector(index, source, |x, i, y| x.scatter_add(dim, i, y));
        }
        self.scatter_added(OP, axis_of(OP, dim, self.rank())?, index, source)
    }

    /// [`Tensor::scatter_add`] along an axis, by an operation of another name.
    pub(super) fn scatter_added(
        &self,
        op: &'static str,
        axis: usize,
        index: &Tensor,
        source: &Tensor,
    ) -> Result<Tensor> {
        if let Some(wide) = self.summed_type() {
            return self.added_in(op, wide, source, |x, y| x.scatter_added(op, axis, index, y));
        }
        let out = self.written(op, axis, index, source, indexing::scatter_add)?;
        let shape = self.shape();
        let (x, y, index) = (self.input(), source.input(), index.detach());
        let given = source.shape().to_vec();
        let inputs = [self, source];
        let added = Tensor::of_rule(op, &inputs, (out, shape), move |pass, dy, _| {
            if y.requires_grad() {
                let taken = dy.gather(axis as isize, &index)?;
                pass.add_tensor(&y, &taken.grown_to(&given)?)?;
            }
            pass.add_tensor(&x, dy)
        })?;
        Ok(added.with_samples_of(self.samples().unless_along(axis)))
    }

    /// Returns a copy with the slices of `source` added at the indices along a dimension, in their
    /// order, as `torch.index_add`; types as for [`Tensor::scatter_add`].
    ///
    /// # Errors
    /// As [`Tensor::gather`].
    #[doc = example!(
        x: "let index = Tensor::from_slice(&device, &[0_i32, 0], &[2])?;",
        "assert_eq!(x.index_add(0, &index, &x)?.to_vec::<f32>()?[..3], [6.0, 9.0, 12.0]);"
    )]
    pub fn index_add(&self, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        const OP: &str = "index_add";
        if self.rank() == 0 {
            return self.written_as_vector(index, source, |x, i, y| x.index_add(dim, i, y));
        }
        if let Some(wide) = self.summed_type() {
            return self.added_in(OP, wide, source, |x, y| x.index_add(dim, index, y));
        }
        let axis = axis_of(OP, dim, self.rank())?;
        let out = self.written(OP, axis, index, source, indexing::index_add)?;
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
    #[doc = example!(x: "assert_eq!(x.masked_select(&x.gt(4.0)?)?.to_vec::<f32>()?, [5.0, 6.0]);")]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        const OP: &str = "masked_select";
        self.same_device(OP, [("the mask", Some(mask))])?;
        mask.expect_type(OP, "the mask", DType::Bool)?;
        if self.rounds_gradient() {
            return self.in_f32(|x| x.masked_select(mask));
        }
        let [x, mask] = super::frame::broadcast(OP, [("self", self), ("the mask", mask)])?;
        let places = mask.true_places()?;
        let n = places.len();
        let index = Tensor::from_slice(self.device(), &places, &[n])?;
        x.flatten(0, -1)?.index_select(0, &index)
    }

    /// A copy of the elements in row-major order.
    pub(crate) fn copied(&self) -> Result<Buffer> {
        let out = self.device().alloc_typed(self.dtype(), self.n_elements())?;
        hlx_kernels::elementwise::copy_strided(self.device(), self.operand(), &out)?;
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

/// Whether each index of a write along an axis of `shape` was the last one of its place.
fn last_writers(index: &Tensor, axis: usize, shape: &[usize]) -> Result<Tensor> {
    let numbers = multiples(index, index.n_elements(), 1)?.reshape(index.shape())?;
    let dim = axis as isize;
    let written = Tensor::zeros(index.device(), shape, DType::U32)?;
    let winners = written.scatter(dim, index, &numbers)?;
    winners.gather(dim, index)?.eq(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, ids, input};

    fn of(values: &[f32], shape: &[usize]) -> Tensor {
        let device = hlx_core::testing::devices()[0].clone();
        Tensor::from_slice(&device, values, shape).expect("uploads")
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
    }

    #[test]
    fn an_element_that_was_written_over_has_no_gradient() -> Result<()> {
        let (x, y) = (
            of(&[0.0; 3], &[3]),
            of(&[1.0, 2.0, 3.0, 4.0], &[4]).with_gradient(),
        );
        let index = Tensor::from_slice(x.device(), &[2_i32, 0, 2, 2], &[4])?;
        let written = x.scatter(0, &index, &y)?;
        assert_eq!(written.to_vec::<f32>()?, [2.0, 0.0, 4.0]);
        written
            .mul(of(&[10.0, 20.0, 30.0], &[3]))?
            .sum()?
            .backward()?;
        assert_eq!(
            y.grad().expect("one").to_vec::<f32>()?,
            [0.0, 10.0, 0.0, 30.0]
        );
        Ok(())
    }

    #[test]
    fn an_index_out_of_range_is_the_error_of_the_next_wait() -> Result<()> {
        for device in hlx_core::testing::own_devices() {
            let x = Tensor::from_slice(&device, &[1.0, 2.0], &[2])?;
            let index = Tensor::from_slice(&device, &[0_i32, -1, 7], &[3])?;
            let taken = x.gather(0, &index)?;
            let error = taken.to_vec::<f32>().expect_err("two bad indices");
            assert_eq!(
                error.to_string(),
                "gather: element 1 of the index is out of range"
            );
            assert_eq!(taken.to_vec::<f32>()?, [1.0, 0.0, 0.0], "reported once");
        }
        Ok(())
    }

    #[test]
    fn a_mask_picks_what_it_holds() -> Result<()> {
        let x = of(&[3.0, f32::NAN, -1.0, 3.0], &[4]);
        assert_eq!(x.masked_select(&x.eq(3.0)?)?.to_vec::<f32>()?, [3.0, 3.0]);
        Ok(())
    }

    /// 256 + 1 is 256 in bf16 (8 bits): each of 8 additions of 1 would be lost.
    #[test]
    fn sums_of_small_types_are_rounded_once() -> Result<()> {
        let index = Tensor::from_slice(of(&[], &[0]).device(), &[0_i32; 8], &[8])?;
        let (start, ones) = (of(&[256.0, 1.0], &[2]), of(&[1.0; 8], &[8]));
        for dtype in [DType::BF16, DType::F16] {
            let [x, y] = [start.to_dtype(dtype)?, ones.to_dtype(dtype)?];
            for sum in [x.scatter_add(0, &index, &y)?, x.index_add(0, &index, &y)?] {
                assert_eq!(sum.dtype(), dtype);
                assert_eq!(sum.to_dtype(DType::F32)?.to_vec::<f32>()?, [264.0, 1.0]);
            }
        }
        let (x, y) = (
            start.to_dtype(DType::I8)?,
            ones.mul(100.0)?.to_dtype(DType::I8)?,
        );
        // 256 is 127 as an i8, and 127 + 800 wraps to -97.
        assert_eq!(x.scatter_add(0, &index, &y)?.to_vec::<i8>()?, [-97, 1]);
        let held = [hlx_core::Bool::from(true); 2];
        let x = start
            .sub(1.0)?
            .gt(1.0)?
            .index_add(0, &index, &ones.gt(0.0)?)?;
        assert_eq!(x.to_vec::<hlx_core::Bool>()?[..1], held[..1]);
        Ok(())
    }
}
