//! `x[..]` with several items: places, ranges, new dimensions, index tensors and masks, read and
//! written.
//!
//! Index tensors broadcast against each other. They become one place in row-major order of the
//! dimensions that they index, computed on the device in u32, and one index tensor remains:
//! [`Tensor::index_select`] reads, [`Tensor::scatter`] and [`Tensor::scatter_add`] write.

use hlx_core::Bool;
use hlx_kernels::{Layout, broadcast_shape};

use super::check_index;
use crate::ops::movement::axis_of;
use crate::samples::Samples;
use crate::{AutogradError, DType, Input, Result, Tensor};

/// An item of an index: what stands between the commas of PyTorch's `x[..]`.
#[derive(Clone, Debug)]
pub enum Index {
    /// A place, counted from the end if it is negative; its dimension is dropped.
    At(isize),
    /// The places from `start` to before `end`, each `step`-th: `start:end:step`. Ends that are
    /// negative count from the end, and those past it are brought to it.
    Range {
        /// The first place; `None` is 0.
        start: Option<isize>,
        /// The place behind the last; `None` is the dimension's extent.
        end: Option<isize>,
        /// Places from one to the next, at least 1.
        step: usize,
    },
    /// A new dimension of extent 1: `None`.
    New,
    /// All dimensions that the other items leave: `...`.
    Ellipsis,
    /// Places in an i32 or u32 tensor, negative ones counted from the end, or the places at which a
    /// `bool` mask over one or several dimensions holds.
    Tensor(Tensor),
}

impl From<isize> for Index {
    fn from(place: isize) -> Self {
        Self::At(place)
    }
}

impl From<&Tensor> for Index {
    fn from(places: &Tensor) -> Self {
        Self::Tensor(places.clone())
    }
}

impl From<std::ops::RangeFull> for Index {
    fn from(_: std::ops::RangeFull) -> Self {
        Self::between(None, None)
    }
}

impl From<std::ops::Range<isize>> for Index {
    fn from(range: std::ops::Range<isize>) -> Self {
        Self::between(Some(range.start), Some(range.end))
    }
}

impl From<std::ops::RangeFrom<isize>> for Index {
    fn from(range: std::ops::RangeFrom<isize>) -> Self {
        Self::between(Some(range.start), None)
    }
}

impl From<std::ops::RangeTo<isize>> for Index {
    fn from(range: std::ops::RangeTo<isize>) -> Self {
        Self::between(None, Some(range.end))
    }
}

impl Index {
    fn between(start: Option<isize>, end: Option<isize>) -> Self {
        Self::Range {
            start,
            end,
            step: 1,
        }
    }

    /// The dimensions of the indexed tensor that the item takes.
    fn n_dims(&self) -> usize {
        match self {
            Self::At(_) | Self::Range { .. } => 1,
            Self::New | Self::Ellipsis => 0,
            Self::Tensor(mask) if mask.dtype() == DType::Bool => mask.rank(),
            Self::Tensor(_) => 1,
        }
    }
}

/// The dimensions that index tensors index, and where their own dimensions go.
struct Block {
    /// Dimensions of the indexed tensor, ascending.
    axes: Vec<usize>,
    /// Their index tensors, broadcast to `shape`.
    places: Vec<Tensor>,
    shape: Vec<usize>,
    /// The dimension of the result at which `shape` begins: that of the first index tensor if no
    /// other dimension is between them, else the first of all.
    at: usize,
}

impl Block {
    fn of(op: &'static str, tensors: Vec<(usize, Tensor)>) -> Result<Option<Self>> {
        let shapes: Vec<&[usize]> = tensors.iter().map(|(_, places)| places.shape()).collect();
        let Some(shape) = broadcast_shape(&shapes) else {
            let shapes: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
            let reason = format!(
                "indices of shapes {} do not broadcast",
                shapes.join(" and ")
            );
            return Err(AutogradError::Argument { op, reason });
        };
        let Some(&(first, _)) = tensors.first() else {
            return Ok(None);
        };
        let axes: Vec<usize> = tensors.iter().map(|&(axis, _)| axis).collect();
        let side_by_side = axes.iter().enumerate().all(|(i, &axis)| axis == first + i);
        let places = tensors.iter().map(|(_, places)| places.expand(&shape));
        Ok(Some(Self {
            places: places.collect::<Result<_>>()?,
            axes,
            shape,
            at: if side_by_side { first } else { 0 },
        }))
    }

