//! What must not change the bits: the batch, padding, micro-batches, recording, the device.

use hlx_autograd::{BackwardPlan, IGNORE_INDEX, Tensor};
use hlx_core::{Arithmetic, Device};
use hlx_nn::{
    AdamW, AdamWConfig, CausalInput, CausalLm, CausalModel, Common, GradientTree, MicroBatchPlan,
    Mode, Model, Module, NnError, Optimizer, Result, TransformerConfig,
};
use rayon::prelude::*;

const BATCH: usize = 8;
const TIME: usize = 11;

fn config(dropout: f32) -> TransformerConfig {
    TransformerConfig {
        vocabulary: 29,
        width: 24,
        n_layers: 2,
        n_heads: 3,
        feed_forward_width: 40,
        positions: 37,
        dropout,
        attention_dropout: dropout,
    }
}

fn token(sample: usize, time: usize) -> u32 {
    ((sample * 31 + time * 17 + sample * time) % 29) as u32
}

fn logits(model: &Model<CausalLm>, ids: &[u32], batch: usize) -> Result<Vec<f32>> {
    let device = model.weights().device();
    let time = ids.len() / batch;
    let ids = Tensor::from_slice::<u32>(device, ids, &[batch, time])?;
    let logits = model.forward(&ids, &Mode::eval())?;
    Ok(logits.to_vec::<f32>()?)
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_sequence_has_the_same_logits_alone_and_in_a_batch_padded_or_not() -> Result<()> {
    for arithmetic in Arithmetic::ALL {
        sequences_have_their_own_logits(arithmetic)?;
    }
    Ok(())
}

fn sequences_have_their_own_logits(arithmetic: Arithmetic) -> Result<()> {
    let lengths = [37, 1, 2, 31, 32, 33, 5, 36, 7, 20, 3, 4, 34, 35, 16, 17];
    let sequence = |sample: usize, n: usize| (0..n).map(move |time| token(sample, time));
    let mut expected = None;
    for device in hlx_core::testing::own_devices_in(arithmetic) {
        if !arithmetic.is_same_everywhere() {
            expected = None;
        }
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &config(0.0).into()))?;
        let padded = |(sample, &length): (usize, &usize)| -> Vec<u32> {
            sequence(sample, length)
                .chain(std::iter::repeat_n(0, 37 - length))
                .collect()
        };
        let ids: Vec<u32> = lengths.iter().enumerate().flat_map(padded).collect();
        let together = words(&logits(&model, &ids, 16)?);
        // On a software Vulkan device a few lengths at the edges of the key blocks are enough.
        let alone = if device.is_cpu() { 16 } else { 6 };
        for (sample, &length) in lengths.iter().enumerate().take(alone) {
            let ids: Vec<u32> = sequence(sample, length).collect();
            let alone = words(&logits(&model, &ids, 1)?);
            let start = sample * 37 * 29;
            assert_eq!(
                alone,
                together[start..start + length * 29],
                "sequence {sample}"
            );
        }
        let expected = expected.get_or_insert_with(|| together.clone());
        assert_eq!(&together, expected, "{:?}", device.info());
    }
    Ok(())
}

#[test]
fn the_logits_of_chosen_positions_have_the_bits_of_all_logits() -> Result<()> {
    let (batch, time) = (3, 33);
    let ids: Vec<u32> = (0..batch * time)
        .map(|at| token(at / time, at % time))
        .collect();
    // The last positions of sequences of several lengths, and one twice.
    let chosen = [32, 33 + 4, 2 * 33 + 31, 32];
    for device in hlx_core::testing::own_devices() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &config(0.0).into()))?;
        let all = words(&logits(&model, &ids, batch)?);
        let mode = Mode::eval();
        let ids = Tensor::from_slice::<u32>(&device, &ids, &[batch, time])?;
        let rows = Tensor::from_slice::<u32>(&device, &chosen, &[chosen.len()])?;
        let input = CausalInput {
            rows: Some(&rows),
            ..CausalInput::new(&ids)
        };
        let found = model.logits(&input, &mode)?;
        assert_eq!(found.shape(), [4, 29]);
        let found = words(&found.to_vec::<f32>()?);
        for (found, &row) in found.chunks(29).zip(&chosen) {
            assert_eq!(
                found,
                &all[row as usize * 29..][..29],
                "row {row}, {device:?}"
            );
        }
    }
    Ok(())
}

