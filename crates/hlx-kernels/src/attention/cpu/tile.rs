//! Products of the CPU twin: numbers from rows in memory times 32 lanes.

use hlx_core::arith::{self, FloatOps};

#[cfg(target_arch = "x86_64")]
use super::vectors::{Numbers, products};

/// Positions in the lanes of a tile, and keys of a block.
pub const TILE: usize = 32;

/// One value for each position of a tile: two AVX-512 registers.
pub type Lanes = [f32; TILE];

/// Rows that a product computes at once in plain loops. They are four variables, not an array of arrays: the compiler then
/// vectorises the loop over the lanes and keeps the sums in registers (measured: 10 times faster).
const AT_ONCE: usize = 4;

/// Makes lanes from what each one holds.
#[inline(always)]
pub fn map_lanes(f: impl Fn(usize) -> f32) -> Lanes {
    let mut lanes = [0.0; TILE];
    for (lane, value) in lanes.iter_mut().enumerate() {
        *value = f(lane);
    }
    lanes
}

/// Transposes `n` rows of `packed.len()` numbers into lanes; lanes past them become zero.
#[inline(always)]
pub fn pack(packed: &mut [Lanes], rows: &[f32], stride: usize, n: usize) {
    let width = packed.len();
    if n < TILE {
        packed.fill([0.0; TILE]);
    }
    for lane in 0..n {
        for (lanes, &x) in packed.iter_mut().zip(&rows[lane * stride..][..width]) {
            lanes[lane] = x;
        }
    }
}

/// The inverse of [`pack`].
#[inline(always)]
pub fn unpack(packed: &[Lanes], rows: &mut [f32], stride: usize, n: usize) {
    let width = packed.len();
    for lane in 0..n {
        for (lanes, x) in packed.iter().zip(&mut rows[lane * stride..][..width]) {
            *x = lanes[lane];
        }
    }
}

/// `out[r] = chain over d of fma(rows[r][d], packed[d], .)` from +0, and -0 becomes +0.
pub fn contract(out: &mut [Lanes], rows: &[f32], stride: usize, packed: &[Lanes]) {
    #[cfg(target_arch = "x86_64")]
    {
        let steps = [stride, 1];
        let numbers = Numbers {
            numbers: rows,
            steps,
        };
        if products(out, numbers, packed, false) {
            return;
        }
    }
    contract_plainly(out, rows, stride, packed);
}

/// `sums[d] = fma(rows[j][d], weights[j], sums[d])` for the rows `j` in order.
pub fn accumulate(sums: &mut [Lanes], weights: &[Lanes], rows: &[f32], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let steps = [1, stride];
        let numbers = Numbers {
            numbers: rows,
            steps,
        };
        if products(sums, numbers, weights, true) {
            return;
        }
    }
    accumulate_plainly(sums, weights, rows, stride);
}

multiversion! {
    fn contract_plainly<A>(out: &mut [Lanes], rows: &[f32], stride: usize, packed: &[Lanes]) {
        let width = packed.len();
        let (blocks, rest) = out.as_chunks_mut::<AT_ONCE>();
        let first_rest = blocks.len() * AT_ONCE;
        for (block, out) in blocks.iter_mut().enumerate() {
            let rows = &rows[block * AT_ONCE * stride..];
            let row = |r: usize| &rows[r * stride..][..width];
            let (rows, mut sums) = ([row(0), row(1), row(2), row(3)], [[0.0; TILE]; AT_ONCE]);
            for (d, lanes) in packed.iter().enumerate() {
                step::<A>(&mut sums, [rows[0][d], rows[1][d], rows[2][d], rows[3][d]], lanes);
            }
            for (out, sums) in out.iter_mut().zip(&sums) {
                *out = map_lanes(|lane| arith::pos0(sums[lane]));
            }
        }
        for (row, out) in rest.iter_mut().enumerate() {
            let row = &rows[(first_rest + row) * stride..][..width];
            let mut sums = [0.0; TILE];
            for (&x, lanes) in row.iter().zip(packed) {
                sums = map_lanes(|lane| A::fma(x, lanes[lane], sums[lane]));
            }
            *out = map_lanes(|lane| arith::pos0(sums[lane]));
        }
    }

    fn accumulate_plainly<A>(sums: &mut [Lanes], weights: &[Lanes], rows: &[f32], stride: usize) {
        let (blocks, rest) = sums.as_chunks_mut::<AT_ONCE>();
        let first_rest = blocks.len() * AT_ONCE;
        for (block, stored) in blocks.iter_mut().enumerate() {
            let mut sums = *stored;
            for (j, weights) in weights.iter().enumerate() {
                let row = &rows[j * stride + block * AT_ONCE..][..AT_ONCE];
                step::<A>(&mut sums, [row[0], row[1], row[2], row[3]], weights);
            }
            *stored = sums;
        }
        for (d, sums) in rest.iter_mut().enumerate() {
            for (j, weights) in weights.iter().enumerate() {
                let x = rows[j * stride + first_rest + d];
                *sums = map_lanes(|lane| A::fma(x, weights[lane], sums[lane]));
            }
        }
    }
}