    /// The dimensions of a tensor of `rank` that no index tensor indexes.
    fn others(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|axis| !self.axes.contains(axis)).collect()
    }

    /// The sums of the places times their dimensions' `strides`, as u32 of the shape of the index, and
    /// whether all places are within `extents`.
    fn sums(
        &self,
        op: &'static str,
        extents: &[usize],
        strides: &[usize],
    ) -> Result<(Tensor, Tensor)> {
        let mut joint: Option<(Tensor, Tensor)> = None;
        for ((places, &extent), &stride) in self.places.iter().zip(extents).zip(strides) {
            let device = places.device();
            let places = from_start(places, extent)?;
            let within = places.lt(Tensor::whole_u32(device, extent as u32)?)?;
            let term = places.mul(Tensor::whole_u32(device, stride as u32)?)?;
            joint = Some(match joint {
                None => (term, within),
                Some((sum, all)) => (sum.add(term)?, all.logical_and(within)?),
            });
        }
        joint.ok_or_else(|| AutogradError::Argument {
            op,
            reason: "no index tensor".to_owned(),
        })
    }
}

/// Places counted from the start alone, as u32: one that is out of range stays out of range.
fn from_start(places: &Tensor, extent: usize) -> Result<Tensor> {
    if places.dtype() == DType::U32 {
        return Ok(places.clone());
    }
    let back = places.lt(0)?.to_dtype(DType::I32)?.mul(extent as i32)?;
    places.add(back)?.to_dtype(DType::U32)
}

/// The first `n` whole numbers times `factor`, as u32.
pub(super) fn multiples(x: &Tensor, n: usize, factor: usize) -> Result<Tensor> {
    let ones = Tensor::ones(x.device(), &[n], DType::U32)?;
    let places = ones.cumsum(0)?.sub(1)?;
    places.mul(Tensor::whole_u32(x.device(), factor as u32)?)
}

