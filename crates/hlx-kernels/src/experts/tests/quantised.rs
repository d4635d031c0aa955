//! Experts over integers: every device has the bits of the definition over each expert's own rows.

use hlx_core::Arithmetic;

use super::*;
use crate::product::Role;
use crate::product::quantised::tests::{assert_words, awkward, defined, every_way};
use crate::product::quantised::{LONGEST, PIECE};

/// Every way of a device in the integer arithmetic.
fn ways(device: &Device) -> [Device; 3] {
    every_way(&device.with_arithmetic(Arithmetic::Integer))
}

/// The rows of a matrix of this many columns, some of them.
fn rows_of(x: &[f32], rows: &[usize], width: usize) -> Vec<f32> {
    let rows = rows.iter().flat_map(|&row| &x[row * width..][..width]);
    rows.copied().collect()
}

/// The columns of a matrix of this many.
fn transposed(x: &[f32], columns: usize) -> Vec<f32> {
    let column = |at: usize| x.iter().skip(at).step_by(columns.max(1)).copied();
    (0..columns).flat_map(column).collect()
}

#[test]
fn products_are_the_definition_of_each_experts_rows() {
    for (case, (n, k)) in cases().zip([(5, 3), (8, 12), (64, 16), (33, 40), (130, 17)]) {
        let (rows, experts) = (case.rows.len(), case.choices.experts);
        // A row's weight begins at a multiple of 64 words.
        let stride = usize::next_multiple_of(n * k, 64);
        let (x, weights) = (awkward(1, rows, k), awkward(2, experts * stride / k + 1, k));
        let weights = &weights[..experts * stride];
        for trans_b in [true, false] {
            let product = ExpertsProduct {
                rows,
                n,
                k,
                trans_b,
            };
            let outputs = run_everywhere("experts_product over integers", |device, memory| {
                let (_, bounds) = case.table(device, 1)?;
                let x = memory.input(device, &x)?;
                let window = memory.input(device, weights)?;
                let of_window = (0..experts).map(|e| window.slice(e * stride, n * k));
                let of_window = of_window.collect::<Result<Vec<_>, _>>()?;
                // Weights that lie apart, except for the first two, take several launches.
                let mut apart = of_window[..2].to_vec();
                for e in 2..experts {
                    apart.push(memory.input(device, &weights[e * stride..][..n * k])?);
                }
                let mut outputs = Vec::new();
                for device in &ways(device) {
                    let x = Factor::new(device, Role::Signal, &x, Matrices::rows(1, rows, k))?;
                    for weights in [&of_window, &apart] {
                        let y = memory.output(device, rows * n)?;
                        experts_product(device, &x, weights, &bounds, &y, &product)?;
                        outputs.push(y);
                    }
                }
                Ok(outputs)
            });
            let mut expected = vec![0.0; rows * n];
            for expert in 0..experts {
                let own = case.of(expert, 0, 1);
                let weight = &weights[expert * stride..][..n * k];
                let weight = match trans_b {
                    true => weight.to_vec(),
                    false => transposed(weight, n),
                };
                let sizes = [own.len(), n, k];
                let y = defined(&rows_of(&x, &own, k), &weight, None, sizes, PIECE);
                for (row, y) in own.into_iter().zip(y.chunks(n)) {
                    expected[row * n..][..n].copy_from_slice(y);
                }
            }
            for output in &outputs {
                assert_words("experts_product", output, &expected);
            }
        }
    }
}

/// And rows without a gradient, of inputs however large, count in no maximum.
#[test]
fn weight_gradients_are_the_definition_of_an_experts_rows_of_a_shard() {
    for (case, (m, n)) in cases().zip([(5, 3), (8, 12), (64, 16), (33, 40), (130, 17)]) {
        let rows = case.rows.len();
        let (mut dy, mut x) = (awkward(3, rows, m), awkward(4, rows, n));
        for row in (0..rows).step_by(3) {
            dy[row * m..][..m].fill(0.0);
            x[row * n..][..n].fill(if row % 2 == 0 { 1e30 } else { f32::NAN });
        }
        for shards in [1, 2] {
            if !case.choices.tokens.is_multiple_of(shards) {
                continue;
            }
            let stored = normal(5, shards * m * n);
            for expert in [0, 1, case.choices.experts - 1] {
                let outputs =
                    run_everywhere("experts_weight_gradient over integers", |device, memory| {
                        let (_, bounds) = case.table(device, shards)?;
                        let [dy, x] = [memory.input(device, &dy)?, memory.input(device, &x)?];
                        let tokens = case.choices.tokens / shards;
                        let ways = ways(device);
                        let of = Matrices::rows(1, rows, m);
                        let dy_rows = Factor::new(&ways[0], Role::Gradient, &dy, of)?;
                        let mut outputs = Vec::new();
                        for (device, dy_rows) in ways.iter().zip([None, Some(&dy_rows), None]) {
                            let of = ExpertsGradient::new(
                                device,
                                [&dy, &x],
                                dy_rows,
                                [m, n],
                                &bounds,
                                tokens,
                            )?;
                            let overwritten = memory.output(device, shards * m * n)?;
                            let continued = memory.input(device, &stored)?;
                            for target in [(&overwritten, false), (&continued, true)] {
                                let (target, accumulate) = target;
                                of.of_weight(device, [expert, shards], target, accumulate)?;
                            }
                            outputs.extend([overwritten, continued]);
                        }
                        Ok(outputs)
                    });
                let mut expected = Vec::new();
                for s in 0..shards {
                    let mut own = case.of(expert, s, shards);
                    own.retain(|row| row % 3 != 0);
                    let of_dy = transposed(&rows_of(&dy, &own, m), m);
                    let of_x = transposed(&rows_of(&x, &own, n), n);
                    expected.extend(defined(&of_dy, &of_x, None, [m, n, own.len()], LONGEST));
                }
                for (at, output) in outputs.iter().enumerate() {
                    let start = if at % 2 == 0 { 0.0 } else { 1.0 };
                    let sums = expected.iter().zip(&stored);
                    let sums: Vec<f32> = sums
                        .map(|(sum, stored)| if start == 0.0 { *sum } else { sum + stored })
                        .collect();
                    assert_words("experts_weight_gradient", output, &sums);
                }
            }
        }
    }
}

#[test]
fn a_shard_of_too_many_tokens_is_refused() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let case = Case::new(3, 1, 2);
    let (_, bounds) = case.table(&device, 1).expect("a table");
    let x = device.alloc(6).expect("memory");
    let device = device.with_arithmetic(Arithmetic::Integer);
    let error = ExpertsGradient::new(&device, [&x, &x], None, [2, 2], &bounds, LONGEST + 1);
    assert_eq!(
        error.expect_err("too long").to_string(),
        "experts_weight_gradient: a shard has 131073 tokens, expected at most 131072; more shards have fewer"
    );
}