/// For each lane of a tile, which of a block's rows it sees: those from `low` on, below `high`.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub low: [u32; TILE],
    pub high: [u32; TILE],
}

impl Seen {
    /// Whether a lane sees a row of the block.
    #[inline(always)]
    pub fn sees(&self, row: usize, lane: usize) -> bool {
        row as u32 >= self.low[lane] && (row as u32) < self.high[lane]
    }

    /// The numbers of the lanes that see a row of the block, and `other` in all others.
    #[inline(always)]
    pub fn choose(&self, row: usize, lanes: &Lanes, other: f32) -> Lanes {
        map_lanes(|lane| {
            if self.sees(row, lane) {
                lanes[lane]
            } else {
                other
            }
        })
    }
}

multiversion! {
    /// As [`accumulate`], of the rows that a lane sees; it skips the others, whatever they hold.
    pub fn accumulate_seen<A>(
        sums: &mut [Lanes],
        weights: &[Lanes],
        rows: &[f32],
        stride: usize,
        seen: Seen,
    ) {
        let width = sums.len();
        let row = |j: usize| &rows[j * stride..][..width];
        if (0..weights.len()).all(|j| is_finite(row(j))) {
            // A weight of 0 times a finite number changes no sum but the sign of a zero, which the end of
            // every sum takes away: cheaper than selections among sums.
            let mut masked = [[0.0; TILE]; TILE];
            for (j, (masked, weights)) in masked.iter_mut().zip(weights).enumerate() {
                *masked = seen.choose(j, weights, 0.0);
            }
            accumulate(sums, &masked[..weights.len()], rows, stride);
            return;
        }
        for (j, weights) in weights.iter().enumerate() {
            for (sum, &x) in sums.iter_mut().zip(row(j)) {
                *sum = map_lanes(|lane| {
                    let with = A::fma(x, weights[lane], sum[lane]);
                    if seen.sees(j, lane) { with } else { sum[lane] }
                });
            }
        }
    }
}

/// Whether no number is a NaN or an infinity.
#[inline(always)]
fn is_finite(row: &[f32]) -> bool {
    let largest = row.iter().map(|x| x.to_bits() << 1).fold(0, u32::max);
    largest < 0xff00_0000
}

#[inline(always)]
fn step<A: FloatOps>(sums: &mut [Lanes; AT_ONCE], x: [f32; AT_ONCE], lanes: &Lanes) {
    let [a, b, c, d] = sums;
    for lane in 0..TILE {
        a[lane] = A::fma(x[0], lanes[lane], a[lane]);
        b[lane] = A::fma(x[1], lanes[lane], b[lane]);
        c[lane] = A::fma(x[2], lanes[lane], c[lane]);
        d[lane] = A::fma(x[3], lanes[lane], d[lane]);
    }
}

multiversion! {
    /// `delta` of some rows: chains of neighbouring rows side by side.
    pub fn delta_tile<A>(o: &[f32], d_o: &[f32], stride: usize, width: usize, delta: &mut [f32]) {
        for (block, delta) in delta.chunks_mut(AT_ONCE).enumerate() {
            let row = |x: usize| (block * AT_ONCE + x.min(delta.len() - 1)) * stride;
            let rows: [_; AT_ONCE] =
                std::array::from_fn(|x| (&o[row(x)..][..width], &d_o[row(x)..][..width]));
            let mut sums = [0.0; AT_ONCE];
            for d in 0..width {
                for (sum, (o, d_o)) in sums.iter_mut().zip(rows) {
                    *sum = A::fma(d_o[d], o[d], *sum);
                }
            }
            for (delta, sum) in delta.iter_mut().zip(sums) {
                *delta = arith::pos0(sum);
            }
        }
    }
}
