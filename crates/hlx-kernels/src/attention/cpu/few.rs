//! The CPU twin of attention of few queries: 32 keys in the lanes of scores, the columns of a row in those
//! of the sums.

use hlx_core::arith;

use super::operands::{Inputs, Operands, Range, union};
use super::tile::{Lanes, TILE, contract, map_lanes, pack};
use super::tiles::Tile;
use super::walk::score;
use crate::attention::sizes::Attention;
use crate::parallel::{self, write};

/// The queries of a key head: `T` in each of the query heads that share it.
#[derive(Clone, Copy)]
pub struct FewRows {
    pub n: usize,
    /// Blocks of keys.
    pub blocks: usize,
    group: usize,
}

impl FewRows {
    pub fn of(attention: &Attention) -> Self {
        let group = attention.group();
        Self {
            n: attention.queries * group,
            blocks: attention.keys.div_ceil(TILE),
            group,
        }
    }

    /// Blocks of all rows.
    pub fn tops(&self) -> usize {
        self.n * self.blocks
    }

    fn query(&self, row: usize) -> usize {
        row / self.group
    }

    /// A row's query by itself.
    fn tile(&self, sample: usize, key_head: usize, row: usize) -> Tile {
        Tile {
            sample,
            head: key_head * self.group + row % self.group,
            first: self.query(row),
            n: 1,
        }
    }
}

/// The blocks of keys that any of the queries sees.
fn blocks_seen(ranges: &[Range]) -> std::ops::Range<usize> {
    let (begin, end) = union(ranges);
    begin as usize / TILE..(end as usize).div_ceil(TILE)
}

/// The lanes of a block that a query sees; empty if it sees none of its keys.
fn lanes_seen(range: Range, block: usize) -> std::ops::Range<usize> {
    let first = block * TILE;
    let clamped = |bound: u32| (bound as usize).clamp(first, first + TILE) - first;
    clamped(range[1])..clamped(range[2])
}

/// Writes the scores and their maxima of every key head.
pub fn scores(inputs: Inputs<'_>, scores: &mut [f32], tops: &mut [f32]) {
    let rows = FewRows::of(inputs.attention);
    let of_heads = (write(scores, rows.tops() * TILE), write(tops, rows.tops()));
    parallel::for_each(of_heads, |at, (scores, tops)| {
        scores_of_key_head(inputs, at, scores, tops)
    });
}

multiversion! {
    /// `at` counts the key heads of all samples.
    fn scores_of_key_head<A>(inputs: Inputs<'_>, at: usize, scores: &mut [f32], tops: &mut [f32]) {
        let Operands::Floats([q, k, ..]) = inputs.operands else { return };
        let attention = inputs.attention;
        let (rows, width) = (FewRows::of(attention), attention.head_width);
        let (sample, key_head) = (at / attention.key_heads, at % attention.key_heads);
        let ranges = inputs.of_sample(sample);
        let mut queries = vec![0.0; rows.n * width];
        for (row, query) in queries.chunks_exact_mut(width).enumerate() {
            let (from, _) = q.rows(rows.tile(sample, key_head, row));
            query.copy_from_slice(&from[..width]);
        }
        let mut packed = vec![[0.0; TILE]; width];
        let mut chains = vec![[0.0; TILE]; rows.n];
        for block in blocks_seen(ranges) {
            let n_keys = TILE.min(attention.keys - block * TILE);
            let (keys, stride) = k.rows(Tile { sample, head: key_head, first: block * TILE, n: n_keys });
            pack(&mut packed, keys, stride, n_keys);
            contract(&mut chains, &queries, width, &packed);
            for (row, s) in chains.iter_mut().enumerate() {
                let mut t = [0.0; TILE];
                score::<A>(s, &mut t, &inputs.push, attention.soft_cap.is_some());
                let seen = lanes_seen(ranges[rows.query(row)], block);
                *s = map_lanes(|lane| if seen.contains(&lane) { s[lane] } else { f32::NEG_INFINITY });
                let at = row * rows.blocks + block;
                scores[at * TILE..][..TILE].copy_from_slice(s);
                tops[at] = arith::pos0(s.iter().fold(f32::NEG_INFINITY, |top, &s| arith::max(top, s)));
            }
        }
    }
}

