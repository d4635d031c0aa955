//! A query by itself, as a token of a generation has one: the keys of a block in the lanes of scores, where a
//! walk over a tile of queries would leave 31 lanes empty. The bits are the same.

use hlx_core::arith::{self, FloatOps};

use super::{QuantisedRows, join, product, sum_by_halves};
use crate::attention::cpu::operands::{Inputs, key_blocks};
use crate::attention::cpu::tile::{Lanes, TILE, map_lanes};
use crate::attention::cpu::tiles::Tile;
use crate::attention::cpu::walk::score;
use crate::attention::sizes::WIDEST_HEAD;
use crate::product::quantised::Digits;
use crate::product::quantised::specification::{
    self, NO_EXPONENT, factors, magnitude, row_exponent,
};

/// The keys of a block that the query sees: one at least.
type Seen = std::ops::Range<usize>;

/// The row of `o` and the statistics of a tile of one query, whose weights are not dropped.
#[inline(always)]
pub fn forward<A: FloatOps>(
    [q, k, v, ..]: [QuantisedRows<'_>; 5],
    inputs: Inputs<'_>,
    tile: Tile,
    o: &mut [f32],
    stats: &mut [f32],
) {
    let (attention, range) = (inputs.attention, inputs.of_queries(tile)[0]);
    o.fill(0.0);
    stats.fill(0.0);
    if range[1] >= range[2] {
        return;
    }
    let (query, of_query) = query(&q, tile);
    let (mut m, mut l) = (f32::NEG_INFINITY, 0.0);
    for (_, key) in key_blocks(&[range]) {
        let block = tile.of_keys(attention, key);
        let within = |bound: u32| (bound.max(key) - key) as usize;
        let seen = within(range[1])..within(range[2]).min(block.n);
        if seen.is_empty() {
            continue;
        }
        let mut s = [0.0; TILE];
        scores::<A>(&k, block, (&query, of_query), &seen, &mut s);
        let mut t = [0.0; TILE];
        score::<A>(&mut s, &mut t, &inputs.push, attention.soft_cap.is_some());
        let sees = |lane: usize| seen.contains(&lane);
        let top = s[seen.clone()].iter();
        let top = top.fold(f32::NEG_INFINITY, |top, &s| arith::max(top, s));
        let now = arith::max(m, arith::pos0(top));
        let powers: Lanes = map_lanes(|lane| A::exp(s[lane] - now));
        let p: Lanes = map_lanes(|lane| if sees(lane) { powers[lane] } else { 0.0 });
        let correction = A::exp(m - now);
        l = A::fma(l, correction, sum_by_halves(&p, |a, b| a + b));
        m = now;
        add::<A>(&v, block, &p, &seen, correction, o);
    }
    for o in o.iter_mut() {
        *o = arith::pos0(arith::div(*o, l));
    }
    stats.copy_from_slice(&[m, arith::div(1.0, l)]);
}

/// The integers of a query, and the factors of its exponent.
#[inline(always)]
fn query(q: &QuantisedRows<'_>, tile: Tile) -> ([i16; WIDEST_HEAD], [f32; 2]) {
    let row = q.first_row(tile);
    let mut integers = [0; WIDEST_HEAD];
    match q.digits(row, 1) {
        (Some(upper), lower) => join(upper, lower, &mut integers),
        (None, lower) => super::widen(lower, &mut integers),
    }
    (integers, factors(q.exponents[row]))
}

/// The products of a query with the keys that it sees.
#[inline(always)]
fn scores<A: FloatOps>(
    k: &QuantisedRows<'_>,
    block: Tile,
    (query, of_query): (&[i16; WIDEST_HEAD], [f32; 2]),
    seen: &Seen,
    s: &mut Lanes,
) {
    let (padded, row) = (k.of.padded(), k.first_row(block));
    let (_, digits) = k.digits(row, block.n);
    let query = &query[..k.of.head_width];
    for j in seen.clone() {
        let key = &digits[j * padded..][..query.len()];
        let terms = query.iter().zip(key);
        let sum: i32 = terms
            .map(|(q, k)| i32::from(*q) * i32::from(i16::from(*k)))
            .sum();
        let [first, second] = factors(k.exponents[row + j]);
        let factors = [A::mul(first, of_query[0]), A::mul(second, of_query[1])];
        s[j] = product::<A>(sum, factors);
    }
}

/// `o = fma(o, correction, the sum over the values that are seen of weights times values)`.
#[inline(always)]
fn add<A: FloatOps>(
    v: &QuantisedRows<'_>,
    block: Tile,
    p: &Lanes,
    seen: &Seen,
    correction: f32,
    o: &mut [f32],
) {
    let (padded, row) = (v.of.padded(), v.first_row(block));
    let (_, digits) = v.digits(row, block.n);
    let (mut weights, mut top) = ([0.0; TILE], 0);
    for j in seen.clone() {
        let [first, second] = factors(v.exponents[row + j]);
        weights[j] = A::mul(A::mul(p[j], first), second);
        top = magnitude(weights[j]).max(top);
    }
    let exponent = row_exponent(top, Digits::Two);
    let scale = match exponent {
        // Where there is no exponent, all integers are 0.
        NO_EXPONENT => [0.0; 2],
        _ => specification::scale(exponent),
    };
    let mut sums = [0_i32; WIDEST_HEAD];
    let sums = &mut sums[..o.len()];
    for j in seen.clone() {
        let weight = i32::from(specification::quantised::<A>(weights[j], scale) as i16);
        for (sum, v) in sums.iter_mut().zip(&digits[j * padded..]) {
            *sum += weight * i32::from(*v);
        }
    }
    let of_weights = factors(exponent);
    for (o, sum) in o.iter_mut().zip(sums) {
        *o = A::fma(*o, correction, product::<A>(*sum, of_weights));
    }
}

#[cfg(test)]
mod tests {
    use hlx_core::cpu::with_flush;

    use super::*;
    use crate::attention::cpu::operands::Operands;
    use crate::attention::cpu::walk;
    use crate::attention::heads::Heads;
    use crate::attention::sizes::{Attention, Strided};

    multiversion! {
        fn both<A>(
            rows: [QuantisedRows<'_>; 5],
            inputs: Inputs<'_>,
            tile: Tile,
            found: &mut [Vec<f32>; 2],
            of_stats: &mut [Vec<f32>; 2],
        ) {
            forward::<A>(rows, inputs, tile, &mut found[0], &mut of_stats[0]);
            walk::forward::<A, _>(rows, inputs, tile, &mut found[1], &mut of_stats[1]);
        }
    }

    /// Words of heads: any digits, and exponents of numbers near 1, of which some are none.
    fn words(of: Heads, seed: u32, without: bool) -> Vec<f32> {
        let any = |i: usize| (i as u32 + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9) | 1);
        let digit = |word: u32| (word >> 24) as i32 as u32 & 0x7f7f_7f7f;
        let digits = (0..of.digit_words())
            .map(|i| f32::from_bits(digit(any(i)) | any(i) >> 3 & 0x3f3f_3f3f));
        let exponent = |i: usize| match without && i % 37 == 5 {
            true => NO_EXPONENT,
            false => 6 + (any(i) >> 28) as i32 % 5,
        };
        let exponents = (0..of.rows()).map(|i| f32::from_bits(exponent(i) as u32));
        digits.chain(exponents).collect()
    }

    #[test]
    fn a_query_by_itself_has_the_bits_of_a_tile() {
        for (keys, width, cap) in [
            (1, 8, None),
            (40, 64, None),
            (97, 80, Some(3.0)),
            (64, 128, None),
        ] {
            let attention = Attention {
                soft_cap: cap,
                keys,
                key_heads: 2,
                ..Attention::causal([1, 1], 4, width)
            };
            let placed = attention.at([Strided::contiguous(1, 4, width); 3]);
            for without in [false, true] {
                let of_queries = Heads::of_queries(&attention, Digits::Two);
                let of_keys = Heads::of_keys(&attention);
                let q = words(of_queries, 3, false);
                let [k, v] = [5, 7].map(|seed| words(of_keys, seed, without));
                let q = QuantisedRows::new(&q, of_queries);
                let [k, v] = [
                    QuantisedRows::new(&k, of_keys),
                    QuantisedRows::new(&v, of_keys),
                ];
                let rows = [q, k, v, q, q];
                let n = keys as u32;
                let all = [
                    [0, 0, n],
                    [0, n / 3, n],
                    [0, 0, n / 2],
                    [n / 4, n / 4, n - n / 8],
                    [0, n, n],
                ];
                for [document, begin, end] in all {
                    let range = [document, begin, end, n - 1].map(f32::from_bits);
                    let inputs = Inputs::new(Operands::Quantised(rows), &range, &[], &placed);
                    for head in 0..4 {
                        let tile = Tile {
                            sample: 0,
                            head,
                            first: 0,
                            n: 1,
                        };
                        let mut found = [vec![0.5; width], vec![0.5; width]];
                        let mut stats = [vec![0.5; 2], vec![0.5; 2]];
                        with_flush(|| both(rows, inputs, tile, &mut found, &mut stats));
                        let bits = |x: &[f32]| -> Vec<u32> {
                            x.iter()
                                .map(|x| hlx_core::digest::canonical_bits(*x))
                                .collect()
                        };
                        let name = format!("{keys} {width} {cap:?} {without} {begin} {end} {head}");
                        assert_eq!(bits(&found[0]), bits(&found[1]), "{name}");
                        assert_eq!(bits(&stats[0]), bits(&stats[1]), "{name}");
                        let is_number = found[0].iter().any(|x| *x != 0.0 && x.is_finite());
                        assert!(is_number || without || begin == end, "{name}");
                    }
                }
            }
        }
    }
}
