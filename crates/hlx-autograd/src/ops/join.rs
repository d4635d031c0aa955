//! Operations that put elements side by side: concatenation, padding, repetition, rolling.

use hlx_kernels::elementwise::assign_strided;
use hlx_kernels::{Layout, Operand};

use super::frame::promoted;
use super::movement::axis_of;
use crate::graph::tape::no_grad;
use crate::samples::Samples;
use crate::{AutogradError, DType, Result, Tensor};

/// What stands where a padded tensor has no elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding {
    /// This value.
    Constant(f32),
    /// The elements mirrored at the first and the last one.
    Reflect,
    /// The first and the last element.
    Replicate,
}

fn refused(op: &'static str, reason: String) -> AutogradError {
    AutogradError::Argument { op, reason }
}

impl Tensor {
    /// Concatenates tensors along a dimension; types are promoted. As `torch.cat`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for no tensors or shapes that differ in another dimension.
    #[doc = example!(x: "assert_eq!(Tensor::cat(&[&x, &x], 1)?.shape(), [2, 6]);")]
    pub fn cat(tensors: &[&Tensor], dim: isize) -> Result<Tensor> {
        const OP: &str = "cat";
        // PyTorch passes over tensors of shape [0] beside others.
        let is_nothing = |part: &Tensor| part.shape() == [0];
        let mixed = tensors.iter().any(|part| part.rank() != 1);
        let (nothing, joined): (Vec<&Tensor>, Vec<&Tensor>) = tensors
            .iter()
            .copied()
            .partition(|part| mixed && is_nothing(part));
        let tensors = joined.as_slice();
        let [first, others @ ..] = tensors else {
            return Err(refused(OP, "expected at least one tensor".to_owned()));
        };
        let axis = axis_of(OP, dim, first.rank())?;
        let mut shape = first.shape().to_vec();
        let mut dtype = first.dtype();
        for other in others {
            first.same_device(OP, [("a tensor", Some(*other))])?;
            let fits = other.rank() == shape.len()
                && (0..shape.len()).all(|at| at == axis || other.shape()[at] == shape[at]);
            if !fits {
                let (one, two) = (first.shape(), other.shape());
                let reason = format!("shapes {one:?} and {two:?} differ beside dimension {axis}");
                return Err(refused(OP, reason));
            }
            shape[axis] = shape[axis].saturating_add(other.shape()[axis]);
            dtype = promoted(&Tensor::typed_like(first, dtype)?, other);
        }
        let parts = tensors.iter().map(|part| part.to_dtype(dtype));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let device = first.device();
        let whole = Layout::contiguous(&shape)?;
        let out = device.alloc_typed(dtype, whole.n_elements())?;
        let (mut start, mut places) = (0, Vec::with_capacity(parts.len()));
        for part in &parts {
            let end = start + part.shape()[axis];
            let layout = whole.slice(axis, (start, end, 1));
            let layout = layout.map_err(|reason| refused(OP, reason))?;
            let target = Operand {
                buffer: &out,
                layout: &layout,
            };
            assign_strided(device, part.operand(), target)?;
            places.push((part.input(), start, end));
            start = end;
        }
        let inputs: Vec<&Tensor> = parts.iter().chain(nothing.iter().copied()).collect();
        let nothing: Vec<_> = nothing
            .iter()
            .map(|part| (part.input(), part.dtype()))
            .collect();
        let samples = Samples::join(parts.iter().map(Tensor::samples));
        let samples = samples.unless_along(axis);
        let joined = match dtype.is_float() {
            true => Tensor::of_rule(OP, &inputs, (out, &shape), move |pass, dy, _| {
                for (input, start, end) in &places {
                    if input.requires_grad() {
                        pass.add_tensor(input, &dy.narrow(axis as isize, *start, end - start)?)?;
                    }
                }
                for (input, dtype) in &nothing {
                    pass.add_tensor(input, &Tensor::zeros(dy.device(), &[0], *dtype)?)?;
                }
                Ok(())
            })?,
            false => Tensor::from_buffer(device, out, &shape)?,
        };
        Ok(joined.with_samples_of(samples))
    }

    /// An empty tensor of a type beside another one, to promote by.
    fn typed_like(other: &Tensor, dtype: DType) -> Result<Tensor> {
        match other.rank() {
            0 => Tensor::zeros(other.device(), &[], dtype),
            _ => Tensor::zeros(other.device(), &[0], dtype),
        }
    }

