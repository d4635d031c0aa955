//! Running sums and products along an axis: `out[i] = x[0] join x[1] join ... join x[i]`.
//!
//! x of any layout, f32, i32 or u32; out contiguous, of x's shape and type. PyTorch: `cumsum`,
//! `cumprod`.
//!
//! **Order.** A line is cut into pieces of 4,096 elements. Within a piece a chain from +0 (products:
//! from 1) over its elements in order gives `inner[i]`, and its end is the piece's total. A second
//! chain from the same start over the totals in order gives `before[p]`, what the pieces before
//! piece `p` come to. The result is `inner[i]` in the first piece and `before[p] join inner[i]` in
//! the others. A float sum of zero is +0, totals included; integers wrap.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Buffer, Device};

use crate::error::{Result, check_typed};
use crate::join::Join;
use crate::kernel::{Kernel, PushConstants};
use crate::layout::Operand;
use crate::map::GROUP_THREADS;
use crate::terms::{PIECE, Terms, check_axis, check_fits, check_operand, lines};
use crate::tuning::KernelTuning;

mod cpu;
#[cfg(test)]
mod tests;

shader!(scan::{along, across});

/// Items of a workgroup of `along.comp`.
const ALONG_ITEMS: usize = 32;

/// Writes the running sums of `x` along `axis` to `out`, contiguous of x's shape and type.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for an axis that does not exist, another type than
/// f32, i32 or u32, or a tensor beyond 32-bit places on a GPU;
/// [`KernelError::Length`](crate::KernelError::Length) for an `out` of another length; or the device's error.
pub fn cumsum(device: &Device, x: Operand<'_>, axis: usize, out: &Buffer) -> Result<()> {
    scan(device, "cumsum", Join::sum(x.buffer.dtype()), x, axis, out)
}

/// Writes the running products of `x` along `axis` to `out`, as [`cumsum`].
///
/// # Errors
/// As [`cumsum`].
pub fn cumprod(device: &Device, x: Operand<'_>, axis: usize, out: &Buffer) -> Result<()> {
    let join = Join::product(x.buffer.dtype());
    scan(device, "cumprod", join, x, axis, out)
}

/// One launch: the pieces of every line of `terms`.
#[derive(Clone, Debug)]
struct Sweep {
    join: Join,
    /// The lines are the results, their elements the terms.
    terms: Terms,
    /// Elements of a piece.
    piece: usize,
    /// The distance of an element's neighbours along the axis in the result.
    inner: usize,
    /// Only the pieces' totals are stored.
    totals: bool,
}

impl Sweep {
    fn pieces(&self) -> usize {
        self.terms.n.div_ceil(self.piece)
    }

    fn elements(&self, piece: usize) -> Range<usize> {
        piece * self.piece..self.terms.n.min((piece + 1) * self.piece)
    }

    fn items(&self) -> usize {
        self.terms.n_results * self.pieces()
    }

    /// The chains over the totals of this sweep, each whole.
    fn of_totals(&self) -> Self {
        let (lines, pieces) = (self.terms.n_results, self.pieces());
        Self {
            join: self.join,
            terms: self.terms.of_totals(),
            piece: pieces,
            inner: if self.inner == 1 { 1 } else { lines },
            totals: false,
        }
    }

    /// The block is that of both shaders: it is of scan.glsl.
    fn push(&self) -> PushConstants {
        let lines = &self.terms.remaining;
        let (extents, [strides]) = lines.words();
        let (terms, piece) = (&self.terms, self.piece);
        push!(along =>
            items: self.items(), lines: terms.n_results, pieces: self.pieces(), piece,
            n: terms.n, inner: self.inner, axis_stride: terms.reduced.innermost().1 as u32,
            first: terms.first, n_dims: lines.shape.len(), extents, strides
        )
    }

    /// Launches it; `before` has the running totals of the items.
    fn launch(
        self,
        device: &Device,
        name: &'static str,
        x: &Buffer,
        before: Option<&Buffer>,
        out: &Buffer,
    ) -> Result<()> {
        let (along, with_before) = (self.inner == 1, before.is_some());
        let a_group = if along { ALONG_ITEMS } else { GROUP_THREADS };
        let shader = match along {
            true => &along::SHADER,
            false => &across::SHADER,
        };
        let constants = constants!(0: self.join as u32, self.totals, with_before,
            KernelTuning::of(device).reduction_loads);
        let kernel = Kernel::new(name, shader)
            .constants(constants)
            .reads([x])
            .read_if("before", before, self.items())?
            .writes([out]);
        let (push, groups) = (self.push(), self.items().div_ceil(a_group));
        kernel.launch(device, push, groups, move |[x, before], [out]| {
            let before = with_before.then(|| cast_slice(before));
            cpu::scan(&self, cast_slice(x), before, cast_slice_mut(out));
        })
    }
}

fn scan(
    device: &Device,
    name: &'static str,
    join: Join,
    x: Operand<'_>,
    axis: usize,
    out: &Buffer,
) -> Result<()> {
    let (shape, dtype) = (x.layout.shape(), x.buffer.dtype());
    check_axis(name, axis, shape)?;
    check_operand(name, "x", x)?;
    check_that!(name, dtype.size() == 4 => "x has dtype {dtype}, expected f32, i32 or u32")?;
    check_typed(name, "out", out, dtype, x.layout.n_elements())?;
    if out.is_empty() {
        return Ok(());
    }
    let (x_part, terms) = lines(device, name, x, axis)?;
    check_fits(name, "out", device, out)?;
    let sweep = Sweep {
        join,
        terms,
        piece: PIECE,
        inner: shape[axis + 1..].iter().product(),
        totals: false,
    };
    if sweep.pieces() == 1 {
        return sweep.launch(device, name, &x_part, None, out);
    }
    let totals = device.alloc_typed(dtype, sweep.items())?;
    let before = device.alloc_typed(dtype, sweep.items())?;
    let mut first = sweep.clone();
    first.totals = true;
    first.launch(device, name, &x_part, None, &totals)?;
    let chains = sweep.of_totals();
    chains.launch(device, name, &totals, None, &before)?;
    sweep.launch(device, name, &x_part, Some(&before), out)
}