/// The batch: some targets are ignored, as in pairs whose loss is on the output alone.
struct Batch {
    ids: Vec<u32>,
    targets: Vec<u32>,
    scale: f32,
}

fn batch() -> Batch {
    let places = || (0..BATCH).flat_map(|sample| (0..TIME).map(move |time| (sample, time)));
    let ids = places().map(|(sample, time)| token(sample, time)).collect();
    let target = |(sample, time): (usize, usize)| match time < sample {
        true => IGNORE_INDEX,
        false => token(sample, time + 1),
    };
    let targets: Vec<u32> = places().map(target).collect();
    let counted = targets
        .iter()
        .filter(|target| **target != IGNORE_INDEX)
        .count();
    Batch {
        ids,
        targets,
        scale: 1.0 / counted as f32,
    }
}

/// Computes the gradient of the batch in passes; dropout is on.
fn gradient(model: &Model<CausalLm>, micro: usize, shards: usize, step: u32) -> Result<()> {
    let device = model.weights().device();
    let Batch {
        ids,
        targets,
        scale,
    } = batch();
    let plan = MicroBatchPlan::new(BATCH, micro, shards)?;
    let mut tree = GradientTree::new(model.weights(), &plan)?;
    let scale = Tensor::from_slice(device, &[scale], &[1])?;
    let mode = Mode::train(device, 77)?;
    for pass in &plan.passes {
        let range = pass.first_sample * TIME..(pass.first_sample + micro) * TIME;
        let ids = Tensor::from_slice::<u32>(device, &ids[range.clone()], &[micro, TIME])?
            .with_samples(0)?;
        let targets = Tensor::from_slice::<u32>(device, &targets[range], &[micro, TIME])?;
        mode.set_counter(step, pass.first_sample as u32)?;
        let logits = model.forward(&ids, &mode)?;
        logits
            .cross_entropy_scaled(&targets, &scale, 0.1)?
            .backward_with(&pass.plan)?;
        if let Some(level) = pass.level {
            tree.push(model.weights(), level)?;
        }
    }
    tree.finish(model.weights())
}

#[test]
fn micro_batches_and_devices_give_the_same_gradient() -> Result<()> {
    for arithmetic in Arithmetic::ALL {
        gradients_are_the_same(arithmetic)?;
    }
    Ok(())
}

fn gradients_are_the_same(arithmetic: Arithmetic) -> Result<()> {
    let mut expected = None;
    for device in hlx_core::testing::own_devices_in(arithmetic) {
        if !arithmetic.is_same_everywhere() {
            expected = None;
        }
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &config(0.2).into()))?;
        let weights = model.weights();
        // Shards of two samples, which are whole in every arithmetic but portable.
        let sizes: &[usize] = match (device.is_cpu(), arithmetic) {
            (true, Arithmetic::Portable) => &[8, 4, 2, 1],
            (true, _) => &[8, 4, 2],
            (false, _) => &[8, 2],
        };
        for &micro in sizes {
            gradient(&model, micro, 4, 5)?;
            let digest = weights.digest_of(&[("", weights.gradients()?)])?;
            let expected = expected.get_or_insert_with(|| digest.clone());
            assert_eq!(
                &digest,
                expected,
                "{micro} samples a pass on {:?}",
                device.info()
            );
        }
    }
    Ok(())
}

