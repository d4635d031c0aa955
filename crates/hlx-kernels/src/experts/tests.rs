//! Tests of the experts' kernels: every device has the bits of plain chains over each expert's own rows.

mod blocks;
mod halves;
mod quantised;

use hlx_core::arith;
use hlx_core::cpu::with_flush;
use hlx_core::digest::canonical_bits;

use super::*;
use crate::product::{
    ExpertsGradient, ExpertsProduct, Matrices, Operand as Factor, experts_product,
};
use crate::testing::{assert_close, elements_of, ids, normal, run_everywhere};

/// The choices of tokens, and the sizes of the products.
struct Case {
    choices: Choices,
    chosen: Vec<u32>,
    /// The expert and the token of each row.
    rows: Vec<(u32, u32)>,
}

impl Case {
    /// Expert 1 has no rows, the last has those of every token, the others what a counter draws.
    fn new(tokens: usize, per_token: usize, experts: usize) -> Self {
        let draws = ids(7, tokens * experts, 1000);
        let mut chosen = Vec::new();
        for draws in draws.chunks(experts) {
            let mut order: Vec<u32> = (0..experts as u32).filter(|&e| e != 1).collect();
            order.sort_by_key(|&e| (e + 1 != experts as u32, draws[e as usize]));
            let mut own = order[..per_token].to_vec();
            own.sort_unstable();
            chosen.extend(own);
        }
        let mut rows: Vec<(u32, u32)> = (0..)
            .zip(&chosen)
            .map(|(at, &expert)| (expert, at / per_token as u32))
            .collect();
        rows.sort_unstable();
        Self {
            choices: Choices {
                tokens,
                per_token,
                experts,
            },
            chosen,
            rows,
        }
    }

    /// The rows of an expert whose tokens lie in shard `s` of `shards`.
    fn of(&self, expert: usize, s: usize, shards: usize) -> Vec<usize> {
        let each = self.choices.tokens / shards;
        let is_own = |&(e, token): &(u32, u32)| e as usize == expert && token as usize / each == s;
        let own = (0..self.rows.len()).filter(|&p| is_own(&self.rows[p]));
        own.collect()
    }

    /// The table and the bounds of this many shards.
    fn table(&self, device: &Device, shards: usize) -> Result<(ExpertsTable, Buffer)> {
        let chosen = device.alloc_typed(DType::U32, self.chosen.len())?;
        device.upload(&chosen, &self.chosen)?;
        let table = experts_table(device, &chosen, &self.choices)?;
        let bounds = device.alloc_typed(DType::U32, self.choices.experts * shards + 1)?;
        experts_bounds(device, &table, &bounds, shards, &self.choices)?;
        Ok((table, bounds))
    }
}

/// Tokens, choices and experts: with tiles that are full, partly full and empty.
const CASES: [(usize, usize, usize); 5] =
    [(1, 1, 2), (6, 2, 5), (70, 2, 4), (132, 3, 7), (34, 1, 3)];

fn cases() -> impl Iterator<Item = Case> {
    CASES
        .into_iter()
        .map(|(tokens, per_token, experts)| Case::new(tokens, per_token, experts))
}

/// A chain over pairs from a start.
fn chain(start: f32, pairs: impl Iterator<Item = (f32, f32)>) -> f32 {
    let end = pairs.fold(start, |acc, (a, b)| arith::fma(a, b, acc));
    arith::pos0(end)
}

fn assert_words(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let [found, expected] = [found, expected].map(|x| canonical_bits(*x));
        assert_eq!(found, expected, "{name}: element {at}");
    }
}

