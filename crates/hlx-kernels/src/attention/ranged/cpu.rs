//! The CPU twin of attention over ranges; the parent module has the specification.
//!
//! As in the twin of packed attention, a task has 32 positions: queries in the forward and in dQ, keys
//! in dK and dV, one a lane, so that every product is a number from a row in memory times 32 lanes. Where
//! not every lane sees a whole block, what a lane does not see is left out by a selection.

use hlx_core::arith::{self, FloatOps};
use rayon::prelude::*;

use super::{Push, RangedAttention};
use crate::attention::tile::{
    Lanes, Seen, TILE, accumulate, accumulate_seen, contract, map_lanes, pack, unpack,
};
use backward::{backward_key_value_tile, backward_query_tile};
pub use operands::Inputs;
use operands::{Range, Tile, seen, segments};

pub mod backward;
pub mod few_queries;
pub mod operands;

/// The tiles of `length` positions in order, with their parts of an output of `per_position` elements.
fn tiles(
    output: &mut [f32],
    length: usize,
    per_position: usize,
) -> Vec<((usize, usize), &mut [f32])> {
    let samples = output.chunks_mut(length * per_position).enumerate();
    let tiles = samples.flat_map(|(sample, positions)| {
        let tiles = positions.chunks_mut(TILE * per_position).enumerate();
        tiles.map(move |(tile, positions)| ((sample, tile * TILE), positions))
    });
    tiles.collect()
}

/// Runs the heads of each tile of queries on all threads, and writes their rows `[n, D]` into a
/// contiguous `[B, T, H, D]`. Returns what else they compute, in order.
pub fn for_each_query_tile<R: Send>(
    inputs: Inputs<'_>,
    output: &mut [f32],
    run: impl Fn(Tile, &mut [f32]) -> R + Sync,
) -> Vec<(Tile, R)> {
    let RangedAttention {
        queries,
        heads,
        head_width,
        ..
    } = *inputs.attention;
    let per_position = heads * head_width;
    let tiles = tiles(output, queries, per_position).into_par_iter();
    let results = tiles.flat_map_iter(|((sample, first), output)| {
        let n = TILE.min(queries - first);
        let of_heads = (0..heads).into_par_iter().map(|head| {
            let tile = Tile {
                sample,
                head,
                first,
                n,
            };
            let mut rows = vec![0.0; n * head_width];
            let result = run(tile, &mut rows);
            (tile, rows, result)
        });
        let of_heads: Vec<_> = of_heads.collect();
        let place = |(tile, rows, result): (Tile, Vec<f32>, R)| {
            put_head(&rows, output, tile.head, (head_width, per_position));
            (tile, result)
        };
        of_heads.into_iter().map(place).collect::<Vec<_>>()
    });
    results.collect()
}

/// Copies a head's rows to their places in rows of all heads.
fn put_head(rows: &[f32], all: &mut [f32], head: usize, (width, per_position): (usize, usize)) {
    let places = all.chunks_exact_mut(per_position);
    for (row, place) in rows.chunks_exact(width).zip(places) {
        place[head * width..][..width].copy_from_slice(row);
    }
}

pub fn forward(inputs: Inputs<'_>, o: &mut [f32], stats: &mut [f32]) {
    let attention = inputs.attention;
    let results = for_each_query_tile(inputs, o, |tile, o| {
        let mut stats = vec![0.0; 2 * tile.n];
        forward_tile(inputs, tile, o, &mut stats);
        stats
    });
    for (tile, words) in results {
        let at = (tile.sample * attention.heads + tile.head) * attention.queries + tile.first;
        stats[2 * at..][..words.len()].copy_from_slice(&words);
    }
}

pub fn backward_query(inputs: Inputs<'_>, upstream: [&[f32]; 3], dq: &mut [f32]) {
    for_each_query_tile(inputs, dq, |tile, dq| {
        backward_query_tile(inputs, upstream, tile, dq);
    });
}

