//! The specification of attention over quantised operands, number by number.

use hlx_core::IntegerPath;
use hlx_core::cpu::with_flush;

use super::*;
use crate::product::quantised::Digits;
use crate::product::quantised::specification::{NO_EXPONENT, magnitude, row_exponent};
use crate::product::quantised::tests::definition::{quantised, scaled_down};
use crate::tuning::KernelTuning;

/// A row as integers, and their exponent.
struct Quantised(Vec<i64>, i32);

impl Quantised {
    fn new(row: &[f32], n_digits: Digits) -> Self {
        let top = row.iter().map(|x| magnitude(*x)).max().unwrap_or_default();
        let exponent = row_exponent(top, n_digits);
        let integer = |x: &f32| match exponent {
            NO_EXPONENT => 0,
            exponent => i64::from(quantised(*x, exponent)),
        };
        Self(row.iter().map(integer).collect(), exponent)
    }

    fn times(&self, other: &Self) -> f32 {
        let products = self.0.iter().zip(&other.0).map(|(a, b)| a * b);
        product(products.sum(), [self.1, other.1])
    }
}

fn product(sum: i64, exponents: [i32; 2]) -> f32 {
    match exponents.contains(&NO_EXPONENT) {
        true => f32::from_bits(0x7fc0_0000),
        false => arith::pos0(scaled_down(sum as f32, exponents[0] + exponents[1])),
    }
}

/// `x 2^-e`.
fn folded(x: f32, exponent: i32) -> f32 {
    match exponent {
        NO_EXPONENT => f32::from_bits(0x7fc0_0000),
        exponent if x.is_finite() => scaled_down(x, exponent),
        _ => x,
    }
}

/// The terms of a block, `weights` at those rows, as one row of `width` columns: by the integers of the weights.
fn weighted(weights: &[f32], rows: &[&Quantised], of: Digits, width: usize) -> Vec<f32> {
    let folded: Vec<f32> = weights
        .iter()
        .zip(rows)
        .map(|(x, row)| folded(*x, row.1))
        .collect();
    let u = Quantised::new(&folded, of);
    let column = |d: usize| {
        let terms = u.0.iter().zip(rows).map(|(u, row)| u * row.0[d]);
        product(terms.sum(), [u.1, 0])
    };
    (0..width).map(column).collect()
}

/// A score's weight: p, that times the slope of its cap, and the factor of its dropout.
struct Weight {
    p: f32,
    slanted: f32,
    factor: Option<f32>,
}

impl Case {
    fn dropped(&self, x: f32, weight: &Weight) -> f32 {
        match (self.attention.dropout, weight.factor) {
            (None, _) => x,
            (_, Some(factor)) => arith::mul(x, factor),
            (_, None) => 0.0,
        }
    }

    fn quantised(&self, of: &[f32], at: usize, n_digits: Digits) -> Quantised {
        let d = self.attention.head_width;
        Quantised::new(&of[at * d..][..d], n_digits)
    }

    fn first_key(&self, sample: usize, position: usize) -> usize {
        let keys = self.attention.keys;
        let starts = self.documents.as_ref().filter(|_| position < keys);
        starts.map_or(0, |starts| starts[sample * keys + position] as usize)
    }

