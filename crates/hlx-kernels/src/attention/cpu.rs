//! The CPU twin of attention; the parent module has the specification.
//!
//! A task is 32 positions of one sequence, all heads: 32 queries (forward, dQ) or 32 keys (dK,
//! dV) are the lanes of two AVX-512 registers. Every product is then of one form, a number
//! from a row as it lies in memory times 32 lanes, so nothing but the task's own rows is
//! transposed, and any head width and any length run at full lane width. Tiles and key blocks are
//! both 32 long, so that only the diagonal block has pairs to skip.

use hlx_core::arith::{self, FloatOps};
use rayon::prelude::*;

use super::AttentionShape;
use super::tile::{
    Lanes, Seen, TILE, accumulate, accumulate_seen, contract, map_lanes, pack, unpack,
};

/// What a task knows of its place: sizes, its sequence and its first position.
#[derive(Clone, Copy)]
struct Task {
    time: usize,
    heads: usize,
    width: usize,
    sequence: usize,
    first: usize,
    scale: f32,
}

impl Task {
    /// From one position to the next in `[B, T, H, D]`; three times that in `[B, T, 3, H, D]`.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.heads * self.width
    }

    /// The positions of the block at `start`.
    #[inline(always)]
    fn block_len(&self, start: usize) -> usize {
        TILE.min(self.time - start)
    }

    /// The rows of `which` (0 query, 1 key, 2 value) from position `t` on.
    #[inline(always)]
    fn rows<'a>(&self, qkv: &'a [f32], which: usize, head: usize, t: usize) -> &'a [f32] {
        let position = self.sequence * self.time + t;
        &qkv[(3 * position + which) * self.stride() + head * self.width..]
    }

    /// The rows of `o` or `d_o` from position `t` on.
    #[inline(always)]
    fn o_rows<'a>(&self, o: &'a [f32], head: usize, t: usize) -> &'a [f32] {
        &o[(self.sequence * self.time + t) * self.stride() + head * self.width..]
    }

    /// Index of `[sequence, head, t]` in `[B, H, T]`.
    #[inline(always)]
    fn query(&self, head: usize, t: usize) -> usize {
        (self.sequence * self.heads + head) * self.time + t
    }
}

/// Splits a `[B, T, per_position]` output into tasks of 32 positions, runs them on all threads,
/// and returns their results in order.
fn for_each_tile<R: Send>(
    output: &mut [f32],
    per_position: usize,
    shape: &AttentionShape,
    scale: f32,
    run: impl Fn(Task, &mut [f32]) -> R + Sync,
) -> Vec<(Task, R)> {
    let sequences = output.chunks_mut(shape.time * per_position);
    let tiles = sequences.enumerate().flat_map(|(sequence, positions)| {
        let tiles = positions.chunks_mut(TILE * per_position).enumerate();
        tiles.map(move |(tile, positions)| {
            let task = Task {
                time: shape.time,
                heads: shape.heads,
                width: shape.head_width,
                sequence,
                first: tile * TILE,
                scale,
            };
            (task, positions)
        })
    });
    let tiles: Vec<_> = tiles.collect();
    let run = |(task, positions): (Task, &mut [f32])| (task, run(task, positions));
    tiles.into_par_iter().map(run).collect()
}

/// Puts what the tasks have gathered a query (`n` words each, head after head) where it belongs.
fn scatter(results: Vec<(Task, Vec<f32>)>, n: usize, target: &mut [f32]) {
    for (task, words) in results {
        let len = task.block_len(task.first) * n;
        for (head, words) in words.chunks_exact(len).enumerate() {
            let at = task.query(head, task.first) * n;
            target[at..at + len].copy_from_slice(words);
        }
    }
}

pub fn forward(qkv: &[f32], o: &mut [f32], stats: &mut [f32], shape: &AttentionShape, scale: f32) {
    let per_position = shape.heads * shape.head_width;
    let results = for_each_tile(o, per_position, shape, scale, |task, o| {
        let mut stats = vec![0.0; 2 * shape.heads * task.block_len(task.first)];
        forward_tile(qkv, o, &mut stats, task);
        stats
    });
    scatter(results, 2, stats);
}

pub fn backward_query(
    [qkv, o, stats, d_o]: [&[f32]; 4],
    delta: &mut [f32],
    dqkv: &mut [f32],
    shape: &AttentionShape,
    scale: f32,
) {
    let per_position = 3 * shape.heads * shape.head_width;
    let results = for_each_tile(dqkv, per_position, shape, scale, |task, dqkv| {
        let mut delta = vec![0.0; shape.heads * task.block_len(task.first)];
        backward_query_tile([qkv, o, stats, d_o], &mut delta, dqkv, task);
        delta
    });
    scatter(results, 1, delta);
}

