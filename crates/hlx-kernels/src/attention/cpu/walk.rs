//! The walk of a task over the blocks that it sees, in every arithmetic.

use hlx_core::arith::{self, FloatOps};

use super::operands::{Inputs, Range, documents, key_blocks, seen, seen_by_all, union};
use super::rows::{Block, Rows};
use super::tile::{Lanes, Seen, TILE, map_lanes, unpack};
use super::tiles::Tile;
use crate::attention::sizes::Push;
use crate::product::quantised::Digits;

/// Chains to scores, and with a cap to `tanh(s / cap)` in `t` too.
#[inline(always)]
pub fn score<A: FloatOps>(chains: &mut Lanes, t: &mut Lanes, push: &Push, capped: bool) {
    *chains = map_lanes(|lane| A::mul(chains[lane], push.scale));
    if capped {
        *t = map_lanes(|lane| A::tanh(A::mul(chains[lane], push.inverse_cap)));
        *chains = map_lanes(|lane| A::mul(push.cap, t[lane]));
    }
}

/// The online softmax of one key block: computes weights from the chains `s`, 0 where a key is not seen,
/// moves the maxima `m`, and returns the correction for what came before.
#[inline(always)]
fn weigh<A: FloatOps>(
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
            *s = seen.choose(j, s, f32::NEG_INFINITY);
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
    let if_any = |lane: usize, value: f32, other: f32| match seen.low[lane] < seen.high[lane] {
        true => value,
        false => other,
    };
    *m = map_lanes(|lane| if_any(lane, moved[lane], before[lane]));
    for (j, s) in s.iter_mut().enumerate() {
        let powers: Lanes = map_lanes(|lane| A::exp(s[lane] - moved[lane]));
        *s = seen.choose(j, &powers, 0.0);
    }
    let correction: Lanes = map_lanes(|lane| A::exp(before[lane] - moved[lane]));
    map_lanes(|lane| if_any(lane, correction[lane], 1.0))
}

/// The weights of a row of chains in the backward pass, from their maxima and the inverses of their sums, in place of the
/// chains; with a cap, its derivative at the scores too.
#[inline(always)]
fn weights<A: FloatOps>(
    s: &mut Lanes,
    push: &Push,
    capped: bool,
    [m, inverse]: [impl Fn(usize) -> f32; 2],
) -> Option<Lanes> {
    if !capped {
        let weight = |lane| A::exp(A::mul(s[lane], push.scale) - m(lane));
        *s = map_lanes(|lane| A::mul(weight(lane), inverse(lane)));
        return None;
    }
    let mut t = [0.0; TILE];
    score::<A>(s, &mut t, push, capped);
    *s = map_lanes(|lane| A::mul(A::exp(s[lane] - m(lane)), inverse(lane)));
    Some(map_lanes(|lane| A::fma(-t[lane], t[lane], 1.0)))
}

/// `dp` to `ds`, from the weights, the derivative of the cap and delta.
#[inline(always)]
fn score_gradient<A: FloatOps>(
    p: &Lanes,
    slope: Option<Lanes>,
    delta: impl Fn(usize) -> f32,
    dp: &Lanes,
) -> Lanes {
    match slope {
        None => map_lanes(|lane| A::mul(p[lane], dp[lane] - delta(lane))),
        Some(slope) => {
            map_lanes(|lane| A::mul(A::mul(p[lane], slope[lane]), dp[lane] - delta(lane)))
        }
    }
}

