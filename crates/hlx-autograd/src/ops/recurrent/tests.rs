//! Both scans: their derivatives, first and second, sums by shards, and what is refused.

use super::*;
use crate::BackwardPlan;
use crate::graph::tape::enable_grad;
use crate::ops::test_support::{check, input, message};

const B: usize = 2;
const T: usize = 3;
const H: usize = 4;
/// The width of a projection.
const P: usize = 3;

/// The projected input, weight, bias, hidden state and cells, for a number of gates.
fn operands(gates: usize) -> [Tensor; 5] {
    [
        input(1, &[B, T, gates * H]),
        input(2, &[gates * H, H]),
        input(3, &[gates * H]),
        input(4, &[B, H]),
        input(5, &[B, H]),
    ]
}

fn recurrence<'a>(x: &'a [Tensor], reverse: bool) -> Recurrence<'a> {
    Recurrence {
        weight: &x[1],
        bias: Some(&x[2]),
        projection: None,
        reverse,
    }
}

/// A projection and the operands of an LSTM with it, in the order of [`operands`].
fn projected() -> ([Tensor; 5], Tensor) {
    let [x, _, bias, _, cells] = operands(4);
    let (weight, hidden) = (input(6, &[4 * H, P]), input(7, &[B, P]));
    ([x, weight, bias, hidden, cells], input(8, &[P, H]))
}