pub fn backward_key_value(
    inputs: [&[f32]; 4],
    dqkv: &mut [f32],
    shape: &AttentionShape,
    scale: f32,
) {
    let per_position = 3 * shape.heads * shape.head_width;
    for_each_tile(dqkv, per_position, shape, scale, |task, dqkv| {
        backward_key_value_tile(inputs, dqkv, task);
    });
}

multiversion! {
    fn forward_tile<A>(qkv: &[f32], o: &mut [f32], stats: &mut [f32], task: Task) {
        let n_queries = task.block_len(task.first);
        let stride = task.stride();
        let mut q = vec![[0.0; TILE]; task.width];
        let mut sums = vec![[0.0; TILE]; task.width];
        let mut p = [[0.0; TILE]; TILE];
        for head in 0..task.heads {
            pack(&mut q, task.rows(qkv, 0, head, task.first), 3 * stride, n_queries);
            sums.fill([0.0; TILE]);
            let mut m: Lanes = [f32::NEG_INFINITY; TILE];
            let mut l: Lanes = [0.0; TILE];
            for key in (0..=task.first).step_by(TILE) {
                let p = &mut p[..task.block_len(key)];
                contract(p, task.rows(qkv, 1, head, key), 3 * stride, &q);
                let diagonal = key == task.first;
                let correction = weigh::<A>(p, &mut m, task.scale, diagonal);
                l = map_lanes(|lane| A::mul(l[lane], correction[lane]));
                for p in p.iter() {
                    l = map_lanes(|lane| l[lane] + p[lane]);
                }
                for sum in &mut sums {
                    *sum = map_lanes(|lane| A::mul(sum[lane], correction[lane]));
                }
                let values = task.rows(qkv, 2, head, key);
                match diagonal {
                    false => accumulate(&mut sums, p, values, 3 * stride),
                    true => accumulate_seen(&mut sums, p, values, 3 * stride, Seen::keys_up_to_lane()),
                }
            }
            for sum in &mut sums {
                *sum = map_lanes(|lane| arith::pos0(arith::div(sum[lane], l[lane])));
            }
            unpack(&sums, &mut o[head * task.width..], stride, n_queries);
            let inverse: Lanes = map_lanes(|lane| arith::div(1.0, l[lane]));
            let stats = &mut stats[2 * head * n_queries..][..2 * n_queries];
            for (lane, stats) in stats.chunks_exact_mut(2).enumerate() {
                stats.copy_from_slice(&[m[lane], inverse[lane]]);
            }
        }
    }
}

/// The online softmax of one key block: turns the chains `s` into weights, moves the maxima `m`,
/// and returns the correction for what came before.
#[inline(always)]
fn weigh<A: FloatOps>(s: &mut [Lanes], m: &mut Lanes, scale: f32, diagonal: bool) -> Lanes {
    let mut top = [f32::NEG_INFINITY; TILE];
    for (j, s) in s.iter_mut().enumerate() {
        *s = map_lanes(|lane| {
            let seen = !diagonal || j <= lane;
            if seen {
                A::mul(s[lane], scale)
            } else {
                f32::NEG_INFINITY
            }
        });
        top = map_lanes(|lane| arith::max(top[lane], s[lane]));
    }
    let before = *m;
    *m = map_lanes(|lane| arith::max(before[lane], arith::pos0(top[lane])));
    for (j, s) in s.iter_mut().enumerate() {
        let powers: Lanes = map_lanes(|lane| A::exp(s[lane] - m[lane]));
        *s = map_lanes(|lane| {
            if !diagonal || j <= lane {
                powers[lane]
            } else {
                0.0
            }
        });
    }
    map_lanes(|lane| A::exp(before[lane] - m[lane]))
}

