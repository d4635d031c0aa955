//! Small causal models, their tokens, and gradients of a batch in passes, for the tests that compare bits.
#![allow(dead_code)]

use std::ops::Range;

use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{
    CausalConfig, ExpertsConfig, GradientTree, MicroBatchPlan, Model, Result, TransformerConfig,
};

pub const TIME: usize = 11;
pub const VOCABULARY: usize = 29;

/// Small sizes in the shape of a preset.
pub fn small(preset: &str) -> CausalConfig {
    CausalConfig {
        vocabulary: VOCABULARY,
        width: 24,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        head_width: 8,
        feed_forward_width: 40,
        max_positions: 64,
        window: Some(5),
        full_layers: vec![1],
        ..CausalConfig::preset(preset).expect("a preset")
    }
}

/// Tied, with experts, dropout, windows and all else that has an order of its own.
pub fn mixed() -> CausalConfig {
    CausalConfig {
        experts: Some(ExpertsConfig {
            n_experts: 5,
            per_token: 2,
            width: 12,
            renormalised: true,
            balance_coefficient: 0.01,
            dense_layers: vec![0],
        }),
        dropout: 0.2,
        ..small("gemma3")
    }
}

pub fn transformer() -> TransformerConfig {
    TransformerConfig {
        vocabulary: VOCABULARY,
        width: 24,
        n_layers: 2,
        n_heads: 3,
        feed_forward_width: 40,
        positions: 64,
        dropout: 0.0,
        attention_dropout: 0.0,
    }
}

pub fn token(sample: usize, time: usize) -> u32 {
    ((sample * 31 + time * 17 + sample * time) % VOCABULARY) as u32
}

pub fn tokens(device: &Device, samples: std::ops::Range<usize>, shift: usize) -> Result<Tensor> {
    let shape = [samples.len(), TIME];
    let ids = samples.flat_map(|sample| (0..TIME).map(move |time| token(sample, time + shift)));
    Ok(Tensor::from_slice::<u32>(device, &ids.collect::<Vec<_>>(), &shape)?.with_samples(0)?)
}

pub fn words(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor
        .to_vec::<f32>()?
        .iter()
        .map(|value| value.to_bits())
        .collect())
}

/// Computes the gradient of a batch in passes and returns its digest; `loss` is that of the samples of a pass.
pub fn gradient_in_passes<M>(
    model: &Model<M>,
    [batch, micro, shards]: [usize; 3],
    loss: impl Fn(Range<usize>) -> Result<Tensor>,
) -> Result<String> {
    let weights = model.weights();
    let plan = MicroBatchPlan::new(batch, micro, shards)?;
    let mut tree = GradientTree::new(weights, &plan)?;
    for pass in &plan.passes {
        let samples = pass.first_sample..pass.first_sample + micro;
        loss(samples)?.backward_with(&pass.plan)?;
        if let Some(level) = pass.level {
            tree.push(weights, level)?;
        }
    }
    tree.finish(weights)?;
    weights.check_gradients()?;
    weights.digest_of(&[("", weights.gradients()?)])
}

/// The loss with the balance losses of some of the batch's shards, half of their mean over all `shards`.
pub fn with_balance(loss: &Tensor, of_shards: &Tensor, shards: usize) -> Result<Tensor> {
    let balance = of_shards.sum()?.mul(0.5 / shards as f32)?;
    Ok(loss.add(&balance.reshape(loss.shape())?)?)
}
