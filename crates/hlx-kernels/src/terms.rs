//! Where the terms of a reduction, a scan or a sort lie in a strided operand, and their pieces of
//! 4,096.

use std::ops::Range;

use hlx_core::{Buffer, DType, Device};

use crate::element::gather;
use crate::error::{KernelError, Result};
use crate::layout::{Layout, Operand, Walk};
use crate::parallel;

/// Terms of a piece.
pub(crate) const PIECE: usize = 4096;

/// The terms of every result of one sweep.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The place of the first term of the first result.
    pub first: usize,
    /// The number of the first term, where a reduction goes by windows of one long result.
    pub origin: usize,
    /// Results and terms, counted from place 0 on.
    pub remaining: Walk<1>,
    pub reduced: Walk<1>,
    pub n_results: usize,
    /// Terms of a result.
    pub n: usize,
    /// Neighbouring terms lie closer than neighbouring results.
    pub along: bool,
}

impl Terms {
    /// The terms of `layout` reduced over `axes`, which are valid; no extent is 0.
    pub fn of(layout: &Layout, axes: &[usize]) -> Result<Self, String> {
        let (mut remaining, mut reduced) = (layout.clone(), layout.clone());
        for axis in (0..layout.rank()).rev() {
            let other = if axes.contains(&axis) {
                &mut remaining
            } else {
                &mut reduced
            };
            *other = other.select(axis, 0)?;
        }
        let (n_results, n) = (remaining.n_elements(), reduced.n_elements());
        let [remaining, reduced] =
            [remaining, reduced].map(|layout| Walk::over([&layout.starting_at(0)]));
        let along =
            n_results == 1 || n > 1 && reduced.innermost().1.abs() <= remaining.innermost().1.abs();
        Ok(Self {
            first: layout.offset(),
            origin: 0,
            remaining,
            reduced,
            n_results,
            n,
            along,
        })
    }

    /// The terms of the sweep behind this one: what it made of the pieces.
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
            remaining: Walk::line(results, result_stride),
            reduced: Walk::line(pieces, piece_stride),
            n_results: results,
            n: pieces,
            along: self.along,
        }
    }

    /// Pieces of a result.
    pub fn pieces(&self) -> usize {
        self.n.div_ceil(PIECE).max(1)
    }

    /// The terms of a piece.
    pub fn piece(&self, piece: usize) -> Range<usize> {
        piece * PIECE..self.n.min((piece + 1) * PIECE)
    }

    /// Where a term of a result lies.
    pub fn place(&self, result: usize, term: usize) -> usize {
        let ([result], [term]) = (self.remaining.places(result), self.reduced.places(term));
        self.first.wrapping_add(result).wrapping_add(term)
    }

    /// Calls `body` with the words of the terms `terms` of a result, widened to 32 bits: in place where they lie side by
    /// side, else copied.
    pub fn with_result<R>(
        &self,
        dtype: DType,
        x: &[u32],
        result: usize,
        terms: Range<usize>,
        body: impl FnOnce(&[u32]) -> R,
    ) -> R {
        let [stride] = self.reduced.steps();
        let one_run = self.reduced.shape.len() <= 1;
        if dtype.size() == 4 && one_run && (stride == 1 || terms.len() == 1) {
            return body(&x[self.place(result, terms.start)..][..terms.len()]);
        }
        let base = self.place(result, 0);
        parallel::scratch(terms.len(), |words| {
            let (begin, count) = (terms.start, words.len());
            self.reduced.runs(begin, count, |done, [place], n| {
                let start = base.wrapping_add(place);
                gather(dtype, x, start, stride, &mut words[done..done + n]);
            });
            body(words)
        })
    }

    /// Whether the words of one term of `width` results from `result` on lie side by side, as they are computed with.
    pub fn side_by_side(&self, dtype: DType, result: usize, width: usize) -> bool {
        let (extent, stride) = self.remaining.innermost();
        dtype.size() == 4 && stride == 1 && result % extent + width <= extent
    }

    /// Copies the words of one term of `out.len()` results from `result` on, widened to 32 bits.
    pub fn of_term(&self, dtype: DType, x: &[u32], term: usize, result: usize, out: &mut [u32]) {
        let (base, [stride]) = (self.place(0, term), self.remaining.steps());
        self.remaining.runs(result, out.len(), |done, [place], n| {
            let start = base.wrapping_add(place);
            gather(dtype, x, start, stride, &mut out[done..done + n]);
        });
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
            reduced: Walk::line(count, 1),
            n: count,
            ..self.clone()
        }
    }

    /// Checks that 32 bits count terms and pieces, of which a place is one.
    pub fn check(&self, operation: &'static str) -> Result<()> {
        let largest = self.n.max(self.items());
        check_that!(operation, u32::try_from(largest).is_ok() =>
            "{largest} terms or pieces are more than 2^32 - 1")
    }
}

/// Checks that a layout stays in its buffer.
pub(crate) fn check_operand(
    operation: &'static str,
    argument: &'static str,
    x: Operand<'_>,
) -> Result<()> {
    let (_, end) = x.layout.span();
    check_that!(operation, end <= x.buffer.len() =>
        "{argument} reaches element {end} of a buffer of {len}", len = x.buffer.len())
}
pub(crate) fn check_axis(operation: &'static str, axis: usize, shape: &[usize]) -> Result<()> {
    check_that!(operation, axis < shape.len() => "axis {axis} is out of range for shape {shape:?}")
}

/// The part of an operand's buffer that its elements lie in, from where a binding may start, and how
/// many elements lie before it.
pub(crate) fn part(x: Operand<'_>) -> Result<(Buffer, usize)> {
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
) -> Result<()> {
    check_that!(operation, fits(device, buffer) =>
        "{argument} spans {len} elements, more than a kernel can index", len = buffer.len())
}

/// The lines of an operand along an axis, and the part of its buffer that they lie in. Lines that are
/// neighbours in the result keep the item order of outer axes.
pub(crate) fn lines(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    axis: usize,
) -> Result<(Buffer, Terms)> {
    let (buffer, start) = part(x)?;
    check_fits(name, "x", device, &buffer)?;
    let mut terms = Terms::of(x.layout, &[axis]).map_err(KernelError::argument(name))?;
    terms.first -= start;
    terms.check(name)?;
    let inner: usize = x.layout.shape()[axis + 1..].iter().product();
    terms.along = inner == 1;
    Ok((buffer, terms))
}