/// The sum of the squares of a loss's gradients by all operands, from a recorded pass.
fn squared_slopes(
    operands: &[Tensor],
    loss: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Tensor> {
    enable_grad(|| {
        let tracked = |x: &Tensor| match x.requires_grad() {
            true => x.clone(),
            false => x.with_gradient(),
        };
        let leaves: Vec<Tensor> = operands.iter().map(tracked).collect();
        let by: Vec<&Tensor> = leaves.iter().collect();
        let slopes = loss(&leaves)?.gradients(&by, true)?;
        let mut total = Tensor::zeros(leaves[0].device(), &[], leaves[0].dtype())?;
        for slope in slopes {
            let slope = slope.expect("the loss depends on every operand");
            total = total.add(&slope.square()?.sum()?)?;
        }
        Ok(total)
    })
}

/// A loss of both results with different weights.
fn loss_of(hidden: &Tensor, cells: &Tensor) -> Result<Tensor> {
    hidden.sin()?.sum()?.add(&cells.square()?.sum()?)
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    for reverse in [false, true] {
        check("lstm_scan", &operands(4), |x| {
            squared_slopes(x, |x| {
                let states = Some((&x[3], &x[4]));
                let (hidden, cells) = x[0].lstm_scan(recurrence(x, reverse), states)?;
                loss_of(&hidden, &cells)
            })
        });
        check("gru_scan", &operands(3)[..4], |x| {
            squared_slopes(x, |x| {
                let hidden = x[0].gru_scan(recurrence(x, reverse), Some(&x[3]))?;
                hidden.sin()?.sum()
            })
        });
        let (operands, projection) = projected();
        let all = [&operands[..], &[projection]].concat();
        check("lstm_scan", &all, |x| {
            squared_slopes(x, |x| {
                let recurrence = Recurrence {
                    projection: Some(&x[5]),
                    ..recurrence(x, reverse)
                };
                let (hidden, cells) = x[0].lstm_scan(recurrence, Some((&x[3], &x[4])))?;
                loss_of(&hidden, &cells)
            })
        });
    }
    // Without states, a bias and a position before the last.
    let short = input(1, &[B, 1, 4 * H]);
    check("lstm_scan", &[short, input(2, &[4 * H, H])], |x| {
        let recurrence = Recurrence {
            weight: &x[1],
            bias: None,
            projection: None,
            reverse: false,
        };
        let of_weight = |x: &[Tensor]| {
            let (hidden, cells) = x[0].lstm_scan(recurrence, None)?;
            loss_of(&hidden, &cells)
        };
        squared_slopes(&x[..1], of_weight)
    });
}

/// The products of steps, and of what a recorded pass makes of them, stay chains in f32.
#[test]
fn the_integer_arithmetic_has_the_bits_of_the_portable_one() -> Result<()> {
    let mut found = Vec::new();
    for arithmetic in hlx_core::Arithmetic::EVERYWHERE {
        let (operands, projection) = projected();
        let device = operands[0].device().with_arithmetic(arithmetic);
        let here = |x: &Tensor| Tensor::from_slice(&device, &x.to_vec::<f32>()?, x.shape());
        let x = [&operands[..], &[projection]].concat();
        let x: Vec<Tensor> = x.iter().map(here).collect::<Result<_>>()?;
        let lstm = squared_slopes(&x, |x| {
            let recurrence = Recurrence {
                projection: Some(&x[5]),
                ..recurrence(x, false)
            };
            let (hidden, cells) = x[0].lstm_scan(recurrence, Some((&x[3], &x[4])))?;
            loss_of(&hidden, &cells)
        })?;
        let x: Vec<Tensor> = self::operands(3)[..4]
            .iter()
            .map(here)
            .collect::<Result<_>>()?;
        let gru = squared_slopes(&x, |x| {
            let hidden = x[0].gru_scan(recurrence(x, true), Some(&x[3]))?;
            hidden.sin()?.sum()
        })?;
        found.push([lstm.to_vec::<f32>()?, gru.to_vec::<f32>()?]);
    }
    assert_eq!(found[0], found[1]);
    Ok(())
}

/// The operations of a recorded pass give what the kernels give.
#[test]
fn recorded_gradients_are_those_of_the_kernels() -> Result<()> {
    for reverse in [false, true] {
        let (operands, projection) = projected();
        let all = [&operands[..], &[projection]].concat();
        let gradients = |recorded: bool| -> Result<Vec<Vec<f32>>> {
            let x: Vec<Tensor> = all.iter().map(Tensor::with_gradient).collect();
            let recurrence = Recurrence {
                projection: Some(&x[5]),
                ..recurrence(&x, reverse)
            };
            let (hidden, cells) = x[0].lstm_scan(recurrence, Some((&x[3], &x[4])))?;
            let by: Vec<&Tensor> = x.iter().collect();
            let found = loss_of(&hidden, &cells)?.gradients(&by, recorded)?;
            let of = |one: Option<Tensor>| one.expect("a gradient").to_vec();
            found.into_iter().map(of).collect()
        };
        let (kernels, operations) = (gradients(false)?, gradients(true)?);
        for (operand, (one, two)) in kernels.iter().zip(&operations).enumerate() {
            let near = one.iter().zip(two).all(|(a, b)| (a - b).abs() < 2e-6);
            assert!(near, "operand {operand}: {one:?} {two:?}");
        }
    }
    Ok(())
}

#[test]
fn derivatives_of_a_projection_agree_with_finite_differences() {
    let (operands, projection) = projected();
    let all = [&operands[..], &[projection]].concat();
    for reverse in [false, true] {
        check("lstm_scan", &all, |x| {
            let recurrence = Recurrence {
                projection: Some(&x[5]),
                ..recurrence(x, reverse)
            };
            let (hidden, cells) = x[0].lstm_scan(recurrence, Some((&x[3], &x[4])))?;
            assert_eq!(hidden.shape(), [B, T, P]);
            Tensor::cat(&[&hidden, &cells], 2)
        });
    }
}

#[test]
fn derivatives_of_an_lstm_agree_with_finite_differences() {
    for reverse in [false, true] {
        check("lstm_scan", &operands(4), |x| {
            let states = Some((&x[3], &x[4]));
            let (hidden, cells) = x[0].lstm_scan(recurrence(x, reverse), states)?;
            // Both results, with different weights.
            hidden.add(&cells.mul(&cells)?)
        });
        check("lstm_scan", &operands(4)[..3], |x| {
            Ok(x[0].lstm_scan(recurrence(x, reverse), None)?.0)
        });
    }
}

#[test]
fn derivatives_of_a_gru_agree_with_finite_differences() {
    for reverse in [false, true] {
        check("gru_scan", &operands(3)[..4], |x| {
            x[0].gru_scan(recurrence(x, reverse), Some(&x[3]))
        });
        check("gru_scan", &operands(3)[..3], |x| {
            x[0].gru_scan(recurrence(x, reverse), None)
        });
    }
}

/// The gradient of the weights by shards, and of a batch in parts, with the bits of the whole.
#[test]
fn weights_are_summed_by_shards_however_the_batch_is_split() -> Result<()> {
    for (gates, columns) in [(3, H), (4, H), (4, P)] {
        let x = input(1, &[4, T, gates * H]);
        let gradients = |parts: usize| -> Result<Vec<Vec<f32>>> {
            let parameters = [
                input(2, &[gates * H, columns]),
                input(3, &[gates * H]),
                input(4, &[P, H]),
            ];
            let [weight, bias, projection] = parameters.map(|parameter| parameter.with_gradient());
            let recurrence = Recurrence {
                weight: &weight,
                bias: Some(&bias),
                projection: Some(&projection).filter(|_| columns == P),
                reverse: false,
            };
            let each = 4 / parts;
            for part in 0..parts {
                let x = x
                    .slice(0, part * each..(part + 1) * each, 1)?
                    .with_samples(0)?;
                let hidden = match gates {
                    3 => x.gru_scan(recurrence, None)?,
                    _ => x.lstm_scan(recurrence, None)?.0,
                };
                let plan = BackwardPlan {
                    shards: 1,
                    accumulate: part > 0,
                    whole_batch: parts == 1,
                };
                hidden.square()?.sum()?.backward_with(&plan)?;
            }
            let all = [&weight, &bias, &projection].into_iter();
            all.filter_map(|one| Some(one.grad()?.to_vec())).collect()
        };
        let whole = gradients(1)?;
        assert_eq!(whole.len(), if columns == P { 3 } else { 2 });
        assert_eq!(gradients(2)?, whole, "{gates} gates");
        assert_eq!(gradients(4)?, whole, "{gates} gates");
    }
    Ok(())
}

#[test]
fn a_batch_without_samples_is_empty_and_shapes_that_do_not_fit_are_refused() -> Result<()> {
    let [x, weight, bias, hidden, cells] = operands(4);
    let empty = x.slice(0, 0..0, 1)?;
    let recurrence = Recurrence {
        weight: &weight,
        bias: Some(&bias),
        projection: None,
        reverse: false,
    };
    let (y, _) = empty.lstm_scan(recurrence, None)?;
    assert_eq!(y.shape(), [0, T, H]);
    let of = |x: &Tensor, recurrence, states| x.lstm_scan(recurrence, states).map(|both| both.0);
    let none = x.slice(1, 0..0, 1)?;
    let expected = "lstm_scan: the projected input has shape [2, 0, 16], expected [B, T, 16] \
                    with T of at least 1";
    assert_eq!(message(of(&none, recurrence, None)), expected);
    let one = input(6, &[4, 4]);
    let wide = Recurrence {
        projection: Some(&one),
        ..recurrence
    };
    let expected = "lstm_scan: projection has shape [4, 4], expected [4, H] with H above 4";
    assert_eq!(message(of(&x, wide, None)), expected);
    let expected = "gru_scan: a GRU has no projection";
    assert_eq!(message(x.gru_scan(wide, None)), expected);
    let expected = "gru_scan: weight has shape [16, 4], expected [12, 4]";
    assert_eq!(message(x.gru_scan(recurrence, None)), expected);
    let wide = hidden.reshape(&[1, 8])?;
    let expected = "lstm_scan: the cells has shape [1, 8], expected [2, 4]";
    assert_eq!(message(of(&x, recurrence, Some((&cells, &wide)))), expected);
    Ok(())
}
