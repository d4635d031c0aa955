//! A tiny transformer against PyTorch: loss, logits, every gradient, ten steps of AdamW.
//!
//! The reference is `fixtures/transformer.safetensors`, made by
//! `fixtures/make_transformer.py`; PyTorch is not needed here.

use std::collections::HashMap;
use std::ops::Range;

use hlx_autograd::{BackwardPlan, Tensor};
use hlx_core::Device;
use hlx_nn::{
    AdamW, AdamWConfig, CausalLm, Common, Mode, Model, Module, Optimizer, TransformerConfig,
};
use safetensors::tensor::{Dtype, SafeTensors};
use serde::Deserialize;

/// Tolerance of the loss, against f64.
const LOSS_TOLERANCE: f64 = 1e-6;
/// Tolerance of a logit, against f64.
const LOGIT_TOLERANCE: f64 = 5e-6;
/// Tolerance of a gradient, as a part of the largest of its tensor, against f64.
const GRADIENT_TOLERANCE: f64 = 1e-5;
/// Tolerance of the loss before each of ten steps, against f64.
const STEP_TOLERANCE: f64 = 2e-5;
/// Tolerance of a parameter after ten steps of 0.01, against f64. Adam divides by the root of the mean
/// square: where a gradient is all but zero, its rounding errors count like a gradient.
const PARAMETER_TOLERANCE: f64 = 2e-3;

type Error = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Settings {
    vocabulary: usize,
    width: usize,
    layers: usize,
    heads: usize,
    feed_forward: usize,
    positions: usize,
    learning_rate: f64,
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    clip: f32,
}

/// The fixture: values as f64, ids as words, and the settings that PyTorch ran with.
struct Fixture {
    values: HashMap<String, Vec<f64>>,
    ids: HashMap<String, (Vec<usize>, Vec<u32>)>,
    settings: Settings,
}

impl Fixture {
    fn read() -> Result<Self, Error> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/transformer.safetensors"
        );
        let bytes = std::fs::read(path)
            .map_err(|error| format!("{path}: {error}; make_transformer.py beside it makes it"))?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes)?;
        let named = metadata.metadata().as_ref().ok_or("no metadata")?;
        let settings = serde_json::from_str(&named["settings"])?;
        let (mut values, mut ids) = (HashMap::new(), HashMap::new());
        for (name, view) in SafeTensors::deserialize(&bytes)?.tensors() {
            let words = view.data().as_chunks::<4>().0.iter();
            match view.dtype() {
                Dtype::F32 => {
                    let numbers = words.map(|&word| f64::from(f32::from_le_bytes(word)));
                    values.insert(name, numbers.collect());
                }
                Dtype::F64 => {
                    let doubles = view.data().as_chunks::<8>().0.iter();
                    values.insert(
                        name,
                        doubles.map(|&word| f64::from_le_bytes(word)).collect(),
                    );
                }
                // -1, where a position counts nothing, is IGNORE_INDEX as a word.
                Dtype::I32 => {
                    let numbers = words.map(|&word| u32::from_le_bytes(word)).collect();
                    ids.insert(name, (view.shape().to_vec(), numbers));
                }
                other => return Err(format!("{name} is {other:?}").into()),
            }
        }
        Ok(Self {
            values,
            ids,
            settings,
        })
    }

    fn model(&self, device: &Device) -> Result<Model<CausalLm>, Error> {
        let config = TransformerConfig {
            vocabulary: self.settings.vocabulary,
            width: self.settings.width,
            n_layers: self.settings.layers,
            n_heads: self.settings.heads,
            feed_forward_width: self.settings.feed_forward,
            positions: self.settings.positions,
            dropout: 0.0,
            attention_dropout: 0.0,
        };
        let model = Model::zeroed(device, |b| CausalLm::new(b, &config.into()))?;
        let weights = model.weights();
        let named = weights.parameters().iter().map(|parameter| {
            let values = &self.values[&format!("param.{}", parameter.name())];
            values.iter().map(|value| *value as f32).collect()
        });
        weights.upload(weights.values(), &named.collect::<Vec<_>>())?;
        Ok(model)
    }

    /// The tensors of a forward pass: ids, targets, and one over the counted positions.
    fn batch(&self, device: &Device) -> Result<[Tensor; 3], Error> {
        let (shape, ids) = &self.ids["input.ids"];
        let (_, targets) = &self.ids["input.targets"];
        let counted = targets.iter().filter(|target| **target != u32::MAX).count();
        Ok([
            Tensor::from_slice::<u32>(device, ids, shape)?.with_samples(0)?,
            Tensor::from_slice::<u32>(device, targets, shape)?,
            Tensor::from_slice(device, &[1.0 / counted as f32], &[1])?,
        ])
    }
}

