//! The CPU twin of attention over integers; the parent module has the law.
//!
//! As in the twin of portable attention, a task's 32 positions are lanes. Integers have 16 bits, and sums of their products 32.

use hlx_core::arith;

use super::heads::Rows;
use crate::attention::ranged::cpu::operands::{Range, Tile, seen, segments};
use crate::attention::ranged::cpu::{self, for_each_key_tile, for_each_query_tile, weigh};
use crate::attention::ranged::{Placed, Push};
use crate::attention::tile::{Lanes, TILE, map_lanes, unpack};
use crate::product::quantised::Width;
use backward::{backward_key_value_tile, backward_query_tile};
use rows::{Block, Packed};
use weights::Integers;

mod backward;
mod pairs;
mod rows;
mod weights;

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
        placed: &'a Placed,
    ) -> Self {
        // Rows are read by their integers alone.
        let all = cpu::Inputs::new([&[]; 3], placed, ranges, counter, push);
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

multiversion! {
    fn forward_tile<A>(inputs: &Inputs<'_>, tile: Tile, o: &mut [f32], stats: &mut [f32]) {
        let Inputs { q, k, v, all } = *inputs;
        let attention = all.attention;
        let (width, capped) = (attention.head_width, attention.soft_cap.is_some());
        let Tile { sample, head, first, n } = tile;
        let key_head = head / attention.group();
        let draws = all.draws(sample, head);
        let ranges = &all.ranges[sample * attention.queries + first..][..n];
        let q = Packed::read(&q, q.row(sample, head, first), n);
        let (mut keys, mut values) = (Block::new(&k), Block::new(&v));
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
                values.pair_rows(n_keys);
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
