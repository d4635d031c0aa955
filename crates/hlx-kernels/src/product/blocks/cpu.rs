//! Products with weights in blocks on the CPU: panels of 16 columns in parallel. The sums are integers, by whatever instructions;
//! their chains are floats, in one written order.

mod lanes;
mod sums;
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all are in methods that are inlined into kernels compiled for their instructions"
)]
mod x86;

use std::ops::Range;

use hlx_core::{arith, multiversion};

use super::format::{BlockFormat, PANEL};
use super::packed::factors_of;
use crate::parallel;
use crate::product::quantised::PIECE;
use crate::product::quantised::specification::factors;
use crate::product::rectangles::{Target, parts};
#[cfg(test)]
pub(super) use sums::instructions;
use sums::{Instructions, OfFormat};

/// Rows of A that meet a panel together.
const ROWS: usize = 4;
/// Blocks whose sums are held at a time.
const STRIP: usize = 16;
/// Rows of a task at most: their digits stay in a cache.
const TASK_ROWS: usize = 64;

/// A product's operands as they lie in memory.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub format: &'static BlockFormat,
    /// Rows of A, of the weight, and terms.
    pub sizes: [usize; 3],
    /// Of A, \[2, m, padded\].
    pub digits: &'a [i8],
    /// Of A, \[m, pieces\].
    pub exponents: &'a [i32],
    pub padded: usize,
    pub words: &'a [u32],
    pub bias: Option<&'a [f32]>,
    pub extra: Option<&'a [f32]>,
}

/// What the sums read of a row of A: words of four digits, the upper ones and the lower ones, and the digits' sums by groups.
#[derive(Clone, Copy)]
struct Row<'a> {
    digits: [&'a [i32]; 2],
    groups: &'a [[i32; 2]],
}

/// The sums of a strip of blocks: those of q X, upper and lower digits, and those of minima, of [`PANEL`] columns.
type Sums = [[[i32; PANEL]; 3]; STRIP];

struct Product<'a> {
    operands: Operands<'a>,
    kernel: OfFormat,
    /// The sums of A's digits by groups, \[m, groups of a row\].
    groups: &'a [[i32; 2]],
    groups_of_row: usize,
    c: Target,
}

/// Results of a task's rows, and of the columns of a panel.
type Results = [[f32; PANEL]; TASK_ROWS];

/// Computes a product by the fastest instructions.
pub(super) fn product(operands: Operands<'_>, c: &mut [f32]) {
    product_by(sums::fastest(), operands, c);
}

pub(super) fn product_by(instructions: Instructions, operands: Operands<'_>, c: &mut [f32]) {
    let [m, n, _] = operands.sizes;
    let groups_of_row = operands.padded / operands.format.group;
    let groups = group_sums(&operands, groups_of_row);
    let product = Product {
        operands,
        kernel: instructions.of(operands.format),
        groups: &groups,
        groups_of_row,
        c: Target::new(c),
    };
    let mut tasks = Vec::new();
    for rows in parts(&(0..m), TASK_ROWS) {
        let across = hlx_core::cpu::threads_of_launch() * 4;
        let panels = n.div_ceil(PANEL);
        for panels in parts(&(0..panels), panels.div_ceil(across).max(1)) {
            tasks.push((rows.clone(), panels));
        }
    }
    parallel::each(&mut tasks, |(rows, panels)| {
        for panel in panels.clone() {
            product.panel(panel, rows);
        }
    });
}

/// The sums of A's digits by groups.
fn group_sums(operands: &Operands<'_>, of_row: usize) -> Vec<[i32; 2]> {
    let [m, ..] = operands.sizes;
    let (high, low) = operands.digits.split_at(m * operands.padded);
    let mut sums = vec![[0; 2]; m * of_row];
    let rows = parallel::write(&mut sums, of_row.max(1));
    parallel::for_each(rows, |row, sums: &mut [[i32; 2]]| {
        let at = row * operands.padded;
        let [high, low] = [high, low].map(|digits| &digits[at..][..operands.padded]);
        sums_of_groups(high, low, operands.format.group, sums);
    });
    sums
}