/// The rows `[n, D]` of `o` and the statistics of a tile of queries.
#[inline(always)]
pub fn forward<A: FloatOps, R: Rows>(
    [q, k, v, ..]: [R; 5],
    inputs: Inputs<'_>,
    tile: Tile,
    o: &mut [f32],
    stats: &mut [f32],
) {
    let attention = inputs.attention;
    let (width, capped) = (attention.head_width, attention.soft_cap.is_some());
    let draws = inputs.draws(tile.sample, tile.head);
    let ranges = inputs.of_queries(tile);
    let ranges = &ranges[..tile.n];
    let by_all = seen_by_all(ranges);
    let q = q.pack(tile);
    let (mut keys, mut values) = (k.block(), v.block());
    let mut sums = vec![[0.0; TILE]; width];
    let mut p = [[0.0; TILE]; TILE];
    let (mut m, mut l) = ([f32::NEG_INFINITY; TILE], [0.0; TILE]);
    for (rows, key) in key_blocks(ranges) {
        let block = tile.of_keys(attention, key);
        keys.read(&k, block);
        values.read(&v, block);
        let s = &mut p[..block.n];
        keys.products::<A>(s, &q);
        let seen = seen(ranges, by_all, &rows, key, block.n);
        let correction = weigh::<A>(s, &mut m, &inputs.push, capped, seen.as_ref());
        l = R::total::<A>(l, &correction, &mut p, block.n);
        let p = &mut p[..block.n];
        if let Some(draws) = draws {
            draws.drop_keys::<A>(p, ranges, key - ranges[rows.start][0]);
        }
        values.add::<A>(&mut sums, Some(&correction), p, seen, Digits::Two);
    }
    for sum in &mut sums {
        *sum = map_lanes(|lane| arith::pos0(arith::div(sum[lane], l[lane])));
    }
    unpack(&sums, o, width, tile.n);
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

/// The rows `[n, D]` of dQ of a tile of queries.
#[inline(always)]
pub fn backward_query<A: FloatOps, R: Rows>(
    [q, k, v, d_o, _]: [R; 5],
    inputs: Inputs<'_>,
    [stats, delta]: [&[f32]; 2],
    tile: Tile,
    dq: &mut [f32],
) {
    let attention = inputs.attention;
    let (width, capped) = (attention.head_width, attention.soft_cap.is_some());
    let draws = inputs.draws(tile.sample, tile.head);
    let ranges = inputs.of_queries(tile);
    let ranges = &ranges[..tile.n];
    let by_all = seen_by_all(ranges);
    let (q, d_o) = (q.pack(tile), d_o.pack(tile));
    let (mut keys, mut values) = (k.block(), v.block());
    let mut sums = vec![[0.0; TILE]; width];
    let [mut s, mut dp] = [[[0.0; TILE]; TILE]; 2];
    let [mut m, mut inverse, mut deltas] = [[0.0; TILE]; 3];
    let at = inputs.query(tile.sample, tile.head, tile.first);
    for (lane, stats) in stats[2 * at..][..2 * tile.n].chunks_exact(2).enumerate() {
        (m[lane], inverse[lane], deltas[lane]) = (stats[0], stats[1], delta[at + lane]);
    }
    for (rows, key) in key_blocks(ranges) {
        let block = tile.of_keys(attention, key);
        keys.read(&k, block);
        values.read(&v, block);
        let (s, dp) = (&mut s[..block.n], &mut dp[..block.n]);
        keys.products::<A>(s, &q);
        values.products::<A>(dp, &d_o);
        if let Some(draws) = draws {
            draws.drop_keys::<A>(dp, ranges, key - ranges[rows.start][0]);
        }
        for (s, dp) in s.iter_mut().zip(dp.iter()) {
            let stats = [&m, &inverse].map(|stats| |lane: usize| stats[lane]);
            let slope = weights::<A>(s, &inputs.push, capped, stats);
            *s = score_gradient::<A>(s, slope, |lane| deltas[lane], dp);
        }
        let seen = seen(ranges, by_all, &rows, key, block.n);
        keys.add::<A>(&mut sums, None, s, seen, Digits::Two);
    }
    for sum in &mut sums {
        *sum = map_lanes(|lane| A::mul(arith::pos0(sum[lane]), inputs.push.scale));
    }
    unpack(&sums, dq, width, tile.n);
}

/// The blocks of queries that see keys of a tile: the keys that they are for, and the queries.
fn query_blocks<R: Rows>(
    ranges: &[Range],
    inputs: &Inputs<'_>,
    sample: usize,
) -> Vec<[std::ops::Range<usize>; 2]> {
    let first_position = i64::from(inputs.position(sample, 0));
    let of_keys = |rows: std::ops::Range<usize>| {
        let (begin, end) = union(&ranges[rows.clone()]);
        let (begin, end) = (i64::from(begin), i64::from(end));
        // How far the first query that sees a key is in its block.
        let into = match R::QUERIES_BY_DOCUMENT && begin < end {
            true => (first_position + begin - i64::from(ranges[rows.start][0])) % TILE as i64,
            false => 0,
        };
        (begin - into..end).step_by(TILE).map(move |block| {
            let end = inputs.attention.queries.min((block + TILE as i64) as usize);
            [rows.clone(), block.max(0) as usize..end]
        })
    };
    match R::QUERIES_BY_DOCUMENT {
        true => documents(ranges).flat_map(of_keys).collect(),
        false => of_keys(0..ranges.len()).collect(),
    }
}

/// The rows `[n, D]` of dK and dV of a tile of keys, which queries see by these ranges.
#[inline(always)]
pub fn backward_key_value<A: FloatOps, R: Rows>(
    [q, k, v, d_o, q_in_sums]: [R; 5],
    inputs: Inputs<'_>,
    ranges: &[Range],
    [stats, delta]: [&[f32]; 2],
    tile: Tile,
    [dk, dv]: [&mut [f32]; 2],
) {
    let attention = inputs.attention;
    let (width, group) = (attention.head_width, attention.group());
    let capped = attention.soft_cap.is_some();
    let (sample, key_head) = (tile.sample, tile.head);
    let (k, v) = (k.pack(tile), v.pack(tile));
    let (mut queries, mut upstream, mut weighted) = (q.block(), d_o.block(), q_in_sums.block());
    let [mut k_sums, mut v_sums] = [0; 2].map(|_| vec![[0.0; TILE]; width]);
    let [mut p, mut ds] = [[[0.0; TILE]; TILE]; 2];
    let blocks = query_blocks::<R>(ranges, &inputs, sample);
    let by_all = seen_by_all(ranges);
    for head in key_head * group..(key_head + 1) * group {
        let draws = inputs.draws(sample, head);
        for [rows, of_queries] in &blocks {
            let (first, n) = (of_queries.start, of_queries.len());
            let block = Tile {
                sample,
                head,
                first,
                n,
            };
            queries.read(&q, block);
            upstream.read(&d_o, block);
            weighted.read(&q_in_sums, block);
            let (p, ds) = (&mut p[..n], &mut ds[..n]);
            queries.products::<A>(p, &k);
            upstream.products::<A>(ds, &v);
            let at = inputs.query(sample, head, first);
            for (i, (p, ds)) in p.iter_mut().zip(ds.iter_mut()).enumerate() {
                let stats = [2 * (at + i), 2 * (at + i) + 1].map(|at| stats[at]);
                let stats = stats.map(|word| move |_: usize| word);
                let slope = weights::<A>(p, &inputs.push, capped, stats);
                let weight = *p;
                if let Some(draws) = draws {
                    draws.drop_query::<A>([p, ds], ranges, inputs.position(sample, first + i));
                }
                let delta = delta[at + i];
                *ds = score_gradient::<A>(&weight, slope, |_| delta, ds);
            }
            let seen = seen(ranges, by_all, rows, first as u32, n);
            upstream.add::<A>(&mut v_sums, None, p, seen, Digits::One);
            weighted.add::<A>(&mut k_sums, None, ds, seen, Digits::Two);
        }
    }
    for (k_sum, v_sum) in k_sums.iter_mut().zip(&mut v_sums) {
        *k_sum = map_lanes(|lane| A::mul(arith::pos0(k_sum[lane]), inputs.push.scale));
        *v_sum = map_lanes(|lane| arith::pos0(v_sum[lane]));
    }
    unpack(&k_sums, dk, width, tile.n);
    unpack(&v_sums, dv, width, tile.n);
}
