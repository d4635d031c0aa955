//! The golden multilayer perceptron: three affine layers with tanh, 32 drawn samples in 5 classes,
//! 12 steps of descent with momentum.

use anyhow::Result;
use hlx_autograd::{Activation, Tensor, no_grad};
use hlx_core::Device;
use hlx_core::arith::philox4x32;
use hlx_nn::{Common, MLP, Mode, Model, Module, Optimizer, SGD, SGDConfig};

use super::{GoldenDigests, logits_digest};

const STEPS: usize = 12;
const SEED: u64 = 2025;
const N_SAMPLES: usize = 32;
/// Input, two hidden layers, classes: none a multiple of a tile.
const WIDTHS: [usize; 4] = [13, 40, 23, 5];

pub(super) fn train(device: &Device) -> Result<GoldenDigests> {
    let (model, optimizer, inputs) = fit(device)?;
    let logits = no_grad(|| model.forward(&inputs, &Mode::eval()))?;
    Ok(GoldenDigests {
        parameters: model.weights().digest()?,
        optimizer: optimizer.digest(model.weights())?,
        logits: logits_digest(logits.shape(), &logits.to_vec::<f32>()?),
    })
}

/// Trains; returns the samples beside model and optimizer.
fn fit(device: &Device) -> Result<(Model<MLP>, SGD, Tensor)> {
    let model = Model::new(device, SEED, |b| MLP::new(b, &WIDTHS, Activation::Tanh))?;
    let config = SGDConfig {
        momentum: 0.9,
        common: Common {
            weight_decay: 0.01,
            clip_norm: Some(0.25),
            ..Common::default()
        },
        ..SGDConfig::default()
    };
    let mut optimizer = SGD::new(model.weights(), config)?;
    let [_, .., classes] = WIDTHS;
    let inputs: Vec<f32> = words(0, N_SAMPLES * WIDTHS[0]).map(unit).collect();
    let targets: Vec<u32> = words(1, N_SAMPLES)
        .map(|word| word % classes as u32)
        .collect();
    let inputs = Tensor::from_slice(device, &inputs, &[N_SAMPLES, WIDTHS[0]])?.with_samples(0)?;
    let targets = Tensor::from_slice::<u32>(device, &targets, &[N_SAMPLES])?;
    let scale = Tensor::from_slice(device, &[1.0 / N_SAMPLES as f32], &[1])?;
    let mode = Mode::train(device, SEED)?;
    for _ in 0..STEPS {
        let loss = model
            .forward(&inputs, &mode)?
            .cross_entropy_scaled(&targets, &scale, 0.0)?;
        loss.backward()?;
        optimizer.step(model.weights(), 0.1)?;
        model.weights().zero_grad()?;
    }
    Ok((model, optimizer, inputs))
}

/// Random words of a stream.
fn words(stream: u32, n: usize) -> impl Iterator<Item = u32> {
    let key = [SEED as u32, (SEED >> 32) as u32];
    let blocks = (0..n.div_ceil(4) as u32).flat_map(move |i| philox4x32([i, stream, 0, 0], key));
    blocks.take(n)
}

/// A value from -1 to below 1; every operation is exact.
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / (1 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_gradients_are_clipped_to_the_end() {
        let device = hlx_core::testing::cpu().expect("the CPU device opens");
        let (model, optimizer, inputs) = fit(&device).expect("trains");
        let norm = device
            .download::<f32>(optimizer.gradient_norm())
            .expect("a norm")[0];
        assert!(norm > 0.25 && norm.is_finite(), "{norm}");
        let logits = model
            .forward(&inputs, &Mode::eval())
            .and_then(|logits| Ok(logits.to_vec::<f32>()?));
        let logits = logits.expect("answers");
        assert!(
            logits
                .iter()
                .all(|logit| logit.is_finite() && *logit != 0.0)
        );
    }
}
