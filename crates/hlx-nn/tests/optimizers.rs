//! The optimizers against their formulas in f64, their states, and a network that learns.

use hlx_autograd::{Activation, Tensor};
use hlx_core::Device;
use hlx_nn::{
    Adam, AdamConfig, AdamW, AdamWConfig, Common, Init, LossReduction, MLP, Mode, Model, Module,
    Muon, MuonConfig, Optimizer, ParameterBuilder, Result, SGD, SGDConfig, Weights,
};

const N: usize = 70;
const RATE: f64 = 0.05;
const CLIP: f64 = 3.0;
const DECAY: f64 = 0.1;
/// Against f64, after twenty steps of f32 on values of about 1.
const TOLERANCE: f64 = 2e-5;

fn weights(device: &Device) -> Result<Weights> {
    let mut builder = ParameterBuilder::new();
    builder.parameter("w", &[N], Init::Normal { std: 1.0 });
    builder.build(device, 5)
}

/// Steps on L = sum of w² (w + c) with c uneven, so that gradients change with w; returns the
/// gradient at w.
fn gradient(w: f64, i: usize) -> f64 {
    w * (2.0 * offset(i))
}

fn offset(i: usize) -> f64 {
    (i % 7) as f64 * 0.25 - 0.5
}

fn backward(weights: &Weights) -> Result<()> {
    let w = weights.parameters()[0].tensor()?;
    let c: Vec<f32> = (0..N).map(|i| offset(i) as f32).collect();
    let c = Tensor::from_slice(weights.device(), &c, &[N])?;
    weights.zero_grad()?;
    Ok(w.mul(&w)?.mul(&c)?.sum()?.backward()?)
}

/// Runs twenty steps beside a reference whose rule updates (w, state, state) with the clipped
/// gradient of step n.
fn follow<O: Optimizer>(
    weights: &Weights,
    mut optimizer: O,
    rule: impl Fn(&mut [f64; 3], f64, i32),
) -> Result<()> {
    let start = weights.parameters()[0].tensor()?.to_vec::<f32>()?;
    let mut reference: Vec<[f64; 3]> = start.iter().map(|&w| [f64::from(w), 0.0, 0.0]).collect();
    for n in 1..=20 {
        backward(weights)?;
        optimizer.step(weights, RATE)?;
        let gradients: Vec<f64> = (0..N).map(|i| gradient(reference[i][0], i)).collect();
        let norm = gradients.iter().map(|g| g * g).sum::<f64>().sqrt();
        let measured = weights
            .device()
            .download::<f32>(optimizer.gradient_norm())?[0];
        assert!(
            (f64::from(measured) - norm).abs() < 1e-4 * norm,
            "{measured} {norm}"
        );
        let factor = (CLIP / (norm + 1e-6)).min(1.0);
        for (values, gradient) in reference.iter_mut().zip(gradients) {
            rule(values, gradient * factor, n);
        }
    }
    let found = weights.parameters()[0].tensor()?.to_vec::<f32>()?;
    for (i, (found, [expected, ..])) in found.iter().zip(&reference).enumerate() {
        let distance = (f64::from(*found) - expected).abs();
        assert!(
            distance < TOLERANCE,
            "element {i}: {found}, expected {expected}"
        );
    }
    assert_eq!(optimizer.step_count(), 20);
    Ok(())
}

fn adam_rule(values: &mut [f64; 3], gradient: f64, n: i32) {
    let [w, m, v] = values;
    *m = 0.9 * *m + 0.1 * gradient;
    *v = 0.999 * *v + 0.001 * gradient * gradient;
    let root = (*v / (1.0 - 0.999_f64.powi(n))).sqrt() + 1e-8;
    *w -= RATE * *m / (1.0 - 0.9_f64.powi(n)) / root;
}

#[test]
fn adamw_follows_its_formula() -> Result<()> {
    let weights = weights(&hlx_core::testing::cpu()?)?;
    let config = AdamWConfig {
        common: Common {
            weight_decay: DECAY,
            clip_norm: Some(CLIP as f32),
            ..Common::default()
        },
        ..AdamWConfig::default()
    };
    let optimizer = AdamW::new(&weights, config)?;
    follow(&weights, optimizer, |values, gradient, n| {
        values[0] *= 1.0 - RATE * DECAY;
        adam_rule(values, gradient, n);
    })
}

#[test]
fn adam_follows_its_formula() -> Result<()> {
    let weights = weights(&hlx_core::testing::cpu()?)?;
    let config = AdamConfig {
        common: Common {
            weight_decay: DECAY,
            clip_norm: Some(CLIP as f32),
            ..Common::default()
        },
        ..AdamConfig::default()
    };
    let optimizer = Adam::new(&weights, config)?;
    follow(&weights, optimizer, |values, gradient, n| {
        let penalised = gradient + DECAY * values[0];
        adam_rule(values, penalised, n);
    })
}

#[test]
fn sgd_follows_its_formula_with_momentum_and_without() -> Result<()> {
    for momentum in [0.0, 0.9] {
        let weights = weights(&hlx_core::testing::cpu()?)?;
        let config = SGDConfig {
            momentum,
            common: Common {
                weight_decay: DECAY,
                clip_norm: Some(CLIP as f32),
                ..Common::default()
            },
            ..SGDConfig::default()
        };
        let optimizer = SGD::new(&weights, config)?;
        follow(&weights, optimizer, |[w, velocity, _], gradient, _| {
            *velocity = momentum * *velocity + gradient + DECAY * *w;
            *w -= RATE * *velocity;
        })?;
    }
    Ok(())
}

