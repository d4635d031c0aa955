//! Movements: other shapes, orders and parts over the same memory. Nothing is copied.
//!
//! Their derivatives are movements too: for a permutation its inverse, for a slice the gradient within
//! zeros, of an expansion a sum. A dimension may be counted from the end: -1 is the last.

use hlx_core::sizes;
use hlx_kernels::Layout;
use hlx_kernels::Operand;
use hlx_kernels::elementwise::{assign_strided, copy_strided};

use crate::extent::{Extent, extents, of_elements};
use crate::graph::tape::Rule;
use crate::samples::Samples;
use crate::{AutogradError, Backward, DType, Result, Tensor};

/// A movement that picks elements, each at most once.
#[derive(Clone, Debug)]
enum Pick {
    Slice(usize, (usize, usize, usize)),
    Diagonal(isize, usize, usize),
}

impl Pick {
    fn of(&self, layout: &Layout) -> Result<Layout, String> {
        match *self {
            Self::Slice(axis, range) => layout.slice(axis, range),
            Self::Diagonal(distance, first, second) => layout.diagonal(distance, first, second),
        }
    }

    fn samples(&self, x: &Tensor) -> Samples {
        x.samples().moved(|axis| match *self {
            Self::Slice(sliced, range) => {
                (sliced != axis || range == (0, x.shape()[axis], 1)).then_some(axis)
            }
            Self::Diagonal(_, first, second) if axis != first && axis != second => {
                Some(axis - usize::from(first < axis) - usize::from(second < axis))
            }
            Self::Diagonal(..) => None,
        })
    }
}

/// The index of a dimension that may be counted from the end.
pub(crate) fn axis_of(op: &'static str, dim: isize, rank: usize) -> Result<usize> {
    let axis = if dim < 0 { dim + rank as isize } else { dim };
    match usize::try_from(axis) {
        Ok(axis) if axis < rank => Ok(axis),
        _ => Err(AutogradError::OutOfRange {
            op,
            reason: format!("dimension {dim} is out of range for a tensor of {rank}"),
        }),
    }
}

/// The error of a movement, with its operation.
fn moved(op: &'static str, layout: Result<Layout, String>) -> Result<Layout> {
    layout.map_err(|reason| AutogradError::Argument { op, reason })
}

