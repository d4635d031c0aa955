//! Batch norm by shards: what must not change the bits of gradients and of running values.

use hlx_autograd::{BackwardPlan, ConvOptions, IGNORE_INDEX, Tensor};
use hlx_core::Device;
use hlx_nn::{
    BatchNorm1d, BatchNorm2d, Conv2d, Flatten, GradientTree, Linear, MicroBatchPlan, Mode, Model,
    Module, NnError, Result, Sequential,
};

const BATCH: usize = 8;
const SHARDS: usize = 4;
const CLASSES: usize = 5;
const IMAGE: [usize; 3] = [2, 6, 5];

fn model(device: &Device) -> Result<Model<Sequential>> {
    Model::new(device, 3, |b| {
        Ok(Sequential::new(b)
            .add(|b| Conv2d::without_bias(b, 2, 4, [3, 3], ConvOptions::default()))
            .add(|b| BatchNorm2d::new(b, 4))
            .add(|_| hlx_autograd::Activation::ReLU)
            .add(|_| Flatten::new())
            .add(|b| Linear::new(b, 48, 7))
            .add(|b| BatchNorm1d::new(b, 7))
            .add(|b| Linear::new(b, 7, CLASSES)))
    })
}

/// The images of a batch and their classes; the first `n_empty` samples are empty.
fn batch(device: &Device, n_empty: usize) -> Result<(Vec<f32>, Vec<u32>)> {
    let per_image: usize = IMAGE.iter().product();
    let mut images = Tensor::randn(device, &[BATCH * per_image], 9)?.to_vec::<f32>()?;
    images[..n_empty * per_image].fill(0.0);
    let class = |sample: usize| match sample < n_empty {
        true => IGNORE_INDEX,
        false => (sample * 3 % CLASSES) as u32,
    };
    Ok((images, (0..BATCH).map(class).collect()))
}

/// Computes the gradient of the batch in passes of `micro` samples, and returns the digests of the
/// gradients and of the weights, running values included.
fn gradient(device: &Device, micro: usize, n_empty: usize, recorded: bool) -> Result<[String; 2]> {
    let model = model(device)?;
    let weights = model.weights();
    let (images, classes) = batch(device, n_empty)?;
    let plan = MicroBatchPlan::new(BATCH, micro, SHARDS)?;
    let mut tree = GradientTree::new(weights, &plan)?;
    let scale = Tensor::from_slice(device, &[1.0 / (BATCH - n_empty) as f32], &[1])?;
    let per_image = images.len() / BATCH;
    for pass in &plan.passes {
        let rows = pass.first_sample..pass.first_sample + micro;
        let values = &images[rows.start * per_image..rows.end * per_image];
        let shape = [&[micro][..], &IMAGE].concat();
        let x = Tensor::from_slice(device, values, &shape)?.with_samples(0)?;
        let targets = Tensor::from_slice::<u32>(device, &classes[rows], &[micro])?;
        let is_part = pass.level.is_none() || pass.plan.accumulate;
        let mode = Mode::train(device, 7)?.with_shards(pass.plan.shards, is_part);
        mode.set_empty_samples(n_empty.saturating_sub(pass.first_sample).min(micro) as u32)?;
        let launch = || -> Result<()> {
            let logits = model.forward(&x, &mode)?;
            let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
            Ok(loss.backward_with(&pass.plan)?)
        };
        match recorded {
            true => device.record::<_, NnError>(launch)?.0.replay()?,
            false => launch()?,
        }
        if let Some(level) = pass.level {
            tree.push(weights, level)?;
        }
    }
    tree.finish(weights)?;
    Ok([
        weights.digest_of(&[("", weights.gradients()?)])?,
        weights.digest()?,
    ])
}

#[test]
fn micro_batches_of_whole_shards_and_devices_give_the_same_bits() -> Result<()> {
    for n_empty in [0, 3] {
        let mut expected = None;
        for device in hlx_core::testing::own_devices() {
            for (micro, recorded) in [(8, false), (8, true), (4, false), (2, false)] {
                let found = gradient(&device, micro, n_empty, recorded)?;
                let expected = expected.get_or_insert_with(|| found.clone());
                assert_eq!(
                    &found,
                    expected,
                    "{micro} samples a pass, {n_empty} empty, on {:?}",
                    device.info()
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_part_of_a_shard_is_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let error = gradient(&device, 1, 0, false).expect_err("a part of a shard");
    let expected = "micro-batches: BatchNorm2d needs passes that hold whole shards";
    assert_eq!(error.to_string(), expected);
    Ok(())
}

/// Empty samples change nothing of the others: a batch whose first shards are empty has the gradients
/// and running values of the last shards alone.
#[test]
fn empty_shards_enter_nothing() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let model = model(&device)?;
    let (images, classes) = batch(&device, 4)?;
    let per_image = images.len() / BATCH;
    let scale = Tensor::from_slice(&device, &[0.25], &[1])?;
    let mut running = Vec::new();
    for (first, shards) in [(0, 4), (4, 2)] {
        let fresh = self::model(&device)?;
        let n = BATCH - first;
        let shape = [&[n][..], &IMAGE].concat();
        let x =
            Tensor::from_slice(&device, &images[first * per_image..], &shape)?.with_samples(0)?;
        let targets = Tensor::from_slice::<u32>(&device, &classes[first..], &[n])?;
        let mode = Mode::train(&device, 7)?.with_shards(shards, false);
        mode.set_empty_samples(4 - first as u32)?;
        let plan = BackwardPlan {
            shards,
            ..BackwardPlan::default()
        };
        let logits = fresh.forward(&x, &mode)?;
        logits
            .cross_entropy_scaled(&targets, &scale, 0.0)?
            .backward_with(&plan)?;
        let tracked = fresh.weights().buffers().iter().map(|buffer| {
            Ok(match buffer.dtype() {
                hlx_autograd::DType::U32 => vec![buffer.tensor()?.to_vec::<u32>()?[0] as f32],
                _ => buffer.tensor()?.to_vec::<f32>()?,
            })
        });
        let gradients = fresh.weights().gradients()?;
        let gradients = fresh.weights().download(gradients)?;
        running.push((tracked.collect::<Result<Vec<_>>>()?, gradients));
    }
    assert_eq!(running[0], running[1]);
    assert_eq!(model.weights().buffers().len(), 6);
    Ok(())
}
