//! Every layer and loss against PyTorch: outputs, gradients, running values after three steps, and a
//! `state_dict` as PyTorch saves it.
//!
//! The reference is `fixtures/layers.safetensors`, made by `fixtures/make_layers.py`; PyTorch is not
//! needed here.

use std::collections::HashMap;

use hlx_autograd::{
    Activation, AvgDivisor, BackwardPlan, ConvOptions, CrossEntropyOptions, IGNORE_INDEX,
    LossReduction, PoolOptions, Tensor, no_grad,
};
use hlx_core::Device;
use hlx_nn::{
    AdaptiveAvgPool2d, AvgPool2d, BatchNorm1d, BatchNorm2d, BatchNormConfig, Conv1d, Conv2d,
    ConvTranspose2d, ELU, Embedding, Flatten, GroupNorm, Hardswish, Init, LayerNorm, LeakyReLU,
    Linear, LogSoftmax, MaxPool2d, Mish, Mode, Model, Module, ParameterBuilder, RMSNorm,
    Sequential, Softmax,
};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Tolerance of a value, as a part of the largest of its tensor, against f64.
const TOLERANCE: f64 = 1e-5;

type Error = Box<dyn std::error::Error>;

fn path(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The fixture's bytes, and its values as f64 (integers too) with their shapes.
struct Fixture {
    bytes: Vec<u8>,
    values: HashMap<String, (Vec<usize>, Vec<f64>)>,
}

impl Fixture {
    fn read() -> Result<Self, Error> {
        let bytes = std::fs::read(path("layers.safetensors"))?;
        let mut values = HashMap::new();
        for (name, view) in SafeTensors::deserialize(&bytes)?.tensors() {
            values.insert(name, (view.shape().to_vec(), numbers(&view)?));
        }
        Ok(Self { bytes, values })
    }

    fn get(&self, name: &str) -> Result<&(Vec<usize>, Vec<f64>), Error> {
        let value = self.values.get(name);
        Ok(value.ok_or_else(|| format!("{name} is not in the fixture"))?)
    }

    /// A tensor of f32, or of ids where the fixture has integers; 9 is the ignored target there.
    fn tensor(&self, device: &Device, name: &str) -> Result<Tensor, Error> {
        let (shape, values) = self.get(name)?;
        let file = SafeTensors::deserialize(&self.bytes)?;
        if file.tensor(name)?.dtype() == Dtype::I32 {
            let ids: Vec<u32> = values.iter().map(|value| *value as u32).collect();
            return Ok(Tensor::from_slice::<u32>(device, &ids, shape)?);
        }
        let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        Ok(Tensor::from_slice(device, &values, shape)?)
    }

    /// The tensors below a prefix as a safetensors file of their own.
    fn file(&self, prefix: &str) -> Result<Vec<u8>, Error> {
        let file = SafeTensors::deserialize(&self.bytes)?;
        let below = |(name, view): (String, TensorView<'_>)| {
            let name = name.strip_prefix(prefix)?.to_owned();
            Some((
                name,
                view.dtype(),
                view.shape().to_vec(),
                view.data().to_vec(),
            ))
        };
        let tensors: Vec<_> = file.tensors().into_iter().filter_map(below).collect();
        let views = tensors.iter().map(|(name, dtype, shape, data)| {
            Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), data)?))
        });
        let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        Ok(safetensors::serialize(views, None)?)
    }

    /// Compares with the value of a name, to a part of the largest.
    fn compare(&self, name: &str, found: &Tensor) -> Result<(), Error> {
        let (shape, expected) = self.get(name)?;
        assert_eq!(found.shape(), shape, "{name}");
        let found: Vec<f64> = match found.dtype() {
            hlx_autograd::DType::U32 => found.to_vec::<u32>()?.into_iter().map(f64::from).collect(),
            _ => found.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        };
        let largest = expected
            .iter()
            .fold(0.0_f64, |top, value| top.max(value.abs()));
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let distance = (found - expected).abs();
            assert!(
                distance <= TOLERANCE * largest,
                "{name}[{at}] is {found}, PyTorch has {expected}, the largest is {largest}"
            );
        }
        Ok(())
    }
}