#[test]
fn rows_are_sorted_by_expert_and_token() {
    for case in cases() {
        for shards in [1, 2] {
            if !case.choices.tokens.is_multiple_of(shards) {
                continue;
            }
            let outputs = run_everywhere("experts_table", |device, _| {
                let (table, bounds) = case.table(device, shards)?;
                Ok(vec![table.experts, table.rows, table.slots, bounds])
            });
            let n = case.rows.len();
            let [experts, rows, slots] = [0, 1, 2].map(|at| elements_of::<u32>(&outputs[at], n));
            let found: Vec<(u32, u32)> = experts.into_iter().zip(rows).collect();
            assert_eq!(found, case.rows);
            for (choice, slot) in slots.into_iter().enumerate() {
                let token = (choice / case.choices.per_token) as u32;
                assert_eq!(found[slot as usize], (case.chosen[choice], token));
            }
            let groups = case.choices.experts * shards;
            let bounds = elements_of::<u32>(&outputs[3], groups + 1);
            for (group, bound) in bounds.windows(2).enumerate() {
                let own: Vec<usize> = (bound[0] as usize..bound[1] as usize).collect();
                assert_eq!(own, case.of(group / shards, group % shards, shards));
            }
            assert_eq!(bounds[groups] as usize, n);
        }
    }
}

#[test]
fn products_are_chains_over_each_experts_weight() {
    for (case, (n, k)) in cases().zip([(5, 3), (8, 12), (64, 16), (33, 40), (130, 17)]) {
        let (rows, experts) = (case.rows.len(), case.choices.experts);
        // A row's weight begins at a multiple of 64 words.
        let stride = usize::next_multiple_of(n * k, 64);
        let (x, weights) = (normal(1, rows * k), normal(2, experts * stride));
        for trans_b in [true, false] {
            let product = ExpertsProduct {
                rows,
                n,
                k,
                trans_b,
            };
            let outputs = run_everywhere("experts_product", |device, memory| {
                let (_, bounds) = case.table(device, 1)?;
                let x = memory.input(device, &x)?;
                let window = memory.input(device, &weights)?;
                let of_window = (0..experts).map(|e| window.slice(e * stride, n * k));
                let of_window = of_window.collect::<Result<Vec<_>, _>>()?;
                // Weights that lie apart, except for the first two, take several launches.
                let mut apart = of_window[..2].to_vec();
                for e in 2..experts {
                    apart.push(memory.input(device, &weights[e * stride..][..n * k])?);
                }
                let [one, several] = [
                    memory.output(device, rows * n)?,
                    memory.output(device, rows * n)?,
                ];
                let x = Factor::Floats(x, Matrices::rows(1, rows, k));
                experts_product(device, &x, &of_window, &bounds, &one, &product)?;
                experts_product(device, &x, &apart, &bounds, &several, &product)?;
                Ok(vec![one, several])
            });
            let mut expected = Vec::with_capacity(rows * n);
            with_flush(|| {
                for (x, &(expert, _)) in x.chunks(k).zip(&case.rows) {
                    let weight = &weights[expert as usize * stride..];
                    let at = |n_at: usize, k_at: usize| match trans_b {
                        true => n_at * k + k_at,
                        false => k_at * n + n_at,
                    };
                    expected.extend((0..n).map(|n_at| {
                        chain(0.0, (0..k).map(|k_at| (x[k_at], weight[at(n_at, k_at)])))
                    }));
                }
            });
            assert_words("one window", &outputs[0], &expected);
            assert_words("several launches", &outputs[1], &expected);
        }
    }
}

#[test]
fn weight_gradients_are_chains_over_an_experts_tokens_in_order() {
    for (case, (m, n)) in cases().zip([(5, 3), (8, 12), (64, 16), (33, 40), (130, 17)]) {
        let rows = case.rows.len();
        let (dy, x) = (normal(3, rows * m), normal(4, rows * n));
        for shards in [1, 2] {
            if !case.choices.tokens.is_multiple_of(shards) {
                continue;
            }
            let stored = normal(5, shards * m * n);
            for expert in [0, 1, case.choices.experts - 1] {
                let outputs = run_everywhere("experts_weight_gradient", |device, memory| {
                    let (_, bounds) = case.table(device, shards)?;
                    let [dy, x] = [memory.input(device, &dy)?, memory.input(device, &x)?];
                    let overwritten = memory.output(device, shards * m * n)?;
                    let continued = memory.input(device, &stored)?;
                    let of = ExpertsGradient::new(device, [&dy, &x], None, [m, n], &bounds, 0)?;
                    for (target, accumulate) in [(&overwritten, false), (&continued, true)] {
                        of.of_weight(device, [expert, shards], target, accumulate)?;
                    }
                    Ok(vec![overwritten, continued])
                });
                for (output, is_continued) in outputs.iter().zip([false, true]) {
                    let mut expected = Vec::with_capacity(output.len());
                    for s in 0..shards {
                        let own = case.of(expert, s, shards);
                        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |n| (row, n))) {
                            let start = match is_continued {
                                true => stored[expected.len()],
                                false => 0.0,
                            };
                            let pairs = own.iter().map(|p| (dy[p * m + row], x[p * n + column]));
                            expected.push(with_flush(|| chain(start, pairs)));
                        }
                    }
                    assert_words("experts_weight_gradient", output, &expected);
                }
            }
        }
    }
}