    /// Concatenates tensors of one shape along a new dimension, as `torch.stack`.
    ///
    /// # Errors
    /// As [`Tensor::cat`].
    #[doc = example!(x: "assert_eq!(Tensor::stack(&[&x, &x], 0)?.shape(), [2, 2, 3]);")]
    pub fn stack(tensors: &[&Tensor], dim: isize) -> Result<Tensor> {
        let parts: Vec<Tensor> = tensors
            .iter()
            .map(|part| part.unsqueeze(dim))
            .collect::<Result<_>>()?;
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), dim)
    }

    /// Pads dimensions: `widths` are the elements before and after, of the last dimension first, as
    /// `torch.nn.functional.pad` has them; negative ones cut elements off.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for more widths than dimensions, a reflection of as many elements
    /// as there are, a replication of none, or more elements cut off than there are.
    #[doc = example!(
        x: "let y = x.pad(&[(1, 0)], Padding::Constant(9.0))?;",
        "assert_eq!(y.to_vec::<f32>()?, [9.0, 1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0]);"
    )]
    pub fn pad(&self, widths: &[(isize, isize)], padding: Padding) -> Result<Tensor> {
        const OP: &str = "pad";
        if widths.len() > self.rank() {
            let reason = format!("{} widths, expected at most {}", widths.len(), self.rank());
            return Err(refused(OP, reason));
        }
        if self.rounds_gradient() {
            return self.in_f32(|x| x.pad(widths, padding));
        }
        let mut padded = self.clone();
        for (&(before, after), axis) in widths.iter().zip((0..self.rank()).rev()) {
            let more = (before.max(0).unsigned_abs(), after.max(0).unsigned_abs());
            if more != (0, 0) {
                padded = padded.padded(axis, more.0, more.1, padding)?;
            }
            padded = padded.cut(
                axis,
                before.min(0).unsigned_abs(),
                after.min(0).unsigned_abs(),
            )?;
        }
        Ok(padded)
    }

    /// Without the first and the last elements along an axis.
    fn cut(&self, axis: usize, before: usize, after: usize) -> Result<Tensor> {
        if (before, after) == (0, 0) {
            return Ok(self.clone());
        }
        let extent = self.shape()[axis];
        let cut = before.saturating_add(after);
        match extent.checked_sub(cut) {
            Some(left) => self.narrow(axis as isize, before, left),
            None => Err(refused(
                "pad",
                format!("{cut} elements off dimension {axis} of {extent}"),
            )),
        }
    }

    fn padded(&self, axis: usize, before: usize, after: usize, padding: Padding) -> Result<Tensor> {
        let (dim, extent) = (axis as isize, self.shape()[axis]);
        let side = |width: usize, at_end: bool| -> Result<Tensor> {
            let mut shape = self.shape().to_vec();
            shape[axis] = width;
            match padding {
                Padding::Constant(value) => {
                    Tensor::full(self.device(), &shape, value, self.dtype())
                }
                Padding::Replicate if extent > 0 => {
                    let edge = if at_end { extent - 1 } else { 0 };
                    self.narrow(dim, edge, 1)?.expand(&shape)
                }
                Padding::Reflect if width < extent => {
                    let start = if at_end { extent - 1 - width } else { 1 };
                    self.narrow(dim, start, width)?.flip(&[dim])
                }
                _ => Err(refused(
                    "pad",
                    format!("{width} elements beside dimension {axis} of {extent}"),
                )),
            }
        };
        let mut parts = Vec::with_capacity(3);
        if before > 0 {
            parts.push(side(before, false)?);
        }
        parts.push(self.clone());
        if after > 0 {
            parts.push(side(after, true)?);
        }
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), dim)
    }

    /// Moves the elements along dimensions by shifts, those past the end to the front, as `torch.roll`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist or the lists differ in length.
    #[doc = example!(
        x: "assert_eq!(x.roll(&[1], &[1])?.to_vec::<f32>()?, [3.0, 1.0, 2.0, 6.0, 4.0, 5.0]);"
    )]
    pub fn roll(&self, shifts: &[isize], dims: &[isize]) -> Result<Tensor> {
        if shifts.len() != dims.len() {
            let reason = format!("{} shifts of {} dimensions", shifts.len(), dims.len());
            return Err(refused("roll", reason));
        }
        let mut rolled = self.clone();
        for (&shift, &dim) in shifts.iter().zip(dims) {
            let axis = axis_of("roll", dim, self.rank())?;
            let extent = self.shape()[axis];
            if extent == 0 {
                continue;
            }
            let forward = shift.unsigned_abs() % extent;
            let shift = if shift < 0 && forward > 0 {
                extent - forward
            } else {
                forward
            };
            let end = rolled.narrow(dim, extent - shift, shift)?;
            let start = rolled.narrow(dim, 0, extent - shift)?;
            rolled = Tensor::cat(&[&end, &start], dim)?;
        }
        Ok(rolled)
    }

    /// Repeats the tensor along its dimensions, of which missing leading ones are added, as
    /// `torch.Tensor.repeat`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for fewer counts than dimensions, too many dimensions, or more elements
    /// than memory has addresses.
    #[doc = example!(x: "assert_eq!(x.repeat(&[2, 2])?.shape(), [4, 6]);")]
    pub fn repeat(&self, counts: &[usize]) -> Result<Tensor> {
        let Some(added) = counts.len().checked_sub(self.rank()) else {
            let reason = format!("{} counts, expected at least {}", counts.len(), self.rank());
            return Err(refused("repeat", reason));
        };
        if self.rounds_gradient() {
            return self.in_f32(|x| x.repeat(counts));
        }
        let shape = [&vec![1; added], self.shape()].concat();
        let extents = shape.iter().zip(counts);
        let whole: Vec<usize> = extents
            .map(|(&n, &count)| n.saturating_mul(count))
            .collect();
        Layout::contiguous(&whole).map_err(|error| refused("repeat", error.to_string()))?;
        let mut repeated = self.reshape(&shape)?;
        for (axis, &count) in counts.iter().enumerate().filter(|&(_, &count)| count != 1) {
            repeated = match count {
                0 => repeated.narrow(axis as isize, 0, 0)?,
                _ => repeated.repeated(axis, count)?,
            };
        }
        Ok(repeated)
    }

    /// Repeats the tensor along one axis by one strided copy. A gradient is the sum over the repetitions, one
    /// after the other.
    fn repeated(&self, axis: usize, count: usize) -> Result<Tensor> {
        let outer = self.shape()[..axis].iter().product();
        let inner = self.shape()[axis..].iter().product();
        let mut shape = self.shape().to_vec();
        shape[axis] *= count;
        let (flat, apart) = ([outer, 1, inner], [outer, count, inner]);
        let copies = no_grad(|| self.reshape(&flat)?.expand(&apart)?.reshape(&shape))?;
        let samples = self.samples().unless_along(axis);
        if !self.dtype().is_float() {
            return Ok(copies.with_samples_of(samples));
        }
        let (place, from) = (self.input(), self.shape().to_vec());
        let output = (copies.buffer()?, &shape[..]);
        let copies = Tensor::of_rule("repeat", &[self], output, move |pass, dy, _| {
            let sums = dy.reshape(&apart)?.cumsum(1)?.narrow(1, count - 1, 1)?;
            pass.add_tensor(&place, &sums.reshape(&from)?)
        })?;
        Ok(copies.with_samples_of(samples))
    }

    /// Repeats each element `count` times along a dimension, as `torch.repeat_interleave`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist.
    #[doc = example!(x: "assert_eq!(x.repeat_interleave(2, 0)?.shape(), [4, 3]);")]
    pub fn repeat_interleave(&self, count: usize, dim: isize) -> Result<Tensor> {
        let axis = axis_of("repeat_interleave", dim, self.rank())?;
        let mut shape = self.shape().to_vec();
        let mut apart = shape.clone();
        apart.insert(axis + 1, count);
        shape[axis] = shape[axis].saturating_mul(count);
        self.unsqueeze(axis as isize + 1)?
            .expand(&apart)?
            .reshape(&shape)
    }

    /// Repeats each element along a dimension as often as `repeats` says, i32 or u32 of one element for
    /// all or one for each, as `torch.repeat_interleave` of a tensor. How many there are is in the data:
    /// the host waits for it, and this cannot be recorded.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist or a number is negative,
    /// [`AutogradError::Shape`] and [`AutogradError::DType`] for other repeats.
    #[doc = example!(
        x: "let repeats = Tensor::from_slice(&device, &[2_i32, 0, 1], &[3])?;",
        "assert_eq!(x.repeat_interleave_by(&repeats, 1)?.to_vec::<f32>()?, [1.0, 1.0, 3.0, 4.0, 4.0, 6.0]);"
    )]
    pub fn repeat_interleave_by(&self, repeats: &Tensor, dim: isize) -> Result<Tensor> {
        const OP: &str = "repeat_interleave";
        self.same_device(OP, [("repeats", Some(repeats))])?;
        if repeats.dtype() != DType::U32 {
            repeats.expect_type(OP, "repeats", DType::I32)?;
        }
        if self.rank() == 0 {
            return self.unsqueeze(0)?.repeat_interleave_by(repeats, dim);
        }
        let axis = axis_of(OP, dim, self.rank())?;
        let extent = self.shape()[axis];
        if repeats.rank() > 1 || (repeats.n_elements() != extent && repeats.n_elements() != 1) {
            return Err(repeats.shape_error(OP, "repeats", format!("[{extent}] or [1]")));
        }
        let counts = repeats
            .expand(&[extent])?
            .to_dtype(DType::I32)?
            .to_vec::<i32>()?;
        let places = repeated_places(&counts)?;
        let n = places.len();
        let places = Tensor::from_slice(self.device(), &places, &[n])?;
        self.selected(OP, axis, &places)
    }
}

