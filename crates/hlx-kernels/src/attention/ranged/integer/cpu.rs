//! The CPU twin of attention over integers; the parent module has the law.
//!
//! As in the twin of portable attention, a task's 32 positions are lanes. Digits are kept as floats, whose chains of
//! fused multiply-adds are exact here: products of two digits are below 2^14, and there are at most 256 of them.

use hlx_core::arith::{self, FloatOps};

use super::heads::Rows;
use crate::attention::ranged::cpu::operands::{Range, Tile, seen, segments};
use crate::attention::ranged::cpu::{self, for_each_key_tile, for_each_query_tile, weigh};
use crate::attention::ranged::{Push, RangedAttention, Strided};
use crate::attention::tile::{Lanes, Seen, TILE, accumulate, contract, map_lanes, pack, unpack};
use crate::integer::law::{self, NO_EXPONENT, Width, magnitude, row_exponent};
use backward::{backward_key_value_tile, backward_query_tile};

mod backward;

const NO_PLACES: [Strided; 3] = [Strided {
    first: 0,
    batch: 0,
    position: 0,
    head: 0,
}; 3];

/// The operands of a pass: queries, wide, and keys and values, narrow; and all else that it reads.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    q: Rows<'a>,
    k: Rows<'a>,
    v: Rows<'a>,
    all: cpu::Inputs<'a>,
}

impl<'a> Inputs<'a> {
    pub fn new(
        [q, k, v]: [Rows<'a>; 3],
        ranges: &'a [f32],
        counter: &'a [f32],
        push: &'a Push,
        attention: &'a RangedAttention,
    ) -> Self {
        // Rows are read by their integers alone.
        let all = cpu::Inputs::new([&[]; 3], &NO_PLACES, ranges, counter, push, attention);
        Self { q, k, v, all }
    }
}

/// What the backward pass reads besides: the rows of the incoming gradient, wide, the statistics, delta.
#[derive(Clone, Copy)]
pub struct Upstream<'a> {
    pub d_o: Rows<'a>,
    pub stats: &'a [f32],
    pub delta: &'a [f32],
}

pub fn forward(inputs: &Inputs<'_>, o: &mut [f32], stats: &mut [f32]) {
    let attention = inputs.all.attention;
    let results = for_each_query_tile(inputs.all, o, |tile, o| {
        let mut stats = vec![0.0; 2 * tile.n];
        forward_tile(inputs, tile, o, &mut stats);
        stats
    });
    for (tile, words) in results {
        let at = (tile.sample * attention.heads + tile.head) * attention.queries + tile.first;
        stats[2 * at..][..words.len()].copy_from_slice(&words);
    }
}

pub fn backward_query(inputs: &Inputs<'_>, upstream: &Upstream<'_>, dq: &mut [f32]) {
    for_each_query_tile(inputs.all, dq, |tile, dq| {
        backward_query_tile(inputs, upstream, tile, dq);
    });
}