#[test]
fn sums_are_chains_by_expert() {
    for (case, width) in cases().zip([1, 31, 32, 33, 7]) {
        let (rows, tokens) = (case.rows.len(), case.choices.tokens);
        let (x, weights) = (normal(6, rows * width), normal(7, rows));
        let outputs = run_everywhere("experts_sum", |device, memory| {
            let (table, _) = case.table(device, 1)?;
            let [x, weights] = [memory.input(device, &x)?, memory.input(device, &weights)?];
            let [plain, weighted] = [tokens * width; 2].map(|len| memory.output(device, len));
            let (plain, weighted) = (plain?, weighted?);
            let choices = &case.choices;
            experts_sum(device, &x, None, &table.slots, &plain, choices, width)?;
            experts_sum(
                device,
                &x,
                Some(&weights),
                &table.slots,
                &weighted,
                choices,
                width,
            )?;
            Ok(vec![plain, weighted])
        });
        for (output, is_weighted) in outputs.iter().zip([false, true]) {
            let mut exact = vec![0.0; tokens * width];
            let mut expected = vec![0.0; tokens * width];
            for (p, &(expert, token)) in case.rows.iter().enumerate() {
                let of_token = &case.chosen[token as usize * case.choices.per_token..];
                let j = of_token.iter().position(|&e| e == expert).expect("chosen");
                let weight = match is_weighted {
                    true => weights[token as usize * case.choices.per_token + j],
                    false => 1.0,
                };
                for c in 0..width {
                    let (at, x) = (token as usize * width + c, x[p * width + c]);
                    exact[at] += f64::from(x) * f64::from(weight);
                    // Rows are sorted by expert, so that each token's come in the chain's order.
                    expected[at] = with_flush(|| expected[at] + arith::mul(weight, x));
                }
            }
            assert_words("experts_sum", output, &expected);
            assert_close("experts_sum", output, &exact, 1e-5, 1e-6);
        }
    }
}

#[test]
fn unfitting_sizes_are_refused() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let buffer = |n| device.alloc(n).expect("memory");
    let choices = Choices {
        tokens: 3,
        per_token: 4,
        experts: 3,
    };
    let error = experts_table(&device, &buffer(12), &choices).expect_err("too many");
    let expected = "experts_table: 4 of 3 experts are chosen, expected 1 to 3";
    assert_eq!(error.to_string(), expected);
    let case = Case::new(3, 1, 2);
    let (table, bounds) = case.table(&device, 1).expect("a table");
    let error = experts_bounds(&device, &table, &bounds, 2, &case.choices).expect_err("uneven");
    let expected = "experts_bounds: 2 shards, expected a number that divides 3 tokens";
    assert_eq!(error.to_string(), expected);
    let product = ExpertsProduct {
        rows: 3,
        n: 2,
        k: 4,
        trans_b: true,
    };
    let weights = [buffer(8), buffer(7)];
    let x = Factor::Floats(buffer(12), Matrices::rows(1, 3, 4));
    let error = experts_product(&device, &x, &weights, &bounds, &buffer(6), &product);
    let expected = "experts_product: weight has 7 elements, expected 8";
    assert_eq!(error.expect_err("short").to_string(), expected);
    let target = buffer(8);
    let (dy, x) = (buffer(6), buffer(12));
    let of = ExpertsGradient::new(&device, [&dy, &x], None, [2, 4], &bounds, 3).expect("floats");
    let error = of.of_weight(&device, [2, 1], &target, false);
    let expected = "experts_weight_gradient: 3 bounds, expected more than 3 for expert 2";
    assert_eq!(error.expect_err("none").to_string(), expected);
}