#[test]
fn the_gradient_depends_on_shards_and_on_the_dropout_step() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let model = Model::new(&device, 3, |b| CausalLm::new(b, &config(0.2).into()))?;
    let digest = |shards, step| -> Result<String> {
        gradient(&model, 8, shards, step)?;
        model
            .weights()
            .digest_of(&[("", model.weights().gradients()?)])
    };
    let first = digest(4, 5)?;
    assert_ne!(digest(2, 5)?, first);
    assert_ne!(digest(4, 6)?, first);
    assert_eq!(digest(4, 5)?, first);
    Ok(())
}

/// Trains three steps and returns the digests of parameters and of optimizer state.
fn train(device: &Device, recorded: bool) -> Result<[String; 2]> {
    let model = Model::new(device, 3, |b| CausalLm::new(b, &config(0.1).into()))?;
    let clipped = AdamWConfig {
        common: Common {
            clip_norm: Some(0.5),
            ..AdamWConfig::default().common
        },
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(model.weights(), clipped)?;
    let Batch {
        ids,
        targets,
        scale,
    } = batch();
    let ids = Tensor::from_slice::<u32>(device, &ids, &[BATCH, TIME])?.with_samples(0)?;
    let targets = Tensor::from_slice::<u32>(device, &targets, &[BATCH, TIME])?;
    let scale = Tensor::from_slice(device, &[scale], &[1])?;
    let mode = Mode::train(device, 77)?;
    let plan = BackwardPlan {
        shards: 8,
        ..BackwardPlan::default()
    };
    let launch = |optimizer: &AdamW| -> Result<()> {
        let logits = model.forward(&ids, &mode)?;
        logits
            .cross_entropy_scaled(&targets, &scale, 0.0)?
            .backward_with(&plan)?;
        optimizer.update(model.weights())
    };
    let graph = match recorded {
        true => Some(device.record::<_, NnError>(|| launch(&optimizer))?.0),
        false => None,
    };
    for step in 0..3 {
        mode.set_counter(step, 0)?;
        optimizer.prepare(1e-2)?;
        match &graph {
            Some(graph) => graph.replay()?,
            None => launch(&optimizer)?,
        }
    }
    Ok([
        model.weights().digest()?,
        optimizer.digest(model.weights())?,
    ])
}

#[test]
fn training_gives_the_same_bits_on_every_device_recorded_or_not() -> Result<()> {
    let mut found = Vec::new();
    for arithmetic in Arithmetic::EVERYWHERE {
        let cpu = hlx_core::testing::cpu()?.with_arithmetic(arithmetic);
        let expected = train(&cpu, false)?;
        for device in hlx_core::testing::own_devices_in(arithmetic) {
            assert_eq!(train(&device, true)?, expected, "{:?}", device.info());
        }
        found.push(expected);
    }
    assert_ne!(found[0], found[1]);
    Ok(())
}

#[test]
fn ids_of_another_shape_are_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let model = Model::new(&device, 3, |b| CausalLm::new(b, &config(0.0).into()))?;
    for shape in [&[38][..], &[1, 38]] {
        let ids = Tensor::from_slice::<u32>(&device, &[1; 38], shape)?;
        let error = model.forward(&ids, &Mode::eval());
        let expected = format!(
            "causal model: ids has shape {shape:?}, expected [batch, time] with at most 37 positions"
        );
        assert_eq!(error.expect_err("another shape").to_string(), expected);
    }
    Ok(())
}

#[test]
fn jobs_of_a_users_thread_pool_share_one_model() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &config(0.0).into()))?;
        let ids = |sample: usize| -> Vec<u32> { (0..TIME).map(|t| token(sample, t)).collect() };
        let run = |sample: usize| Ok(words(&logits(&model, &ids(sample), 1)?));
        let alone: Vec<Vec<u32>> = (0..BATCH).map(run).collect::<Result<_>>()?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build();
        let together: Vec<Vec<u32>> = pool
            .expect("a pool")
            .install(|| (0..BATCH).into_par_iter().map(run).collect::<Result<_>>())?;
        assert_eq!(together, alone);
    }
    Ok(())
}
