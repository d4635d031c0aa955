//! Lines of elements, sorted as pairs of a key and a place: what `sort` selects from, and what `indexing` adds in the order of.
//!
//! A key orders words as their numbers are ordered ([`order_key`]); equal keys keep the order of their places.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, DType, Device};

use crate::element::{compute_type, gather as widen, order_key};
use crate::error::Result;
use crate::kernel::{Kernel, PushConstants};
use crate::parallel::{self, for_each, write};
use crate::terms::Terms;

mod radix;
mod top;

pub(crate) use radix::sorted_pairs;

shader!(sort::{rows as rows_shader, line as line_shader});

/// The longest line that is sorted in shared memory.
const LONGEST_LINE: usize = 4096;

/// The longest line of `rows.comp`: from there on a network takes longer than `line.comp`'s eight
/// sweeps.
const LONGEST_ROW: usize = 1024;

/// Pairs of a workgroup of `rows.comp`, if its lines are no longer.
const ROW_PAIRS: usize = 512;

/// What a sort writes besides places.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Second<'a> {
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
    pub terms: Terms,
    /// The distance of neighbours along the axis in the result.
    pub inner: usize,
    /// Results of a line.
    pub k: usize,
    pub dtype: DType,
    /// All bits for a descending order.
    pub flip: u32,
}

impl Sort {
    /// Writes the places of the first `k` of each line, and `second` unless it returns false.
    pub fn run(
        &self,
        device: &Device,
        name: &'static str,
        x: &Buffer,
        second: Second<'_>,
        places: &Buffer,
    ) -> Result<bool> {
        if top::serves(device, self) {
            top::topk(device, name, self, x, second, places)?;
        } else if device.is_cpu() || self.terms.n <= LONGEST_LINE {
            self.launch_lines(device, name, x, second, places)?;
        } else {
            radix::argsort(device, name, self, x, places)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// The push constants for lines of `n` elements; those of a radix sort have blocks and a shift.
    fn push(&self, n: usize, blocks: usize, shift: usize) -> PushConstants {
        let (terms, lines) = (&self.terms, &self.terms.remaining);
        let (extents, [strides]) = lines.words();
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
    ) -> Result<()> {
        let row = self.terms.n.next_power_of_two().max(2);
        let (shader, lines_a_group) = match row {
            ..=LONGEST_ROW => (&rows_shader::SHADER, (ROW_PAIRS / row).max(1)),
            _ => (&line_shader::SHADER, 1),
        };
        let mut specialization = vec![(0, self.dtype.id()), (1, self.flip), (3, second.constant())];
        if row <= LONGEST_ROW {
            specialization.push((2, row as u32));
        }
        let kernel = Kernel::new(name, shader)
            .constants(&specialization)
            .reads([x])
            .writes_if(second.buffer().map(Binding::Write))
            .writes([places]);
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
        if second.len() < places.len() {
            let store = |outer, places: &mut [u32]| self.sort_block(x, outer, places, |_, _, _| {});
            return for_each(write(places, block), store);
        }
        let blocks = (write(places, block), write(second, block));
        for_each(blocks, |outer, (places, second)| {
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
        let per_task = (1 << 12) / self.terms.n.max(1) + 1;
        let sorted = parallel::map(inner.div_ceil(per_task), |task| {
            let columns = task * per_task..inner.min((task + 1) * per_task);
            let lines = columns.map(|column| self.sorted_line(x, outer * inner + column));
            lines.collect::<Vec<_>>()
        });
        for (column, pairs) in sorted.iter().flatten().enumerate() {
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
            parallel::sort(&mut pairs);
        }
        pairs.truncate(self.k);
        pairs
    }
}