/// The largest distance between values and their reference; a NaN counts as infinite.
fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let distances = found.iter().zip(expected).map(|(found, expected)| {
        let distance = (f64::from(*found) - expected).abs();
        if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        }
    });
    distances.fold(0.0, f64::max)
}

fn largest(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |largest, value| largest.max(value.abs()))
}

#[test]
fn loss_logits_and_every_gradient_agree() -> Result<(), Error> {
    let fixture = Fixture::read()?;
    for device in hlx_core::testing::own_devices() {
        let model = fixture.model(&device)?;
        let [ids, targets, scale] = fixture.batch(&device)?;
        let mode = Mode::eval();
        for shards in [1, 4] {
            let logits = model.forward(&ids, &mode)?;
            let found = distance(&logits.to_vec::<f32>()?, &fixture.values["logits64"]);
            assert!(found < LOGIT_TOLERANCE, "logits: {found}");
            let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
            let found = distance(&loss.to_vec::<f32>()?, &fixture.values["loss64"]);
            assert!(found < LOSS_TOLERANCE, "loss: {found}");
            loss.backward_with(&BackwardPlan {
                shards,
                ..BackwardPlan::default()
            })?;
            for parameter in model.weights().parameters() {
                let name = parameter.name();
                let gradient = parameter
                    .tensor()?
                    .grad()
                    .ok_or("no gradient")?
                    .to_vec::<f32>()?;
                let expected = &fixture.values[&format!("grad64.{name}")];
                let found = distance(&gradient, expected) / largest(expected);
                assert!(
                    found < GRADIENT_TOLERANCE,
                    "{name}, {shards} shards: {found}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn ten_steps_of_adamw_agree() -> Result<(), Error> {
    let fixture = Fixture::read()?;
    let settings = &fixture.settings;
    for device in hlx_core::testing::own_devices() {
        let model = fixture.model(&device)?;
        let [ids, targets, scale] = fixture.batch(&device)?;
        let mode = Mode::eval();
        let config = AdamWConfig {
            betas: settings.betas,
            eps: settings.eps,
            common: Common {
                weight_decay: settings.weight_decay,
                clip_norm: Some(settings.clip),
                ..Common::default()
            },
        };
        let mut optimizer = AdamW::new(model.weights(), config)?;
        let mut losses = Vec::new();
        for step in 0..10 {
            let logits = model.forward(&ids, &mode)?;
            let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
            loss.backward_with(&BackwardPlan {
                shards: 2,
                ..BackwardPlan::default()
            })?;
            optimizer.step(model.weights(), settings.learning_rate)?;
            losses.extend(loss.to_vec::<f32>()?);
            if step == 0 {
                let norm = device.download::<f32>(optimizer.gradient_norm())?;
                let expected = &fixture.values["norm64"];
                let found = distance(&norm, expected) / expected[0];
                assert!(found < GRADIENT_TOLERANCE, "norm: {found}");
            }
        }
        let found = distance(&losses, &fixture.values["steps64"]);
        assert!(found < STEP_TOLERANCE, "losses {losses:?}: {found}");
        for parameter in model.weights().parameters() {
            let name = parameter.name();
            let values = parameter.tensor()?.to_vec::<f32>()?;
            let expected = &fixture.values[&format!("final64.{name}")];
            for range in determined(name, values.len()) {
                let found = distance(&values[range.clone()], &expected[range]);
                assert!(found < PARAMETER_TOLERANCE, "{name}: {found}");
            }
        }
    }
    Ok(())
}

/// The elements whose gradient is more than noise. A key's bias adds the same to all scores of a
/// row, which softmax takes out again: its gradient is zero except for rounding, and Adam divides
/// that noise by its own size.
fn determined(name: &str, n: usize) -> [Range<usize>; 2] {
    match name.ends_with("qkv.bias") {
        true => [0..n / 3, 2 * n / 3..n],
        false => [0..n, 0..0],
    }
}
