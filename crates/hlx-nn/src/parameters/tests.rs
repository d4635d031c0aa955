//! Tests of what models are declared from: names, layout, initial values, files, devices.

use hlx_autograd::{DType, Tensor, no_grad};
use hlx_core::Device;

use super::*;
use crate::{Dropout, Linear, Mode, Model, Module, ParameterBuilder, SGD, SGDConfig};

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn weights() -> Weights {
    let mut builder = ParameterBuilder::new();
    builder.parameter("b.weight", &[5, 13], Init::Normal { std: 0.5 });
    builder.parameter("a.bias", &[3], Init::Zeros);
    builder.parameter("a.gain", &[70], Init::Ones);
    builder.build(&cpu(), 9).expect("builds")
}

/// A layer with a buffer of each kind.
struct Tracked {
    linear: Linear,
    mean: ModelBuffer,
    batches: ModelBuffer,
    places: ModelBuffer,
}

impl Tracked {
    fn new(b: &mut ParameterBuilder) -> Self {
        Self {
            linear: Linear::new(&mut b.child("linear"), 3, 2),
            mean: b.buffer("mean", &[2], 0.5),
            batches: b.count("batches"),
            places: b.ids("places", vec![0, 1, 2]),
        }
    }
}

impl Module for Tracked {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let y = self.linear.forward(x, mode)?;
        Ok(y.sub(&self.mean.tensor()?)?)
    }
}

fn tracked(device: &Device, seed: u64) -> Model<Tracked> {
    Model::new(device, seed, |b| Ok(Tracked::new(&mut b.child("net")))).expect("builds")
}

#[test]
fn parameters_start_at_multiples_of_64_words_with_zeros_between() -> Result<()> {
    let weights = weights();
    let offsets: Vec<usize> = weights.spans("").iter().map(|span| span.offset).collect();
    assert_eq!(offsets, [0, 128, 192]);
    assert_eq!((weights.n_words(), weights.n_elements()), (320, 138));
    let words = weights.device().download::<f32>(weights.values())?;
    let between = words[65..192].iter().chain(&words[262..]);
    assert!(between.into_iter().all(|word| word.to_bits() == 0));
    assert!(words[..65].iter().all(|word| *word != 0.0));
    assert!(words[192..262].iter().all(|word| *word == 1.0));
    Ok(())
}

#[test]
fn weights_return_from_safetensors_with_their_digest() -> Result<()> {
    let (first, second) = (weights(), weights());
    let digest = first.digest()?;
    assert_eq!(second.digest()?, digest);
    second.device().fill(second.values(), 0)?;
    assert_ne!(second.digest()?, digest);
    second.load_safetensors(&first.to_safetensors()?)?;
    assert_eq!(second.digest()?, digest);
    Ok(())
}

#[test]
fn a_name_declared_twice_is_refused() {
    let mut builder = ParameterBuilder::new();
    builder.parameter("w", &[2], Init::Zeros);
    builder.buffer("w", &[3], 0.0);
    let error = builder.build(&cpu(), 0).expect_err("two of one name");
    assert_eq!(error.to_string(), "parameter w is declared twice");
}

#[test]
fn a_layer_is_refused_until_its_model_is_built() -> Result<()> {
    let device = cpu();
    let builder = ParameterBuilder::new();
    let linear = Linear::new(&mut builder.child("fc"), 3, 2);
    let x = Tensor::zeros(&device, &[1, 3], DType::F32)?;
    let error = linear.forward(&x, &Mode::eval());
    let line = error.expect_err("no values").to_string();
    assert_eq!(
        line,
        "parameter fc.weight has no values yet: build the parameters first"
    );
    Ok(())
}

#[test]
fn names_are_the_scopes_joined_by_dots() {
    let model = tracked(&cpu(), 3);
    let parameters = model.weights().parameters().iter();
    let names: Vec<&str> = parameters.map(Parameter::name).collect();
    assert_eq!(names, ["net.linear.weight", "net.linear.bias"]);
    let saved: Vec<&str> = model
        .weights()
        .buffers()
        .iter()
        .map(ModelBuffer::name)
        .collect();
    assert_eq!(
        saved,
        ["net.mean", "net.batches"],
        "ids are no part of files"
    );
}

