//! Where the elements of a tensor lie in its buffer: extents, strides and the first element.
//!
//! A movement operation (transpose, slice, expand, ...) is another layout over the same memory.
//! Kernels that take strides get an [`Operand`]; the others get a contiguous copy.

mod walk;

use std::fmt;

use hlx_core::{Buffer, sizes};

use crate::error::{KernelError, Result};

pub(crate) use walk::{Access, Walk, access, in_quads, runs};

/// The most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Extents, strides and the first element's place, all counted in elements. Element
/// `[i0, i1, ...]` lies at `offset + i0 strides[0] + i1 strides[1] + ...`; a stride is 0 where
/// a dimension is expanded and negative where it is flipped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

/// A buffer and where a tensor's elements lie in it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// The places.
    pub layout: &'a Layout,
}

impl<'a> Operand<'a> {
    /// The elements of a buffer at a layout's places.
    pub fn new(buffer: &'a Buffer, layout: &'a Layout) -> Self {
        Self { buffer, layout }
    }
}

/// The result of a movement: the operation's name is added by the caller.
type Moved = Result<Layout, String>;

impl Layout {
    /// The row-major layout of a shape, from the buffer's first element on.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for more than [`MAX_RANK`] dimensions or more elements than memory has
    /// addresses.
    pub fn contiguous(shape: &[usize]) -> Result<Self> {
        let rank = shape.len();
        check_that!("shape", rank <= MAX_RANK =>
            "{shape:?} has {rank} dimensions, expected at most {MAX_RANK}")?;
        Self::count(shape)?;
        Ok(Self {
            shape: shape.to_vec(),
            strides: row_major(shape),
            offset: 0,
        })
    }

    /// The number of elements of a shape.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for more than memory has addresses.
    pub fn count(shape: &[usize]) -> Result<usize> {
        count(shape).map_err(KernelError::argument("shape"))
    }