#[test]
fn a_state_goes_on_where_it_was_saved() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let whole = weights(&device)?;
    let mut optimizer = AdamW::new(&whole, AdamWConfig::default())?;
    for _ in 0..3 {
        backward(&whole)?;
        optimizer.step(&whole, RATE)?;
    }
    let (saved, values) = (optimizer.state(&whole)?, whole.to_safetensors()?);
    backward(&whole)?;
    optimizer.step(&whole, RATE)?;

    let resumed = weights(&device)?;
    resumed.load_safetensors(&values)?;
    let mut second = AdamW::new(&resumed, AdamWConfig::default())?;
    second.load_state(&resumed, &saved)?;
    backward(&resumed)?;
    second.step(&resumed, RATE)?;
    assert_eq!(resumed.digest()?, whole.digest()?);
    assert_eq!(second.digest(&resumed)?, optimizer.digest(&whole)?);
    assert_ne!(second.digest(&resumed)?, saved.digest());
    Ok(())
}

#[test]
fn a_state_of_another_model_is_refused() -> Result<()> {
    let weights = weights(&hlx_core::testing::cpu()?)?;
    let mut adam = Adam::new(&weights, AdamConfig::default())?;
    let mut state = AdamW::new(&weights, AdamWConfig::default())?.state(&weights)?;
    let error = adam.load_state(&weights, &state).expect_err("of AdamW");
    assert_eq!(
        error.to_string(),
        "optimizer state: it is of adamw, expected adam"
    );
    state.optimizer = "adam".to_owned();
    state.tensors[1].shape = vec![2, 35];
    let error = adam
        .load_state(&weights, &state)
        .expect_err("another shape");
    let expected = "optimizer state: square/w has shape [2, 35], expected [70]";
    assert_eq!(error.to_string(), expected);
    state.tensors.pop();
    let error = adam.load_state(&weights, &state).expect_err("missing");
    assert_eq!(error.to_string(), "optimizer state: square/w is missing");
    Ok(())
}

#[test]
fn a_parameter_without_a_gradient_is_an_error() -> Result<()> {
    let weights = weights(&hlx_core::testing::cpu()?)?;
    let mut optimizer = SGD::new(&weights, SGDConfig::default())?;
    let error = optimizer.step(&weights, RATE).expect_err("no gradient");
    assert_eq!(
        error.to_string(),
        "optimizer step: parameter w has no gradient"
    );
    assert_eq!(optimizer.step_count(), 0, "a refused step is not counted");
    Ok(())
}

#[test]
fn a_perceptron_learns_exclusive_or() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let network = Model::new(&device, 1, |b| MLP::new(b, &[2, 16, 1], Activation::Tanh))?;
    let mut optimizer = Adam::new(network.weights(), AdamConfig::default())?;
    let x = Tensor::from_slice(&device, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2])?;
    let y = Tensor::from_slice(&device, &[0.0, 1.0, 1.0, 0.0], &[4, 1])?;
    for _ in 0..300 {
        network.weights().zero_grad()?;
        network
            .forward(&x, &Mode::eval())?
            .mse_loss(&y, LossReduction::Mean)?
            .backward()?;
        optimizer.step(network.weights(), 0.02)?;
    }
    let loss = network
        .forward(&x, &Mode::eval())?
        .mse_loss(&y, LossReduction::Mean)?
        .to_vec::<f32>()?[0];
    assert!(loss < 1e-3, "the loss is {loss} after 300 steps");
    Ok(())
}

#[test]
fn an_epsilon_that_flushes_to_zero_is_refused() {
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let mut builder = ParameterBuilder::new();
    builder.parameter("w", &[3], Init::Zeros);
    let weights = builder.build(&device, 0).expect("builds");
    let adam = |eps| {
        let config = AdamConfig {
            eps,
            ..AdamConfig::default()
        };
        Adam::new(&weights, config).map(|_| ())
    };
    let adamw = |eps| {
        let config = AdamWConfig {
            eps,
            ..AdamWConfig::default()
        };
        AdamW::new(&weights, config).map(|_| ())
    };
    for eps in [0.0, 1e-40, -1e-8, 1e-60, f64::NAN, f64::INFINITY, 1e39] {
        for made in [adam(eps), adamw(eps)] {
            let line = made.expect_err("refused").to_string();
            assert!(line.contains("eps is") && line.contains("2^-126"), "{line}");
        }
    }
    for eps in [1.2e-38, 1e-8] {
        adam(eps).and(adamw(eps)).expect("is enough");
    }
}

/// A backward pass of a forward pass from before a step would mix values of both.
#[test]
fn a_step_between_forward_and_backward_went_unseen() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let weights = weights(&device)?;
        let mut optimizers: [Box<dyn Optimizer>; 2] = [
            Box::new(SGD::new(&weights, SGDConfig::default())?),
            Box::new(Muon::new(&weights, MuonConfig::default())?),
        ];
        let w = weights.parameters()[0].tensor()?;
        let saving = || w.mul(&w)?.sum();
        let refused = |y: Tensor| y.backward().expect_err("w has changed").to_string();
        let expected = "was changed in place";
        for optimizer in &mut optimizers {
            backward(&weights)?;
            let y = saving()?;
            optimizer.step(&weights, RATE)?;
            let line = refused(y);
            assert!(line.contains(expected), "{}: {line}", optimizer.name());
            // The recorded update, at each replay.
            let (graph, ()) = device.record(|| optimizer.update(&weights))?;
            for _ in 0..2 {
                let y = saving()?;
                optimizer.prepare(RATE)?;
                graph.replay()?;
                assert!(refused(y).contains(expected), "{}", optimizer.name());
            }
            saving()?.backward()?;
        }
    }
    Ok(())
}