pub fn backward_key_value(
    inputs: Inputs<'_>,
    key_ranges: &[f32],
    upstream: [&[f32]; 3],
    gradients: [&mut [f32]; 2],
) {
    let key_ranges: &[Range] = bytemuck::cast_slice(key_ranges);
    for_each_key_tile(inputs.attention, gradients, |tile, [dk, dv]| {
        backward_key_value_tile(inputs, key_ranges, upstream, tile, dk, dv);
    });
}

/// Runs the key heads of each tile of keys on all threads, and writes their rows `[n, D]` into two contiguous
/// `[B, S, G, D]`.
pub fn for_each_key_tile(
    attention: &RangedAttention,
    [dk, dv]: [&mut [f32]; 2],
    run: impl Fn(Tile, [&mut [f32]; 2]) + Sync,
) {
    let RangedAttention {
        keys,
        key_heads,
        head_width,
        ..
    } = *attention;
    let per_position = key_heads * head_width;
    let of_values = tiles(dv, keys, per_position);
    let both: Vec<_> = tiles(dk, keys, per_position)
        .into_iter()
        .zip(of_values)
        .collect();
    both.into_par_iter()
        .for_each(|(((sample, first), dk), (_, dv))| {
            let n = TILE.min(keys - first);
            let of_heads = (0..key_heads).into_par_iter().map(|head| {
                let tile = Tile {
                    sample,
                    head,
                    first,
                    n,
                };
                let mut rows = [vec![0.0; n * head_width], vec![0.0; n * head_width]];
                let [dk, dv] = &mut rows;
                run(tile, [dk, dv]);
                (head, rows)
            });
            for (head, [of_keys, of_values]) in of_heads.collect::<Vec<_>>() {
                put_head(&of_keys, dk, head, (head_width, per_position));
                put_head(&of_values, dv, head, (head_width, per_position));
            }
        });
}

pub fn delta(o: &[f32], d_o: &[f32], delta: &mut [f32], attention: &RangedAttention) {
    let (queries, heads, width) = (attention.queries, attention.heads, attention.head_width);
    let of_heads = delta.par_chunks_mut(queries).enumerate();
    of_heads.for_each(|(at, delta)| {
        let first = (at / heads * queries * heads + at % heads) * width;
        let stride = heads * width;
        for (tile, delta) in delta.chunks_mut(TILE).enumerate() {
            let at = first + tile * TILE * stride;
            delta_tile(&o[at..], &d_o[at..], stride, width, delta);
        }
    });
}

multiversion! {
    fn delta_tile<A>(o: &[f32], d_o: &[f32], stride: usize, width: usize, delta: &mut [f32]) {
        let mut rows = vec![[0.0; TILE]; width];
        let mut upstream = vec![[0.0; TILE]; width];
        pack(&mut rows, o, stride, delta.len());
        pack(&mut upstream, d_o, stride, delta.len());
        let mut sums: Lanes = [0.0; TILE];
        for (d_o, o) in upstream.iter().zip(&rows) {
            sums = map_lanes(|lane| A::fma(d_o[lane], o[lane], sums[lane]));
        }
        for (delta, sum) in delta.iter_mut().zip(sums) {
            *delta = arith::pos0(sum);
        }
    }
}

/// Chains to scores, and with a cap to `tanh(s / cap)` in `t` too.
#[inline(always)]
pub fn score<A: FloatOps>(chains: &mut Lanes, t: &mut Lanes, push: &Push, capped: bool) {
    *chains = map_lanes(|lane| A::mul(chains[lane], push.scale));
    if capped {
        *t = map_lanes(|lane| A::tanh(A::mul(chains[lane], push.inverse_cap)));
        *chains = map_lanes(|lane| A::mul(push.cap, t[lane]));
    }
}

