//! The backward pass of one tile: dQ of 32 queries, dK and dV of 32 keys.

use hlx_core::arith::{self, FloatOps};

use super::operands::{Inputs, Range, Tile, seen, segments, union};
use super::score;
use crate::attention::tile::{
    Lanes, TILE, accumulate, accumulate_seen, contract, map_lanes, pack, unpack,
};

/// The weight of a score in the backward pass, and that times the derivative of the cap.
#[inline(always)]
pub fn weights<A: FloatOps>(
    s: &Lanes,
    t: &Lanes,
    capped: bool,
    (m, inverse): (&Lanes, &Lanes),
) -> (Lanes, Lanes) {
    let p: Lanes = map_lanes(|lane| A::mul(A::exp(s[lane] - m[lane]), inverse[lane]));
    let slanted = match capped {
        true => map_lanes(|lane| A::mul(p[lane], A::fma(-t[lane], t[lane], 1.0))),
        false => p,
    };
    (p, slanted)
}

multiversion! {
    pub fn backward_query_tile<A>(
        inputs: Inputs<'_>,
        upstream: [&[f32]; 3],
        tile: Tile,
        dq: &mut [f32],
    ) {
        let attention = inputs.attention;
        let [stats, d_o, delta] = upstream;
        let Tile { sample, head, first, n } = tile;
        let (width, key_head) = (attention.head_width, head / attention.group());
        let capped = attention.soft_cap.is_some();
        let draws = inputs.draws(sample, head);
        let ranges = &inputs.ranges[sample * attention.queries + first..][..n];
        let mut q = vec![[0.0; TILE]; width];
        let mut d_out = vec![[0.0; TILE]; width];
        let mut sums = vec![[0.0; TILE]; width];
        let mut s = [[0.0; TILE]; TILE];
        let mut dp = [[0.0; TILE]; TILE];
        let (rows, stride) = inputs.rows(0, sample, head, first);
        pack(&mut q, rows, stride, n);
        let stride = attention.heads * width;
        let at = (sample * attention.queries + first) * stride + head * width;
        pack(&mut d_out, &d_o[at..], stride, n);
        let at = (sample * attention.heads + head) * attention.queries + first;
        let (mut m, mut inverse, mut deltas) = ([0.0; TILE], [0.0; TILE], [0.0; TILE]);
        for (lane, stats) in stats[2 * at..][..2 * n].chunks_exact(2).enumerate() {
            (m[lane], inverse[lane], deltas[lane]) = (stats[0], stats[1], delta[at + lane]);
        }
        for segment in segments(ranges) {
            for key in segment.blocks {
                let n_keys = TILE.min(attention.keys - key as usize);
                let (s, dp) = (&mut s[..n_keys], &mut dp[..n_keys]);
                let (keys, stride) = inputs.rows(1, sample, key_head, key as usize);
                let (values, values_stride) = inputs.rows(2, sample, key_head, key as usize);
                contract(s, keys, stride, &q);
                contract(dp, values, values_stride, &d_out);
                if let Some(draws) = draws {
                    draws.drop_keys::<A>(dp, ranges, key - segment.first_key);
                }
                for (s, dp) in s.iter_mut().zip(dp.iter()) {
                    let mut t = [0.0; TILE];
                    score::<A>(s, &mut t, inputs.push, capped);
                    let (_, p) = weights::<A>(s, &t, capped, (&m, &inverse));
                    *s = map_lanes(|lane| A::mul(p[lane], dp[lane] - deltas[lane]));
                }
                match seen(ranges, &segment.rows, key, n_keys) {
                    None => accumulate(&mut sums, s, keys, stride),
                    Some(seen) => accumulate_seen(&mut sums, s, keys, stride, seen),
                }
            }
        }
        for sum in &mut sums {
            *sum = map_lanes(|lane| A::mul(arith::pos0(sum[lane]), inputs.push.scale));
        }
        unpack(&sums, dq, width, n);
    }
}

multiversion! {
    pub fn backward_key_value_tile<A>(
        inputs: Inputs<'_>,
        key_ranges: &[Range],
        upstream: [&[f32]; 3],
        tile: Tile,
        dk: &mut [f32],
        dv: &mut [f32],
    ) {
        let attention = inputs.attention;
        let [stats, d_o, delta] = upstream;
        let Tile { sample, head: key_head, first, n } = tile;
        let (width, group) = (attention.head_width, attention.group());
        let capped = attention.soft_cap.is_some();
        let ranges = &key_ranges[sample * attention.keys + first..][..n];
        let mut k = vec![[0.0; TILE]; width];
        let mut v = vec![[0.0; TILE]; width];
        let mut k_sums = vec![[0.0; TILE]; width];
        let mut v_sums = vec![[0.0; TILE]; width];
        let mut p = [[0.0; TILE]; TILE];
        let mut ds = [[0.0; TILE]; TILE];
        let (rows, stride) = inputs.rows(1, sample, key_head, first);
        pack(&mut k, rows, stride, n);
        let (rows, stride) = inputs.rows(2, sample, key_head, first);
        pack(&mut v, rows, stride, n);
        let (begin, end) = union(ranges);
        for head in key_head * group..(key_head + 1) * group {
            let draws = inputs.draws(sample, head);
            for query in (begin..end).step_by(TILE) {
                let query = query as usize;
                let n_queries = TILE.min(attention.queries - query);
                let (p, ds) = (&mut p[..n_queries], &mut ds[..n_queries]);
                let (queries, stride) = inputs.rows(0, sample, head, query);
                let d_o_stride = attention.heads * width;
                let d_o = &d_o[(sample * attention.queries + query) * d_o_stride + head * width..];
                contract(p, queries, stride, &k);
                contract(ds, d_o, d_o_stride, &v);
                let at = (sample * attention.heads + head) * attention.queries + query;
                let rows = p.iter_mut().zip(ds.iter_mut()).enumerate();
                for (i, (p, ds)) in rows {
                    let (m, inverse) = (stats[2 * (at + i)], stats[2 * (at + i) + 1]);
                    let mut t = [0.0; TILE];
                    score::<A>(p, &mut t, inputs.push, capped);
                    let stats = (&[m; TILE], &[inverse; TILE]);
                    let (weight, slanted) = weights::<A>(p, &t, capped, stats);
                    *p = weight;
                    if let Some(draws) = draws {
                        let position = inputs.ranges[sample * attention.queries + query + i][3];
                        draws.drop_query::<A>([p, ds], ranges, position);
                    }
                    let delta = delta[at + i];
                    *ds = map_lanes(|lane| A::mul(slanted[lane], ds[lane] - delta));
                }
                match seen(ranges, &(0..n), query as u32, n_queries) {
                    None => {
                        accumulate(&mut v_sums, p, d_o, d_o_stride);
                        accumulate(&mut k_sums, ds, queries, stride);
                    }
                    Some(seen) => {
                        accumulate_seen(&mut v_sums, p, d_o, d_o_stride, seen);
                        accumulate_seen(&mut k_sums, ds, queries, stride, seen);
                    }
                }
            }
        }
        for (k_sum, v_sum) in k_sums.iter_mut().zip(&mut v_sums) {
            *k_sum = map_lanes(|lane| A::mul(arith::pos0(k_sum[lane]), inputs.push.scale));
            *v_sum = map_lanes(|lane| arith::pos0(v_sum[lane]));
        }
        unpack(&k_sums, dk, width, n);
        unpack(&v_sums, dv, width, n);
    }
}
