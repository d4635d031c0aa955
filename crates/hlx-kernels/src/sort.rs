//! Sorting along an axis: `sort`, `argsort` and `topk`, stable, of tensors of any layout and type.
//!
//! Elements are compared as numbers: -0 and +0 are equal, and NaN is larger than everything, so it
//! is last in ascending and first in descending order. Equal elements keep their order (the lower
//! place first) in both. So the order is total, and every way to reach it gives the same bits.
//! Values are moved as they are: zeros keep their signs and NaN its payload.
//!
//! On a GPU lines of up to 4,096 elements are sorted in shared memory (`sort/rows.comp`, `line.comp`),
//! longer ones by eight passes of a radix sort over 4 bits (`count.comp`, `offsets.comp`,
//! `scatter.comp`). The first few of a line are selected instead (`top.comp`).

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Buffer, DType, Device};
use rayon::prelude::*;

use crate::element::{compute_type, gather as widen, order_key};
use crate::error::{KernelError, check_len, check_that};
use crate::indexing::gather;
use crate::kernel::{Kernel, PushConstants};
use crate::layout::{Layout, Operand};
use crate::terms::{Terms, check_axis, check_operand, lines};

mod radix;
#[cfg(test)]
mod tests;
mod top;

pub(crate) use radix::sorted_pairs;

shader!(rows_shader, sort::rows);
shader!(line_shader, sort::line);

/// The longest line that is sorted in shared memory.
const LONGEST_LINE: usize = 4096;

/// The longest line of `rows.comp`: from there on a network takes longer than `line.comp`'s eight
/// passes.
const LONGEST_ROW: usize = 1024;

/// Pairs of a workgroup of `rows.comp`, if its lines are no longer.
const ROW_PAIRS: usize = 512;

/// Sorts `x` along `axis`: `values` (x's shape and type) and `indices` (x's shape, u32: the places
/// along the axis that they had). PyTorch: `torch.sort(x, axis, descending, stable=True)`.
///
/// # Errors
/// As [`topk`], whose `k` is the axis' extent here.
pub fn sort(
    device: &Device,
    x: Operand<'_>,
    axis: usize,
    descending: bool,
    values: &Buffer,
    indices: &Buffer,
) -> Result<(), KernelError> {
    check_axis("sort", axis, x.layout.shape())?;
    let k = x.layout.shape()[axis];
    select(
        device,
        "sort",
        x,
        (axis, k, descending),
        Some(values),
        indices,
    )
}

/// Writes to `indices` (x's shape, u32) the places along `axis` in the order of their elements.
/// PyTorch: `torch.argsort(x, axis, descending, stable=True)`.
///
/// # Errors
/// As [`sort`].
pub fn argsort(
    device: &Device,
    x: Operand<'_>,
    axis: usize,
    descending: bool,
    indices: &Buffer,
) -> Result<(), KernelError> {
    check_axis("argsort", axis, x.layout.shape())?;
    let k = x.layout.shape()[axis];
    select(device, "argsort", x, (axis, k, descending), None, indices)
}

/// Writes the `k` largest (or smallest) elements along `axis` in their order to `values` (x's type)
/// and their places to `indices` (u32), both contiguous, of x's shape with `k` along the axis. Ties
/// go to the lower place. PyTorch: `torch.topk(x, k, axis, largest, sorted=True)`.
///
/// # Errors
/// [`KernelError::Argument`] for an axis that does not exist, a `k` above its extent, a wrong type of
/// an output, or a tensor beyond 32-bit places on a GPU; [`KernelError::Length`] for an output of
/// another length; or the device's error.
#[allow(clippy::too_many_arguments)] // PyTorch's plain arguments.
pub fn topk(
    device: &Device,
    x: Operand<'_>,
    k: usize,
    axis: usize,
    largest: bool,
    values: &Buffer,
    indices: &Buffer,
) -> Result<(), KernelError> {
    check_axis("topk", axis, x.layout.shape())?;
    select(device, "topk", x, (axis, k, largest), Some(values), indices)
}

