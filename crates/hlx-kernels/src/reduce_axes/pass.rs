//! One pass of a reduction over any axes: where the terms lie, and how they are cut for a device.

use hlx_core::Context;

use super::words_shader;
use crate::error::{KernelError, check_that};
use crate::layout::{Layout, Walk};

/// Terms of a piece.
pub(super) const PIECE: usize = 4096;

/// Threads of a workgroup.
const GROUP: usize = 256;

/// Joined dimensions in row-major order.
#[derive(Clone, Debug)]
pub(super) struct Dims {
    pub shape: Vec<usize>,
    pub strides: Vec<isize>,
}

impl Dims {
    fn of(layout: &Layout) -> Self {
        let mut walk = Walk::over(&[layout]);
        Self {
            shape: walk.shape,
            strides: walk.strides.pop().unwrap_or_default(),
        }
    }

    fn line(extent: usize, stride: usize) -> Self {
        Self {
            shape: vec![extent],
            strides: vec![stride as isize],
        }
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
    pub fn runs(&self, begin: usize, count: usize, mut run: impl FnMut(isize, usize)) {
        let (extent, _) = self.innermost();
        let (mut number, end) = (begin, begin + count);
        while number < end {
            let length = (extent - number % extent).min(end - number);
            run(self.place(number), length);
            number += length;
        }
    }
}

/// The terms of every result of one pass.
#[derive(Clone, Debug)]
pub(super) struct Terms {
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

    /// Checks that 32 bits count terms and pieces.
    pub fn check(&self, operation: &'static str) -> Result<(), KernelError> {
        let largest = self.n.max(self.items());
        check_that(operation, u32::try_from(largest).is_ok(), || {
            format!("{largest} terms or pieces are more than 2^32 - 1")
        })
    }

    /// The push constants of both shaders.
    pub fn push(&self) -> words_shader::Push {
        let (mut extents, mut strides) = ([1; 8], [0; 8]);
        let dims = [&self.kept, &self.reduced];
        let all = dims
            .iter()
            .flat_map(|dims| dims.shape.iter().zip(&dims.strides));
        for (place, (&extent, &stride)) in all.enumerate() {
            (extents[place], strides[place]) = (extent as u32, stride as u32);
        }
        let n_kept = self.kept.shape.len();
        let (magic, shift) = division(self.reduced.innermost().0 as u32);
        words_shader::Push {
            items: self.items() as u32,
            kept: self.n_results as u32,
            pieces: self.pieces() as u32,
            terms: self.n as u32,
            first: self.first as u32,
            origin: self.origin as u32,
            n_kept: n_kept as u32,
            // One at least that is reduced: the shaders multiply its stride by 0 where none is.
            n_dims: (n_kept + self.reduced.shape.len().max(1)).min(8) as u32,
            magic,
            shift,
            extents,
            strides,
        }
    }

    /// How this device cuts the pass.
    pub fn cut(&self, ctx: &Context) -> Cut {
        let (processors, loads) = (ctx.tuning().processors, ctx.tuning().reduction_loads);
        let lanes = self.n.max(1).next_power_of_two().min(128);
        let mut threads = (lanes / if self.along { 4 } else { loads }).max(1);
        if self.along && lanes == 128 && self.items() < 16 * processors {
            threads = 128; // Few pieces: a workgroup has two instead of eight.
        }
        // Runs of 32 columns for outer axes, or as many as there are; a memory sector has 8.
        let few = |columns: usize| columns > 8 && self.items().div_ceil(columns) < 2 * processors;
        let wide = |columns: usize| columns > self.n_results.next_power_of_two();
        while !self.along && 2 * threads <= lanes && (wide(GROUP / threads) || few(GROUP / threads))
        {
            threads *= 2;
        }
        let blocks = self.n.clamp(1, PIECE).div_ceil(lanes).next_power_of_two();
        Cut {
            lanes,
            threads,
            columns: GROUP / threads,
            ahead: (loads * threads / lanes).min(blocks),
        }
    }
}

/// How a pass is cut into workgroups; the constants of `pieces.glsl`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Lanes that have a term.
    lanes: usize,
    /// Threads of an item.
    threads: usize,
    /// Items of a workgroup.
    columns: usize,
    /// Blocks of all lanes that a thread loads at once.
    ahead: usize,
}

impl Cut {
    /// The constants 0 to 7.
    pub fn specialization(self, terms: &Terms, dtype: u32) -> [(u32, u32); 8] {
        [
            (0, GROUP as u32),
            (1, self.lanes as u32),
            (2, self.threads as u32),
            (3, self.columns as u32),
            (4, self.ahead as u32),
            (5, u32::from(terms.along)),
            (6, u32::from(terms.reduced.shape.len() > 1)),
            (7, dtype),
        ]
    }

    pub fn groups(self, items: usize) -> [u32; 3] {
        hlx_core::groups_1d(items.div_ceil(self.columns))
    }
}

/// Multiplier and shift with which 32-bit words are divided by `divisor`, 2 or more: for
/// `t = high word of multiplier * n` the quotient is `(t + (n - t) / 2) >> shift` (T. Granlund and
/// P. Montgomery, *Division by invariant integers using multiplication*, 1994, figure 4.1).
fn division(divisor: u32) -> (u32, u32) {
    let divisor = u64::from(divisor.max(2));
    let bits = 64 - (divisor - 1).leading_zeros();
    let multiplier = ((((1_u64 << bits) - divisor) << 32) / divisor) + 1;
    (multiplier as u32, bits - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact() {
        let edges = [
            0,
            1,
            2,
            4095,
            4096,
            4097,
            0x7fff_ffff,
            0x8000_0000,
            u32::MAX,
        ];
        for divisor in (2..70).chain([127, 1000, 4096, 65_537, 0x8000_0001, u32::MAX - 1, u32::MAX])
        {
            let (multiplier, shift) = division(divisor);
            for n in edges
                .into_iter()
                .chain([divisor - 1, divisor, divisor.wrapping_mul(3)])
            {
                let high = ((u64::from(multiplier) * u64::from(n)) >> 32) as u32;
                assert_eq!(
                    (high + ((n - high) >> 1)) >> shift,
                    n / divisor,
                    "{n} / {divisor}"
                );
            }
        }
    }

    #[test]
    fn runs_cover_the_elements_in_order() {
        let layout = Layout::contiguous(&[3, 4, 5])
            .map(|layout| layout.permute(&[2, 0, 1]).expect("a permutation"));
        let dims = Dims::of(&layout.expect("a layout"));
        let mut places = Vec::new();
        dims.runs(7, 40, |place, count| {
            let (_, stride) = dims.innermost();
            places.extend((0..count as isize).map(|i| place + i * stride));
        });
        let want: Vec<isize> = (7..47).map(|number| dims.place(number)).collect();
        assert_eq!(places, want);
    }
}
