//! No dropout draws the same mask twice, and a backward pass has the masks of its forward pass: in plain loops, in
//! recorded ones, and where a block is computed again.

use hlx_autograd::{Recompute, Tensor};
use hlx_core::Device;
use hlx_nn::{Dropout, Mode, Model, Module, NnError, Result};

/// Two dropouts, one behind the other.
fn model(device: &Device) -> Result<Model<[Dropout; 2]>> {
    Model::new(device, 3, |b| Ok([0.2, 0.3].map(|p| Dropout::new(b, p))))
}

fn forward(dropouts: &[Dropout; 2], x: &Tensor, mode: &Mode) -> Result<Tensor> {
    dropouts[1].forward(&dropouts[0].forward(x, mode)?, mode)
}

/// Ones, whose gradient under a sum is what the dropouts make of them.
fn ones(device: &Device) -> Result<Tensor> {
    let x = Tensor::from_slice(device, &[1.0; 256], &[4, 64])?;
    Ok(x.with_gradient().with_samples(0)?)
}

fn gradient(x: &Tensor) -> Result<Vec<f32>> {
    Ok(x.grad().expect("a gradient").to_vec::<f32>()?)
}

/// The masks of passes, by explicit numbers.
fn expected(device: &Device, n: u32) -> Result<Vec<Vec<f32>>> {
    let (model, mode) = (model(device)?, Mode::train(device, 7)?);
    let mask = |step| {
        mode.set_counter(step, 0)?;
        Ok(forward(&model, &ones(device)?, &mode)?.to_vec::<f32>()?)
    };
    let masks = (0..n).map(mask).collect::<Result<Vec<_>>>()?;
    for (i, mask) in masks.iter().enumerate() {
        assert!(
            !masks[..i].contains(mask),
            "a mask of step {i} is an earlier one"
        );
    }
    Ok(masks)
}

/// The masks of three steps of a plain loop, which their backward passes have, too.
fn plain(
    device: &Device,
    mode: &Mode,
    again: impl Fn(&Tensor, &Mode) -> Result<Tensor>,
) -> Result<Vec<Vec<f32>>> {
    let step = |_| {
        let x = ones(device)?;
        let y = again(&x, mode)?;
        y.sum()?.backward()?;
        let mask = y.to_vec::<f32>()?;
        assert_eq!(gradient(&x)?, mask, "{}", device.info());
        Ok(mask)
    };
    (0..3).map(step).collect()
}

#[test]
fn each_pass_of_a_plain_loop_draws_new_masks() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let (model, mode) = (model(device)?, Mode::train(device, 7)?);
        let masks = plain(device, &mode, |x, mode| forward(&model, x, mode))?;
        assert_eq!(masks, expected(device, 3)?);
    }
    Ok(())
}

#[test]
fn a_backward_pass_has_its_masks_behind_other_forward_passes() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let (model, mode, x) = (model(device)?, Mode::train(device, 7)?, ones(device)?);
        let [first, second] = [(); 2].map(|()| forward(&model, &x, &mode));
        first?.add(second?.mul(2.0)?)?.sum()?.backward()?;
        let masks = expected(device, 2)?;
        let sums = masks[0].iter().zip(&masks[1]).map(|(a, b)| a + 2.0 * b);
        assert_eq!(gradient(&x)?, sums.collect::<Vec<f32>>());
    }
    Ok(())
}

#[test]
fn what_is_computed_again_has_the_masks_of_the_first_time() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let masks = expected(device, 3)?;
        for recompute in [Recompute::All, Recompute::AllButAttention] {
            let model = model(device)?;
            let mode = Mode::train(device, 7)?.with_recomputation(Some(recompute));
            let block = |x: &Tensor, mode: &Mode| mode.block(model.module(), x, forward);
            assert_eq!(plain(device, &mode, block)?, masks);
        }
        // A checkpoint of one's own, and one within another.
        let mode = Mode::train(device, 7)?;
        let nested = |x: &Tensor, mode: &Mode| {
            let (dropouts, mode) = (model(device)?.module().clone(), mode.clone());
            x.checkpoint(move |x| {
                let (inner, own) = (dropouts[0].clone(), mode.clone());
                let x = x.checkpoint(move |x| inner.forward(x, &own))?;
                dropouts[1].forward(&x, &mode)
            })
        };
        assert_eq!(plain(device, &mode, nested)?, masks);
    }
    Ok(())
}

#[test]
fn each_replay_of_a_recorded_pass_draws_new_masks() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let masks = expected(&device, 5)?;
        for recompute in [None, Some(Recompute::All)] {
            let (model, x) = (model(&device)?, ones(&device)?);
            let mode = Mode::train(&device, 7)?.with_recomputation(recompute);
            // A pass before the recording, and one between the replays.
            assert_eq!(forward(&model, &x, &mode)?.to_vec::<f32>()?, masks[0]);
            let (graph, y) = device.record(|| {
                let y = mode.block(model.module(), &x, forward)?;
                y.sum()?.backward()?;
                Ok::<_, NnError>(y.detach())
            })?;
            for (at, mask) in masks.iter().enumerate().skip(1) {
                if at == 3 {
                    assert_eq!(forward(&model, &x, &mode)?.to_vec::<f32>()?, *mask);
                    continue;
                }
                graph.replay()?;
                assert_eq!(y.to_vec::<f32>()?, *mask, "{} {at}", device.info());
                assert_eq!(gradient(&x)?, *mask, "{} {at}", device.info());
            }
        }
    }
    Ok(())
}