impl Tensor {
    /// Takes `x[items]`, as PyTorch's `Tensor.__getitem__`: places and ranges are views, index tensors
    /// and masks copy. The result of index tensors has their broadcast dimensions where the first
    /// indexed dimension was, or first of all if another dimension lies between the indexed ones. A
    /// mask over k dimensions indexes them by the places at which it holds, in row-major order: their
    /// number is in the data, so the host waits for it, and this cannot be recorded.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for more items than dimensions, a place that is out of range, or
    /// index tensors that do not broadcast; [`AutogradError::DType`] for an index tensor of another
    /// type than i32, u32 or `bool`; [`AutogradError::Shape`] for a mask of another shape than the
    /// dimensions that it indexes. A place of an index tensor that is out of range is the error of the
    /// next call that waits for the device.
    #[doc = example!(
        x: "let rows = Tensor::from_slice(&device, &[0_i32, 1, -1], &[3])?;",
        "let columns = Tensor::from_slice(&device, &[2_i32, 0, 0], &[3])?;",
        "assert_eq!(x.index(&[(&rows).into(), (&columns).into()])?.to_vec::<f32>()?, [3.0, 4.0, 4.0]);",
        "assert_eq!(x.index(&[(..).into(), (1..).into()])?.to_vec::<f32>()?, [2.0, 3.0, 5.0, 6.0]);"
    )]
    pub fn index(&self, items: &[Index]) -> Result<Tensor> {
        const OP: &str = "index";
        let (x, tensors) = self.viewed(OP, items)?;
        let Some(block) = Block::of(OP, tensors)? else {
            return Ok(x);
        };
        let others = block.others(x.rank());
        let order = [&others[..block.at], &block.axes, &others[block.at..]].concat();
        let order: Vec<isize> = order.into_iter().map(|axis| axis as isize).collect();
        let of =
            |axes: &[usize]| -> Vec<usize> { axes.iter().map(|&axis| x.shape()[axis]).collect() };
        let extents = of(&block.axes);
        let (before, after) = (of(&others[..block.at]), of(&others[block.at..]));
        let places = match extents.as_slice() {
            &[extent] => from_start(&block.places[0], extent)?,
            _ => {
                let strides = Layout::contiguous(&extents)?;
                let strides: Vec<usize> = strides
                    .strides()
                    .iter()
                    .map(|&stride| stride as usize)
                    .collect();
                let (sums, within) = block.sums(OP, &extents, &strides)?;
                sums.where_(&within, Tensor::whole_u32(x.device(), u32::MAX)?)?
            }
        };
        let merged = [&before[..], &[extents.iter().product()], &after].concat();
        let lines = x.permute(&order)?.reshape(&merged)?;
        let taken = lines.selected(OP, block.at, &places.flatten(0, -1)?)?;
        taken.reshape(&[before, block.shape, after].concat())
    }

    /// Returns a copy with `values`, broadcast and converted to this tensor's type, written at
    /// `x[items]`, or with `accumulate` added to what is there: `torch.index_put`, with every item
    /// that [`Tensor::index`] takes. Of several values for one place the last in row-major order of
    /// the index is written, and additions follow that order.
    ///
    /// # Errors
    /// As [`Tensor::index`], and [`AutogradError::Argument`] for values that do not broadcast.
    #[doc = example!(
        x: "let rows = Tensor::from_slice(&device, &[1_i32, 1], &[2])?;",
        "let y = x.index_put(&[(&rows).into(), 0.into()], &Tensor::ones(&device, &[2], DType::F32)?, true)?;",
        "assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 6.0, 5.0, 6.0]);"
    )]
    pub fn index_put(&self, items: &[Index], values: &Tensor, accumulate: bool) -> Result<Tensor> {
        const OP: &str = "index_put";
        self.same_device(OP, [("the values", Some(values))])?;
        let places = self.places_of(OP, items)?;
        let (dtype, samples) = (self.dtype(), Samples::None);
        let values = values
            .converted_to(OP, dtype, places.shape(), samples)?
            .flatten(0, -1)?;
        let (x, places) = (self.flatten(0, -1)?, places.flatten(0, -1)?);
        let written = match accumulate {
            false => x.scattered(OP, 0, &places, &values)?,
            true => x.scatter_added(OP, 0, &places, &values)?,
        };
        let written = written.reshape(self.shape())?;
        Ok(written.with_samples_of(self.samples()))
    }

    /// Takes the elements at the places of an index along a dimension, negative ones counted from the
    /// end; the other dimensions broadcast. Without a dimension both are flattened. As
    /// `torch.take_along_dim`.
    ///
    /// # Errors
    /// As [`Tensor::gather`], and [`AutogradError::Argument`] if the dimensions do not broadcast.
    #[doc = example!(
        x: "let places = x.argmax(Some(1), true)?;",
        "assert_eq!(x.take_along_dim(&places, Some(1))?.to_vec::<f32>()?, [3.0, 6.0]);"
    )]
    pub fn take_along_dim(&self, index: &Tensor, dim: Option<isize>) -> Result<Tensor> {
        const OP: &str = "take_along_dim";
        check_index(OP, index)?;
        self.same_device(OP, [("the index", Some(index))])?;
        if self.rounds_gradient() {
            return self.in_f32(|x| x.take_along_dim(index, dim));
        }
        let Some(dim) = dim else {
            let (x, index) = (self.flatten(0, -1)?, index.flatten(0, -1)?);
            return x.take_along_dim(&index, Some(0));
        };
        let axis = axis_of(OP, dim, self.rank())?;
        if index.rank() != self.rank() {
            let expected = format!("{} dimensions, as the input", self.rank());
            return Err(index.shape_error(OP, "the index", expected));
        }
        let with = |shape: &[usize], extent: usize| {
            let mut shape = shape.to_vec();
            shape[axis] = extent;
            shape
        };
        let [one, two] = [self, index].map(|x| with(x.shape(), 1));
        let Some(joint) = broadcast_shape(&[&one, &two]) else {
            let shapes = format!("{:?} and {:?}", self.shape(), index.shape());
            let reason = format!("shapes {shapes} do not broadcast but along dimension {axis}");
            return Err(AutogradError::Argument { op: OP, reason });
        };
        let extent = self.shape()[axis];
        let places = from_start(&index.detach(), extent)?;
        let places = places.expand(&with(&joint, index.shape()[axis]))?;
        self.expand(&with(&joint, extent))?.gather(dim, &places)
    }

    /// The places of the elements of `x[items]` in row-major order of x, as u32; 2^32 - 1 stands for a
    /// place out of range.
    fn places_of(&self, op: &'static str, items: &[Index]) -> Result<Tensor> {
        // Only the strides of this view are read: its memory may be laid out in another way.
        let dense = Layout::contiguous(self.shape())?;
        let dense = self.with_layout(dense, Samples::None, Input::constant(self.n_elements()));
        let (view, tensors) = dense.viewed(op, items)?;
        let block = Block::of(op, tensors)?;
        let others = match &block {
            Some(block) => block.others(view.rank()),
            None => (0..view.rank()).collect(),
        };
        let stride = |axis: usize| view.layout().strides()[axis] as usize;
        let device = self.device();
        let mut places = Tensor::whole_u32(device, view.layout().offset() as u32)?;
        let joint = match &block {
            None => None,
            Some(block) => {
                let extents: Vec<usize> =
                    block.axes.iter().map(|&axis| view.shape()[axis]).collect();
                let strides: Vec<usize> = block.axes.iter().map(|&axis| stride(axis)).collect();
                Some((block, block.sums(op, &extents, &strides)?))
            }
        };
        // The dimensions of the result, each as a term of its own that broadcasts.
        let (at, width) = joint
            .as_ref()
            .map_or((0, 0), |(block, _)| (block.at, block.shape.len()));
        for (i, &axis) in others.iter().enumerate() {
            let behind = others.len() - i - 1 + if i < at { width } else { 0 };
            let extent = view.shape()[axis];
            let shape = [vec![extent], vec![1; behind]].concat();
            places = places.add(multiples(self, extent, stride(axis))?.reshape(&shape)?)?;
        }
        let Some((block, (sums, within))) = joint else {
            return places.expand(view.shape());
        };
        let shape = [block.shape.clone(), vec![1; others.len() - at]].concat();
        let places = places.add(sums.reshape(&shape)?)?;
        places.where_(
            &within.reshape(&shape)?,
            Tensor::whole_u32(device, u32::MAX)?,
        )
    }

    /// Carries out all items but the index tensors, which come with the dimensions that they index.
    fn viewed(&self, op: &'static str, items: &[Index]) -> Result<(Tensor, Vec<(usize, Tensor)>)> {
        let n_dims: usize = items.iter().map(Index::n_dims).sum();
        let ellipses = items.iter().filter(|item| matches!(item, Index::Ellipsis));
        let refused = |reason: String| AutogradError::Argument { op, reason };
        if n_dims > self.rank() || ellipses.count() > 1 {
            let rank = self.rank();
            let reason = format!("an index of {n_dims} dimensions for a tensor of {rank}");
            return Err(match n_dims > rank {
                true => AutogradError::OutOfRange { op, reason },
                false => refused("an index with two ellipses".to_owned()),
            });
        }
        let (mut x, mut axis, mut tensors) = (self.clone(), 0, Vec::new());
        for item in items {
            match item {
                Index::New => {
                    x = x.unsqueeze(axis as isize)?;
                    axis += 1;
                }
                Index::Ellipsis => axis += self.rank() - n_dims,
                &Index::At(place) => {
                    let extent = x.shape()[axis];
                    let found = if place < 0 {
                        place + extent as isize
                    } else {
                        place
                    };
                    let found = usize::try_from(found).ok().filter(|&found| found < extent);
                    let found = found.ok_or_else(|| AutogradError::OutOfRange {
                        op,
                        reason: format!("place {place} is out of range for an extent of {extent}"),
                    })?;
                    x = x.select(axis as isize, found)?;
                }
                &Index::Range { start, end, step } => {
                    if step == 0 {
                        return Err(refused(
                            "a range has step 0, expected at least 1".to_owned(),
                        ));
                    }
                    let extent = x.shape()[axis] as isize;
                    let place = |place: isize| {
                        let place = if place < 0 { place + extent } else { place };
                        place.clamp(0, extent) as usize
                    };
                    let start = place(start.unwrap_or(0));
                    let end = place(end.unwrap_or(extent)).max(start);
                    x = x.slice(axis as isize, start..end, step)?;
                    axis += 1;
                }
                Index::Tensor(places) => {
                    self.same_device(op, [("the index", Some(places))])?;
                    if places.dtype() == DType::Bool && places.rank() == 0 {
                        x = x.unsqueeze(axis as isize)?;
                    }
                    let found = places.places_along(op, &x.shape()[axis..])?;
                    let n = found.len();
                    tensors.extend(found.into_iter().enumerate().map(|(i, t)| (axis + i, t)));
                    axis += n;
                }
            }
        }
        Ok((x, tensors))
    }

    /// An index tensor for each dimension that this one indexes: itself, or of a mask the places at
    /// which it holds.
    fn places_along(&self, op: &'static str, extents: &[usize]) -> Result<Vec<Tensor>> {
        match self.dtype() {
            DType::I32 | DType::U32 => return Ok(vec![self.detach()]),
            DType::Bool => {}
            found => {
                return Err(AutogradError::DType {
                    op,
                    argument: "the index",
                    found,
                    expected: DType::I32,
                });
            }
        }
        // A mask without dimensions indexes a new one, of extent 1.
        let mask = if self.rank() == 0 {
            self.reshape(&[1])?
        } else {
            self.clone()
        };
        if mask.shape() != &extents[..mask.rank()] {
            let expected = format!(
                "{:?}, that of the dimensions it indexes",
                &extents[..mask.rank()]
            );
            return Err(mask.shape_error(op, "the mask", expected));
        }
        let held = mask.true_places()?;
        let mut inner = mask.n_elements();
        let along = mask.shape().iter().map(|&extent| {
            inner /= extent.max(1);
            let places = held
                .iter()
                .map(|&place| place / inner.max(1) as u32 % extent.max(1) as u32);
            Tensor::from_slice(self.device(), &places.collect::<Vec<u32>>(), &[held.len()])
        });
        along.collect()
    }

    /// The places in row-major order at which a mask holds; waits for the device.
    pub(super) fn true_places(&self) -> Result<Vec<u32>> {
        let held = self.to_vec::<Bool>()?;
        let places = (0_u32..).zip(held).filter(|(_, held)| bool::from(*held));
        Ok(places.map(|(place, _)| place).collect())
    }
}