#[test]
fn buffers_are_in_digests_and_files_and_return_from_them() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let (model, other) = (tracked(&device, 3), tracked(&device, 3));
        let (weights, digest) = (model.weights(), model.weights().digest()?);
        assert_eq!(model.mean.tensor()?.to_vec::<f32>()?, [0.5, 0.5]);
        assert_eq!(model.places.tensor()?.to_vec::<u32>()?, [0, 1, 2]);
        assert_eq!(model.batches.dtype(), DType::U32);
        device.upload_words(&model.batches.tensor()?.buffer()?, &[u32::MAX])?;
        let counted = weights.digest()?;
        assert_ne!(counted, digest, "a count is digested");
        device.upload(&model.mean.tensor()?.buffer()?, &[1.5, -2.0])?;
        assert_ne!(weights.digest()?, counted, "a mean is digested");
        other
            .weights()
            .load_safetensors(&weights.to_safetensors()?)?;
        assert_eq!(other.weights().digest()?, weights.digest()?);
        assert_eq!(other.batches.tensor()?.to_vec::<u32>()?, [u32::MAX]);
        let names = weights.state_dict()?.into_iter().map(|(name, _)| name);
        let expected = [
            "net.linear.weight",
            "net.linear.bias",
            "net.mean",
            "net.batches",
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }
    Ok(())
}

/// A file with the tensors of a [`Tracked`], one of them as given.
fn file(name: &str, dtype: safetensors::Dtype, bytes: &[u8]) -> Vec<u8> {
    let zeros = [0; 24];
    let tensors = [
        (
            "net.linear.weight",
            safetensors::Dtype::F32,
            vec![2, 3],
            &zeros[..],
        ),
        (
            "net.linear.bias",
            safetensors::Dtype::F32,
            vec![2],
            &zeros[..8],
        ),
        ("net.mean", safetensors::Dtype::F32, vec![2], &zeros[..8]),
        ("net.batches", safetensors::Dtype::I64, vec![], &zeros[..8]),
    ];
    let view = |(of, default, shape, zeros): (&'static str, _, Vec<usize>, &'_ [u8])| {
        let (dtype, bytes) = if of == name {
            (dtype, bytes)
        } else {
            (default, zeros)
        };
        let (bytes, shape) = (bytes.to_vec(), shape);
        (of, dtype, shape, bytes)
    };
    let tensors: Vec<_> = tensors.into_iter().map(view).collect();
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes);
        (*name, view.expect("fits"))
    });
    safetensors::serialize(views, None).expect("serialises")
}

#[test]
fn counts_are_narrowed_from_64_bits_and_checked() -> Result<()> {
    use safetensors::Dtype;
    let model = tracked(&cpu(), 3);
    let load = |dtype, bytes: &[u8]| {
        let loaded = model
            .weights()
            .load_safetensors(&file("net.batches", dtype, bytes));
        loaded.map_err(|error| error.to_string())
    };
    load(Dtype::I64, &7_i64.to_le_bytes()).expect("fits");
    assert_eq!(model.batches.tensor()?.to_vec::<u32>()?, [7]);
    load(Dtype::I32, &8_i32.to_le_bytes()).expect("fits");
    assert_eq!(model.batches.tensor()?.to_vec::<u32>()?, [8]);
    for (count, text) in [(-1_i64, "-1"), (1 << 32, "4294967296")] {
        let line = load(Dtype::I64, &count.to_le_bytes()).expect_err("does not fit");
        let expected = format!("model: net.batches is {text}, expected 0 to 4294967295");
        assert_eq!(line, expected);
    }
    let line = load(Dtype::F32, &[0; 4]).expect_err("another type");
    assert_eq!(
        line,
        "model: net.batches holds F32, expected I64, I32 or U32"
    );
    let line = model
        .weights()
        .load_safetensors(&file("net.mean", Dtype::I32, &[0; 8]));
    let line = line.expect_err("another type").to_string();
    assert_eq!(line, "model: net.mean holds I32, expected F32, F16 or BF16");
    assert_eq!(
        model.batches.tensor()?.to_vec::<u32>()?,
        [8],
        "nothing was written"
    );
    Ok(())
}