/// Each place as often as its count says.
fn repeated_places(counts: &[i32]) -> Result<Vec<u32>> {
    const OP: &str = "repeat_interleave";
    if let Some(count) = counts.iter().find(|&&count| count < 0) {
        let reason = format!("an element is repeated {count} times, expected 0 or more");
        return Err(refused(OP, reason));
    }
    let total: u64 = counts
        .iter()
        .map(|count| u64::from(count.unsigned_abs()))
        .sum();
    let mut places = Vec::new();
    let room = usize::try_from(total)
        .ok()
        .filter(|_| u32::try_from(total).is_ok());
    if room.is_none_or(|n| places.try_reserve_exact(n).is_err()) {
        let reason = format!("the repetitions are {total} in all, more than there is memory for");
        return Err(refused(OP, reason));
    }
    for (place, &count) in (0_u32..).zip(counts) {
        places.resize(places.len() + count.unsigned_abs() as usize, place);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    fn counted(n: usize) -> Tensor {
        let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let device = hlx_core::testing::devices()[0].clone();
        Tensor::from_slice(&device, &values, &[n]).expect("uploads")
    }

    #[test]
    fn elements_are_where_pytorch_has_them() -> Result<()> {
        let x = counted(3);
        let padded = |padding| x.pad(&[(2, 1)], padding)?.to_vec::<f32>();
        assert_eq!(
            padded(Padding::Constant(9.0))?,
            [9.0, 9.0, 0.0, 1.0, 2.0, 9.0]
        );
        assert_eq!(padded(Padding::Reflect)?, [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]);
        assert_eq!(padded(Padding::Replicate)?, [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
        assert_eq!(x.roll(&[1], &[0])?.to_vec::<f32>()?, [2.0, 0.0, 1.0]);
        assert_eq!(x.repeat(&[2, 1])?.shape(), [2, 3]);
        assert_eq!(
            x.repeat_interleave(2, 0)?.to_vec::<f32>()?,
            [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
        );
        let stacked = Tensor::stack(&[&x, &x], 1)?;
        assert_eq!(stacked.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        let bytes = x.to_dtype(DType::U8)?;
        let joined = Tensor::cat(&[&bytes, &bytes.narrow(0, 1, 2)?], 0)?;
        assert_eq!(
            (joined.dtype(), joined.to_vec::<u8>()?),
            (DType::U8, vec![0, 1, 2, 1, 2])
        );
        Ok(())
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[2, 3]), input(2, &[2, 2])];
        check("cat", &x, |x| Tensor::cat(&[&x[0], &x[1], &x[0]], 1));
        check("pad", &x[..1], |x| {
            x[0].pad(&[(2, 1), (0, 1)], Padding::Reflect)
        });
        check("pad", &x[..1], |x| {
            x[0].pad(&[(1, 2)], Padding::Replicate)?.gelu()
        });
        check("roll", &x[..1], |x| {
            x[0].roll(&[2, -1], &[0, 1])?.mul(&x[0])
        });
        check("repeat", &x[..1], |x| x[0].repeat(&[2, 1, 3]));
    }

    #[test]
    fn unfitting_parts_are_refused() {
        let text = message(Tensor::cat(&[&input(1, &[2, 3]), &input(2, &[3, 2])], 1));
        assert_eq!(
            text,
            "cat: shapes [2, 3] and [3, 2] differ beside dimension 1"
        );
        let text = message(input(1, &[2]).pad(&[(2, 0)], Padding::Reflect));
        assert_eq!(text, "pad: 2 elements beside dimension 0 of 2");
    }
}