    /// The extents, outermost first; none for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The distance of neighbours along each dimension, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The place of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The same places from another first element on.
    #[must_use]
    pub fn starting_at(&self, offset: usize) -> Self {
        Self {
            offset,
            ..self.clone()
        }
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements; 0 if an extent is 0.
    pub fn n_elements(&self) -> usize {
        // `count` has seen the shape: no product wraps.
        self.shape.iter().product()
    }

    /// Whether the elements lie in row-major order without gaps, from any first element on.
    pub fn is_contiguous(&self) -> bool {
        if self.n_elements() == 0 {
            return true;
        }
        is_row_major(&self.shape, &self.strides)
    }

    /// The place of an element.
    pub fn place(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(&self.strides);
        steps.fold(self.offset, |place, (&i, &stride)| {
            place.wrapping_add_signed(i as isize * stride)
        })
    }

    /// The first place and the one past the last that the elements touch; equal if there is none. Places before
    /// the first of all or past the last that is counted are a span to the end of all numbers, which no buffer has.
    pub fn span(&self) -> (usize, usize) {
        span(&self.shape, &self.strides, self.offset)
    }

    /// The same elements in another shape without a copy, or `None` where strides cannot say it.
    ///
    /// # Errors
    /// The reason, if the shape has another number of elements or too many dimensions.
    pub fn reshape(&self, shape: &[usize]) -> Result<Option<Self>, String> {
        let mut target = Self::contiguous(shape).map_err(|error| error.to_string())?;
        if target.n_elements() != self.n_elements() {
            let (own, found, expected) = (&self.shape, self.n_elements(), target.n_elements());
            return Err(format!(
                "shape {own:?} has {found} elements, expected {expected} as {shape:?}"
            ));
        }
        if self.is_contiguous() {
            target.offset = self.offset;
            return Ok(Some(target));
        }
        let strides = strides_of_view(&Walk::over([self]), shape);
        Ok(strides.map(|strides| Self {
            shape: shape.to_vec(),
            strides,
            offset: self.offset,
        }))
    }

    /// The dimensions in another order: dimension `i` of the result is `order[i]` of this.
    ///
    /// # Errors
    /// The reason, if `order` is no permutation of the dimensions.
    pub fn permute(&self, order: &[usize]) -> Moved {
        let rank = self.rank();
        let mut axes = 0..rank;
        if order.len() != rank || !axes.all(|axis| order.contains(&axis)) {
            return Err(format!("{order:?} is no permutation of {rank} dimensions"));
        }
        Ok(Self {
            shape: order.iter().map(|&axis| self.shape[axis]).collect(),
            strides: order.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        })
    }

    /// The dimensions broadcast to a shape: missing leading ones and extents of 1 repeat.
    ///
    /// # Errors
    /// The reason, if an extent is neither 1 nor the shape's.
    pub fn expand(&self, shape: &[usize]) -> Moved {
        let refused = || format!("shape {:?} does not expand to {shape:?}", self.shape);
        let added = shape.len().checked_sub(self.rank()).ok_or_else(refused)?;
        if shape.len() > MAX_RANK {
            return Err(format!("{shape:?} has more than {MAX_RANK} dimensions"));
        }
        count(shape)?;
        let mut strides = vec![0; shape.len()];
        for (axis, (&extent, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            if extent == shape[added + axis] {
                strides[added + axis] = stride;
            } else if extent != 1 {
                return Err(refused());
            }
        }
        Ok(Self {
            shape: shape.to_vec(),
            strides,
            offset: self.offset,
        })
    }

    /// The elements `start, start + step, ...` below `end` along a dimension.
    ///
    /// # Errors
    /// The reason, if the dimension does not exist, the range leaves it, or the step is 0.
    pub fn slice(&self, axis: usize, (start, end, step): (usize, usize, usize)) -> Moved {
        let extent = *self.shape.get(axis).ok_or_else(|| self.no_axis(axis))?;
        if step == 0 || start > end || end > extent {
            return Err(format!(
                "range {start}..{end} by {step} does not lie in dimension {axis} of {extent}"
            ));
        }
        let mut sliced = self.clone();
        sliced.shape[axis] = (end - start).div_ceil(step);
        sliced.strides[axis] = stepped(self.strides[axis], step, sliced.shape[axis]);
        if sliced.n_elements() > 0 {
            let before = start as isize * self.strides[axis];
            sliced.offset = self.offset.wrapping_add_signed(before);
        }
        Ok(sliced)
    }

    /// A dimension in reverse order.
    ///
    /// # Errors
    /// The reason, if the dimension does not exist.
    pub fn flip(&self, axis: usize) -> Moved {
        let extent = *self.shape.get(axis).ok_or_else(|| self.no_axis(axis))?;
        let mut flipped = self.clone();
        flipped.strides[axis] = -self.strides[axis];
        if self.n_elements() > 0 {
            let reach = (extent as isize - 1) * self.strides[axis];
            flipped.offset = self.offset.wrapping_add_signed(reach);
        }
        Ok(flipped)
    }

    /// The layout without a dimension, at one index of it.
    ///
    /// # Errors
    /// The reason, if the dimension does not exist or is not that long.
    pub fn select(&self, axis: usize, index: usize) -> Moved {
        let mut one = self.slice(axis, (index, index.saturating_add(1), 1))?;
        one.shape.remove(axis);
        one.strides.remove(axis);
        Ok(one)
    }

    /// The layout with a dimension of extent 1 in front of dimension `axis`.
    ///
    /// # Errors
    /// The reason, if `axis` is past the end or the rank is at its limit.
    pub fn unsqueeze(&self, axis: usize) -> Moved {
        if axis > self.rank() || self.rank() == MAX_RANK {
            let rank = self.rank() + 1;
            return Err(format!("no place for dimension {axis} of {rank}"));
        }
        let mut wider = self.clone();
        wider.shape.insert(axis, 1);
        wider.strides.insert(axis, 0);
        Ok(wider)
    }

    /// The layout without a dimension of extent 1.
    ///
    /// # Errors
    /// The reason, if the dimension does not exist or is longer.
    pub fn squeeze(&self, axis: usize) -> Moved {
        match self.shape.get(axis) {
            Some(1) => self.select(axis, 0),
            Some(extent) => Err(format!("dimension {axis} has extent {extent}, expected 1")),
            None => Err(self.no_axis(axis)),
        }
    }

    /// All windows of `size` elements along a dimension, `step` apart: the dimension becomes their
    /// number, and their elements are a new last dimension.
    ///
    /// # Errors
    /// The reason, if the dimension does not exist or is shorter, or the step is 0.
    pub fn unfold(&self, axis: usize, size: usize, step: usize) -> Moved {
        let extent = *self.shape.get(axis).ok_or_else(|| self.no_axis(axis))?;
        if step == 0 || size > extent || self.rank() == MAX_RANK {
            return Err(format!(
                "windows of {size} by {step} do not fit dimension {axis} of {extent}"
            ));
        }
        let mut windows = self.clone();
        windows.shape[axis] = (extent - size) / step + 1;
        windows.strides[axis] = stepped(self.strides[axis], step, windows.shape[axis]);
        windows.shape.push(size);
        windows.strides.push(self.strides[axis]);
        count(&windows.shape)?;
        Ok(windows)
    }

    /// The diagonal of two dimensions, as a new last dimension: elements with
    /// `index of second - index of first = distance`.
    ///
    /// # Errors
    /// The reason, if a dimension does not exist or both are one.
    pub fn diagonal(&self, distance: isize, first: usize, second: usize) -> Moved {
        if first == second || first.max(second) >= self.rank() {
            let rank = self.rank();
            return Err(format!(
                "no diagonal of dimensions {first} and {second} of {rank}"
            ));
        }
        let (down, right) = match distance < 0 {
            true => (distance.unsigned_abs(), 0),
            false => (0, distance.unsigned_abs()),
        };
        let rows = self.shape[first].saturating_sub(down);
        let cols = self.shape[second].saturating_sub(right);
        let mut diagonal = self.clone();
        let stride = self.strides[first] + self.strides[second];
        for axis in [first.max(second), first.min(second)] {
            diagonal.shape.remove(axis);
            diagonal.strides.remove(axis);
        }
        diagonal.shape.push(rows.min(cols));
        diagonal.strides.push(stride);
        if diagonal.n_elements() > 0 {
            let start = down as isize * self.strides[first] + right as isize * self.strides[second];
            diagonal.offset = self.offset.wrapping_add_signed(start);
        }
        Ok(diagonal)
    }

    fn no_axis(&self, axis: usize) -> String {
        let rank = self.rank();
        format!("dimension {axis} is out of range for {rank} dimensions")
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, strides, offset) = (&self.shape, &self.strides, self.offset);
        write!(f, "{shape:?} by {strides:?} from {offset}")
    }
}

/// The elements of a shape, at most [`sizes::LARGEST`], each on its own in a view that repeats them too: neither the
/// product of any of its extents nor a stride wraps then.
fn count(shape: &[usize]) -> Result<usize, String> {
    let count = sizes::checked_elements(shape);
    count.ok_or_else(|| format!("{shape:?} has more elements than memory has addresses"))
}

/// The stride of every `step`-th of `extent` elements. One element alone has no neighbour, so that its stride may be
/// any: a step past the end, however long, keeps it.
fn stepped(stride: isize, step: usize, extent: usize) -> isize {
    match extent > 1 {
        true => stride.wrapping_mul(step as isize),
        false => stride,
    }
}

/// The places that elements touch, as [`Layout::span`].
pub(crate) fn span(shape: &[usize], strides: &[isize], offset: usize) -> (usize, usize) {
    if shape.contains(&0) {
        return (offset, offset);
    }
    let (mut first, mut last) = (offset as i128, offset as i128);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let reach = (extent as i128 - 1) * stride as i128;
        first += reach.min(0);
        last += reach.max(0);
    }
    match (usize::try_from(first), usize::try_from(last + 1)) {
        (Ok(first), Ok(end)) => (first, end),
        _ => (0, usize::MAX),
    }
}

