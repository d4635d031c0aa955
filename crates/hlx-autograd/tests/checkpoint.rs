//! What a checkpoint computes again, and what it holds, on every device.

use hlx_autograd::{AttentionSpec, Recompute, Result, Tensor, no_grad};
use hlx_core::testing::{cpu, own_devices};

/// The loss of a checkpoint around attention of 9 queries, and its gradient; with `change`, the output is
/// overwritten before the backward pass.
fn attention_pass(q: &Tensor, recompute: Recompute, change: bool) -> Result<[Tensor; 2]> {
    let weights = Tensor::randn(q.device(), q.shape(), 2)?;
    let mut y = q.checkpoint_with(recompute, |q| {
        q.mul(0.5)?.attention(q, q, &AttentionSpec::causal())
    })?;
    let loss = y.mul(&weights)?.sum()?;
    if change {
        no_grad(|| y.zero_().map(|_| ()))?;
    }
    q.zero_grad();
    loss.backward()?;
    Ok([loss, q.grad().expect("a gradient")])
}

fn values(pass: &[Tensor; 2]) -> Result<[Vec<f32>; 2]> {
    Ok([pass[0].to_vec::<f32>()?, pass[1].to_vec::<f32>()?])
}

#[test]
fn held_attention_is_not_computed_again_and_has_the_same_bits() -> Result<()> {
    for device in &own_devices() {
        let q = Tensor::randn(device, &[2, 9, 3, 8], 1)?.with_gradient();
        let eager = values(&attention_pass(&q, Recompute::All, false)?)?;
        assert!(eager[1].iter().any(|&g| g != 0.0));
        let mut launches = Vec::new();
        for recompute in [Recompute::All, Recompute::AllButAttention] {
            let found = values(&attention_pass(&q, recompute, false)?)?;
            assert_eq!(found, eager, "{recompute:?} {}", device.info());
            let (graph, pass) = device.record(|| attention_pass(&q, recompute, false))?;
            graph.replay()?;
            assert_eq!(values(&pass)?, eager, "{recompute:?} {}", device.info());
            launches.push(graph.len());
        }
        assert!(launches[1] < launches[0], "{launches:?} {}", device.info());
    }
    Ok(())
}

#[test]
fn held_attention_that_was_changed_in_place_is_computed_again() -> Result<()> {
    let device = cpu()?;
    let q = Tensor::randn(&device, &[2, 9, 3, 8], 1)?.with_gradient();
    let expected = values(&attention_pass(&q, Recompute::All, false)?)?;
    let found = values(&attention_pass(&q, Recompute::AllButAttention, true)?)?;
    assert_eq!(found, expected);
    Ok(())
}

#[test]
fn the_last_product_of_a_recorded_block_is_not_computed_again() -> Result<()> {
    for device in &own_devices() {
        let x = Tensor::randn(device, &[4, 6], 1)?.with_gradient();
        let w = Tensor::randn(device, &[6, 6], 2)?.with_gradient();
        let launches = |checkpoint: bool| -> Result<usize> {
            let weight = w.clone();
            let block = move |x: &Tensor| x.linear(&weight, None);
            x.zero_grad();
            w.zero_grad();
            let (graph, _) = device.record(|| -> Result<Tensor> {
                let y = match checkpoint {
                    true => x.checkpoint(block)?,
                    false => block(&x)?,
                };
                let loss = y.sum()?;
                loss.backward()?;
                Ok(loss)
            })?;
            Ok(graph.len())
        };
        assert_eq!(launches(true)?, launches(false)?, "{}", device.info());
    }
    Ok(())
}