    /// o, stats, dq, dk and dv by the specification.
    fn definition(&self) -> [Vec<f32>; 5] {
        let a = &self.attention;
        let (width, group) = (a.head_width, a.group());
        let [mut o, mut dq] = [0; 2].map(|_| vec![0.0; a.output_len()]);
        let mut stats = vec![0.0; 2 * a.all_queries()];
        let [mut dk, mut dv] = [0; 2].map(|_| vec![0.0; a.key_len()]);
        for (sample, head) in (0..a.batch).flat_map(|b| (0..a.heads).map(move |h| (b, h))) {
            let q_row = |i: usize| (sample * a.queries + i) * a.heads + head;
            let k_row = |j: usize| (sample * a.keys + j) * a.key_heads + head / group;
            let keys: Vec<_> = (0..a.keys)
                .map(|j| {
                    let [k, v] =
                        [&self.k, &self.v].map(|x| self.quantised(x, k_row(j), Digits::One));
                    (k, v)
                })
                .collect();
            // What the queries of a block add to a key: do, and q with one digit, p and ds.
            let queries: Vec<_> = (0..a.queries)
                .map(|i| {
                    let d_o = self.quantised(&self.d_o, q_row(i), Digits::Two);
                    (self.quantised(&self.q, q_row(i), Digits::One), d_o)
                })
                .collect();
            let mut of_keys = vec![Vec::new(); a.keys];
            for i in 0..a.queries {
                let position = self.position(sample, i);
                let first_key = self.first_key(sample, position);
                let q = self.quantised(&self.q, q_row(i), Digits::Two);
                let seen: Vec<usize> = (0..a.keys).filter(|&j| self.sees(sample, i, j)).collect();
                let blocks = seen.chunk_by(|x, y| (x - first_key) / 32 == (y - first_key) / 32);
                let score = |j: usize| {
                    let s = arith::mul(q.times(&keys[j].0), a.scale);
                    a.soft_cap.map_or((s, 0.0), |cap| {
                        let t = arith::tanh(arith::mul(s, arith::div(1.0, cap)));
                        (arith::mul(cap, t), t)
                    })
                };
                let factor = |j: usize| {
                    let stays = self.factor(sample, head, i, j) != 0.0;
                    stays.then(|| a.dropout.unwrap_or_default().factor())
                };
                let (mut m, mut l, mut sums) = (f32::NEG_INFINITY, 0.0, vec![0.0; width]);
                for block in blocks.clone() {
                    let tops = block.iter().map(|&j| score(j).0);
                    let top = tops.fold(f32::NEG_INFINITY, arith::max);
                    let now = arith::max(m, arith::pos0(top));
                    let correction = arith::exp(arith::sub(m, now));
                    m = now;
                    let mut halves = [0.0; 32];
                    let mut weights = Vec::new();
                    for &j in block {
                        let p = arith::exp(arith::sub(score(j).0, m));
                        halves[(j - first_key) % 32] = p;
                        let weight = Weight {
                            p,
                            slanted: p,
                            factor: factor(j),
                        };
                        weights.push(self.dropped(p, &weight));
                    }
                    for n in [16, 8, 4, 2, 1] {
                        for at in 0..n {
                            halves[at] = arith::add(halves[at], halves[at + n]);
                        }
                    }
                    l = arith::fma(l, correction, halves[0]);
                    let rows: Vec<_> = block.iter().map(|&j| &keys[j].1).collect();
                    let terms = weighted(&weights, &rows, Digits::Two, width);
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        *sum = arith::fma(*sum, correction, term);
                    }
                }
                if seen.is_empty() {
                    continue;
                }
                let inverse = arith::div(1.0, l);
                let at = (sample * a.heads + head) * a.queries + i;
                stats[2 * at..][..2].copy_from_slice(&[m, inverse]);
                let o = &mut o[q_row(i) * width..][..width];
                for (o, sum) in o.iter_mut().zip(sums) {
                    *o = arith::pos0(arith::div(sum, l));
                }
                let d_o = &self.d_o[q_row(i) * width..][..width];
                let chain = d_o
                    .iter()
                    .zip(&*o)
                    .fold(0.0, |sum, (d_o, o)| arith::fma(*d_o, *o, sum));
                let delta = arith::pos0(chain);
                let mut sums = vec![0.0; width];
                for block in blocks {
                    let mut all = Vec::new();
                    for &j in block {
                        let (s, t) = score(j);
                        let p = arith::mul(arith::exp(arith::sub(s, m)), inverse);
                        let slanted = match a.soft_cap {
                            Some(_) => arith::mul(p, arith::fma(-t, t, 1.0)),
                            None => p,
                        };
                        let weight = Weight {
                            p,
                            slanted,
                            factor: factor(j),
                        };
                        let dp = self.dropped(queries[i].1.times(&keys[j].1), &weight);
                        let ds = arith::mul(weight.slanted, arith::sub(dp, delta));
                        of_keys[j].push((i, self.dropped(weight.p, &weight), ds));
                        all.push(ds);
                    }
                    let rows: Vec<_> = block.iter().map(|&j| &keys[j].0).collect();
                    let terms = weighted(&all, &rows, Digits::Two, width);
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        *sum = arith::add(*sum, term);
                    }
                }
                for (dq, sum) in dq[q_row(i) * width..][..width].iter_mut().zip(sums) {
                    *dq = arith::mul(arith::pos0(sum), a.scale);
                }
            }
            for (j, of_key) in of_keys.iter().enumerate() {
                let block = |i: usize| {
                    let position = self.position(sample, i);
                    (position - self.first_key(sample, position)) / 32
                };
                for terms in of_key.chunk_by(|x, y| block(x.0) == block(y.0)) {
                    let [p, ds] = [|t: &(usize, f32, f32)| t.1, |t: &(usize, f32, f32)| t.2]
                        .map(|part| terms.iter().map(part).collect::<Vec<f32>>());
                    let rows: Vec<_> = terms.iter().map(|t| &queries[t.0].1).collect();
                    let of_values = weighted(&p, &rows, Digits::One, width);
                    let rows: Vec<_> = terms.iter().map(|t| &queries[t.0].0).collect();
                    let of_keys = weighted(&ds, &rows, Digits::Two, width);
                    let at = k_row(j) * width;
                    for d in 0..width {
                        dv[at + d] = arith::add(dv[at + d], of_values[d]);
                        dk[at + d] = arith::add(dk[at + d], of_keys[d]);
                    }
                }
            }
        }
        for (dk, dv) in dk.iter_mut().zip(&mut dv) {
            *dk = arith::mul(arith::pos0(*dk), a.scale);
            *dv = arith::pos0(*dv);
        }
        [o, stats, dq, dk, dv]
    }
}

