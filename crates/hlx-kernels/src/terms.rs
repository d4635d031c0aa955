//! Where the terms of a reduction, a scan or a sort lie in a strided operand, and their pieces of
//! 4,096.

use hlx_core::{Buffer, Device};

use crate::error::{KernelError, check_that};
use crate::layout::{Layout, MAX_RANK, Operand, Walk};

/// Terms of a piece.
pub(crate) const PIECE: usize = 4096;

/// Joined dimensions in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Dims {
    pub shape: Vec<usize>,
    pub strides: Vec<isize>,
}

impl Dims {
    pub(crate) fn of(layout: &Layout) -> Self {
        let mut walk = Walk::over(&[layout]);
        Self {
            shape: walk.shape,
            strides: walk.strides.pop().unwrap_or_default(),
        }
    }

    pub(crate) fn line(extent: usize, stride: usize) -> Self {
        Self {
            shape: vec![extent],
            strides: vec![stride as isize],
        }
    }

    /// Extents and strides as push constants.
    pub(crate) fn words(&self) -> ([u32; 8], [u32; 8]) {
        let (mut extents, mut strides) = ([1; 8], [0; 8]);
        for (place, (&extent, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            (extents[place], strides[place]) = (extent as u32, stride as u32);
        }
        (extents, strides)
    }

    /// The innermost extent and stride; one element if there is no dimension.
    pub fn innermost(&self) -> (usize, isize) {
        match (self.shape.last(), self.strides.last()) {
            (Some(&extent), Some(&stride)) => (extent, stride),
            _ => (1, 0),
        }
    }

    /// How far the element with this row-major number lies from the first.
    pub fn place(&self, number: usize) -> isize {
        if let [stride] = self.strides[..] {
            return number as isize * stride; // Without a division.
        }
        let mut rest = number;
        let dims = self.shape.iter().zip(&self.strides).rev();
        dims.fold(0, |place, (&extent, &stride)| {
            let index = rest % extent;
            rest /= extent;
            place + index as isize * stride
        })
    }

    /// Calls `run(place, count)` for runs along the innermost dimension that make up the `count`
    /// elements from number `begin` on, in order.
    pub(crate) fn runs(&self, begin: usize, count: usize, mut run: impl FnMut(isize, usize)) {
        let rank = self.shape.len();
        let (extent, _) = self.innermost();
        let mut index = [0; MAX_RANK];
        let mut rest = begin;
        for d in (0..rank).rev() {
            index[d] = rest % self.shape[d];
            rest /= self.shape[d];
        }
        let mut place = self.place(begin);
        let mut left = count;
        while left > 0 {
            let at = if rank == 0 { 0 } else { index[rank - 1] };
            let length = (extent - at).min(left);
            run(place, length);
            left -= length;
            if left > 0 {
                place -= at as isize * self.strides[rank - 1];
                index[rank - 1] = 0;
                place += self.step(&mut index[..rank - 1]);
            }
        }
    }

    /// Advances the outer index to its neighbour and returns how far it lies.
    fn step(&self, index: &mut [usize]) -> isize {
        let mut distance = 0;
        for (d, at) in index.iter_mut().enumerate().rev() {
            *at += 1;
            distance += self.strides[d];
            if *at < self.shape[d] {
                break;
            }
            distance -= *at as isize * self.strides[d];
            *at = 0;
        }
        distance
    }
}

/// The terms of every result of one pass.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The place of the first term of the first result.
    pub first: usize,
    /// The number of the first term, where a reduction goes by windows of one long result.
    pub origin: usize,
    pub kept: Dims,
    pub reduced: Dims,
    pub n_results: usize,
    /// Terms of a result.
    pub n: usize,
    /// Neighbouring terms lie closer than neighbouring results.
    pub along: bool,
}

impl Terms {
    /// The terms of `layout` reduced over `axes`, which are valid; no extent is 0.
    pub fn of(layout: &Layout, axes: &[usize]) -> Result<Self, String> {
        let (mut kept, mut reduced) = (layout.clone(), layout.clone());
        for axis in (0..layout.rank()).rev() {
            let other = if axes.contains(&axis) {
                &mut kept
            } else {
                &mut reduced
            };
            *other = other.select(axis, 0)?;
        }
        let (n_results, n) = (kept.n_elements(), reduced.n_elements());
        let (kept, reduced) = (Dims::of(&kept), Dims::of(&reduced));
        let along =
            n_results == 1 || n > 1 && reduced.innermost().1.abs() <= kept.innermost().1.abs();
        Ok(Self {
            first: layout.offset(),
            origin: 0,
            kept,
            reduced,
            n_results,
            n,
            along,
        })
    }

    /// The terms of the pass behind this one: what it made of the pieces.
    pub fn of_totals(&self) -> Self {
        let (pieces, results) = (self.pieces(), self.n_results);
        let (result_stride, piece_stride) = if self.along {
            (pieces, 1)
        } else {
            (1, results)
        };
        Self {
            first: 0,
            origin: 0,
            kept: Dims::line(results, result_stride),
            reduced: Dims::line(pieces, piece_stride),
            n_results: results,
            n: pieces,
            along: self.along,
        }
    }

