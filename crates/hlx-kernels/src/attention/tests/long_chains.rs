//! Attention over up to 4,096 positions against f64, within bounds that follow from its chains.
//!
//! To first order in u = 2^-24, with g(n) = n u the bound of a chain of n fused multiply-adds times
//! the sum of its terms' magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002,
//! 3.1), for query i with n keys in B blocks:
//! - a score is off by E = (g(D) + 3 u) max_j scale sum |q k|: its chain, `scale` and their product;
//! - an exponential is off by R u (its argument's rounding, R the range of the scores) and 2.1 u
//!   (the bound of `exp`), relatively; so is each of at most B rescalings, with one rounding more, and
//!   the arguments of all rescalings sum to at most R;
//! - so a weight relative to the largest is off by w = E + E + 2 R u + 2.1 u + 3.1 B u, `l` by
//!   w + g(n), and o by (2 w + 2 g(n) + u) sum_j p |v|;
//! - in the backward pass p is off by p = 2 w + g(n) + 4 u relatively, dp by g(D) sum |do v|, delta
//!   by g(D) sum |do o| + sum |do| error(o), and ds, dq, dk, dv by what follows from these and from
//!   the chains over keys and queries.

use super::*;

const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// For the terms of second order, which are below a hundredth of those of first.
const SLACK: f64 = 1.01;

fn chain(n: usize) -> f64 {
    n as f64 * UNIT
}

/// A value in f64 and the bound of its error in f32.
#[derive(Clone, Copy, Default)]
struct Bounded {
    value: f64,
    error: f64,
}

/// What attention of one head computes, with bounds: o, dq, dk and dv, each `[T, D]`.
struct Reference<'a> {
    qkv: &'a [f32],
    d_o: &'a [f32],
    time: usize,
    width: usize,
    results: [Vec<Bounded>; 4],
}

/// What a query's forward pass leaves for its backward pass.
struct Query {
    /// Its weights over the keys.
    p: Vec<f64>,
    /// The relative error of a weight in the backward pass.
    p_error: f64,
}

impl Reference<'_> {
    fn row(&self, position: usize, which: usize) -> impl Iterator<Item = f64> + Clone + '_ {
        let at = (position * 3 + which) * self.width;
        self.qkv[at..at + self.width].iter().map(|&x| f64::from(x))
    }

    fn upstream(&self, position: usize) -> impl Iterator<Item = f64> + Clone + '_ {
        let at = position * self.width;
        self.d_o[at..at + self.width].iter().map(|&x| f64::from(x))
    }

    /// The forward pass of query `i`; fills its row of o.
    fn forward(&mut self, i: usize) -> Query {
        let (width, n) = (self.width, i + 1);
        let scale = 1.0 / (width as f64).sqrt();
        let score = |j: usize| dot(self.row(i, 0), self.row(j, 1));
        let scores: Vec<Bounded> = (0..n).map(score).collect();
        let magnitude = scores.iter().map(|s| s.error).fold(0.0, f64::max) * scale;
        let score_error = (chain(width) + 3.0 * UNIT) * magnitude;
        let (mut low, mut top) = (f64::INFINITY, f64::NEG_INFINITY);
        for s in &scores {
            (low, top) = (low.min(s.value * scale), top.max(s.value * scale));
        }
        let powers = scores.iter().map(|s| (s.value * scale - top).exp());
        let powers: Vec<f64> = powers.collect();
        let sum: f64 = powers.iter().sum();
        let p: Vec<f64> = powers.iter().map(|power| power / sum).collect();
        let rescalings = n.div_ceil(32) as f64;
        let w = 2.0 * score_error + (2.0 * (top - low) + 2.1 + 3.1 * rescalings) * UNIT;
        for d in 0..width {
            let mut o = Bounded::default();
            for (j, p) in p.iter().enumerate() {
                let v = f64::from(self.qkv[(j * 3 + 2) * width + d]);
                o.value += p * v;
                o.error += (p * v).abs();
            }
            o.error *= 2.0 * w + 2.0 * chain(n) + UNIT;
            self.results[0][i * width + d] = o;
        }
        let p_error = 2.0 * w + chain(n) + 4.0 * UNIT;
        Query { p, p_error }
    }

    /// The backward pass of query `i`: its row of dq, and its terms of all keys' dk and dv.
    fn backward(&mut self, i: usize, query: &Query) {
        let (width, n) = (self.width, i + 1);
        let scale = 1.0 / (width as f64).sqrt();
        let o = &self.results[0][i * width..][..width];
        let mut delta = Bounded::default();
        for (d_o, o) in self.upstream(i).zip(o) {
            delta.value += d_o * o.value;
            delta.error += (d_o * o.value).abs() * chain(width) + d_o.abs() * o.error;
        }
        let q: Vec<f64> = self.row(i, 0).collect();
        let d_o: Vec<f64> = self.upstream(i).collect();
        // Chains over queries have as many terms as there are queries at or after the key.
        for (j, p) in query.p.iter().enumerate() {
            let (over_keys, over_queries) = (chain(n), chain(self.time - j));
            let dp = dot(self.upstream(i), self.row(j, 2));
            let difference = dp.value - delta.value;
            let ds = p * difference;
            let ds_error = p
                * (query.p_error * difference.abs()
                    + chain(width) * dp.error
                    + delta.error
                    + 2.0 * UNIT * difference.abs());
            let k: Vec<f64> = self.row(j, 1).collect();
            for d in 0..width {
                let term = |factor: f64, chain: f64| Bounded {
                    value: ds * factor * scale,
                    error: (ds_error + (chain + 3.0 * UNIT) * ds.abs()) * factor.abs() * scale,
                };
                self.results[1][i * width + d].add(term(k[d], over_keys));
                self.results[2][j * width + d].add(term(q[d], over_queries));
                self.results[3][j * width + d].add(Bounded {
                    value: p * d_o[d],
                    error: (query.p_error + over_queries) * (p * d_o[d]).abs(),
                });
            }
        }
    }
}

