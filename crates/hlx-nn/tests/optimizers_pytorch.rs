//! Every optimizer and schedule against PyTorch, on every device, and resumed in the middle.
//!
//! The reference is `fixtures/optimizers.safetensors`, made by `fixtures/make_optimizers.py`; PyTorch
//! is not needed here.

#[path = "optimizers_pytorch/schedules.rs"]
mod schedules;

use std::collections::BTreeMap;

use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{
    Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamWConfig,
    Common, Init, Lion, LionConfig, Muon, MuonAdjust, MuonConfig, OneCycle, Optimizer,
    ParameterBuilder, ParameterGroup, Plateau, PlateauConfig, RMSprop, RMSpropConfig, SGD,
    SGDConfig, Schedule, Weights, clip_grad_norm_, clip_grad_value_,
};
use safetensors::tensor::{Dtype, SafeTensors};

const STEPS: usize = 8;
const RATE: f64 = 0.05;
const DECAY: f64 = 0.9;
const SHAPES: [(&str, &[usize]); 4] = [
    ("embedding.weight", &[7, 6]),
    ("layer.weight", &[12, 6]),
    ("layer.bias", &[12]),
    ("head.weight", &[5, 12]),
];
/// Of values of about 1 after eight steps in f32, against f64.
const TOLERANCE: f64 = 4e-6;
/// Of Muon's: five iterations of a quintic multiply an error by up to 3.4 each.
const MUON_TOLERANCE: f64 = 2e-5;
/// Of PyTorch's own Muon, whose iteration rounds to 8 bits.
const BFLOAT16_TOLERANCE: f64 = 5e-2;

type Error = Box<dyn std::error::Error>;
type Made = hlx_nn::Result<Box<dyn Optimizer>>;
type Make = fn(&Weights) -> Made;

/// All tensors of the fixture, as f64.
fn fixture() -> Result<BTreeMap<String, Vec<f64>>, Error> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/optimizers.safetensors"
    );
    let bytes = std::fs::read(path)
        .map_err(|error| format!("{path}: {error}; make_optimizers.py beside it makes it"))?;
    let mut found = BTreeMap::new();
    for (name, view) in SafeTensors::deserialize(&bytes)?.tensors() {
        let singles = view.data().as_chunks::<4>().0.iter();
        let doubles = view.data().as_chunks::<8>().0.iter();
        let values = match view.dtype() {
            Dtype::F32 => singles
                .map(|&word| f64::from(f32::from_le_bytes(word)))
                .collect(),
            _ => doubles.map(|&word| f64::from_le_bytes(word)).collect(),
        };
        found.insert(name, values);
    }
    Ok(found)
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

fn initial_weights(
    device: &Device,
    fixture: &BTreeMap<String, Vec<f64>>,
) -> Result<Weights, Error> {
    let mut builder = ParameterBuilder::new();
    for (name, shape) in SHAPES {
        builder.parameter(name, shape, Init::Zeros);
    }
    let weights = builder.build(device, 0)?;
    let initial = SHAPES.map(|(name, _)| to_f32(&fixture[&format!("initial.{name}")]));
    weights.upload(weights.values(), &initial)?;
    Ok(weights)
}

/// Leaves the gradients of a step in the weights: those of the sum of all parameters times them.
fn backward(
    weights: &Weights,
    fixture: &BTreeMap<String, Vec<f64>>,
    step: usize,
) -> Result<(), Error> {
    weights.zero_grad()?;
    for (parameter, (name, shape)) in weights.parameters().iter().zip(SHAPES) {
        let gradient = to_f32(&fixture[&format!("gradient.{step}.{name}")]);
        let gradient = Tensor::from_slice(weights.device(), &gradient, shape)?;
        parameter.tensor()?.mul(&gradient)?.sum()?.backward()?;
    }
    Ok(())
}

fn groups(weights: &Weights) -> hlx_nn::Result<Vec<ParameterGroup>> {
    Ok(vec![
        ParameterGroup::new(weights.matching("head.*")?).with_lr_factor(0.1),
        ParameterGroup::new(weights.matching("*.bias")?).with_weight_decay(0.0),
    ])
}

fn boxed<O: Optimizer + 'static>(made: hlx_nn::Result<O>) -> Made {
    made.map(|optimizer| Box::new(optimizer) as Box<dyn Optimizer>)
}