#[test]
fn evaluation_allocates_no_gradients_and_training_one_buffer() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let before = device.memory().in_use_bytes;
        let model = Model::new(&device, 3, |b| {
            let layer = Linear::new(&mut b.child("fc"), 256, 256);
            Ok(layer)
        })?;
        let n_bytes = 4 * model.weights().n_words() as u64;
        let x = Tensor::zeros(&device, &[1, 256], DType::F32)?;
        let held = |what: &str, expected: u64, slack: u64| {
            let found = device.memory().in_use_bytes - before;
            let range = expected..=expected + slack;
            assert!(
                range.contains(&found),
                "{what}: {found}, expected {expected}"
            );
        };
        held("made", n_bytes, 2048);
        no_grad(|| model.forward(&x, &Mode::eval()))?;
        let loss = model.forward(&x, &Mode::eval())?.sum()?;
        assert!(!model.weights().has_gradients());
        held("evaluated", n_bytes, 4096);
        loss.backward()?;
        drop(loss);
        assert!(model.weights().has_gradients());
        held("differentiated", 2 * n_bytes, 4096);
        let momentum = SGDConfig {
            momentum: 0.9,
            ..SGDConfig::default()
        };
        let optimizer = SGD::new(model.weights(), momentum)?;
        held("with momentum", 3 * n_bytes, 4096);
        drop(optimizer);
    }
    Ok(())
}

#[test]
fn gradients_that_a_recording_would_have_to_allocate_are_refused() -> Result<()> {
    let device = cpu();
    let model = tracked(&device, 3);
    let x = Tensor::zeros(&device, &[4, 3], DType::F32)?.with_samples(0)?;
    let pass = || -> Result<()> {
        let y = model.forward(&x, &Mode::eval())?;
        Ok(y.sum()?.backward()?)
    };
    let error = device.record(pass).err().expect("no memory").to_string();
    assert!(
        error.starts_with("gradients: are not allocated yet"),
        "{error}"
    );
    let _optimizer = SGD::new(model.weights(), SGDConfig::default())?;
    device.record(pass)?.0.replay()?;
    let bias = model.linear.bias.as_ref().expect("a bias").tensor()?;
    assert_eq!(bias.grad().expect("reached").to_vec::<f32>()?, [4.0, 4.0]);
    Ok(())
}

#[test]
fn a_model_moves_to_another_device_with_its_bits() -> Result<()> {
    let from = cpu();
    for device in hlx_core::testing::own_devices() {
        let mut model = tracked(&from, 3);
        from.upload_words(&model.batches.tensor()?.buffer()?, &[7])?;
        let digest = model.weights().digest()?;
        model.linear.weight.tensor()?.sum()?.backward()?;
        model.to(&device)?;
        assert!(model.weights().device().is_same(&device));
        assert_eq!(model.weights().digest()?, digest);
        assert!(!model.weights().has_gradients());
        let x = Tensor::ones(&device, &[4, 3], DType::F32)?;
        model.forward(&x, &Mode::eval())?.sum()?.backward()?;
        let gradient = model.linear.weight.tensor()?.grad().expect("reached");
        assert_eq!(gradient.to_vec::<f32>()?, [4.0; 6]);
        let x = Tensor::ones(&from, &[4, 3], DType::F32)?;
        let error = model.forward(&x, &Mode::eval());
        assert!(error.is_err() || device.is_same(&from));
    }
    Ok(())
}

