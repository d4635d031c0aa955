//! The optimizers against their formulas in f64, their states, and a network that learns.

use hlx_autograd::{Activation, Tensor};
use hlx_core::Context;
use hlx_nn::{
    Adam, AdamConfig, AdamW, AdamWConfig, Init, Mlp, Optimizer, ParameterBuilder, ParameterStore,
    Result, Sgd, SgdConfig, mse,
};

const N: usize = 70;
const RATE: f64 = 0.05;
const CLIP: f64 = 3.0;
const DECAY: f64 = 0.1;
/// Against f64, after twenty steps of f32 on values of about 1.
const TOLERANCE: f64 = 2e-5;

fn store(ctx: &Context) -> Result<ParameterStore> {
    let mut builder = ParameterBuilder::new();
    builder.add("w", &[N], Init::Normal { std: 1.0 });
    builder.build(ctx, 5)
}

/// Steps on L = sum of w² (w + c) with c uneven, so that gradients change with w; returns the
/// gradient at w.
fn gradient(w: f64, i: usize) -> f64 {
    w * (2.0 * offset(i))
}

fn offset(i: usize) -> f64 {
    (i % 7) as f64 * 0.25 - 0.5
}

fn backward(store: &ParameterStore) -> Result<()> {
    let w = store.parameters()[0].tensor()?;
    let c: Vec<f32> = (0..N).map(|i| offset(i) as f32).collect();
    let c = Tensor::from_slice(store.context(), &c, &[N])?;
    store.zero_grad()?;
    Ok(w.mul(w)?.mul(&c)?.sum()?.backward()?)
}

/// Runs twenty steps beside a reference whose rule updates (w, state, state) with the clipped
/// gradient of step n.
fn follow<O: Optimizer>(
    store: &ParameterStore,
    mut optimizer: O,
    rule: impl Fn(&mut [f64; 3], f64, i32),
) -> Result<()> {
    let start = store.parameters()[0].tensor()?.to_vec()?;
    let mut reference: Vec<[f64; 3]> = start.iter().map(|&w| [f64::from(w), 0.0, 0.0]).collect();
    for n in 1..=20 {
        backward(store)?;
        optimizer.step(store, RATE)?;
        let gradients: Vec<f64> = (0..N).map(|i| gradient(reference[i][0], i)).collect();
        let norm = gradients.iter().map(|g| g * g).sum::<f64>().sqrt();
        let measured = store.context().download_f32(optimizer.gradient_norm())?[0];
        assert!(
            (f64::from(measured) - norm).abs() < 1e-4 * norm,
            "{measured} {norm}"
        );
        let factor = (CLIP / (norm + 1e-6)).min(1.0);
        for (values, gradient) in reference.iter_mut().zip(gradients) {
            rule(values, gradient * factor, n);
        }
    }
    let found = store.parameters()[0].tensor()?.to_vec()?;
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
    let store = store(&hlx_core::testing::cpu()?)?;
    let config = AdamWConfig {
        weight_decay: DECAY,
        clip_norm: Some(CLIP as f32),
        ..AdamWConfig::default()
    };
    let optimizer = AdamW::new(&store, config)?;
    follow(&store, optimizer, |values, gradient, n| {
        values[0] *= 1.0 - RATE * DECAY;
        adam_rule(values, gradient, n);
    })
}

#[test]
fn adam_follows_its_formula() -> Result<()> {
    let store = store(&hlx_core::testing::cpu()?)?;
    let config = AdamConfig {
        weight_decay: DECAY,
        clip_norm: Some(CLIP as f32),
        ..AdamConfig::default()
    };
    let optimizer = Adam::new(&store, config)?;
    follow(&store, optimizer, |values, gradient, n| {
        let penalised = gradient + DECAY * values[0];
        adam_rule(values, penalised, n);
    })
}

