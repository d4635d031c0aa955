//! Passes that are recorded on the tape themselves: second derivatives, and gradients by tensors.

use std::sync::Arc;

use hlx_autograd::{
    AttentionSpec, AutogradError, BackwardPlan, GradCheck, Result, Tensor, enable_grad, gradcheck,
};
use hlx_core::Device;

fn cpu() -> Device {
    hlx_core::testing::devices()[0].clone()
}

fn leaf(device: &Device, seed: u64, shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(device, shape, seed)
}

/// The gradient penalty of WGAN-GP (Gulrajani and others 2017): (|df/dx| - 1)^2, differentiated by
/// the weights of f.
#[test]
fn a_gradient_penalty_has_the_derivative_of_finite_differences() -> Result<()> {
    let device = cpu();
    let weights = [
        leaf(&device, 1, &[5, 3])?,
        leaf(&device, 2, &[5])?,
        leaf(&device, 3, &[5, 1])?,
    ];
    let penalty = |w: &[Tensor]| {
        enable_grad(|| {
            let x = leaf(&device, 4, &[2, 3])?.with_gradient();
            let hidden = x.linear(&w[0], Some(&w[1]))?.tanh()?;
            let y = hidden.matmul(&w[2])?.sum()?;
            let slope = y.gradients(&[&x], true)?.remove(0);
            let norm = slope.expect("x is used").norm(2.0, &[1], false)?;
            norm.sub(1.0)?.square()?.mean()
        })
    };
    gradcheck("penalty", &weights, penalty, &GradCheck::default())
}

#[test]
fn a_recorded_pass_leaves_gradients_that_can_be_differentiated() -> Result<()> {
    let device = cpu();
    let x = Tensor::from_slice(&device, &[2.0, -3.0], &[2])?.with_gradient();
    x.mul(&x)?.mul(&x)?.sum()?.backward_recorded()?;
    let slope = x.grad().expect("a gradient");
    assert_eq!(slope.to_vec::<f32>()?, [12.0, 27.0]);
    let second = slope.sum()?.gradients(&[&x], true)?.remove(0).expect("6 x");
    assert_eq!(second.to_vec::<f32>()?, [12.0, -18.0]);
    let third = second.sum()?.gradients(&[&x], false)?.remove(0).expect("6");
    assert_eq!(third.to_vec::<f32>()?, [6.0, 6.0]);
    Ok(())
}

#[test]
fn gradients_by_tensors_leave_the_leaves_alone() -> Result<()> {
    let device = cpu();
    let x = Tensor::from_slice(&device, &[1.0, 2.0], &[2])?.with_gradient();
    let (middle, unused) = (x.mul(3.0)?, x.detach().with_gradient());
    let loss = middle.mul(&middle)?.sum()?;
    let found = loss.gradients(&[&middle, &x, &unused], false)?;
    let values = |gradient: &Option<Tensor>| gradient.as_ref().map(|g| g.to_vec()).transpose();
    assert_eq!(values(&found[0])?, Some(vec![6.0, 12.0]));
    assert_eq!(values(&found[1])?, Some(vec![18.0, 36.0]));
    assert!(found[2].is_none() && x.grad().is_none());
    Ok(())
}

#[test]
fn a_kernel_without_a_second_derivative_says_so() -> Result<()> {
    let device = cpu();
    let x = leaf(&device, 5, &[2, 3, 6])?.with_gradient();
    let error = x
        .packed_attention(1, &AttentionSpec::causal())?
        .sum()?
        .backward_recorded()
        .expect_err("a kernel");
    assert!(matches!(
        error,
        AutogradError::NoSecondDerivative { op: "attention" }
    ));
    Ok(())
}

/// y = x * gain + shift over a batch of 8 in two shards: the same bits in one pass, in one pass per shard,
/// or a part of a shard, and transposed on the way.
#[test]
fn gradients_of_broadcast_operands_do_not_depend_on_the_split() -> Result<()> {
    let mut expected = None;
    for device in hlx_core::testing::devices() {
        let x = Tensor::randn(device, &[8, 3, 5], 1)?.to_vec::<f32>()?;
        for micro in [8, 4, 2, 1] {
            for transposed in [false, true] {
                let bits = broadcast_gradients(device, &x, micro, transposed)?;
                let expected = expected.get_or_insert_with(|| bits.clone());
                assert_eq!(
                    &bits,
                    expected,
                    "{micro} a pass, {transposed}, {}",
                    device.info()
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_reshaped_parameter_needs_whole_shards() -> Result<()> {
    let device = cpu();
    let gain = leaf(&device, 1, &[5, 1])?.with_gradient();
    let x = leaf(&device, 2, &[2, 5])?.with_samples(0)?;
    let pass = |accumulate| {
        x.mul(gain.squeeze(1)?)?
            .sum()?
            .backward_with(&BackwardPlan {
                shards: 1,
                accumulate,
                whole_batch: false,
            })
    };
    pass(false)?;
    let error = pass(true).expect_err("a part of a shard");
    assert!(
        matches!(error, AutogradError::DerivedParameter { op: "mul" }),
        "{error}"
    );
    Ok(())
}

fn broadcast_gradients(
    device: &Device,
    x: &[f32],
    micro: usize,
    transposed: bool,
) -> Result<Vec<u32>> {
    let parameter = |seed, shape: &[usize]| -> Result<Tensor> {
        let values = Tensor::randn(device, shape, seed)?;
        let n = values.n_elements();
        // A parameter's gradient buffer starts where a binding may start.
        let gradient = device.alloc(n)?;
        let gradient = Arc::new(move || Ok(gradient.clone()));
        Tensor::parameter(device, "p", values.buffer()?, gradient, shape)
    };
    let column: &[usize] = if transposed { &[3, 1, 1] } else { &[3, 1] };
    let (gain, shift) = (parameter(2, &[5])?, parameter(3, column)?);
    let mut sums = vec![0.0; 8];
    for first in (0..8).step_by(micro) {
        let part = &x[first * 15..(first + micro) * 15];
        let x = Tensor::from_slice(device, part, &[micro, 3, 5])?.with_samples(0)?;
        let y = match transposed {
            false => x.mul(&gain)?.add(&shift)?,
            true => {
                let transposed = x.transpose(0, 1)?;
                transposed.mul(&gain)?.add(&shift)?.transpose(0, 1)?
            }
        };
        let shards = (micro / 4).max(1);
        y.mul(&x)?.sum()?.backward_with(&BackwardPlan {
            shards,
            accumulate: !first.is_multiple_of(4),
            whole_batch: micro == 8,
        })?;
        if !(first + micro).is_multiple_of(4) {
            continue;
        }
        let gradients = [&gain, &shift].map(|p| p.grad().expect("one").to_vec());
        let [gain, shift] = gradients;
        let found = [gain?, shift?].concat();
        // The root of the tree: the first shard's sum, then the second's.
        for (sum, value) in sums.iter_mut().zip(found) {
            *sum = if first < 4 { value } else { *sum + value };
        }
    }
    Ok(sums.into_iter().map(f32::to_bits).collect())
}