multiversion! {
    fn forward_tile<A>(inputs: Inputs<'_>, tile: Tile, o: &mut [f32], stats: &mut [f32]) {
        let attention = inputs.attention;
        let Tile { sample, head, first, n } = tile;
        let key_head = head / attention.group();
        let draws = inputs.draws(sample, head);
        let ranges = &inputs.ranges[sample * attention.queries + first..][..n];
        let mut q = vec![[0.0; TILE]; attention.head_width];
        let mut sums = vec![[0.0; TILE]; attention.head_width];
        let mut p = [[0.0; TILE]; TILE];
        let (rows, stride) = inputs.rows(0, sample, head, first);
        pack(&mut q, rows, stride, n);
        let mut m: Lanes = [f32::NEG_INFINITY; TILE];
        let mut l: Lanes = [0.0; TILE];
        for segment in segments(ranges) {
            for key in segment.blocks {
                let n_keys = TILE.min(attention.keys - key as usize);
                let p = &mut p[..n_keys];
                let (keys, stride) = inputs.rows(1, sample, key_head, key as usize);
                contract(p, keys, stride, &q);
                let seen = seen(ranges, &segment.rows, key, n_keys);
                let capped = attention.soft_cap.is_some();
                let correction = weigh::<A>(p, &mut m, inputs.push, capped, seen.as_ref());
                l = map_lanes(|lane| A::mul(l[lane], correction[lane]));
                for p in p.iter() {
                    l = map_lanes(|lane| l[lane] + p[lane]);
                }
                for sum in &mut sums {
                    *sum = map_lanes(|lane| A::mul(sum[lane], correction[lane]));
                }
                if let Some(draws) = draws {
                    draws.drop_keys::<A>(p, ranges, key - segment.first_key);
                }
                let (values, stride) = inputs.rows(2, sample, key_head, key as usize);
                match seen {
                    None => accumulate(&mut sums, p, values, stride),
                    Some(seen) => accumulate_seen(&mut sums, p, values, stride, seen),
                }
            }
        }
        for sum in &mut sums {
            *sum = map_lanes(|lane| arith::pos0(arith::div(sum[lane], l[lane])));
        }
        unpack(&sums, o, attention.head_width, n);
        let rows = o.chunks_exact_mut(attention.head_width).zip(stats.chunks_exact_mut(2));
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

/// The online softmax of one key block: turns the chains `s` into weights, 0 where a key is not seen,
/// moves the maxima `m`, and returns the correction for what came before.
#[inline(always)]
pub fn weigh<A: FloatOps>(
    s: &mut [Lanes],
    m: &mut Lanes,
    push: &Push,
    capped: bool,
    seen: Option<&Seen>,
) -> Lanes {
    let mut top = [f32::NEG_INFINITY; TILE];
    let mut t = [0.0; TILE];
    for (j, s) in s.iter_mut().enumerate() {
        score::<A>(s, &mut t, push, capped);
        if let Some(seen) = seen {
            let hidden = f32::NEG_INFINITY;
            *s = map_lanes(|lane| if seen.sees(j, lane) { s[lane] } else { hidden });
        }
        top = map_lanes(|lane| arith::max(top[lane], s[lane]));
    }
    let before = *m;
    let moved: Lanes = map_lanes(|lane| arith::max(before[lane], arith::pos0(top[lane])));
    let Some(seen) = seen else {
        *m = moved;
        for s in s.iter_mut() {
            *s = map_lanes(|lane| A::exp(s[lane] - moved[lane]));
        }
        return map_lanes(|lane| A::exp(before[lane] - moved[lane]));
    };
    let sees_any = |lane: usize| seen.low[lane] < seen.high[lane];
    *m = map_lanes(|lane| {
        if sees_any(lane) {
            moved[lane]
        } else {
            before[lane]
        }
    });
    for (j, s) in s.iter_mut().enumerate() {
        let powers: Lanes = map_lanes(|lane| A::exp(s[lane] - moved[lane]));
        *s = map_lanes(|lane| {
            if seen.sees(j, lane) {
                powers[lane]
            } else {
                0.0
            }
        });
    }
    let correction: Lanes = map_lanes(|lane| A::exp(before[lane] - moved[lane]));
    map_lanes(|lane| {
        if sees_any(lane) {
            correction[lane]
        } else {
            1.0
        }
    })
}