    /// Pieces of a result.
    pub fn pieces(&self) -> usize {
        self.n.div_ceil(PIECE).max(1)
    }

    /// The first term of a piece and how many it has.
    pub fn piece(&self, piece: usize) -> (usize, usize) {
        (piece * PIECE, PIECE.min(self.n - piece * PIECE))
    }

    /// Where a term of a result lies.
    pub fn place(&self, result: usize, term: usize) -> usize {
        let distance = self.kept.place(result) + self.reduced.place(term);
        self.first.wrapping_add_signed(distance)
    }

    /// Pieces of all results.
    pub fn items(&self) -> usize {
        self.n_results * self.pieces()
    }

    /// Whether the only result's terms lie side by side.
    pub fn is_one_run(&self) -> bool {
        self.n_results == 1 && self.reduced.shape.len() <= 1 && self.reduced.innermost().1 == 1
    }

    /// The window of one run from term `start` on, in a buffer that begins there.
    pub fn window(&self, start: usize, count: usize) -> Self {
        Self {
            first: 0,
            origin: start,
            reduced: Dims::line(count, 1),
            n: count,
            ..self.clone()
        }
    }

    /// Checks that 32 bits count terms and pieces, of which a place is one.
    pub fn check(&self, operation: &'static str) -> Result<(), KernelError> {
        let largest = self.n.max(self.items());
        check_that(operation, u32::try_from(largest).is_ok(), || {
            format!("{largest} terms or pieces are more than 2^32 - 1")
        })
    }
}

/// Checks that a layout stays in its buffer.
pub(crate) fn check_operand(
    operation: &'static str,
    argument: &'static str,
    x: Operand<'_>,
) -> Result<(), KernelError> {
    let (_, end) = x.layout.span();
    check_that(operation, end <= x.buffer.len(), || {
        let len = x.buffer.len();
        format!("{argument} reaches element {end} of a buffer of {len}")
    })
}

/// Checks that an axis exists.
pub(crate) fn check_axis(
    operation: &'static str,
    axis: usize,
    shape: &[usize],
) -> Result<(), KernelError> {
    check_that(operation, axis < shape.len(), || {
        format!("axis {axis} is out of range for shape {shape:?}")
    })
}

/// The part of an operand's buffer that its elements lie in, from where a binding may start, and how
/// many elements lie before it.
pub(crate) fn part(x: Operand<'_>) -> Result<(Buffer, usize), KernelError> {
    let (begin, end) = x.layout.span();
    let unit = hlx_core::ALIGNMENT_WORDS * x.buffer.dtype().per_word();
    let start = begin / unit * unit;
    Ok((x.buffer.slice(start, end - start)?, start))
}

/// Whether a kernel can index a buffer: one binding, and places of 32 bits. The CPU device can
/// index all.
pub(crate) fn fits(device: &Device, buffer: &Buffer) -> bool {
    let places = u32::try_from(buffer.len()).is_ok();
    device.is_cpu() || buffer.words() <= device.max_binding_words() && places
}

/// Checks that a kernel can index an argument.
pub(crate) fn check_fits(
    operation: &'static str,
    argument: &'static str,
    device: &Device,
    buffer: &Buffer,
) -> Result<(), KernelError> {
    check_that(operation, fits(device, buffer), || {
        let len = buffer.len();
        format!("{argument} spans {len} elements, more than a kernel can index")
    })
}

/// The lines of an operand along an axis, and the part of its buffer that they lie in. Lines that are
/// neighbours in the result keep the item order of outer axes.
pub(crate) fn lines(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    axis: usize,
) -> Result<(Buffer, Terms), KernelError> {
    let (buffer, start) = part(x)?;
    check_fits(name, "x", device, &buffer)?;
    let mut terms = Terms::of(x.layout, &[axis]).map_err(|reason| KernelError::Argument {
        operation: name,
        reason,
    })?;
    terms.first -= start;
    terms.check(name)?;
    let inner: usize = x.layout.shape()[axis + 1..].iter().product();
    terms.along = inner == 1;
    Ok((buffer, terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_the_elements_in_order() {
        let layout = Layout::contiguous(&[3, 4, 5])
            .map(|layout| layout.permute(&[2, 0, 1]).expect("a permutation"));
        let dims = Dims::of(&layout.expect("a layout"));
        let mut places = Vec::new();
        for (begin, count) in [(7, 40), (0, 60), (59, 1), (20, 0), (11, 49)] {
            places.clear();
            dims.runs(begin, count, |place, count| {
                let (_, stride) = dims.innermost();
                places.extend((0..count as isize).map(|i| place + i * stride));
            });
            let numbers = begin..begin + count;
            let want: Vec<isize> = numbers.map(|number| dims.place(number)).collect();
            assert_eq!(places, want, "{count} from {begin}");
        }
    }
}