impl Tensor {
    /// A view with a derivative made of operations.
    fn moved_to(
        &self,
        op: &'static str,
        layout: Layout,
        samples: Samples,
        rule: impl Fn(&mut Backward<'_>, &Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        let output = (layout.shape(), layout.n_elements());
        let input = Tensor::place(op, &[self], output, || Rule::of(rule))?;
        Ok(self.with_layout(layout, samples, input))
    }

    /// Views the elements in another shape, in the same row-major order; where strides cannot say it,
    /// they are copied. One extent may be -1: it is what the others leave. As `torch.reshape`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the shape has another number of elements, or more than one extent is -1.
    #[doc = example!(x: "assert_eq!(x.reshape(&[3, 2])?.to_vec::<f32>()?, x.to_vec::<f32>()?);")]
    pub fn reshape<E: Extent>(&self, shape: &[E]) -> Result<Tensor> {
        let shape = of_elements("reshape", shape, self.n_elements())?;
        self.shaped("reshape", &shape, true)
    }

    /// As [`Tensor::reshape`], and never copies, as `torch.Tensor.view`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] also where strides cannot say it.
    #[doc = example!(
        x: "assert_eq!(x.view(&[6])?.shape(), [6]);",
        "assert!(x.transpose(0, 1)?.view(&[6]).is_err());"
    )]
    pub fn view<E: Extent>(&self, shape: &[E]) -> Result<Tensor> {
        let shape = of_elements("view", shape, self.n_elements())?;
        self.shaped("view", &shape, false)
    }

    fn shaped(&self, op: &'static str, shape: &[usize], copies: bool) -> Result<Tensor> {
        let layout = self.layout().reshape(shape);
        let layout = layout.map_err(|reason| AutogradError::Argument { op, reason })?;
        let samples = self.samples().reshaped(self.shape(), shape);
        let (x, from) = (self.input(), self.shape().to_vec());
        let rule = move |pass: &mut Backward<'_>, dy: &Tensor| {
            let dx = dy.reshape(&from)?;
            pass.add_tensor(&x, &dx)
        };
        match layout {
            Some(layout) => self.moved_to(op, layout, samples, rule),
            None if copies => self.contiguous()?.shaped(op, shape, false),
            None => Err(AutogradError::Argument {
                op,
                reason: format!(
                    "the elements of {} are no view of shape {shape:?}; reshape copies them",
                    self.layout()
                ),
            }),
        }
    }

    /// The tensor itself if its elements lie in row-major order, else a copy in which they do, as
    /// `torch.Tensor.contiguous`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        x: "let transposed = x.transpose(0, 1)?;",
        "assert!(!transposed.layout().is_contiguous() && transposed.contiguous()?.layout().is_contiguous());"
    )]
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.layout().is_contiguous() {
            return Ok(self.clone());
        }
        let out = self.device().alloc_typed(self.dtype(), self.n_elements())?;
        copy_strided(self.device(), self.operand(), &out)?;
        let x = self.input();
        Tensor::of_rule(
            "contiguous",
            &[self],
            (out, self.shape()),
            move |pass, dy, _| pass.add_tensor(&x, dy),
        )
    }

    /// Views the dimensions in another order: dimension `i` of the result is `order[i]` of this. As
    /// `torch.permute`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if `order` is no permutation.
    #[doc = example!(x: "assert_eq!(x.permute(&[1, 0])?.shape(), [3, 2]);")]
    pub fn permute(&self, order: &[isize]) -> Result<Tensor> {
        const OP: &str = "permute";
        let order: Vec<usize> = order
            .iter()
            .map(|&dim| axis_of(OP, dim, self.rank()))
            .collect::<Result<_>>()?;
        let layout = moved(OP, self.layout().permute(&order))?;
        let samples = self.samples();
        let samples = samples.moved(|axis| order.iter().position(|&from| from == axis));
        let mut inverse = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            inverse[from] = to as isize;
        }
        let x = self.input();
        self.moved_to(OP, layout, samples, move |pass, dy| {
            pass.add_tensor(&x, &dy.permute(&inverse)?)
        })
    }

    /// Views two dimensions swapped, as `torch.transpose`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist.
    #[doc = example!(
        x: "assert_eq!(x.transpose(0, 1)?.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);"
    )]
    pub fn transpose(&self, first: isize, second: isize) -> Result<Tensor> {
        if self.rank() == 0 && [first, second].iter().all(|dim| matches!(dim, 0 | -1)) {
            return Ok(self.clone());
        }
        let first = axis_of("transpose", first, self.rank())?;
        let second = axis_of("transpose", second, self.rank())?;
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        order.swap(first, second);
        self.permute(&order)
    }

    /// Views the tensor expanded to a shape: dimensions of extent 1, and missing leading ones,
    /// repeat; -1 keeps an extent. As `torch.Tensor.expand`. The gradient is the sum over what repeats.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if an extent is neither 1 nor the shape's.
    #[doc = example!(x: "assert_eq!(x.expand(&[4, 2, 3])?.shape(), [4, 2, 3]);")]
    pub fn expand<E: Extent>(&self, shape: &[E]) -> Result<Tensor> {
        let n_new = shape.len().saturating_sub(self.rank());
        let shape = &extents("expand", shape, |place| {
            let axis = place.checked_sub(n_new);
            let extent = axis.and_then(|axis| self.shape().get(axis));
            let reason = || format!("-1 stands for no dimension of {:?}", self.shape());
            extent.copied().ok_or_else(reason)
        })?;
        let samples = self
            .samples()
            .broadcast(self.rank(), shape.len().max(self.rank()));
        self.expand_with("expand", shape, samples)
    }

    /// As [`Tensor::expand`], for an operand of an operation whose samples lie as given.
    pub(crate) fn expand_with(
        &self,
        op: &'static str,
        shape: &[usize],
        samples: Samples,
    ) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        let layout = moved(op, self.layout().expand(shape))?;
        let summed = self.summed_in_f32(op)?;
        let (x, from) = (summed.input(), self.shape().to_vec());
        summed.moved_to(op, layout, samples, move |pass, dy| {
            pass.add_expanded(&x, &from, &dy.to_dtype(DType::F32)?, samples)
        })
    }

    /// This tensor for an operation that moves it and whose derivative adds: of 16-bit elements at a
    /// place of its own on the tape, which takes contributions in f32 and rounds their sum once.
    fn summed_in_f32(&self, op: &'static str) -> Result<Tensor> {
        if !self.rounds_gradient() {
            return Ok(self.clone());
        }
        let (x, dtype) = (self.input(), self.dtype());
        let rule =
            move |pass: &mut Backward<'_>, dy: &Tensor| pass.add_tensor(&x, &dy.to_dtype(dtype)?);
        let output = (self.shape(), self.n_elements());
        let place = Tensor::place(op, &[self], output, || Rule::of(rule))?;
        Ok(self.at(place))
    }

    /// Views the tensor with a dimension of extent 1 in front of `dim`, as `torch.unsqueeze`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if there is no such place.
    #[doc = example!(x: "assert_eq!(x.unsqueeze(1)?.shape(), [2, 1, 3]);")]
    pub fn unsqueeze(&self, dim: isize) -> Result<Tensor> {
        let axis = axis_of("unsqueeze", dim, self.rank() + 1)?;
        let mut shape = self.shape().to_vec();
        shape.insert(axis, 1);
        let moved = self.shaped("unsqueeze", &shape, true)?;
        Ok(moved.with_samples_of(
            self.samples()
                .moved(|at| Some(at + usize::from(at >= axis))),
        ))
    }

    /// Views the tensor without a dimension of extent 1; one of another extent stays. As
    /// `torch.squeeze`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if there is no such dimension.
    #[doc = example!(x: "assert_eq!(x.unsqueeze(1)?.squeeze(1)?.shape(), [2, 3]);")]
    pub fn squeeze(&self, dim: isize) -> Result<Tensor> {
        let axis = axis_of("squeeze", dim, self.rank())?;
        if self.shape()[axis] != 1 {
            return Ok(self.clone());
        }
        let mut shape = self.shape().to_vec();
        shape.remove(axis);
        self.shaped("squeeze", &shape, true)
    }

    /// Views dimensions `first` to `last` (included) as one, as `torch.flatten`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist or they are out of order.
    #[doc = example!(x: "assert_eq!(x.flatten(0, -1)?.shape(), [6]);")]
    pub fn flatten(&self, first: isize, last: isize) -> Result<Tensor> {
        const OP: &str = "flatten";
        if self.rank() == 0 {
            return self.shaped(OP, &[1], true);
        }
        let (first, last) = (
            axis_of(OP, first, self.rank())?,
            axis_of(OP, last, self.rank())?,
        );
        if first > last {
            return Err(AutogradError::Argument {
                op: OP,
                reason: format!("dimensions {first} to {last} are out of order"),
            });
        }
        let mut shape = self.shape().to_vec();
        let joint: Vec<usize> = shape.splice(first..=last, [0]).collect();
        shape[first] = joint.iter().product();
        self.shaped(OP, &shape, true)
    }

    /// Views a dimension as several of these sizes, one of which may be -1, as `torch.unflatten`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if there is no such dimension, or the sizes are of another number of elements.
    #[doc = example!(x: "assert_eq!(x.flatten(0, -1)?.unflatten(0, &[3, -1])?.shape(), [3, 2]);")]
    pub fn unflatten<E: Extent>(&self, dim: isize, shape: &[E]) -> Result<Tensor> {
        const OP: &str = "unflatten";
        let axis = axis_of(OP, dim, self.rank())?;
        let extent = self.shape()[axis];
        let shape = of_elements(OP, shape, extent)?;
        let n = sizes::checked_product(shape.iter().copied());
        if n != Some(extent) {
            let n = n.map_or("too many".to_owned(), |n| n.to_string());
            let reason = format!("sizes {shape:?} are {n} elements, dimension {axis} has {extent}");
            return Err(AutogradError::Argument { op: OP, reason });
        }
        let mut all = self.shape().to_vec();
        all.splice(axis..=axis, shape);
        self.shaped(OP, &all, true)
    }

    /// Views the elements `start, start + step, ...` below `end` along a dimension, as Python's
    /// `x[start:end:step]`; `end` may be past the dimension.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist, the range is out of order, or the
    /// step is 0.
    #[doc = example!(x: "assert_eq!(x.slice(1, 0..3, 2)?.to_vec::<f32>()?, [1.0, 3.0, 4.0, 6.0]);")]
    pub fn slice(&self, dim: isize, range: std::ops::Range<usize>, step: usize) -> Result<Tensor> {
        let axis = axis_of("slice", dim, self.rank())?;
        let extent = self.shape()[axis];
        let (start, end) = (range.start.min(extent), range.end.min(extent));
        self.pick("slice", Pick::Slice(axis, (start, end.max(start), step)))
    }

    /// Views `length` elements from `start` on along a dimension, as `torch.narrow`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if they do not lie in the dimension.
    #[doc = example!(x: "assert_eq!(x.narrow(1, 1, 2)?.to_vec::<f32>()?, [2.0, 3.0, 5.0, 6.0]);")]
    pub fn narrow(&self, dim: isize, start: usize, length: usize) -> Result<Tensor> {
        let axis = axis_of("narrow", dim, self.rank())?;
        let end = start.saturating_add(length);
        self.pick("narrow", Pick::Slice(axis, (start, end, 1)))
    }

    /// Views one index of a dimension, which is dropped, as `torch.select`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the index is out of range.
    #[doc = example!(x: "assert_eq!(x.select(0, 1)?.to_vec::<f32>()?, [4.0, 5.0, 6.0]);")]
    pub fn select(&self, dim: isize, index: usize) -> Result<Tensor> {
        let axis = axis_of("select", dim, self.rank())?;
        let one = self.pick(
            "select",
            Pick::Slice(axis, (index, index.saturating_add(1), 1)),
        )?;
        let mut shape = one.shape().to_vec();
        shape.remove(axis);
        one.shaped("select", &shape, true)
    }

    /// Views the diagonal of two dimensions as a new last one, as `torch.diagonal`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist or both are one.
    #[doc = example!(x: "assert_eq!(x.diagonal(0, 0, 1)?.to_vec::<f32>()?, [1.0, 5.0]);")]
    pub fn diagonal(&self, distance: isize, first: isize, second: isize) -> Result<Tensor> {
        let first = axis_of("diagonal", first, self.rank())?;
        let second = axis_of("diagonal", second, self.rank())?;
        self.pick("diagonal", Pick::Diagonal(distance, first, second))
    }

    /// Views dimensions in reverse order, as `torch.flip`, which copies.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist.
    #[doc = example!(x: "assert_eq!(x.flip(&[1])?.to_vec::<f32>()?, [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);")]
    pub fn flip(&self, dims: &[isize]) -> Result<Tensor> {
        let mut layout = self.layout().clone();
        let mut samples = self.samples();
        for &dim in dims {
            let axis = axis_of("flip", dim, self.rank())?;
            layout = moved("flip", layout.flip(axis))?;
            samples = samples.unless_along(axis);
        }
        let (x, dims) = (self.input(), dims.to_vec());
        self.moved_to("flip", layout, samples, move |pass, dy| {
            pass.add_tensor(&x, &dy.flip(&dims)?)
        })
    }

    /// Views all windows of `size` elements, `step` apart, along a dimension: it becomes their
    /// number, and their elements are a new last dimension. As `torch.Tensor.unfold`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist or is shorter, or the step is 0.
    #[doc = example!(
        x: "let windows = x.unfold(1, 2, 1)?;",
        "assert_eq!((windows.shape(), windows.to_vec::<f32>()?[..4].to_vec()), (&[2, 2, 2][..], vec![1.0, 2.0, 2.0, 3.0]));"
    )]
    pub fn unfold(&self, dim: isize, size: usize, step: usize) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.as_vector(|x| x.unfold(dim, size, step));
        }
        let axis = axis_of("unfold", dim, self.rank())?;
        let layout = moved("unfold", self.layout().unfold(axis, size, step))?;
        let samples = self.samples().unless_along(axis);
        let summed = self.summed_in_f32("unfold")?;
        let (x, from) = (summed.input(), self.shape().to_vec());
        summed.moved_to("unfold", layout, samples, move |pass, dy| {
            let (dy, windows) = (dy.to_dtype(DType::F32)?, dy.shape()[axis]);
            for place in 0..size {
                let end = place + (windows - 1) * step + 1;
                let pick = Pick::Slice(axis, (place, end, step));
                pass.add_tensor(&x, &dy.select(-1, place)?.within_zeros(pick, &from)?)?;
            }
            Ok(())
        })
    }

    /// Splits a dimension into parts of `size`, the last of which may be smaller. As `torch.split`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist or the size is 0.
    #[doc = example!(
        x: "let parts = x.split(2, 1)?;",
        "assert_eq!((parts[0].shape(), parts[1].shape()), (&[2, 2][..], &[2, 1][..]));"
    )]
    pub fn split(&self, size: usize, dim: isize) -> Result<Vec<Tensor>> {
        let axis = axis_of("split", dim, self.rank())?;
        if size == 0 {
            return Err(AutogradError::Argument {
                op: "split",
                reason: "the size is 0, expected at least 1".to_owned(),
            });
        }
        let extent = self.shape()[axis];
        let part = |start: usize| {
            let range = (start, (start + size).min(extent), 1);
            self.pick("split", Pick::Slice(axis, range))
        };
        (0..extent.max(1)).step_by(size).map(part).collect()
    }

    /// Splits a dimension into at most `chunks` parts of one size, the last of which may be smaller.
    /// As `torch.chunk`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the dimension does not exist or there are to be no chunks.
    #[doc = example!(x: "assert_eq!(x.chunk(2, 0)?.len(), 2);")]
    pub fn chunk(&self, chunks: usize, dim: isize) -> Result<Vec<Tensor>> {
        const OP: &str = "chunk";
        let axis = axis_of(OP, dim, self.rank())?;
        if chunks == 0 {
            return Err(AutogradError::Argument {
                op: OP,
                reason: "the number of chunks is 0, expected at least 1".to_owned(),
            });
        }
        self.split(self.shape()[axis].div_ceil(chunks).max(1), dim)
    }

    fn pick(&self, op: &'static str, pick: Pick) -> Result<Tensor> {
        let layout = moved(op, pick.of(self.layout()))?;
        let (x, from, samples) = (self.input(), self.shape().to_vec(), pick.samples(self));
        self.moved_to(op, layout, samples, move |pass, dy| {
            pass.add_tensor(&x, &dy.within_zeros(pick.clone(), &from)?)
        })
    }

    /// Zeros of a shape with these elements at the places of a part of it.
    fn within_zeros(&self, pick: Pick, shape: &[usize]) -> Result<Tensor> {
        const OP: &str = "within_zeros";
        let device = self.device();
        let whole = Layout::contiguous(shape)?;
        let out = device.alloc_typed(self.dtype(), whole.n_elements())?;
        device.fill(&out, 0)?;
        let layout = moved(OP, pick.of(&whole))?;
        let target = Operand {
            buffer: &out,
            layout: &layout,
        };
        assign_strided(device, self.operand(), target)?;
        let dy = self.input();
        Tensor::of_rule(OP, &[self], (out, shape), move |pass, ddx, _| {
            pass.add_tensor(&dy, &ddx.pick(OP, pick.clone())?)
        })
    }
}

#[cfg(test)]
mod tests;