multiversion! {
    fn backward_query_tile<A>(
        inputs: [&[f32]; 4],
        delta: &mut [f32],
        dqkv: &mut [f32],
        task: Task,
    ) {
        let [qkv, o, stats, d_o] = inputs;
        let n_queries = task.block_len(task.first);
        let stride = task.stride();
        let mut q = vec![[0.0; TILE]; task.width];
        let mut d_out = vec![[0.0; TILE]; task.width];
        let mut dq = vec![[0.0; TILE]; task.width];
        let mut s = [[0.0; TILE]; TILE];
        let mut dp = [[0.0; TILE]; TILE];
        for head in 0..task.heads {
            // `q` holds the outputs first, for delta.
            pack(&mut q, task.o_rows(o, head, task.first), stride, n_queries);
            pack(&mut d_out, task.o_rows(d_o, head, task.first), stride, n_queries);
            let mut deltas: Lanes = [0.0; TILE];
            for (d_out, out) in d_out.iter().zip(&q) {
                deltas = map_lanes(|lane| A::fma(d_out[lane], out[lane], deltas[lane]));
            }
            deltas = map_lanes(|lane| arith::pos0(deltas[lane]));
            delta[head * n_queries..][..n_queries].copy_from_slice(&deltas[..n_queries]);

            pack(&mut q, task.rows(qkv, 0, head, task.first), 3 * stride, n_queries);
            let stats = &stats[2 * task.query(head, task.first)..][..2 * n_queries];
            let mut m: Lanes = [0.0; TILE];
            let mut inverse: Lanes = [0.0; TILE];
            for (lane, stats) in stats.chunks_exact(2).enumerate() {
                (m[lane], inverse[lane]) = (stats[0], stats[1]);
            }
            dq.fill([0.0; TILE]);
            for key in (0..=task.first).step_by(TILE) {
                let n_keys = task.block_len(key);
                let (s, dp) = (&mut s[..n_keys], &mut dp[..n_keys]);
                let keys = task.rows(qkv, 1, head, key);
                contract(s, keys, 3 * stride, &q);
                contract(dp, task.rows(qkv, 2, head, key), 3 * stride, &d_out);
                for (s, dp) in s.iter_mut().zip(dp.iter()) {
                    *s = map_lanes(|lane| {
                        let weight = A::exp(A::mul(s[lane], task.scale) - m[lane]);
                        let p = A::mul(weight, inverse[lane]);
                        A::mul(p, dp[lane] - deltas[lane])
                    });
                }
                match key == task.first {
                    false => accumulate(&mut dq, s, keys, 3 * stride),
                    true => accumulate_seen(&mut dq, s, keys, 3 * stride, Seen::keys_up_to_lane()),
                }
            }
            for dq in &mut dq {
                *dq = map_lanes(|lane| A::mul(arith::pos0(dq[lane]), task.scale));
            }
            unpack(&dq, &mut dqkv[head * task.width..], 3 * stride, n_queries);
        }
    }
}

multiversion! {
    fn backward_key_value_tile<A>(inputs: [&[f32]; 4], dqkv: &mut [f32], task: Task) {
        let [qkv, stats, d_o, delta] = inputs;
        let n_keys = task.block_len(task.first);
        let stride = task.stride();
        let mut k = vec![[0.0; TILE]; task.width];
        let mut v = vec![[0.0; TILE]; task.width];
        let mut dk = vec![[0.0; TILE]; task.width];
        let mut dv = vec![[0.0; TILE]; task.width];
        let mut p = [[0.0; TILE]; TILE];
        let mut ds = [[0.0; TILE]; TILE];
        for head in 0..task.heads {
            pack(&mut k, task.rows(qkv, 1, head, task.first), 3 * stride, n_keys);
            pack(&mut v, task.rows(qkv, 2, head, task.first), 3 * stride, n_keys);
            dk.fill([0.0; TILE]);
            dv.fill([0.0; TILE]);
            for query in (task.first..task.time).step_by(TILE) {
                let n_queries = task.block_len(query);
                let (p, ds) = (&mut p[..n_queries], &mut ds[..n_queries]);
                let q_rows = task.rows(qkv, 0, head, query);
                let d_o_rows = task.o_rows(d_o, head, query);
                contract(p, q_rows, 3 * stride, &k);
                contract(ds, d_o_rows, stride, &v);
                let first_query = task.query(head, query);
                let stats = stats[2 * first_query..].chunks_exact(2);
                let rows = p.iter_mut().zip(ds.iter_mut());
                for (((p, ds), stats), &delta) in rows.zip(stats).zip(&delta[first_query..]) {
                    *p = map_lanes(|lane| {
                        A::mul(A::exp(A::mul(p[lane], task.scale) - stats[0]), stats[1])
                    });
                    *ds = map_lanes(|lane| A::mul(p[lane], ds[lane] - delta));
                }
                match query == task.first {
                    false => {
                        accumulate(&mut dv, p, d_o_rows, stride);
                        accumulate(&mut dk, ds, q_rows, 3 * stride);
                    }
                    true => {
                        let seen = Seen::queries_from_lane();
                        accumulate_seen(&mut dv, p, d_o_rows, stride, seen);
                        accumulate_seen(&mut dk, ds, q_rows, 3 * stride, seen);
                    }
                }
            }
            for (dk, dv) in dk.iter_mut().zip(&mut dv) {
                *dk = map_lanes(|lane| A::mul(arith::pos0(dk[lane]), task.scale));
                *dv = map_lanes(|lane| arith::pos0(dv[lane]));
            }
            unpack(&dk, &mut dqkv[stride + head * task.width..], 3 * stride, n_keys);
            unpack(&dv, &mut dqkv[2 * stride + head * task.width..], 3 * stride, n_keys);
        }
    }
}