fn numbers(view: &TensorView<'_>) -> Result<Vec<f64>, Error> {
    let (fours, eights) = (
        view.data().as_chunks::<4>().0,
        view.data().as_chunks::<8>().0,
    );
    Ok(match view.dtype() {
        Dtype::F32 => fours
            .iter()
            .map(|&word| f64::from(f32::from_le_bytes(word)))
            .collect(),
        Dtype::I32 => fours
            .iter()
            .map(|&word| f64::from(i32::from_le_bytes(word)))
            .collect(),
        Dtype::F64 => eights
            .iter()
            .map(|&word| f64::from_le_bytes(word))
            .collect(),
        Dtype::I64 => eights
            .iter()
            .map(|&word| i64::from_le_bytes(word) as f64)
            .collect(),
        other => return Err(format!("a tensor of {other:?}").into()),
    })
}

/// Declares a module.
type Make = fn(&mut ParameterBuilder) -> Box<dyn Module>;

fn cnn(b: &mut ParameterBuilder) -> Sequential {
    let padded = ConvOptions {
        padding: [1, 1],
        ..ConvOptions::default()
    };
    Sequential::new(b)
        .add(|b| Conv2d::without_bias(b, 2, 6, [3, 3], padded))
        .add(|b| BatchNorm2d::new(b, 6))
        .add(|_| Activation::ReLU)
        .add(|_| MaxPool2d::new(2))
        .add(|b| Conv2d::new(b, 6, 8, [3, 3], padded))
        .add(|b| GroupNorm::new(b, 2, 8))
        .add(|_| Activation::SiLU)
        .add(|_| AdaptiveAvgPool2d::new([2, 2]))
        .add(|_| Flatten::new())
        .add(|b| Linear::new(b, 32, 5))
}

fn overlapping() -> PoolOptions {
    PoolOptions {
        stride: [2, 2],
        padding: [1, 1],
        ..PoolOptions::square(3)
    }
}

/// The modules of `CASES` in `make_layers.py`.
#[rustfmt::skip] // A line a case where it fits.
const CASES: [(&str, Make); 30] = [
    ("linear", |b| Box::new(Linear::new(b, 6, 4))),
    ("linear_without_bias", |b| Box::new(Linear::with_init(b, 6, 4, Init::Zeros, None))),
    ("conv1d", |b| {
        let options = ConvOptions { stride: [1, 2], padding: [0, 1], groups: 2, ..ConvOptions::default() };
        Box::new(Conv1d::new(b, 4, 6, 3, options))
    }),
    ("conv2d", |b| {
        let options = ConvOptions { stride: [2, 1], padding: [1, 0], dilation: [1, 2], groups: 2, ..ConvOptions::default() };
        Box::new(Conv2d::new(b, 4, 6, [3, 2], options))
    }),
    ("conv2d_without_bias", |b| Box::new(Conv2d::without_bias(b, 3, 5, [3, 3], ConvOptions::default()))),
    ("conv_transpose2d", |b| {
        let options = ConvOptions { stride: [2, 2], padding: [1, 0], groups: 2, ..ConvOptions::default() };
        Box::new(ConvTranspose2d::new(b, 4, 6, [3, 2], options).with_output_padding([1, 0]))
    }),
    ("max_pool2d", |_| Box::new(MaxPool2d { options: overlapping() })),
    ("avg_pool2d", |_| Box::new(AvgPool2d { options: overlapping(), divisor: AvgDivisor::Inside })),
    ("adaptive_avg_pool2d", |_| Box::new(AdaptiveAvgPool2d::new([3, 2]))),
    ("batch_norm1d", |b| Box::new(BatchNorm1d::new(b, 5))),
    ("batch_norm1d_signal", |b| {
        let config = BatchNormConfig { eps: 1e-3, momentum: Some(0.3), ..BatchNormConfig::default() };
        Box::new(BatchNorm1d::with_config(b, 5, config))
    }),
    ("batch_norm2d", |b| Box::new(BatchNorm2d::new(b, 4))),
    ("batch_norm2d_cumulative", |b| {
        let config = BatchNormConfig { momentum: None, ..BatchNormConfig::default() };
        Box::new(BatchNorm2d::with_config(b, 4, config))
    }),
    ("batch_norm2d_plain", |b| {
        let config = BatchNormConfig { affine: false, track_running_stats: false, ..BatchNormConfig::default() };
        Box::new(BatchNorm2d::with_config(b, 4, config))
    }),
    ("group_norm", |b| Box::new(GroupNorm::new(b, 3, 6))),
    ("group_norm_plain", |_| Box::new(GroupNorm::plain(2))),
    ("layer_norm", |b| Box::new(LayerNorm::new(b, 7))),
    ("layer_norm_without_bias", |b| Box::new(LayerNorm::without_bias(b, &[4, 7]))),
    ("layer_norm_plain", |_| Box::new(LayerNorm::plain(&[7]).with_eps(1e-2))),
    ("rms_norm", |b| Box::new(RMSNorm::new(b, &[7]))),
    ("rms_norm_of_two", |_| Box::new(RMSNorm::plain(&[4, 7]).with_eps(1e-3))),
    ("embedding", |b| Box::new(Embedding::new(b, 9, 5))),
    ("flatten", |_| Box::new(Flatten::new())),
    ("leaky_relu", |_| Box::new(LeakyReLU { negative_slope: 0.2 })),
    ("elu", |_| Box::new(ELU { alpha: 0.7 })),
    ("hardswish", |_| Box::new(Hardswish)),
    ("mish", |_| Box::new(Mish)),
    ("softmax", |_| Box::new(Softmax { dim: 1 })),
    ("log_softmax", |_| Box::new(LogSoftmax { dim: 1 })),
    ("cnn", |b| Box::new(cnn(b))),
];