/// Sorts, and keeps the first `k` of each line; the values are gathered by their places.
fn select(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    (axis, k, descending): (usize, usize, bool),
    values: Option<&Buffer>,
    indices: &Buffer,
) -> Result<(), KernelError> {
    let (mut shape, dtype) = (x.layout.shape().to_vec(), x.buffer.dtype());
    check_operand(name, "x", x)?;
    let n = std::mem::replace(&mut shape[axis], k);
    check_that(name, k <= n, || {
        format!("k is {k}, expected at most the {n} elements of axis {axis}")
    })?;
    let layout = Layout::contiguous(&shape)?;
    check_len(name, "indices", indices, layout.n_elements())?;
    check_that(name, indices.dtype() == DType::U32, || {
        format!("indices has dtype {}, expected u32", indices.dtype())
    })?;
    if let Some(values) = values {
        check_len(name, "values", values, layout.n_elements())?;
        check_that(name, values.dtype() == dtype, || {
            format!("values has dtype {}, expected {dtype}", values.dtype())
        })?;
    }
    if indices.is_empty() {
        return Ok(());
    }
    let (part, terms) = lines(device, name, x, axis)?;
    let sort = Sort {
        inner: shape[axis + 1..].iter().product(),
        terms,
        k,
        dtype,
        flip: if descending { u32::MAX } else { 0 },
    };
    let second = match values {
        Some(values) if dtype.per_word() == 1 => Second::Values(values),
        _ => Second::None,
    };
    let is_stored = if top::serves(device, &sort) {
        top::topk(device, name, &sort, &part, second, indices)?;
        true
    } else if device.is_cpu() || n <= LONGEST_LINE {
        sort.launch_lines(device, name, &part, second, indices)?;
        true
    } else {
        radix::argsort(device, name, &sort, &part, indices)?;
        false
    };
    match (values, second) {
        (None, _) => Ok(()),
        (_, Second::Values(_)) if is_stored => Ok(()),
        (Some(values), _) => {
            let index = Operand {
                buffer: indices,
                layout: &layout,
            };
            gather(device, x, axis, index, values, None)
        }
    }
}

/// What a sort writes besides places.
#[derive(Clone, Copy, Debug)]
enum Second<'a> {
    None,
    /// The keys, u32.
    Keys(&'a Buffer),
    /// The elements, of 32 bits.
    Values(&'a Buffer),
}

impl<'a> Second<'a> {
    /// The constant of `results.glsl`.
    fn constant(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Keys(_) => 1,
            Self::Values(_) => 2,
        }
    }

    fn buffer(self) -> Option<&'a Buffer> {
        match self {
            Self::None => None,
            Self::Keys(buffer) | Self::Values(buffer) => Some(buffer),
        }
    }
}

/// The lines of one sort.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    /// The lines are the results, their elements the terms.
    terms: Terms,
    /// The distance of neighbours along the axis in the result.
    inner: usize,
    /// Results of a line.
    k: usize,
    dtype: DType,
    /// All bits for a descending order.
    flip: u32,
}

impl Sort {
    /// The push constants for lines of `n` elements; those of a radix sort have blocks and a shift.
    fn push(&self, n: usize, blocks: usize, shift: usize) -> PushConstants {
        let (terms, lines) = (&self.terms, &self.terms.kept);
        let (extents, strides) = lines.words();
        push!(rows_shader =>
            lines: terms.n_results, n, blocks, shift, k: self.k, inner: self.inner,
            axis_stride: terms.reduced.innermost().1 as u32, first: terms.first,
            n_dims: lines.shape.len(), extents, strides
        )
    }

