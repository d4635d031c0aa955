//! Row reductions on the CPU: the twin of `shaders/include/reduce.glsl`, one order for both.
//!
//! Lane `l` of 128 adds the columns `l, l + 128, l + 256, ...` in that order, starting from +0;
//! then `lane[l] += lane[l + 64]` for `l < 64`, and so on with 32, 16, 8, 4, 2, 1. A sum of zero is
//! +0. The 128 lanes are eight AVX-512 registers, which also hides the latency of the additions.

use hlx_core::{Device, arith, groups_1d};

use crate::Result;
use crate::tuning::{KernelTuning, RowCut};

/// Lanes of a row reduction.
pub const LANES: usize = 128;

/// Rows that a workgroup of `reduce.glsl` computes (`HLX_ROWS`).
pub(crate) const ROWS_A_GROUP: usize = 8;

/// The launch side of `shaders/include/held_row.glsl`. The cut changes no bit.
impl RowCut {
    /// The cut for kernels that hold rows of `cols` elements in registers; `None` where the device's
    /// tuning has none for rows of this length.
    pub(crate) fn held(device: &Device, cols: usize) -> Option<Self> {
        Self::covering(&KernelTuning::of(device).held_rows, cols)
    }

    /// The cut for kernels that read a row several times, of `cols` elements.
    pub(crate) fn streamed(device: &Device, cols: usize) -> Self {
        let cut = Self::covering(&KernelTuning::of(device).streamed_rows, cols);
        cut.unwrap_or(Self::new(usize::MAX, 32, 8, 1))
    }
    pub(crate) fn specialization(self, cols: usize) -> [(u32, u32); 4] {
        constants!(0: self.threads * self.rows, cols, self.threads, self.rows)
    }
    pub(crate) fn groups(self, rows: usize) -> [u32; 3] {
        groups_1d(rows.div_ceil(self.rows))
    }
}

/// Checks that a row has elements and that 32 bits count those of all rows.
pub(crate) fn check_rows(operation: &'static str, rows: usize, cols: usize) -> Result<()> {
    check_that!(operation, cols > 0 => "a row has no elements")?;
    let len = rows.checked_mul(cols);
    let fits = len.is_some_and(|len| u32::try_from(len).is_ok());
    check_that!(operation, fits => "{rows} rows of {cols} are more than 2^32 - 1 elements")
}

/// Rows for one task of the CPU device: about 16,384 elements, some ten microseconds of work.
pub(crate) fn rows_a_task(cols: usize) -> usize {
    (16_384 / cols.max(1)).max(1)
}

/// Sums `f` of the elements of `N` rows of one length, in the order above.
///
/// `sum([x], |[x]| x)` is a row's sum, `sum([y, dy], |[y, dy]| y * dy)` that of a product.
#[inline(always)]
pub fn sum<const N: usize>(rows: [&[f32]; N], f: impl Fn([f32; N]) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for_each_block(rows, |lane, values| lanes[lane] += f(values));
    arith::pos0(tree(lanes, |a, b| a + b))
}

/// Joins the elements of a row in the order above, the lanes starting from `start`.
#[inline(always)]
pub(crate) fn fold(row: &[f32], start: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; LANES];
    for_each_block([row], |lane, [x]| lanes[lane] = join(lanes[lane], x));
    tree(lanes, join)
}

/// Finds the largest element of a row: NaN if one is NaN, and +0 for either zero, so that no
/// order changes the result; minus infinity for an empty row.
#[inline(always)]
pub fn max(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for_each_block([row], |lane, [x]| lanes[lane] = arith::max(lanes[lane], x));
    arith::pos0(tree(lanes, arith::max))
}

/// Calls `step(lane, values)` for each column in increasing order; whole blocks of 128 go
/// through arrays, so that the compiler knows their length.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // One index for the lane and for all rows.
fn for_each_block<const N: usize>(rows: [&[f32]; N], mut step: impl FnMut(usize, [f32; N])) {
    let n_cols = rows[0].len();
    let whole = rows.map(|row| row[..n_cols].as_chunks::<LANES>());
    for block_idx in 0..n_cols / LANES {
        let block: [&[f32; LANES]; N] = std::array::from_fn(|k| &whole[k].0[block_idx]);
        for lane in 0..LANES {
            step(lane, std::array::from_fn(|k| block[k][lane]));
        }
    }
    let n_tail = n_cols % LANES;
    let tails = whole.map(|(_, tail)| &tail[..n_tail]);
    for lane in 0..n_tail {
        step(lane, std::array::from_fn(|k| tails[k][lane]));
    }
}

#[inline(always)]
fn tree(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (a, b) in low.iter_mut().zip(high.iter()) {
            *a = join(*a, *b);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification, one statement a sentence.
    fn spelled_out(x: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 128];
        for (col, value) in x.iter().enumerate() {
            lanes[col % 128] += value;
        }
        for distance in [64, 32, 16, 8, 4, 2, 1] {
            for lane in 0..distance {
                lanes[lane] += lanes[lane + distance];
            }
        }
        if lanes[0] == 0.0 { 0.0 } else { lanes[0] }
    }

    #[test]
    fn sum_has_the_written_order() {
        for n in [0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1009, 5000] {
            let x: Vec<f32> = (0..n)
                .map(|i| ((i * 7919 % 1013) as f32 - 500.0) * 1.1e-3)
                .collect();
            assert_eq!(
                sum([&x], |[x]| x).to_bits(),
                spelled_out(&x).to_bits(),
                "n = {n}"
            );
            let doubled: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
            assert_eq!(
                sum([&x, &doubled], |[a, b]| a * b).to_bits(),
                spelled_out(
                    &x.iter()
                        .zip(&doubled)
                        .map(|(a, b)| a * b)
                        .collect::<Vec<_>>()
                )
                .to_bits()
            );
        }
    }

    #[test]
    fn max_shows_no_order() {
        for n in [1, 31, 128, 129, 1009] {
            let mut x = vec![-3.0f32; n];
            x[n / 2] = -0.0;
            assert_eq!(max(&x).to_bits(), 0, "n = {n}");
            x[n - 1] = 7.5;
            assert_eq!(max(&x), 7.5);
            x[0] = f32::NAN;
            assert!(max(&x).is_nan());
        }
        assert_eq!(max(&[]), f32::NEG_INFINITY);
    }
}