/// The optimizers of `VARIANTS` in make_optimizers.py.
const VARIANTS: [(&str, Make); 17] = [
    ("sgd", |weights| {
        let config = SGDConfig {
            common: Common::with_weight_decay(0.1),
            ..SGDConfig::default()
        };
        boxed(SGD::new(weights, config))
    }),
    ("sgd_momentum", |weights| {
        let config = SGDConfig {
            momentum: 0.9,
            dampening: 0.2,
            common: Common::with_weight_decay(0.1),
            ..SGDConfig::default()
        };
        boxed(SGD::new(weights, config))
    }),
    ("sgd_nesterov", |weights| {
        let config = SGDConfig {
            momentum: 0.8,
            nesterov: true,
            ..SGDConfig::default()
        };
        boxed(SGD::new(weights, config))
    }),
    ("adam", |weights| {
        let config = AdamConfig {
            common: Common::with_weight_decay(0.1),
            ..AdamConfig::default()
        };
        boxed(Adam::new(weights, config))
    }),
    ("adamw", |weights| {
        let config = AdamWConfig {
            betas: [0.8, 0.95],
            ..AdamWConfig::default()
        };
        boxed(AdamW::new(weights, config))
    }),
    ("adamw_groups", |weights| {
        let config = AdamWConfig {
            common: Common {
                weight_decay: 0.2,
                groups: groups(weights)?,
                ..Common::default()
            },
            ..AdamWConfig::default()
        };
        boxed(AdamW::new(weights, config))
    }),
    ("adamw_norm", |weights| {
        let config = AdamWConfig {
            common: Common {
                clip_norm: Some(2.0),
                ..AdamWConfig::default().common
            },
            ..AdamWConfig::default()
        };
        boxed(AdamW::new(weights, config))
    }),
    ("sgd_value", |weights| {
        let config = SGDConfig {
            common: Common {
                clip_value: Some(0.5),
                ..Common::default()
            },
            ..SGDConfig::default()
        };
        boxed(SGD::new(weights, config))
    }),
    ("adagrad", |weights| {
        let config = AdagradConfig {
            lr_decay: 0.1,
            initial_accumulator_value: 0.2,
            common: Common::with_weight_decay(0.1),
            ..AdagradConfig::default()
        };
        boxed(Adagrad::new(weights, config))
    }),
    ("rmsprop", |weights| {
        let config = RMSpropConfig {
            common: Common::with_weight_decay(0.1),
            ..RMSpropConfig::default()
        };
        boxed(RMSprop::new(weights, config))
    }),
    ("rmsprop_momentum", |weights| {
        let config = RMSpropConfig {
            alpha: 0.9,
            momentum: 0.9,
            ..RMSpropConfig::default()
        };
        boxed(RMSprop::new(weights, config))
    }),
    ("rmsprop_centered", |weights| {
        let config = RMSpropConfig {
            alpha: 0.9,
            centered: true,
            ..RMSpropConfig::default()
        };
        boxed(RMSprop::new(weights, config))
    }),
    ("rmsprop_both", |weights| {
        let config = RMSpropConfig {
            momentum: 0.5,
            centered: true,
            common: Common {
                weight_decay: 0.3,
                groups: groups(weights)?,
                ..Common::default()
            },
            ..RMSpropConfig::default()
        };
        boxed(RMSprop::new(weights, config))
    }),
    ("lion", |weights| {
        let config = LionConfig {
            common: Common {
                weight_decay: 0.3,
                groups: groups(weights)?,
                ..Common::default()
            },
            ..LionConfig::default()
        };
        boxed(Lion::new(weights, config))
    }),
    ("muon", |weights| {
        let config = MuonConfig {
            adjust: MuonAdjust::MatchRmsAdamw,
            ..MuonConfig::default()
        };
        boxed(Muon::new(weights, config))
    }),
    ("adafactor", |weights| {
        boxed(Adafactor::new(weights, AdafactorConfig::default()))
    }),
    ("adafactor_groups", |weights| {
        let config = AdafactorConfig {
            beta2_decay: -0.5,
            eps: [1e-3, 0.05],
            d: 1.5,
            common: Common {
                weight_decay: 0.3,
                clip_norm: Some(2.0),
                groups: groups(weights)?,
                ..Common::default()
            },
        };
        boxed(Adafactor::new(weights, config))
    }),
];