#[test]
fn sgd_follows_its_formula_with_momentum_and_without() -> Result<()> {
    for momentum in [0.0, 0.9] {
        let store = store(&hlx_core::testing::cpu()?)?;
        let config = SgdConfig {
            momentum,
            weight_decay: DECAY,
            clip_norm: Some(CLIP as f32),
        };
        let optimizer = Sgd::new(&store, config)?;
        follow(&store, optimizer, |[w, velocity, _], gradient, _| {
            *velocity = momentum * *velocity + gradient + DECAY * *w;
            *w -= RATE * *velocity;
        })?;
    }
    Ok(())
}

#[test]
fn a_state_goes_on_where_it_was_saved() -> Result<()> {
    let ctx = hlx_core::testing::cpu()?;
    let whole = store(&ctx)?;
    let mut optimizer = AdamW::new(&whole, AdamWConfig::default())?;
    for _ in 0..3 {
        backward(&whole)?;
        optimizer.step(&whole, RATE)?;
    }
    let (saved, values) = (optimizer.state(&whole)?, whole.to_safetensors()?);
    backward(&whole)?;
    optimizer.step(&whole, RATE)?;

    let resumed = store(&ctx)?;
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
    let store = store(&hlx_core::testing::cpu()?)?;
    let mut adam = Adam::new(&store, AdamConfig::default())?;
    let mut state = AdamW::new(&store, AdamWConfig::default())?.state(&store)?;
    let error = adam.load_state(&store, &state).expect_err("of AdamW");
    assert_eq!(
        error.to_string(),
        "optimizer state: it is of adamw, expected adam"
    );
    state.optimizer = "adam".to_owned();
    state.tensors[1].shape = vec![2, 35];
    let error = adam.load_state(&store, &state).expect_err("another shape");
    let expected = "optimizer state: square/w has shape [2, 35], expected [70]";
    assert_eq!(error.to_string(), expected);
    state.tensors.pop();
    let error = adam.load_state(&store, &state).expect_err("missing");
    assert_eq!(error.to_string(), "optimizer state: square/w is missing");
    Ok(())
}

#[test]
fn a_parameter_without_a_gradient_is_an_error() -> Result<()> {
    let store = store(&hlx_core::testing::cpu()?)?;
    let mut optimizer = Sgd::new(&store, SgdConfig::default())?;
    let error = optimizer.step(&store, RATE).expect_err("no gradient");
    assert_eq!(
        error.to_string(),
        "optimizer step: parameter w has no gradient"
    );
    assert_eq!(optimizer.step_count(), 0, "a refused step is not counted");
    Ok(())
}

#[test]
fn a_perceptron_learns_exclusive_or() -> Result<()> {
    let ctx = hlx_core::testing::cpu()?;
    let network = Mlp::new(&ctx, &[2, 16, 1], Activation::Tanh, 1)?;
    let mut optimizer = Adam::new(network.store(), AdamConfig::default())?;
    let x = Tensor::from_slice(&ctx, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2])?;
    let y = Tensor::from_slice(&ctx, &[0.0, 1.0, 1.0, 0.0], &[4, 1])?;
    for _ in 0..300 {
        network.store().zero_grad()?;
        mse(&network.forward(&x)?, &y)?.backward()?;
        optimizer.step(network.store(), 0.02)?;
    }
    let loss = mse(&network.forward(&x)?, &y)?.to_vec()?[0];
    assert!(loss < 1e-3, "the loss is {loss} after 300 steps");
    Ok(())
}

#[test]
fn an_epsilon_that_flushes_to_zero_is_refused() {
    let ctx = hlx_core::testing::cpu().expect("the CPU device opens");
    let mut builder = ParameterBuilder::new();
    builder.add("w", &[3], Init::Zeros);
    let store = builder.build(&ctx, 0).expect("builds");
    let adam = |eps| {
        let config = AdamConfig {
            eps,
            ..AdamConfig::default()
        };
        Adam::new(&store, config).map(|_| ())
    };
    let adamw = |eps| {
        let config = AdamWConfig {
            eps,
            ..AdamWConfig::default()
        };
        AdamW::new(&store, config).map(|_| ())
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