pub fn backward_key_value(
    inputs: &Inputs<'_>,
    upstream: &Upstream<'_>,
    (key_ranges, q_narrow): (&[f32], Rows<'_>),
    gradients: [&mut [f32]; 2],
) {
    let key_ranges: &[Range] = bytemuck::cast_slice(key_ranges);
    for_each_key_tile(inputs.all.attention, gradients, |tile, [dk, dv]| {
        let keys = (key_ranges, &q_narrow);
        backward_key_value_tile(inputs, upstream, keys, tile, dk, dv);
    });
}

/// The digits of a tile's rows, one row a lane, and the factors of their exponents.
struct Packed {
    planes: Vec<Vec<Lanes>>,
    factors: [Lanes; 2],
}

impl Packed {
    /// Of `n` rows.
    fn read(rows: &Rows<'_>, row: usize, n: usize, width: usize) -> Self {
        let mut block = Block::new(rows, width);
        block.read(rows, row, n);
        let planes = block.planes.iter().map(|plane| {
            let mut packed = vec![[0.0; TILE]; width];
            pack(&mut packed, plane, width, n);
            packed
        });
        let factors = [0, 1].map(|half| {
            let of_rows = &block.factors[..n];
            map_lanes(|lane| of_rows.get(lane).map_or(1.0, |factors| factors[half]))
        });
        Self {
            planes: planes.collect(),
            factors,
        }
    }
}

/// The digits of a block's rows as they lie in memory, and the factors of their exponents.
struct Block {
    planes: Vec<Vec<f32>>,
    factors: [[f32; 2]; TILE],
    width: usize,
}

impl Block {
    fn new(rows: &Rows<'_>, width: usize) -> Self {
        Self {
            planes: vec![vec![0.0; TILE * width]; rows.planes()],
            factors: [[1.0; 2]; TILE],
            width,
        }
    }

    fn read(&mut self, rows: &Rows<'_>, row: usize, n: usize) {
        rows.read(row, n, &mut self.planes);
        for (i, factors) in self.factors[..n].iter_mut().enumerate() {
            *factors = rows.factors(row + i);
        }
    }

    /// The upper digits, or the only ones.
    fn upper(&self) -> &[f32] {
        &self.planes[0]
    }

    fn lower(&self) -> &[f32] {
        &self.planes[self.planes.len() - 1]
    }

    /// `out[r] = product(sum_d of the block's row r with the lanes' rows)`.
    #[inline(always)]
    fn products<A: FloatOps>(&self, out: &mut [Lanes], lanes: &Packed) {
        let mut low = [[0.0; TILE]; TILE];
        let low = &mut low[..out.len()];
        let (upper, lower) = (&lanes.planes[0], &lanes.planes[lanes.planes.len() - 1]);
        contract(out, self.upper(), self.width, upper);
        contract(low, self.lower(), self.width, lower);
        let rows = out.iter_mut().zip(low).zip(&self.factors);
        for ((out, low), [first, second]) in rows {
            let factors = lanes.factors.each_ref();
            *out = map_lanes(|lane| {
                let factors = [
                    A::mul(*first, factors[0][lane]),
                    A::mul(*second, factors[1][lane]),
                ];
                product::<A>(out[lane], low[lane], factors)
            });
        }
    }

    /// `sums = join(sums, product(sum of the block's rows, each times a lane's integer))`.
    #[inline(always)]
    fn weighted<A: FloatOps>(
        &self,
        integers: &Integers,
        n: usize,
        sums: &mut [Lanes],
        join: impl Fn(usize, f32, f32) -> f32,
    ) {
        let [mut high, mut low] = [0; 2].map(|_| vec![[0.0; TILE]; sums.len()]);
        accumulate(&mut high, &integers.upper[..n], self.upper(), self.width);
        accumulate(&mut low, &integers.lower[..n], self.lower(), self.width);
        for ((sum, high), low) in sums.iter_mut().zip(&high).zip(&low) {
            *sum = map_lanes(|lane| {
                let factors = [integers.factors[0][lane], integers.factors[1][lane]];
                join(
                    lane,
                    sum[lane],
                    product::<A>(high[lane], low[lane], factors),
                )
            });
        }
    }
}

/// The whole sum `256 high + low`, rounded once, times the factors; -0 becomes +0.
#[inline(always)]
fn product<A: FloatOps>(high: f32, low: f32, [first, second]: [f32; 2]) -> f32 {
    let sum = A::fma(high, 256.0, low);
    arith::pos0(A::mul(A::mul(sum, first), second))
}

/// Weights of a block as integers, one row of them a lane: digits, and the factors of the exponents. Narrow ones have their
/// digits in both places.
struct Integers {
    upper: [Lanes; TILE],
    lower: [Lanes; TILE],
    factors: [Lanes; 2],
}

impl Integers {
    const fn new() -> Self {
        Self {
            upper: [[0.0; TILE]; TILE],
            lower: [[0.0; TILE]; TILE],
            factors: [[0.0; TILE]; 2],
        }
    }

    /// Makes integers of `weights`, each first times the factors of its row's exponent; those that are not seen are 0.
    #[inline(always)]
    fn fold<A: FloatOps>(
        &mut self,
        weights: &mut [Lanes],
        factors: &[[f32; 2]; TILE],
        seen: Option<&Seen>,
        width: Width,
    ) {
        let mut tops = [0; TILE];
        for (row, (weights, [first, second])) in weights.iter_mut().zip(factors).enumerate() {
            let folded = map_lanes(|lane| A::mul(A::mul(weights[lane], *first), *second));
            *weights = match seen {
                None => folded,
                Some(seen) => map_lanes(|lane| {
                    if seen.sees(row, lane) {
                        folded[lane]
                    } else {
                        0.0
                    }
                }),
            };
            for (top, x) in tops.iter_mut().zip(*weights) {
                *top = magnitude(x).max(*top);
            }
        }
        let mut scales = [[0.0; TILE]; 2];
        for (lane, top) in tops.into_iter().enumerate() {
            let exponent = row_exponent(top, width);
            let factors = law::factors(exponent);
            let scale = match exponent {
                NO_EXPONENT => [0.0; 2],
                exponent => law::scale(exponent),
            };
            for half in 0..2 {
                self.factors[half][lane] = factors[half];
                scales[half][lane] = scale[half];
            }
        }
        let rows = weights.iter().zip(&mut self.upper).zip(&mut self.lower);
        for ((weights, upper), lower) in rows {
            for lane in 0..TILE {
                let q = law::quantised::<A>(weights[lane], [scales[0][lane], scales[1][lane]]);
                let high = match width {
                    Width::Wide => (q + 128) >> 8,
                    Width::Narrow => 0,
                };
                upper[lane] = high as f32;
                lower[lane] = (q - (high << 8)) as f32;
            }
        }
        if width == Width::Narrow {
            self.upper = self.lower;
        }
    }
}

multiversion! {
    fn forward_tile<A>(inputs: &Inputs<'_>, tile: Tile, o: &mut [f32], stats: &mut [f32]) {
        let Inputs { q, k, v, all } = *inputs;
        let attention = all.attention;
        let (width, capped) = (attention.head_width, attention.soft_cap.is_some());
        let Tile { sample, head, first, n } = tile;
        let key_head = head / attention.group();
        let draws = all.draws(sample, head);
        let ranges = &all.ranges[sample * attention.queries + first..][..n];
        let q = Packed::read(&q, q.row(sample, head, first), n, width);
        let (mut keys, mut values) = (Block::new(&k, width), Block::new(&v, width));
        let mut sums = vec![[0.0; TILE]; width];
        let mut p = [[0.0; TILE]; TILE];
        let mut integers = Integers::new();
        let mut m: Lanes = [f32::NEG_INFINITY; TILE];
        let mut l: Lanes = [0.0; TILE];
        for segment in segments(ranges) {
            for key in segment.blocks {
                let n_keys = TILE.min(attention.keys - key as usize);
                keys.read(&k, k.row(sample, key_head, key as usize), n_keys);
                values.read(&v, v.row(sample, key_head, key as usize), n_keys);
                keys.products::<A>(&mut p[..n_keys], &q);
                let seen = seen(ranges, &segment.rows, key, n_keys);
                let correction =
                    weigh::<A>(&mut p[..n_keys], &mut m, all.push, capped, seen.as_ref());
                p[n_keys..].fill([0.0; TILE]);
                let block = sum_of_block(&p);
                l = map_lanes(|lane| A::fma(l[lane], correction[lane], block[lane]));
                let p = &mut p[..n_keys];
                if let Some(draws) = draws {
                    draws.drop_keys::<A>(p, ranges, key - segment.first_key);
                }
                integers.fold::<A>(p, &values.factors, seen.as_ref(), Width::Wide);
                values.weighted::<A>(&integers, n_keys, &mut sums, |lane, sum, product| {
                    A::fma(sum, correction[lane], product)
                });
            }
        }
        for sum in &mut sums {
            *sum = map_lanes(|lane| arith::pos0(arith::div(sum[lane], l[lane])));
        }
        unpack(&sums, o, width, n);
        let rows = o.chunks_exact_mut(width).zip(stats.chunks_exact_mut(2));
        for (lane, (o, stats)) in rows.enumerate() {
            if ranges[lane][1] < ranges[lane][2] {
                stats.copy_from_slice(&[m[lane], arith::div(1.0, l[lane])]);
            } else {
                o.fill(0.0);
                stats.fill(0.0);
            }
        }
    }
}

/// The sums of a block's weights, by halves.
#[inline(always)]
fn sum_of_block(p: &[Lanes; TILE]) -> Lanes {
    let mut sums = *p;
    let mut half = TILE / 2;
    while half > 0 {
        let (left, right) = sums.split_at_mut(half);
        for (left, right) in left.iter_mut().zip(right) {
            *left = map_lanes(|lane| left[lane] + right[lane]);
        }
        half /= 2;
    }
    sums[0]
}