/// The shape that operands broadcast to, as in NumPy: shapes align at their last dimension, and an
/// extent of 1 repeats. `None` if two extents differ otherwise.
pub fn broadcast_shape(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut joint = vec![1; rank];
    for shape in shapes {
        for (slot, &extent) in joint[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*slot, extent) {
                (found, extent) if found == extent => {}
                (1, extent) => *slot = extent,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(joint)
}

/// The strides of a shape whose elements lie in row-major order. A shape that no memory holds, which
/// [`Layout::contiguous`] refuses, has strides that end at the largest number.
pub fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1_isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        let extent = isize::try_from(shape[axis].max(1)).unwrap_or(isize::MAX);
        strides[axis - 1] = strides[axis].saturating_mul(extent);
    }
    strides
}

/// Whether elements lie in row-major order without gaps.
pub(crate) fn is_row_major(shape: &[usize], strides: &[isize]) -> bool {
    let dense = row_major(shape);
    let mut dimensions = shape.iter().zip(strides.iter().zip(&dense));
    dimensions.all(|(&extent, (found, expected))| extent == 1 || found == expected)
}

/// The strides of `shape` over the dimensions of a walk; `None` where a dimension would cross from one of these into
/// the next.
fn strides_of_view(walk: &Walk<1>, shape: &[usize]) -> Option<Vec<isize>> {
    let mut strides = vec![0; shape.len()];
    let runs = walk.shape.iter().zip(&walk.strides[0]).rev();
    let mut runs = runs.map(|(&extent, &stride)| (extent, stride));
    let mut current = runs.next();
    let mut filled = 1;
    for axis in (0..shape.len()).rev().filter(|&axis| shape[axis] != 1) {
        if current.is_some_and(|(extent, _)| extent == filled) {
            current = runs.next();
            filled = 1;
        }
        let (extent, stride) = current?;
        strides[axis] = stride * filled as isize;
        filled *= shape[axis];
        if !extent.is_multiple_of(filled) {
            return None;
        }
    }
    Some(strides)
}

#[cfg(test)]
mod tests;