/// Takes all steps; with `resumed`, through a saved state after the third.
fn train(
    device: &Device,
    fixture: &BTreeMap<String, Vec<f64>>,
    make: Make,
    resumed: bool,
) -> Result<(Weights, Box<dyn Optimizer>), Error> {
    let mut weights = initial_weights(device, fixture)?;
    let mut optimizer = make(&weights)?;
    for step in 0..STEPS {
        if resumed && step == 3 {
            let (state, values) = (optimizer.state(&weights)?, weights.to_safetensors()?);
            weights = initial_weights(device, fixture)?;
            weights.load_safetensors(&values)?;
            optimizer = make(&weights)?;
            optimizer.load_state(&weights, &state)?;
        }
        backward(&weights, fixture, step)?;
        optimizer.step(&weights, RATE * DECAY.powi(step as i32))?;
    }
    Ok((weights, optimizer))
}

fn largest_distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let distances = found.iter().zip(expected);
    distances
        .map(|(a, b)| (f64::from(*a) - b).abs())
        .fold(0.0, f64::max)
}

#[test]
fn eight_steps_follow_pytorch_on_every_device() -> Result<(), Error> {
    let fixture = fixture()?;
    for (variant, make) in VARIANTS {
        let tolerance = if variant == "muon" {
            MUON_TOLERANCE
        } else {
            TOLERANCE
        };
        let mut digests = Vec::new();
        for device in hlx_core::testing::devices() {
            let (weights, optimizer) = train(device, &fixture, make, false)?;
            for (values, (name, _)) in weights.download(weights.values())?.iter().zip(SHAPES) {
                let distance = largest_distance(values, &fixture[&format!("{variant}.{name}")]);
                assert!(distance < tolerance, "{variant} {name}: {distance:e}");
            }
            let state = optimizer.state(&weights)?;
            for tensor in &state.tensors {
                // What PyTorch does not store is zero here: the squares of Muon's matrices.
                let expected = fixture.get(&format!("{variant}.{}", tensor.name));
                let zeros = vec![0.0; tensor.values.len()];
                let distance = largest_distance(&tensor.values, expected.unwrap_or(&zeros));
                assert!(
                    distance < tolerance,
                    "{variant} {}: {distance:e}",
                    tensor.name
                );
            }
            let stored =
                |name: &&String| name.starts_with(&format!("{variant}.")) && name.contains('/');
            let expected = fixture.keys().filter(stored).count();
            let extra = if variant == "muon" { 2 } else { 0 };
            assert_eq!(state.tensors.len(), expected + extra, "{variant}'s state");
            digests.push((weights.digest()?, state.digest()));
        }
        assert!(
            digests.iter().all(|found| *found == digests[0]),
            "{variant}"
        );
    }
    Ok(())
}

#[test]
fn muon_is_near_pytorchs_own_iteration_in_bfloat16() -> Result<(), Error> {
    let (fixture, device) = (fixture()?, hlx_core::testing::cpu()?);
    let (_, make) = VARIANTS[14];
    let (weights, _) = train(&device, &fixture, make, false)?;
    for (values, (name, _)) in weights.download(weights.values())?.iter().zip(SHAPES) {
        let distance = largest_distance(values, &fixture[&format!("muon_bfloat16.{name}")]);
        assert!(distance < BFLOAT16_TOLERANCE, "{name}: {distance:e}");
    }
    Ok(())
}

#[test]
fn a_resumed_optimizer_has_the_bits_of_one_that_never_stopped() -> Result<(), Error> {
    let (fixture, device) = (fixture()?, hlx_core::testing::cpu()?);
    for (variant, make) in VARIANTS {
        let (whole, optimizer) = train(&device, &fixture, make, false)?;
        let (resumed, second) = train(&device, &fixture, make, true)?;
        assert_eq!(resumed.digest()?, whole.digest()?, "{variant}");
        assert_eq!(
            second.digest(&resumed)?,
            optimizer.digest(&whole)?,
            "{variant}"
        );
        assert_eq!(second.step_count(), STEPS as u64);
    }
    Ok(())
}