#[test]
fn layers_agree_with_pytorch() -> Result<(), Error> {
    let fixture = Fixture::read()?;
    for device in hlx_core::testing::own_devices() {
        for (name, make) in CASES {
            layer_agrees(&fixture, &device, name, make)
                .map_err(|error| format!("{name} on {}: {error}", device.info()))?;
        }
    }
    Ok(())
}

fn layer_agrees(fixture: &Fixture, device: &Device, name: &str, make: Make) -> Result<(), Error> {
    let model = Model::zeroed(device, |b| Ok(make(b)))?;
    model
        .weights()
        .load_safetensors(&fixture.file(&format!("{name}.state."))?)?;
    let mode = Mode::train(device, 1)?;
    let x = fixture
        .tensor(device, &format!("{name}.input"))?
        .with_samples(0)?;
    let is_value = x.dtype() == hlx_autograd::DType::F32;
    let leaf = if is_value {
        x.with_gradient()
    } else {
        x.clone()
    };
    let y = model.forward(&leaf, &mode)?;
    fixture.compare(&format!("{name}.output"), &y)?;
    let upstream = fixture.tensor(device, &format!("{name}.upstream"))?;
    y.backward_from(&upstream, &BackwardPlan::default())?;
    if is_value {
        let dx = leaf.grad().ok_or("the input has no gradient")?;
        fixture.compare(&format!("{name}.dinput"), &dx)?;
    }
    for parameter in model.weights().parameters() {
        let gradient = parameter
            .tensor()?
            .grad()
            .ok_or("a parameter has no gradient")?;
        fixture.compare(&format!("{name}.grad.{}", parameter.name()), &gradient)?;
    }
    let is_changed = |key: &String| key.starts_with(&format!("{name}.after."));
    let changed = fixture.values.keys().filter(|key| is_changed(key)).count();
    assert_eq!(changed, model.weights().buffers().len(), "{name}");
    if changed == 0 {
        return Ok(());
    }
    for factor in [2.0, 3.0] {
        no_grad(|| model.forward(&x.mul(factor)?, &mode))?;
    }
    for buffer in model.weights().buffers() {
        fixture.compare(
            &format!("{name}.after.{}", buffer.name()),
            &buffer.tensor()?,
        )?;
    }
    let y = model.forward(&x, &Mode::eval())?;
    fixture.compare(&format!("{name}.eval"), &y)
}

