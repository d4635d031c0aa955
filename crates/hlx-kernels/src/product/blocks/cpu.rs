//! Products with weights in blocks on the CPU: panels of 16 columns in parallel. The sums are integers, by whatever instructions;
//! their chains are floats, in one written order.

mod lanes;
mod plain;
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
use crate::parallel;
use crate::product::quantised::PIECE;
use crate::product::quantised::specification::factors;
use crate::product::rectangles::{Target, parts};
#[cfg(test)]
pub(super) use sums::instructions;
use sums::{Instructions, OfFormat};

/// Rows of A that meet a panel together.
const ROWS: usize = 4;
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
    /// Of as many weights as there are ranges of rows, one behind the other.
    pub words: &'a [u32],
    pub bias: Option<&'a [f32]>,
    pub extra: Option<&'a [f32]>,
}

/// What the sums read of a row of A.
#[derive(Clone, Copy)]
struct Row<'a> {
    /// Words of four digits: the upper ones, and the lower ones.
    digits: [&'a [i32]; 2],
    /// By groups, what the sums of the digits begin with: that of integers that are stored with an offset.
    begins: &'a [[i32; 2]],
    /// What minima are multiplied by: of four groups three words with a digit of each group's sum, the first of them times 2^16,
    /// the second times 2^8. Without scales the sums themselves.
    mins: &'a [i32],
}

/// What a panel's chains read of blocks that follow each other.
struct Strip<'a> {
    /// Whole chunks.
    words: &'a [u32],
    /// Blocks of the chunks; zeros that fill up the last chunk belong to no chain.
    blocks: usize,
    /// [`ROWS`] at most.
    rows: &'a [Row<'a>],
}

/// Sums over the groups of A's rows.
struct Groups {
    /// \[m, groups\], or \[m, 1\] of a format without an offset, which does not read them.
    begins: Vec<[i32; 2]>,
    /// \[m, words\], or \[m, 1\] of a format without minima, which does not read them.
    mins: Vec<i32>,
    /// The lengths of a row in both.
    of_row: [usize; 2],
}

struct Product<'a> {
    operands: Operands<'a>,
    /// Words of a panel.
    of_panel: usize,
    kernel: OfFormat,
    groups: Groups,
    c: Target,
}

/// Computes by the fastest instructions the product of each range of A's rows with the weight of its place. Other rows of C stay.
pub(super) fn products(operands: Operands<'_>, ranges: &[Range<usize>], c: &mut [f32]) {
    products_by(sums::fastest(), operands, ranges, c);
}

pub(super) fn products_by(
    instructions: Instructions,
    operands: Operands<'_>,
    ranges: &[Range<usize>],
    c: &mut [f32],
) {
    let panels = operands.sizes[1].div_ceil(PANEL);
    let product = Product {
        operands,
        of_panel: operands.words.len() / (panels * ranges.len()),
        kernel: instructions.of(operands.format),
        groups: Groups::new(&operands),
        c: Target::new(c),
    };
    let across = hlx_core::cpu::threads_of_launch() * 4;
    let mut tasks = Vec::new();
    for (weight, rows) in ranges.iter().enumerate() {
        for rows in parts(rows, TASK_ROWS) {
            for panels in parts(&(0..panels), panels.div_ceil(across).max(1)) {
                tasks.push((weight, rows.clone(), panels));
            }
        }
    }
    parallel::each(&mut tasks, |(weight, rows, panels)| {
        for panel in panels.clone() {
            product.panel(*weight, panel, rows);
        }
    });
}

impl Groups {
    fn new(operands: &Operands<'_>) -> Self {
        let (format, padded, [m, ..]) = (operands.format, operands.padded, operands.sizes);
        let (n_groups, has_offset) = (padded / format.group, format.stored_offset() != 0);
        // (Pieces of no elements would be no pieces.)
        let of_begins = if has_offset { n_groups } else { 1 };
        let of_mins = match (format.has_mins, format.has_scales) {
            (false, _) => 1,
            (true, true) => 3 * n_groups.div_ceil(4),
            (true, false) => n_groups,
        };
        let (mut begins, mut mins) = (vec![[0; 2]; m * of_begins], vec![0; m * of_mins]);
        let (high, low) = operands.digits.split_at(m * padded);
        if has_offset || format.has_mins {
            let rows = (
                parallel::write(&mut begins, of_begins),
                parallel::write(&mut mins, of_mins),
            );
            let of_row = |row: usize, begins: &mut [[i32; 2]], mins: &mut [i32]| {
                let [high, low] = [high, low].map(|digits| &digits[row * padded..][..padded]);
                sums_of_groups(high, low, format, begins, mins);
            };
            match m {
                1 => of_row(0, &mut begins, &mut mins),
                _ => parallel::for_each(rows, |row, (begins, mins)| of_row(row, begins, mins)),
            }
        }
        Self {
            begins,
            mins,
            of_row: [of_begins, of_mins],
        }
    }
}

