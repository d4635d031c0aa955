//! Batch norm: derivatives, shards, empty samples, and what is refused.

use super::*;
use crate::BackwardPlan;
use crate::graph::tape::enable_grad;
use crate::ops::test_support::{check, input, message};

fn operands() -> [Tensor; 3] {
    [input(1, &[4, 3, 2, 2]), input(2, &[3]), input(3, &[3])]
}

#[test]
fn derivatives_agree_with_finite_differences() {
    let options = BatchNormOptions::default();
    check("batch_norm", &operands(), |x| {
        x[0].batch_norm(Some([&x[1], &x[2]]), None, &options)
    });
    check("batch_norm", &[input(1, &[5, 3])], |x| {
        x[0].batch_norm(None, None, &options)
    });
    let (mean, variance) = (input(4, &[3]), input(5, &[3]).abs().expect("values"));
    check("batch_norm", &operands(), |x| {
        x[0].batch_norm_by(&mean, &variance, Some([&x[1], &x[2]]), 0.1)
    });
}

#[test]
fn a_second_derivative_agrees_with_finite_differences() {
    let options = BatchNormOptions::default();
    check("batch_norm", &[input(1, &[3, 2, 2]), input(2, &[2])], |x| {
        enable_grad(|| {
            let signal = match x[0].requires_grad() {
                true => x[0].clone(),
                false => x[0].with_gradient(),
            };
            let bias = x[1].zeros_like()?;
            let y = signal.batch_norm(Some([&x[1], &bias]), None, &options)?;
            let slope = y.tanh()?.sum()?.gradients(&[&signal], true)?.remove(0);
            slope.expect("the signal is used").square()?.sum()
        })
    });
}

/// x, gain and bias, and their gradients of what real samples give, recorded.
fn recorded_slopes(
    x: &Tensor,
    options: &BatchNormOptions<'_>,
    empty: usize,
) -> Result<([Tensor; 3], Vec<Tensor>)> {
    let leaves = [x.clone(), input(2, &[3]), input(3, &[3])].map(|leaf| leaf.with_gradient());
    let [x, weight, bias] = &leaves;
    let y = x
        .with_samples(0)?
        .batch_norm(Some([weight, bias]), None, options)?;
    let real = y.narrow(0, empty, y.shape()[0] - empty)?;
    let slopes = real.tanh()?.sum()?.gradients(&[x, weight, bias], true)?;
    let slopes = slopes
        .into_iter()
        .map(|slope| slope.expect("a slope"))
        .collect();
    Ok((leaves, slopes))
}

fn are_close(one: &Tensor, two: &Tensor) -> Result<bool> {
    let mut pairs = one.to_vec::<f32>()?.into_iter().zip(two.to_vec::<f32>()?);
    let close = |(one, two): (f32, f32)| (one - two).abs() <= 1e-4 * two.abs().max(1.0);
    Ok(one.shape() == two.shape() && pairs.all(close))
}