impl Bounded {
    fn add(&mut self, term: Self) {
        self.value += term.value;
        self.error += term.error;
    }
}

/// A dot product, and in `error` the sum of its terms' magnitudes.
fn dot(x: impl Iterator<Item = f64>, y: impl Iterator<Item = f64>) -> Bounded {
    x.zip(y).fold(Bounded::default(), |mut sum, (x, y)| {
        sum.value += x * y;
        sum.error += (x * y).abs();
        sum
    })
}

fn reference<'a>(qkv: &'a [f32], d_o: &'a [f32], time: usize, width: usize) -> Reference<'a> {
    let results = std::array::from_fn(|_| vec![Bounded::default(); time * width]);
    let mut reference = Reference {
        qkv,
        d_o,
        time,
        width,
        results,
    };
    for i in 0..time {
        let query = reference.forward(i);
        reference.backward(i, &query);
    }
    reference
}

fn assert_within(name: &str, got: impl Iterator<Item = f32>, want: &[Bounded]) {
    for (at, (got, want)) in got.zip(want).enumerate() {
        let error = (f64::from(got) - want.value).abs();
        assert!(
            error <= SLACK * want.error,
            "{name}, element {at}: {got:e}, expected {:e}: error {error:e}, bound {:e}",
            want.value,
            want.error
        );
    }
}

/// Compares o and the three gradients of one head with f64.
fn check(got: &[Vec<f32>], want: &Reference<'_>) {
    let (width, [o, dq, dk, dv]) = (want.width, &want.results);
    assert_within("o", got[0].iter().copied(), o);
    for (which, (name, want)) in [("dq", dq), ("dk", dk), ("dv", dv)].into_iter().enumerate() {
        let rows = got[2].chunks(width).skip(which).step_by(3);
        assert_within(name, rows.flatten().copied(), want);
    }
}

fn data(shape: &Attention) -> [Vec<f32>; 2] {
    [
        normal(11, 3 * shape.output_len()),
        normal(12, shape.output_len()),
    ]
}

#[test]
fn a_thousand_positions_stay_within_their_bounds_on_every_device() {
    let shape = shape(1, 1_000, 1, 8);
    let [qkv, d_o] = data(&shape);
    let got = forward_and_backward(&qkv, &d_o, &shape);
    check(
        &got,
        &reference(&qkv, &d_o, shape.queries, shape.head_width),
    );
}

#[test]
fn four_thousand_positions_stay_within_their_bounds_on_the_cpu() {
    let device = &crate::testing::devices()[0];
    let shape = shape(1, 4_096, 1, 8);
    let [mut qkv, d_o] = data(&shape);
    // Scores from -10 to 10: some queries look at few keys, others at thousands.
    for q in qkv.chunks_mut(3 * shape.head_width).step_by(2) {
        q[..shape.head_width].iter_mut().for_each(|q| *q *= 4.0);
    }
    let got = run_on("attention", device, |device, mem| {
        forward_and_backward_on(device, mem, &qkv, &d_o, &shape)
    });
    check(
        &got,
        &reference(&qkv, &d_o, shape.queries, shape.head_width),
    );
}