#[test]
fn a_recorded_update_of_groups_and_matrices_is_the_update_itself() -> Result<(), Error> {
    let fixture = fixture()?;
    for device in hlx_core::testing::own_devices() {
        for (variant, make) in [VARIANTS[5], VARIANTS[14]] {
            let (whole, _) = train(&device, &fixture, make, false)?;
            let weights = initial_weights(&device, &fixture)?;
            let mut optimizer = make(&weights)?;
            backward(&weights, &fixture, 0)?;
            let (graph, ()) = device.record(|| optimizer.update(&weights))?;
            for step in 0..STEPS {
                backward(&weights, &fixture, step)?;
                optimizer.prepare(RATE * DECAY.powi(step as i32))?;
                graph.replay()?;
            }
            assert_eq!(weights.digest()?, whole.digest()?, "{variant}");
        }
    }
    Ok(())
}

#[test]
fn gradients_are_clipped_in_place_as_pytorch_does() -> Result<(), Error> {
    let fixture = fixture()?;
    for device in hlx_core::testing::devices() {
        let weights = initial_weights(device, &fixture)?;
        let gradients = SHAPES.map(|(name, _)| &fixture[&format!("gradient.0.{name}")]);
        let squares = gradients
            .iter()
            .flat_map(|values| values.iter())
            .map(|g| g * g);
        let norm = squares.sum::<f64>().sqrt();
        for (max_norm, factor) in [(2.0, 2.0 / (norm + 1e-6)), (1e3, 1.0)] {
            backward(&weights, &fixture, 0)?;
            let found = device.download::<f32>(&clip_grad_norm_(&weights, max_norm)?)?[0];
            assert!(
                (f64::from(found) - norm).abs() < 1e-5 * norm,
                "{found} {norm}"
            );
            for (found, expected) in weights
                .download(weights.gradients()?)?
                .iter()
                .zip(gradients)
            {
                let expected: Vec<f64> = expected.iter().map(|g| g * factor).collect();
                assert!(largest_distance(found, &expected) < 1e-6);
            }
        }
        backward(&weights, &fixture, 0)?;
        clip_grad_value_(&weights, 0.5)?;
        for (found, expected) in weights
            .download(weights.gradients()?)?
            .iter()
            .zip(gradients)
        {
            let expected: Vec<f64> = expected.iter().map(|g| g.clamp(-0.5, 0.5)).collect();
            assert_eq!(largest_distance(found, &expected), 0.0);
        }
    }
    Ok(())
}

#[test]
fn limits_and_groups_that_cannot_be_are_refused() -> Result<(), Error> {
    let weights = initial_weights(&hlx_core::testing::cpu()?, &fixture()?)?;
    let refused = |config: AdamWConfig| {
        AdamW::new(&weights, config)
            .expect_err("refused")
            .to_string()
    };
    let all = ParameterGroup::new(weights.all());
    let group = |group: ParameterGroup| AdamWConfig {
        common: Common {
            groups: vec![all.clone(), group],
            ..AdamWConfig::default().common
        },
        ..AdamWConfig::default()
    };
    assert_eq!(
        refused(group(all.clone().with_lr_factor(-1.0))),
        "optimizer: group 1: lr_factor is -1, expected at least 0 and finite"
    );
    assert_eq!(
        refused(group(ParameterGroup::new(weights.select(|_| false)))),
        "optimizer: group 1: its parameters are [], expected some of 4"
    );
    let config = AdamWConfig {
        common: Common {
            clip_value: Some(0.0),
            ..AdamWConfig::default().common
        },
        ..AdamWConfig::default()
    };
    assert_eq!(
        refused(config),
        "optimizer: clip_value is 0, expected more than 0"
    );
    let config = AdamWConfig {
        betas: [0.9, 1.0],
        ..AdamWConfig::default()
    };
    assert_eq!(
        refused(config),
        "optimizer: betas is 1, expected at least 0 and below 1"
    );
    let nesterov = SGDConfig {
        nesterov: true,
        ..SGDConfig::default()
    };
    assert_eq!(
        SGD::new(&weights, nesterov)
            .expect_err("refused")
            .to_string(),
        "optimizer: nesterov with momentum 0 and dampening 0, expected a momentum and no dampening"
    );
    let error = clip_grad_norm_(&weights, f32::NAN)
        .expect_err("refused")
        .to_string();
    assert_eq!(
        error,
        "optimizer: clip_grad_norm_: the limit is NaN, expected more than 0"
    );
    Ok(())
}