#[test]
fn sets_name_parameters_by_pattern() -> Result<()> {
    let model = Model::new(&cpu(), 3, |b| {
        let first = Linear::new(&mut b.child("first"), 3, 2);
        Ok((first, Linear::new(&mut b.child("second"), 2, 40)))
    })?;
    let weights = model.weights();
    let biases = weights.matching("*.bias")?;
    assert_eq!(biases.indices(), [1, 3]);
    assert_eq!(weights.ranges(&biases), [64..128, 256..320]);
    let second = weights.matching("second.*")?;
    assert_eq!(second.indices(), [2, 3]);
    assert_eq!(weights.ranges(&second), vec![128..320]);
    assert_eq!(second.without(&biases).indices(), [2]);
    assert_eq!(second.or(&biases).indices(), [1, 2, 3]);
    assert_eq!(
        weights.select(|one| one.shape().len() == 2).indices(),
        [0, 2]
    );
    assert_eq!(weights.all().or(&second), weights.all());
    let error = weights.matching("third.*").expect_err("none");
    assert_eq!(
        error.to_string(),
        "parameters: `third.*` is the name of none"
    );
    Ok(())
}

#[test]
fn dropouts_of_one_model_draw_masks_of_their_own() -> Result<()> {
    let device = cpu();
    let model = Model::new(&device, 3, |b| {
        let inner = Dropout::new(&mut b.child("inner"), 0.5);
        Ok([Dropout::new(b, 0.5), inner])
    })?;
    assert!(model.weights().draws_masks());
    let (x, mode) = (
        Tensor::ones(&device, &[4, 100], DType::F32)?,
        Mode::train(&device, 7)?,
    );
    let drop = |at: usize| {
        model[at]
            .forward(&x, &mode)?
            .to_vec::<f32>()
            .map_err(NnError::from)
    };
    let (first, second) = (drop(0)?, drop(1)?);
    assert_ne!(first, second);
    let next = drop(0)?;
    assert_ne!(next, first);
    mode.set_counter(0, 0)?;
    assert_eq!(
        [drop(0)?, drop(0)?],
        [first.clone(), first],
        "until it is set again"
    );
    mode.set_counter(1, 0)?;
    assert_eq!(drop(0)?, next);
    let same = model[0].forward(&x, &Mode::eval())?.to_vec::<f32>()?;
    assert_eq!(same, x.to_vec::<f32>()?);
    assert!(!weights().draws_masks());
    Ok(())
}

#[test]
fn layers_that_no_memory_holds_are_named_where_they_are_built() {
    let line = |declare: &dyn Fn(&mut ParameterBuilder)| {
        let mut builder = ParameterBuilder::new();
        declare(&mut builder);
        let line = builder.build(&cpu(), 1).expect_err("too large").to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    };
    // Their products and sums wrap to few elements, or to none.
    for (name, output, input) in [
        ("fc.weight", 1_usize << 32, 1 << 32),
        ("fc.weight", 3, 0xaaaa_aaaa_aaaa_aaab),
        ("fc.weight", 0, usize::MAX),
    ] {
        let text = line(&|b| drop(Linear::new(&mut b.child("fc"), input, output)));
        assert!(text.starts_with(name), "{text}");
    }
    let text = line(&|b| {
        for name in ["a", "b", "c", "d"] {
            b.parameter(name, &[1 << 49], Init::Zeros);
        }
    });
    assert!(text.starts_with("parameters: "), "{text}");
    let text = line(&|b| drop(b.buffer("mean", &[1 << 63, 2], 0.0)));
    assert!(text.starts_with("mean: "), "{text}");
    let text = line(&|b| {
        let config = crate::RecurrentConfig::new(4, 1 << 62);
        drop(crate::LSTM::new(b, config));
    });
    assert!(text.starts_with("weight_ih_l0: "), "{text}");
    let text = line(&|b| {
        let options = hlx_autograd::ConvOptions::default();
        drop(crate::Conv2d::new(
            b,
            1 << 32,
            1 << 32,
            [1 << 32, 1],
            options,
        ));
    });
    assert!(text.starts_with("weight: "), "{text}");
}