/// A loss of `losses` in `make_layers.py`, with the class weights.
type Loss = fn(&Tensor, &Tensor, &Tensor, LossReduction) -> hlx_autograd::Result<Tensor>;

fn counted<'a>(
    weight: Option<&'a Tensor>,
    label_smoothing: f32,
    reduction: LossReduction,
) -> CrossEntropyOptions<'a> {
    CrossEntropyOptions {
        weight,
        ignore_index: 9,
        label_smoothing,
        reduction,
    }
}

#[rustfmt::skip] // A line a case where it fits.
const LOSSES: [(&str, Loss); 13] = [
    ("mse", |x, t, _, reduction| x.mse_loss(t, reduction)),
    ("l1", |x, t, _, reduction| x.l1_loss(t, reduction)),
    ("huber", |x, t, _, reduction| x.huber_loss(t, 0.7, reduction)),
    ("smooth_l1", |x, t, _, reduction| x.smooth_l1_loss(t, 0.5, reduction)),
    ("bce", |x, t, _, reduction| x.binary_cross_entropy_with_logits(t, None, None, reduction)),
    ("bce_weighted", |x, t, w, reduction| {
        x.binary_cross_entropy_with_logits(t, Some(w), Some(&w.add(1.0)?), reduction)
    }),
    ("kl_div", |x, t, _, reduction| x.kl_div(t, false, reduction)),
    ("kl_div_log", |x, t, _, reduction| x.kl_div(t, true, reduction)),
    ("nll", |x, t, w, reduction| x.nll_loss(t, &counted(Some(w), 0.0, reduction))),
    ("cross_entropy", |x, t, _, reduction| x.cross_entropy_loss(t, &counted(None, 0.0, reduction))),
    ("cross_entropy_smooth", |x, t, _, reduction| x.cross_entropy_loss(t, &counted(None, 0.2, reduction))),
    ("cross_entropy_weighted", |x, t, w, reduction| x.cross_entropy_loss(t, &counted(Some(w), 0.1, reduction))),
    ("cross_entropy_soft", |x, t, w, reduction| x.cross_entropy_loss(t, &counted(Some(w), 0.1, reduction))),
];