#[test]
fn empty_samples_have_no_part_in_recorded_derivatives() -> Result<()> {
    let x = input(1, &[6, 3, 2]);
    let plain = BatchNormOptions::default();
    for (shards, empty) in [(1, 2), (2, 1), (2, 3), (3, 2), (3, 5)] {
        let counts = x.device().buffer_of::<u32>(&[empty as u32])?;
        let options = BatchNormOptions {
            shards,
            empty: Some(&counts),
            ..plain
        };
        let (leaves, slopes) = recorded_slopes(&x, &options, empty)?;
        // What the real samples of each shard give alone.
        let mut of_x = vec![Tensor::zeros(x.device(), &[empty, 3, 2], DType::F32)?];
        let zeros = Tensor::zeros(x.device(), &[3], DType::F32)?;
        let mut of_parameters = [zeros.clone(), zeros];
        for shard in 0..shards {
            let (begin, end) = (6 / shards * shard, 6 / shards * (shard + 1));
            let first = empty.clamp(begin, end);
            if first < end {
                let part = x.narrow(0, first, end - first)?;
                let (_, alone) = recorded_slopes(&part, &plain, 0)?;
                for (sum, slope) in of_parameters.iter_mut().zip(&alone[1..]) {
                    *sum = sum.add(slope)?;
                }
                of_x.push(alone[0].clone());
            }
        }
        let of_x: Vec<&Tensor> = of_x.iter().collect();
        assert!(
            are_close(&slopes[0], &Tensor::cat(&of_x, 0)?)?,
            "{shards} {empty}"
        );
        for (slope, sum) in slopes[1..].iter().zip(&of_parameters) {
            assert!(are_close(slope, sum)?, "{shards} {empty}");
        }
        if shards == 1 {
            // Once more, by the gradients' squares.
            slopes[0].square()?.sum()?.backward()?;
            let (alone, slopes) = recorded_slopes(&x.narrow(0, empty, 6 - empty)?, &plain, 0)?;
            slopes[0].square()?.sum()?.backward()?;
            let [found, want] = [&leaves[0], &alone[0]].map(|x| x.grad().expect("one"));
            let found = found.narrow(0, empty, 6 - empty)?;
            assert!(are_close(&found, &want)?);
        }
    }
    Ok(())
}

#[test]
fn the_statistics_are_of_each_shard() -> Result<()> {
    let [x, weight, bias] = operands();
    let affine = Some([&weight, &bias]);
    let by = |shards| BatchNormOptions {
        shards,
        ..BatchNormOptions::default()
    };
    let y = x.with_samples(0)?.batch_norm(affine, None, &by(2))?;
    for shard in 0..2 {
        let alone = x
            .narrow(0, 2 * shard, 2)?
            .batch_norm(affine, None, &by(1))?;
        assert_eq!(
            y.narrow(0, 2 * shard, 2)?.to_vec::<f32>()?,
            alone.to_vec::<f32>()?
        );
    }
    let text = message(x.batch_norm(affine, None, &by(2)));
    assert!(text.contains("nothing says where"), "{text}");
    let text = message(x.with_samples(0)?.batch_norm(affine, None, &by(3)));
    assert_eq!(text, "batch_norm: 3 shards do not divide a batch of 4");
    Ok(())
}

#[test]
fn passes_by_other_shards_or_parts_of_one_are_refused() -> Result<()> {
    let [x, weight, bias] = operands();
    let (x, weight) = (x.with_samples(0)?, weight.with_gradient());
    let loss = || x.batch_norm(Some([&weight, &bias]), None, &Default::default());
    let refused = |shards: usize, accumulate: bool| {
        let plan = BackwardPlan {
            shards,
            accumulate,
            whole_batch: false,
        };
        let pass = loss()?.sum()?.backward_with(&plan);
        Ok::<_, AutogradError>(pass.expect_err("refused").to_string())
    };
    assert_eq!(
        refused(2, false)?,
        "batch_norm: the pass sums by 2 shards, the statistics are of 1"
    );
    let text = refused(1, true)?;
    assert!(text.contains("a part of a shard"), "{text}");
    loss()?.sum()?.backward_with(&BackwardPlan::default())
}

#[test]
fn unfitting_arguments_are_refused() {
    let [x, weight, bias] = operands();
    let options = BatchNormOptions::default();
    let text = message(x.batch_norm(Some([&bias, &input(1, &[4])]), None, &options));
    assert_eq!(text, "batch_norm: bias has shape [4], expected [3]");
    let text = message(input(1, &[4]).batch_norm(None, None, &options));
    assert_eq!(
        text,
        "batch_norm: the input has shape [4], expected [N, C, ..]"
    );
    let text = message(input(1, &[1, 3]).batch_norm(None, None, &options));
    assert!(text.contains("1 values a channel"), "{text}");
    let text = message(x.batch_norm_by(&weight, &input(1, &[2]), None, 1e-5));
    assert_eq!(text, "batch_norm: variance has shape [2], expected [3]");
}