fn assert_is_defined(name: &str, case: &Case) {
    let case = Case {
        quantised: true,
        ..case.clone()
    };
    let got = on_the_cpu(&case);
    let want = with_flush(|| case.definition());
    for ((what, got), want) in ["o", "stats", "dq", "dk", "dv"].iter().zip(&got).zip(&want) {
        let differs = got.iter().zip(want).position(|(got, want)| {
            let nan = got.is_nan() && want.is_nan();
            !nan && got.to_bits() != want.to_bits()
        });
        if let Some(at) = differs {
            panic!(
                "{name}: {what}[{at}] is {:e}, defined as {:e}",
                got[at], want[at]
            );
        }
    }
}

#[test]
fn every_rule_is_computed_as_it_is_defined() {
    for (name, case) in cases() {
        assert_is_defined(name, &case);
    }
}

/// Heads of 256 columns and 131 keys of the largest integers: the sums of scores come near 2^30.
#[test]
fn the_largest_sums_are_exact() {
    let attention = Attention {
        queries: 40,
        keys: 131,
        head_width: 256,
        scale: 1.0 / 4096.0,
        causal: true,
        ..PLAIN
    };
    let mut case = case(attention);
    for values in [&mut case.q, &mut case.k, &mut case.v, &mut case.d_o] {
        for (at, value) in values.iter_mut().enumerate() {
            // Just below where a row's exponent changes; a few unlike the others.
            let top = if at % 97 == 0 { 0.7 } else { 0.996_09 };
            *value = if *value < -1.5 { -top } else { top };
        }
    }
    assert_is_defined("the largest", &case);
    case.quantised = true;
    everywhere(&case);
}

/// Rows of zeros, of one huge value, of the smallest normals, with a NaN or an infinity.
#[test]
fn rows_of_every_size_are_computed_as_they_are_defined() {
    let attention = Attention {
        queries: 40,
        keys: 40,
        heads: 2,
        causal: true,
        ..PLAIN
    };
    let mut case = case(attention);
    let rows = [
        (3, [0.0; 8]),
        (5, [1e38; 8]),
        (9, [f32::MIN_POSITIVE; 8]),
        (12, [1e-30, 1e30, 0.0, -0.0, 1.0, -1e-38, 2.0, 3.0]),
    ];
    for (row, values) in rows {
        case.q[8 * row..][..8].copy_from_slice(&values.map(|x| x.min(1e30)));
        case.v[8 * row..][..8].copy_from_slice(&values);
        case.d_o[8 * (row + 20)..][..8].copy_from_slice(&values);
    }
    case.k[8 * 9..][..8].fill(f32::MIN_POSITIVE);
    assert_is_defined("sizes", &case);
    case.k[8 * 30] = f32::NAN;
    case.v[8 * 33] = f32::INFINITY;
    case.d_o[8 * 70] = f32::NEG_INFINITY;
    assert_is_defined("not finite", &case);
    case.quantised = true;
    everywhere(&case);
}

/// By dot products of four bytes, on devices that have them and take other instructions by themselves.
#[test]
fn dot_products_have_the_same_bits() {
    for (name, mut case) in hlx_core::testing::cases(cases(), 3) {
        case.quantised = true;
        run_everywhere(&format!("{name}, by dot products"), |device, mem| {
            let mut tuning = KernelTuning::of(device).clone();
            if device.integer_paths().contains(&IntegerPath::Dots) {
                tuning.products.integers = IntegerPath::Dots;
            }
            on(&tuning.on(device)?, mem, &case)
        });
    }
}