impl Product<'_> {
    /// Results of a task's rows and of a panel's columns of a weight.
    fn panel(&self, weight: usize, panel: usize, rows: &Range<usize>) {
        let pieces = self.operands.padded.div_ceil(PIECE).max(1);
        let in_words = weight * self.operands.sizes[1].div_ceil(PANEL) + panel;
        for rows in parts(rows, ROWS) {
            let mut results = [[0.0; PANEL]; ROWS];
            for piece in 0..pieces {
                let terms = piece * PIECE..self.operands.sizes[2].min((piece + 1) * PIECE);
                let mut chains = [[0.0; PANEL]; ROWS];
                self.chain(in_words, &rows, terms, &mut chains[..rows.len()]);
                for ((row, chain), result) in rows.clone().zip(&chains).zip(&mut results) {
                    let of_row = factors(self.operands.exponents[row * pieces + piece]);
                    end_of_piece(chain, of_row, piece > 0, result);
                }
            }
            for (row, values) in rows.clone().zip(&mut results) {
                self.store(panel, row, values);
            }
        }
    }

    /// The chains of a piece's terms, with a panel of all weights.
    fn chain(
        &self,
        panel: usize,
        rows: &Range<usize>,
        terms: Range<usize>,
        chains: &mut [[f32; PANEL]],
    ) {
        let format = self.operands.format;
        let (chunk, of_panel) = (format.chunk(), self.of_panel);
        let chunk_words = format.places().words * PANEL;
        let words = &self.operands.words[panel * of_panel..][..of_panel];
        let chunks = terms.start / chunk..terms.end.div_ceil(chunk);
        let of_a: [Row<'_>; ROWS] =
            std::array::from_fn(|i| self.row(rows.start + i.min(rows.len() - 1), terms.start));
        let strip = Strip {
            words: &words[chunks.start * chunk_words..chunks.end * chunk_words],
            blocks: terms.len() / format.block,
            rows: &of_a[..rows.len()],
        };
        self.kernel.chains(&strip, chains);
    }

    /// What the sums read of a row of A, from a term on.
    fn row(&self, row: usize, first: usize) -> Row<'_> {
        let (operands, groups) = (&self.operands, &self.groups);
        let (padded, group) = (operands.padded, first / operands.format.group);
        let line = |plane: usize| {
            let at = (plane * operands.sizes[0] + row) * padded;
            bytemuck::cast_slice(&operands.digits[at..][first..padded])
        };
        let [of_begins, of_mins] = groups.of_row;
        let begins = &groups.begins[row * of_begins..][..of_begins];
        let mins = &groups.mins[row * of_mins..][..of_mins];
        let first_min = match operands.format.has_scales {
            true => 3 * (group / 4),
            false => group,
        };
        Row {
            digits: [line(0), line(1)],
            begins: &begins[group.min(of_begins)..],
            mins: &mins[first_min.min(of_mins)..],
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
    /// The sums of a row over its groups, as [`Row`] has them.
    fn sums_of_groups(
        high: &[i8],
        low: &[i8],
        format: &BlockFormat,
        begins: &mut [[i32; 2]],
        mins: &mut [i32],
    ) {
        let of = |digits: &[i8]| digits.iter().map(|digit| i32::from(*digit)).sum::<i32>();
        let digits = high.chunks_exact(format.group).zip(low.chunks_exact(format.group));
        for (group, (high, low)) in digits.enumerate() {
            let sums = [of(high), of(low)];
            if let Some(begins) = begins.get_mut(group) {
                *begins = sums.map(|sum| -format.stored_offset() * sum);
            }
            let sum = 256 * sums[0] + sums[1];
            match (format.has_mins, format.has_scales) {
                (false, _) => {}
                (true, false) => mins[group] = sum,
                (true, true) => {
                    // Digits with signs: what is left is a multiple of 256.
                    let lower = sum as i8;
                    let rest = (sum - i32::from(lower)) >> 8;
                    let middle = rest as i8;
                    let upper = ((rest - i32::from(middle)) >> 8) as i8;
                    for (word, digit) in mins[3 * (group / 4)..].iter_mut().zip([upper, middle, lower]) {
                        *word |= i32::from(digit as u8) << (8 * (group % 4));
                    }
                }
            }
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
