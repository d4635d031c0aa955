//! The backward pass of one tile: dQ of 32 queries, dK and dV of 32 keys.

use hlx_core::arith;

use super::{Block, Inputs, Integers, Packed, Rows, Upstream};
use crate::attention::ranged::cpu::backward::weights;
use crate::attention::ranged::cpu::operands::{Range, Tile, seen, segments, union};
use crate::attention::ranged::cpu::score;
use crate::attention::tile::{TILE, map_lanes, unpack};
use crate::product::quantised::Width;

multiversion! {
    pub fn backward_query_tile<A>(
        inputs: &Inputs<'_>,
        upstream: &Upstream<'_>,
        tile: Tile,
        dq: &mut [f32],
    ) {
        let Inputs { q, k, v, all } = *inputs;
        let Upstream { d_o, stats, delta } = *upstream;
        let attention = all.attention;
        let (width, capped) = (attention.head_width, attention.soft_cap.is_some());
        let Tile { sample, head, first, n } = tile;
        let key_head = head / attention.group();
        let draws = all.draws(sample, head);
        let ranges = &all.ranges[sample * attention.queries + first..][..n];
        let at = q.row(sample, head, first);
        let (q, d_o) = (Packed::read(&q, at, n), Packed::read(&d_o, at, n));
        let (mut keys, mut values) = (Block::new(&k), Block::new(&v));
        let mut sums = vec![[0.0; TILE]; width];
        let mut s = [[0.0; TILE]; TILE];
        let mut dp = [[0.0; TILE]; TILE];
        let mut integers = Integers::new();
        let (mut m, mut inverse, mut deltas) = ([0.0; TILE], [0.0; TILE], [0.0; TILE]);
        for (lane, stats) in stats[2 * at..][..2 * n].chunks_exact(2).enumerate() {
            (m[lane], inverse[lane], deltas[lane]) = (stats[0], stats[1], delta[at + lane]);
        }
        for segment in segments(ranges) {
            for key in segment.blocks {
                let n_keys = TILE.min(attention.keys - key as usize);
                let (s, dp) = (&mut s[..n_keys], &mut dp[..n_keys]);
                keys.read(&k, k.row(sample, key_head, key as usize), n_keys);
                keys.pair_rows(n_keys);
                values.read(&v, v.row(sample, key_head, key as usize), n_keys);
                keys.products::<A>(s, &q);
                values.products::<A>(dp, &d_o);
                if let Some(draws) = draws {
                    draws.drop_keys::<A>(dp, ranges, key - segment.first_key);
                }
                for (s, dp) in s.iter_mut().zip(dp.iter()) {
                    let mut t = [0.0; TILE];
                    score::<A>(s, &mut t, all.push, capped);
                    let (_, p) = weights::<A>(s, &t, capped, (&m, &inverse));
                    *s = map_lanes(|lane| A::mul(p[lane], dp[lane] - deltas[lane]));
                }
                let seen = seen(ranges, &segment.rows, key, n_keys);
                integers.fold::<A>(s, &keys.factors, seen.as_ref(), Width::Wide);
                keys.weighted::<A>(&integers, n_keys, &mut sums, |_, sum, product| sum + product);
            }
        }
        for sum in &mut sums {
            *sum = map_lanes(|lane| A::mul(arith::pos0(sum[lane]), all.push.scale));
        }
        unpack(&sums, dq, width, n);
    }
}

multiversion! {
    pub fn backward_key_value_tile<A>(
        inputs: &Inputs<'_>,
        upstream: &Upstream<'_>,
        keys: (&[Range], &Rows<'_>),
        tile: Tile,
        dk: &mut [f32],
        dv: &mut [f32],
    ) {
        let Inputs { q, k, v, all } = *inputs;
        let Upstream { d_o, stats, delta } = *upstream;
        let (key_ranges, q_narrow) = keys;
        let attention = all.attention;
        let (width, capped) = (attention.head_width, attention.soft_cap.is_some());
        let Tile { sample, head: key_head, first, n } = tile;
        let group = attention.group();
        let ranges = &key_ranges[sample * attention.keys + first..][..n];
        let at = k.row(sample, key_head, first);
        let (k, v) = (Packed::read(&k, at, n), Packed::read(&v, at, n));
        let (mut queries, mut incoming) = (Block::new(&q), Block::new(&d_o));
        let mut narrow_queries = Block::new(q_narrow);
        let [mut k_sums, mut v_sums] = [0; 2].map(|_| vec![[0.0; TILE]; width]);
        let mut p = [[0.0; TILE]; TILE];
        let mut ds = [[0.0; TILE]; TILE];
        let mut integers = Integers::new();
        let first_position = i64::from(all.ranges[sample * attention.queries][3]);
        for head in key_head * group..(key_head + 1) * group {
            let draws = all.draws(sample, head);
            for segment in segments(ranges) {
                let (begin, end) = union(&ranges[segment.rows.clone()]);
                if begin == end {
                    continue;
                }
                let (begin, end) = (i64::from(begin), i64::from(end));
                // How far the first query that sees a key is in its block.
                let into = (first_position + begin - i64::from(segment.first_key)) % TILE as i64;
                for block in (begin - into..end).step_by(TILE) {
                    let query = block.max(0) as usize;
                    let n_queries = attention.queries.min((block + TILE as i64) as usize) - query;
                    let (p, ds) = (&mut p[..n_queries], &mut ds[..n_queries]);
                    let at = q.row(sample, head, query);
                    queries.read(&q, at, n_queries);
                    narrow_queries.read(q_narrow, at, n_queries);
                    narrow_queries.pair_rows(n_queries);
                    incoming.read(&d_o, at, n_queries);
                    incoming.pair_rows(n_queries);
                    queries.products::<A>(p, &k);
                    incoming.products::<A>(ds, &v);
                    for (i, (p, ds)) in p.iter_mut().zip(ds.iter_mut()).enumerate() {
                        let (m, inverse) = (stats[2 * (at + i)], stats[2 * (at + i) + 1]);
                        let mut t = [0.0; TILE];
                        score::<A>(p, &mut t, all.push, capped);
                        let stats = (&[m; TILE], &[inverse; TILE]);
                        let (weight, slanted) = weights::<A>(p, &t, capped, stats);
                        *p = weight;
                        if let Some(draws) = draws {
                            let position = all.ranges[sample * attention.queries + query + i][3];
                            draws.drop_query::<A>([p, ds], ranges, position);
                        }
                        let delta = delta[at + i];
                        *ds = map_lanes(|lane| A::mul(slanted[lane], ds[lane] - delta));
                    }
                    let seen = seen(ranges, &segment.rows, query as u32, n_queries);
                    let add = |_, sum: f32, product: f32| sum + product;
                    integers.fold::<A>(p, &incoming.factors, seen.as_ref(), Width::Narrow);
                    incoming.weighted::<A>(&integers, n_queries, &mut v_sums, add);
                    integers.fold::<A>(ds, &narrow_queries.factors, seen.as_ref(), Width::Wide);
                    narrow_queries.weighted::<A>(&integers, n_queries, &mut k_sums, add);
                }
            }
        }
        for (k_sum, v_sum) in k_sums.iter_mut().zip(&mut v_sums) {
            *k_sum = map_lanes(|lane| A::mul(arith::pos0(k_sum[lane]), all.push.scale));
            *v_sum = map_lanes(|lane| arith::pos0(v_sum[lane]));
        }
        unpack(&k_sums, dk, width, n);
        unpack(&v_sums, dv, width, n);
    }
}