#[test]
fn losses_agree_with_pytorch() -> Result<(), Error> {
    let fixture = Fixture::read()?;
    for device in hlx_core::testing::own_devices() {
        let weight = fixture.tensor(&device, "loss.weight")?;
        for (name, loss) in LOSSES {
            let x = fixture.tensor(&device, &format!("loss.{name}.input"))?;
            let target = fixture.tensor(&device, &format!("loss.{name}.target"))?;
            for (reduction, word) in [
                (LossReduction::None, "none"),
                (LossReduction::Mean, "mean"),
                (LossReduction::Sum, "sum"),
                (LossReduction::BatchMean, "batchmean"),
            ] {
                let key = format!("loss.{name}.{word}");
                if !fixture.values.contains_key(&key) {
                    assert_eq!(word, "batchmean", "{name}");
                    continue;
                }
                let leaf = x.with_gradient();
                let value = loss(&leaf, &target, &weight, reduction)?;
                fixture.compare(&key, &value)?;
                value.sum()?.backward()?;
                let dx = leaf.grad().ok_or("no gradient")?;
                fixture.compare(&format!("{key}.dinput"), &dx)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_state_dict_saved_by_pytorch_loads_and_is_saved_again() -> Result<(), Error> {
    let bytes = std::fs::read(path("cnn_state_dict.safetensors"))?;
    let file = SafeTensors::deserialize(&bytes)?;
    let device = hlx_core::testing::cpu()?;
    let model = Model::zeroed(&device, |b| Ok(cnn(b)))?;
    model.weights().load_safetensors(&bytes)?;
    let mut keys: Vec<String> = file.names().into_iter().map(str::to_owned).collect();
    let mut found = Vec::new();
    for (name, tensor) in model.weights().state_dict()? {
        let view = file.tensor(&name)?;
        let values: Vec<f64> = match tensor.dtype() {
            hlx_autograd::DType::U32 => {
                tensor.to_vec::<u32>()?.into_iter().map(f64::from).collect()
            }
            _ => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        };
        assert_eq!(
            (tensor.shape(), values),
            (view.shape(), numbers(&view)?),
            "{name}"
        );
        found.push(name);
    }
    keys.sort();
    found.sort();
    assert_eq!(found, keys);
    let tracked = file.tensor("1.num_batches_tracked")?;
    assert_eq!(
        (tracked.dtype(), numbers(&tracked)?),
        (Dtype::I64, vec![3.0])
    );
    let again = model.weights().to_safetensors()?;
    let again = SafeTensors::deserialize(&again)?;
    for name in keys {
        let (one, two) = (file.tensor(&name)?, again.tensor(&name)?);
        assert_eq!(
            (one.dtype(), one.data()),
            (two.dtype(), two.data()),
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn initial_values_have_pytorchs_distributions() -> Result<(), Error> {
    let device = hlx_core::testing::cpu()?;
    let conv = Model::new(&device, 1, |b| {
        Ok(Conv2d::new(b, 16, 32, [3, 3], ConvOptions::default()))
    })?;
    // PyTorch's fan_in of a transposed convolution counts the weight's second dimension.
    let back = Model::new(&device, 1, |b| {
        Ok(ConvTranspose2d::new(
            b,
            16,
            36,
            [2, 2],
            ConvOptions::default(),
        ))
    })?;
    for (values, fan_in) in [
        (conv.weight.tensor()?, 16 * 9),
        (back.weight.tensor()?, 36 * 4),
    ] {
        let (values, bound) = (values.to_vec::<f32>()?, 1.0 / (fan_in as f32).sqrt());
        let top = values
            .iter()
            .fold(0.0_f32, |top, value| top.max(value.abs()));
        assert!(top <= bound && top > 0.99 * bound, "{top} of {bound}");
        let square = values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32;
        // The variance of a uniform distribution is a third of the bound's square.
        assert!(
            (square / (bound * bound / 3.0) - 1.0).abs() < 0.05,
            "{square}"
        );
    }
    let bias = conv
        .bias
        .as_ref()
        .ok_or("no bias")?
        .tensor()?
        .to_vec::<f32>()?;
    assert!(
        bias.iter()
            .all(|value| value.abs() <= 1.0 / 12.0 && *value != 0.0)
    );
    let norm = Model::new(&device, 1, |b| Ok(BatchNorm2d::new(b, 3)))?;
    let named: Vec<_> = norm
        .weights()
        .state_dict()?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        named,
        [
            "weight",
            "bias",
            "running_mean",
            "running_var",
            "num_batches_tracked"
        ]
    );
    assert_eq!(
        norm.running_var
            .as_ref()
            .ok_or("none")?
            .tensor()?
            .to_vec::<f32>()?,
        [1.0; 3]
    );
    Ok(())
}

#[test]
fn unfitting_inputs_are_refused_with_the_layers_name() -> Result<(), Error> {
    let device = hlx_core::testing::cpu()?;
    let (norm, x) = (
        Model::new(&device, 1, |b| Ok(BatchNorm2d::new(b, 3)))?,
        Tensor::randn(&device, &[2, 3, 4, 4], 1)?.with_samples(0)?,
    );
    let message = |x: &Tensor, mode: &Mode| norm.forward(x, mode).expect_err("refused").to_string();
    let train = Mode::train(&device, 1)?;
    let flat = x.flatten(1, -1)?;
    let expected = "BatchNorm2d: the input has shape [2, 48], expected [N, C, H, W]";
    assert_eq!(message(&flat, &train), expected);
    let part = Mode::train(&device, 1)?.with_shards(1, true);
    let expected = "micro-batches: BatchNorm2d needs passes that hold whole shards";
    assert_eq!(message(&x, &part), expected);
    let other = x.narrow(1, 0, 2)?;
    let expected = "batch_norm: weight has shape [3], expected [2]";
    assert_eq!(message(&other, &train), expected);
    let ids = Tensor::from_slice::<u32>(&device, &[IGNORE_INDEX], &[1])?;
    assert!(message(&ids, &train).contains("BatchNorm2d: the input has shape [1]"));
    Ok(())
}
