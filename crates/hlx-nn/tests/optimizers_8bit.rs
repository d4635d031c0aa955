//! AdamW with moments in 8 bits over a model's weights: its state, groups, frozen parameters, and how it learns.

use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{
    AdamW, AdamW8bit, AdamWConfig, Common, Init, Optimizer, ParameterBuilder, ParameterGroup,
    Result, StateDigester, Weights,
};

/// One parameter of bytes, one of floats.
const SHAPES: [(&str, &[usize]); 3] = [("bias", &[33]), ("matrix", &[70, 71]), ("last", &[64, 64])];

fn weights(device: &Device) -> Result<Weights> {
    let mut builder = ParameterBuilder::new();
    for (name, shape) in SHAPES {
        builder.parameter(name, shape, Init::Normal { std: 1.0 });
    }
    builder.build(device, 5)
}

/// The gradient of the sum of `c w^2 / 2`, c from 0.5 to 2: the weights fall to zero.
fn backward(weights: &Weights) -> Result<()> {
    weights.zero_grad()?;
    for parameter in weights
        .parameters()
        .iter()
        .filter(|one| one.requires_grad())
    {
        let w = parameter.tensor()?;
        let c: Vec<f32> = (0..parameter.n_elements())
            .map(|i| 0.25 + (i % 4) as f32 * 0.25)
            .collect();
        let c = Tensor::from_slice(weights.device(), &c, w.shape())?;
        w.mul(&w)?.mul(&c)?.sum()?.backward()?;
    }
    Ok(())
}

fn steps(weights: &Weights, optimizer: &mut dyn Optimizer, n: usize) -> Result<()> {
    for _ in 0..n {
        backward(weights)?;
        optimizer.step(weights, 0.02)?;
    }
    Ok(())
}

fn decayed() -> AdamWConfig {
    AdamWConfig {
        common: Common {
            clip_norm: Some(5.0),
            ..Common::with_weight_decay(0.1)
        },
        ..AdamWConfig::default()
    }
}

#[test]
fn a_state_goes_on_where_it_was_saved_as_bytes_and_as_floats() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let whole = weights(&device)?;
        let mut optimizer = AdamW8bit::new(&whole, decayed())?;
        steps(&whole, &mut optimizer, 3)?;
        let states = [optimizer.state(&whole)?, optimizer.float_state(&whole)?];
        let values = whole.to_safetensors()?;
        let words = 4970 / 256 * 65 + 1 + (4970_usize % 256).div_ceil(4);
        let shapes = states
            .each_ref()
            .map(|state| state.tensors[2].shape.clone());
        assert_eq!(shapes, [vec![words], vec![70, 71]]);
        let before = StateDigester::new(&whole, &optimizer)?.digest(&whole, &optimizer)?;
        steps(&whole, &mut optimizer, 1)?;
        for state in &states {
            let resumed = weights(&device)?;
            resumed.load_safetensors(&values)?;
            let mut second = AdamW8bit::new(&resumed, decayed())?;
            second.load_state(&resumed, state)?;
            let digester = StateDigester::new(&resumed, &second)?;
            assert_eq!(digester.digest(&resumed, &second)?, before);
            assert_eq!(second.digest(&resumed)?, states[0].digest());
            steps(&resumed, &mut second, 1)?;
            assert_eq!(resumed.digest()?, whole.digest()?);
            assert_eq!(second.digest(&resumed)?, optimizer.digest(&whole)?);
        }
    }
    Ok(())
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_writes_nothing() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let whole = weights(&device)?;
    let mut optimizer = AdamW8bit::new(&whole, decayed())?;
    steps(&whole, &mut optimizer, 2)?;
    let (good, digest) = (optimizer.state(&whole)?, optimizer.digest(&whole)?);
    let mut of_adamw = AdamW::new(&whole, decayed())?.state(&whole)?;
    let mut refused = |state: &hlx_nn::OptimizerState| {
        let error = optimizer.load_state(&whole, state).expect_err("refused");
        assert_eq!(optimizer.digest(&whole).expect("digests"), digest);
        error.to_string()
    };
    let text = refused(&of_adamw);
    assert!(
        text.contains("it is of adamw, expected adamw8bit"),
        "{text}"
    );
    let mut short = good.clone();
    let values = &mut short.tensors[2].values;
    values.pop();
    let text = refused(&short);
    assert!(text.contains("mean/matrix has shape"), "{text}");
    // Floats of AdamW fit once they are named so.
    of_adamw.optimizer = "adamw8bit".to_owned();
    optimizer.load_state(&whole, &of_adamw)?;
    assert_ne!(optimizer.digest(&whole)?, digest);
    Ok(())
}

/// A frozen parameter has no state and stays; a group of bytes has numbers of its own.
#[test]
fn groups_and_frozen_parameters_are_those_of_adamw() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let run = |is_8bit: bool| -> Result<_> {
        let model = weights(&device)?;
        let before = model.download(model.values())?;
        model.requires_grad_(&model.matching("last")?, false);
        let group = ParameterGroup::new(model.matching("matrix")?).with_lr_factor(0.5);
        let mut config = decayed();
        config.common.groups = vec![group.with_weight_decay(0.0)];
        let mut optimizer: Box<dyn Optimizer> = match is_8bit {
            true => Box::new(AdamW8bit::new(&model, config)?),
            false => Box::new(AdamW::new(&model, config)?),
        };
        steps(&model, optimizer.as_mut(), 1)?;
        let names = optimizer
            .state(&model)?
            .tensors
            .into_iter()
            .map(|one| one.name);
        let names: Vec<_> = names.collect();
        let after = model.download(model.values())?;
        assert_eq!(before[2], after[2]);
        assert_ne!(before[1], after[1]);
        Ok((after, names))
    };
    // The first step reads no byte.
    let (after, names) = run(true)?;
    assert_eq!(after, run(false)?.0);
    assert_eq!(
        names,
        ["mean/bias", "mean/matrix", "square/bias", "square/matrix"]
    );
    Ok(())
}

/// A quadratic falls as with AdamW, to within a few percent.
#[test]
fn a_sum_of_squares_falls_as_with_adamw() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let run = |is_8bit: bool| -> Result<f64> {
        let model = weights(&device)?;
        let mut optimizer: Box<dyn Optimizer> = match is_8bit {
            true => Box::new(AdamW8bit::new(&model, AdamWConfig::default())?),
            false => Box::new(AdamW::new(&model, AdamWConfig::default())?),
        };
        steps(&model, optimizer.as_mut(), 40)?;
        let values = model.download(model.values())?.concat();
        Ok(values.iter().map(|w| f64::from(*w).powi(2)).sum())
    };
    let (bytes, floats) = (run(true)?, run(false)?);
    assert!((bytes / floats - 1.0).abs() < 0.03, "{bytes} {floats}");
    Ok(())
}