impl Product<'_> {
    /// Results of a task's rows and of a panel's columns.
    fn panel(&self, panel: usize, rows: &Range<usize>) {
        let mut results: Results = [[0.0; PANEL]; TASK_ROWS];
        let pieces = self.operands.padded.div_ceil(PIECE).max(1);
        for piece in 0..pieces {
            let terms = piece * PIECE..self.operands.padded.min((piece + 1) * PIECE);
            let mut chains: Results = [[0.0; PANEL]; TASK_ROWS];
            self.chain(panel, rows, terms, &mut chains);
            for ((row, chain), result) in rows.clone().zip(&chains).zip(&mut results) {
                let of_row = factors(self.operands.exponents[row * pieces + piece]);
                end_of_piece(chain, of_row, piece > 0, result);
            }
        }
        for (row, values) in rows.clone().zip(&mut results) {
            self.store(panel, row, values);
        }
    }

    /// Continues the chains of a piece's terms.
    fn chain(&self, panel: usize, rows: &Range<usize>, terms: Range<usize>, chains: &mut Results) {
        let (format, places) = (self.operands.format, self.operands.format.places());
        let (chunk, [_, n, k]) = (format.chunk(), self.operands.sizes);
        let chunk_words = places.words * PANEL;
        let of_panel = self.operands.words.len() / n.div_ceil(PANEL);
        let words = &self.operands.words[panel * of_panel..][..of_panel];
        let strip = STRIP * format.block;
        let mut sums: [Sums; ROWS] = [[[[0; PANEL]; 3]; STRIP]; ROWS];
        for terms in parts(
            &(terms.start..terms.end.min(k.next_multiple_of(chunk))),
            strip,
        ) {
            let chunks = terms.start / chunk..terms.end.div_ceil(chunk);
            let words = &words[chunks.start * chunk_words..chunks.end * chunk_words];
            // Zeros that fill up a chunk belong to no chain.
            let blocks = (terms.end.min(k) - terms.start) / format.block;
            let mut floats = [[[0.0; PANEL]; 2]; STRIP];
            let floats = &mut floats[..blocks];
            floats_of(words, places.words, places.factors, format, floats);
            for (rows, chains) in parts(rows, ROWS).zip(chains.chunks_mut(ROWS)) {
                let of_a: [Row<'_>; ROWS] =
                    std::array::from_fn(|i| self.row(rows.start + i.min(rows.len() - 1), &terms));
                self.kernel.sums(words, &of_a[..rows.len()], &mut sums);
                let chains = &mut chains[..rows.len()];
                continue_chains(&sums, floats, format.has_mins, chains);
            }
        }
    }

    /// What the sums read of a row of A, of a range of terms.
    fn row(&self, row: usize, terms: &Range<usize>) -> Row<'_> {
        let operands = &self.operands;
        let (padded, group) = (operands.padded, operands.format.group);
        let line = |plane: usize| {
            let at = (plane * operands.sizes[0] + row) * padded;
            bytemuck::cast_slice(&operands.digits[at..][terms.clone()])
        };
        let groups = &self.groups[row * self.groups_of_row..][..self.groups_of_row];
        Row {
            digits: [line(0), line(1)],
            groups: &groups[terms.start / group..terms.end / group],
        }
    }

    /// Adds what is added at the end, and stores a row's results.
    fn store(&self, panel: usize, row: usize, values: &mut [f32; PANEL]) {
        let [_, n, _] = self.operands.sizes;
        let first = panel * PANEL;
        let values = &mut values[..PANEL.min(n - first)];
        let at = row * n + first;
        if let Some(bias) = self.operands.bias {
            for (v, bias) in values.iter_mut().zip(&bias[first..]) {
                *v = arith::pos0(arith::add(*v, *bias));
            }
        }
        if let Some(extra) = self.operands.extra {
            for (v, extra) in values.iter_mut().zip(&extra[at..]) {
                *v = arith::add(*v, *extra);
            }
        }
        // SAFETY: no other task has this row and panel.
        let c =
            unsafe { std::slice::from_raw_parts_mut(self.c.at(at, values.len()), values.len()) };
        c.copy_from_slice(values);
    }
}

multiversion! {
    /// The sums of a row's digits by groups.
    fn sums_of_groups(high: &[i8], low: &[i8], group: usize, sums: &mut [[i32; 2]]) {
        let of = |digits: &[i8]| digits.iter().map(|digit| i32::from(*digit)).sum::<i32>();
        let digits = high.chunks_exact(group).zip(low.chunks_exact(group));
        for (sums, (high, low)) in sums.iter_mut().zip(digits) {
            *sums = [of(high), of(low)];
        }
    }

    /// What multiplies the sums of chunks' blocks: `d` and `dmin`.
    fn floats_of(
        words: &[u32],
        chunk_words: usize,
        first: usize,
        format: &BlockFormat,
        to: &mut [[[f32; PANEL]; 2]],
    ) {
        let of_chunk = format.chunk() / format.block;
        let lines = words.as_chunks::<PANEL>().0;
        for (at, [d, dmin]) in to.iter_mut().enumerate() {
            let chunk = &lines[at / of_chunk * chunk_words + first..];
            let of_block = at % of_chunk;
            for i in 0..PANEL {
                let factors = factors_of(format, of_block, |word| chunk[word][i]);
                d[i] = format.factor_of(factors[0]);
                dmin[i] = factors[1];
            }
        }
    }

    /// Continues the chains of rows' columns by blocks: their sums, and their `d` and `dmin`.
    fn continue_chains<A>(
        sums: &[Sums; ROWS],
        floats: &[[[f32; PANEL]; 2]],
        has_mins: bool,
        chains: &mut [[f32; PANEL]],
    ) {
        for (chain, sums) in chains.iter_mut().zip(sums) {
            let mut c = *chain;
            for ([high, low, mins], [d, dmin]) in sums.iter().zip(floats) {
                for i in 0..PANEL {
                    let upper = high[i] + (low[i] >> 8);
                    let lower = ((upper & 0xffff) << 8 | (low[i] & 0xff)) as f32;
                    let sum = A::fma((upper >> 16) as f32, 16_777_216.0, lower);
                    c[i] = A::fma(d[i], sum, c[i]);
                }
                if has_mins {
                    for i in 0..PANEL {
                        c[i] = A::fma(-dmin[i], mins[i] as f32, c[i]);
                    }
                }
            }
            *chain = c;
        }
    }

    /// Scales the chains of a piece and adds them to the results of the pieces before.
    fn end_of_piece<A>(
        chain: &[f32; PANEL],
        of_row: [f32; 2],
        is_added: bool,
        results: &mut [f32],
    ) {
        for (result, c) in results.iter_mut().zip(chain) {
            let v = arith::pos0(A::mul(A::mul(*c, of_row[0]), of_row[1]));
            *result = if is_added { arith::add(*result, v) } else { v };
        }
    }
}