    /// Sorts every line in one launch: lines of up to 4,096 elements, on the CPU device any.
    fn launch_lines(
        &self,
        device: &Device,
        name: &'static str,
        x: &Buffer,
        second: Second<'_>,
        places: &Buffer,
    ) -> Result<(), KernelError> {
        let row = self.terms.n.next_power_of_two().max(2);
        let (shader, lines_a_group) = match row {
            ..=LONGEST_ROW => (&rows_shader::SHADER, (ROW_PAIRS / row).max(1)),
            _ => (&line_shader::SHADER, 1),
        };
        let mut specialization = vec![(0, self.dtype.id()), (1, self.flip), (3, second.constant())];
        if row <= LONGEST_ROW {
            specialization.push((2, row as u32));
        }
        let unused = match second {
            Second::None => Some(device.alloc_typed(DType::U32, 1)?),
            _ => None,
        };
        let second_buffer = second.buffer().or(unused.as_ref()).unwrap_or(places);
        let kernel = Kernel::new(name, shader)
            .constants(&specialization)
            .reads([x])
            .writes([second_buffer, places]);
        let groups = self.terms.n_results.div_ceil(lines_a_group);
        let (sort, kind) = (self.clone(), second.constant());
        let push = self.push(self.terms.n, 1, 0);
        kernel.launch(device, push, groups, move |[x], [second, places]| {
            let (second, places) = (cast_slice_mut(second), cast_slice_mut(places));
            sort.on_cpu(kind, cast_slice(x), second, places);
        })
    }

    /// Sorts on the CPU device; `kind` is [`Second::constant`].
    fn on_cpu(&self, kind: u32, x: &[u32], second: &mut [u32], places: &mut [u32]) {
        let block = self.k * self.inner;
        let unused = second.len() < places.len();
        let blocks = places.par_chunks_mut(block).enumerate();
        if unused {
            blocks.for_each(|(outer, places)| self.sort_block(x, outer, places, |_, _, _| {}));
            return;
        }
        let blocks = blocks.zip(second.par_chunks_mut(block));
        blocks.for_each(|((outer, places), second)| {
            self.sort_block(x, outer, places, |at, line, pair| {
                second[at] = match kind {
                    1 => (pair >> 32) as u32,
                    _ => x[self.terms.place(line, pair as u32 as usize)],
                };
            });
        });
    }

    /// Sorts the lines of a block of results, and calls `store` with a result's place in the block, its
    /// line and its pair.
    fn sort_block(
        &self,
        x: &[u32],
        outer: usize,
        places: &mut [u32],
        mut store: impl FnMut(usize, usize, u64),
    ) {
        let inner = self.inner;
        // Lines are sorted side by side, and then stored by the task that has their block.
        let lines = (outer * inner..(outer + 1) * inner).into_par_iter();
        let sorted = lines.with_min_len((1 << 12) / self.terms.n.max(1) + 1);
        let sorted: Vec<Vec<u64>> = sorted.map(|line| self.sorted_line(x, line)).collect();
        for (column, pairs) in sorted.iter().enumerate() {
            for (j, &pair) in pairs.iter().enumerate() {
                let at = j * inner + column;
                places[at] = pair as u32;
                store(at, outer * inner + column, pair);
            }
        }
    }

    /// The first `k` pairs of a line: the key above, the place below.
    fn sorted_line(&self, x: &[u32], line: usize) -> Vec<u64> {
        /// Elements from which a line is sorted by all workers.
        const LONG: usize = 1 << 15;
        let mut words = vec![0; self.terms.n];
        let (_, stride) = self.terms.reduced.innermost();
        widen(self.dtype, x, self.terms.place(line, 0), stride, &mut words);
        let dtype = compute_type(self.dtype);
        let pair = |(place, word): (usize, &u32)| {
            u64::from(order_key(dtype, *word) ^ self.flip) << 32 | place as u64
        };
        let mut pairs: Vec<u64> = words.iter().enumerate().map(pair).collect();
        if self.k < pairs.len() / 4 && self.k > 0 {
            pairs.select_nth_unstable(self.k);
            pairs.truncate(self.k);
        }
        if pairs.len() < LONG {
            pairs.sort_unstable();
        } else {
            pairs.par_sort_unstable();
        }
        pairs.truncate(self.k);
        pairs
    }
}