/// From scores to the output and its statistics.
pub fn values(inputs: Inputs<'_>, [scores, tops]: [&[f32]; 2], o: &mut [f32], stats: &mut [f32]) {
    let attention = inputs.attention;
    let (rows, width) = (FewRows::of(attention), attention.head_width);
    let results = parallel::map(attention.all_key_heads(), |at| {
        let mut sums = vec![0.0; rows.n * width];
        let mut stats = vec![0.0; 2 * rows.n];
        let scores = &scores[at * rows.tops() * TILE..][..rows.tops() * TILE];
        let tops = &tops[at * rows.tops()..][..rows.tops()];
        values_of_key_head(inputs, at, scores, tops, &mut sums, &mut stats);
        (sums, stats)
    });
    for (at, (sums, of_rows)) in results.into_iter().enumerate() {
        let (sample, key_head) = (at / attention.key_heads, at % attention.key_heads);
        for row in 0..rows.n {
            let tile = rows.tile(sample, key_head, row);
            let at = (sample * attention.queries + tile.first) * attention.heads + tile.head;
            o[at * width..][..width].copy_from_slice(&sums[row * width..][..width]);
            let at = inputs.query(sample, tile.head, tile.first);
            stats[2 * at..][..2].copy_from_slice(&of_rows[2 * row..][..2]);
        }
    }
}

multiversion! {
    /// `at` counts the key heads of all samples; `sums` are `[rows, D]`, `stats` `[rows, 2]`, both zero.
    fn values_of_key_head<A>(
        inputs: Inputs<'_>,
        at: usize,
        scores: &[f32],
        tops: &[f32],
        sums: &mut [f32],
        stats: &mut [f32],
    ) {
        let Operands::Floats([_, _, v, ..]) = inputs.operands else { return };
        let attention = inputs.attention;
        let (rows, width) = (FewRows::of(attention), attention.head_width);
        let (sample, key_head) = (at / attention.key_heads, at % attention.key_heads);
        let ranges = inputs.of_sample(sample);
        // The maximum so far and l of each row.
        let mut states = vec![(f32::NEG_INFINITY, 0.0); rows.n];
        for block in blocks_seen(ranges) {
            let (values, stride) = v.rows(Tile { sample, head: key_head, first: block * TILE, n: TILE });
            for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
                let seen = lanes_seen(ranges[rows.query(row)], block);
                if seen.is_empty() {
                    continue;
                }
                let at = row * rows.blocks + block;
                let (m, mut l) = states[row];
                let now = arith::max(m, tops[at]);
                let correction = A::exp(m - now);
                let s = &scores[at * TILE..][..TILE];
                let p: Lanes = map_lanes(|lane| A::exp(s[lane] - now));
                l = A::mul(l, correction);
                for sum in sums.iter_mut() {
                    *sum = A::mul(*sum, correction);
                }
                for key in seen {
                    l += p[key];
                    for (sum, &v) in sums.iter_mut().zip(&values[key * stride..][..width]) {
                        *sum = A::fma(p[key], v, *sum);
                    }
                }
                states[row] = (now, l);
            }
        }
        let of_rows = sums.chunks_exact_mut(width).zip(stats.chunks_exact_mut(2));
        for (row, (sums, stats)) in of_rows.enumerate() {
            let [_, begin, end, _] = ranges[rows.query(row)];
            if begin < end {
                let (m, l) = states[row];
                for sum in sums.iter_mut() {
                    *sum = arith::pos0(arith::div(*sum, l));
                }
                stats.copy_from_slice(&[m, arith::div(1.0, l)]);
            }
        }
    }
}
