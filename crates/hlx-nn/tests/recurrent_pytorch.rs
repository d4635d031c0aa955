//! LSTM and GRU against PyTorch: outputs, last states and every gradient, on every device.
//!
//! The reference is `fixtures/recurrent.safetensors`, made by `fixtures/make_recurrent.py`; PyTorch is
//! not needed here.

use hlx_autograd::{BackwardPlan, Tensor};
use hlx_core::Device;
use hlx_nn::{GRU, LSTM, Mode, Model, Module, ParameterBuilder, RecurrentConfig, Weights};
use safetensors::tensor::SafeTensors;

/// Of values of about 1 after five positions and up to three layers in f32, against f64.
const TOLERANCE: f64 = 2e-6;
/// Tolerance of a gradient, as a part of the largest of its tensor.
const GRADIENT_TOLERANCE: f64 = 4e-6;

/// The cases whose second derivatives the reference has: `TWICE` of the script.
const TWICE: [&str; 4] = ["lstm", "gru", "gru_plain", "lstm_projected"];

type Error = Box<dyn std::error::Error>;

/// The tensors of a case.
struct Case<'a> {
    file: &'a SafeTensors<'a>,
    name: &'static str,
}

impl Case<'_> {
    fn values(&self, key: &str) -> Result<(Vec<usize>, Vec<f64>), Error> {
        let view = self.file.tensor(&format!("{}.{key}", self.name))?;
        let shape = view.shape().to_vec();
        let elements: usize = shape.iter().product();
        let bytes = view.data();
        let values = if bytes.len() == 4 * elements {
            let words = bytes.as_chunks::<4>().0.iter();
            words
                .map(|&word| f64::from(f32::from_le_bytes(word)))
                .collect()
        } else {
            let words = bytes.as_chunks::<8>().0.iter();
            words.map(|&word| f64::from_le_bytes(word)).collect()
        };
        Ok((shape, values))
    }

    fn tensor(&self, device: &Device, key: &str) -> Result<Tensor, Error> {
        let (shape, values) = self.values(key)?;
        let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        Ok(Tensor::from_slice(device, &values, &shape)?)
    }

    /// An initial state, if the case has one.
    fn state(&self, device: &Device, key: &str) -> Option<Tensor> {
        Some(self.tensor(device, key).ok()?.with_gradient())
    }

    fn has(&self, key: &str, found: &Tensor, part_of_largest: bool) -> Result<(), Error> {
        let (shape, expected) = self.values(key)?;
        assert_eq!(found.shape(), shape, "{} {key}", self.name);
        let largest = expected
            .iter()
            .fold(0.0_f64, |max, value| max.max(value.abs()));
        let tolerance = match part_of_largest {
            true => GRADIENT_TOLERANCE * largest.max(1e-3),
            false => TOLERANCE,
        };
        for (i, (found, expected)) in found.to_vec::<f32>()?.iter().zip(&expected).enumerate() {
            let distance = (f64::from(*found) - expected).abs();
            assert!(
                distance < tolerance,
                "{} {key} {i}: {found} {expected}",
                self.name
            );
        }
        Ok(())
    }

    fn upload(&self, weights: &Weights) -> Result<(), Error> {
        let mut values = Vec::new();
        for parameter in weights.parameters() {
            let (shape, found) = self.values(&format!("param.{}", parameter.name()))?;
            assert_eq!(parameter.shape(), shape, "{}", parameter.name());
            values.push(found.iter().map(|value| *value as f32).collect());
        }
        let prefix = format!("{}.param.", self.name);
        let names = self.file.names();
        let in_file = names
            .iter()
            .filter(|name| name.starts_with(&prefix))
            .count();
        assert_eq!(values.len(), in_file, "{}", self.name);
        Ok(weights.upload(weights.values(), &values)?)
    }

    /// The loss that the reference differentiated, from outputs and last states, which are checked.
    fn loss(&self, device: &Device, outputs: &[(&str, &Tensor)]) -> Result<Tensor, Error> {
        let mut loss: Option<Tensor> = None;
        for (key, output) in outputs {
            self.has(key, output, false)?;
            let term = output
                .mul(&self.tensor(device, &format!("d{key}"))?)?
                .sum()?;
            loss = Some(match loss {
                None => term,
                Some(loss) => loss.add(&term)?,
            });
        }
        Ok(loss.ok_or("no output")?)
    }

    /// Checks the gradients of a loss, and those of the sum of their squares. The graph stays.
    fn check_twice(
        &self,
        loss: &Tensor,
        weights: &Weights,
        inputs: &[(&str, Option<&Tensor>)],
    ) -> Result<(), Error> {
        let mut named = Vec::new();
        for parameter in weights.parameters() {
            named.push((parameter.name().to_owned(), parameter.tensor()?));
        }
        let inputs = inputs.iter();
        let inputs = inputs.filter_map(|(key, x)| Some(((*key).to_owned(), (*x)?.clone())));
        named.extend(inputs);
        let by: Vec<&Tensor> = named.iter().map(|(_, tensor)| tensor).collect();
        let mut penalty: Option<Tensor> = None;
        for ((key, _), gradient) in named.iter().zip(loss.gradients(&by, true)?) {
            let gradient = gradient.ok_or("no gradient")?;
            self.has(&format!("grad.{key}"), &gradient, true)?;
            let square = gradient.square()?.sum()?;
            penalty = Some(match penalty {
                None => square,
                Some(sum) => sum.add(&square)?,
            });
        }
        let penalty = penalty.ok_or("no parameter")?;
        for ((key, _), gradient) in named.iter().zip(penalty.gradients(&by, true)?) {
            let gradient = gradient.ok_or("no second gradient")?;
            self.has(&format!("twice.{key}"), &gradient, true)?;
        }
        Ok(())
    }

    fn has_gradients(
        &self,
        weights: &Weights,
        inputs: &[(&str, Option<&Tensor>)],
    ) -> Result<(), Error> {
        for parameter in weights.parameters() {
            let gradient = parameter.tensor()?.grad().ok_or("no gradient")?;
            self.has(&format!("grad.{}", parameter.name()), &gradient, true)?;
        }
        for (key, input) in inputs {
            if let Some(input) = input {
                let gradient = input.grad().ok_or("no gradient")?;
                self.has(&format!("grad.{key}"), &gradient, true)?;
            }
        }
        Ok(())
    }
}

fn config(name: &str) -> RecurrentConfig {
    let one = RecurrentConfig::new(4, 6);
    match name {
        "lstm" | "gru" => one,
        "lstm_projected" => RecurrentConfig {
            num_layers: 2,
            bidirectional: true,
            proj_size: 3,
            ..one
        },
        "lstm_plain" => RecurrentConfig {
            bias: false,
            num_layers: 3,
            ..one
        },
        "gru_plain" => RecurrentConfig {
            bias: false,
            bidirectional: true,
            ..one
        },
        _ => RecurrentConfig {
            num_layers: 2,
            bidirectional: true,
            batch_first: true,
            ..one
        },
    }
}

fn file() -> Result<Vec<u8>, Error> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/recurrent.safetensors"
    );
    let bytes = std::fs::read(path);
    Ok(bytes.map_err(|error| format!("{path}: {error}; make_recurrent.py beside it makes it"))?)
}

#[test]
fn an_lstm_is_pytorchs_on_every_device() -> Result<(), Error> {
    let bytes = file()?;
    let file = &SafeTensors::deserialize(&bytes)?;
    for name in ["lstm", "lstm_deep", "lstm_plain", "lstm_projected"] {
        let case = Case { file, name };
        for device in hlx_core::testing::devices() {
            let model = Model::new(device, 1, |b| Ok(LSTM::new(b, config(name))))?;
            case.upload(model.weights())?;
            let x = case.tensor(device, "x")?.with_gradient();
            let (h0, c0) = (case.state(device, "h0"), case.state(device, "c0"));
            let initial = h0.as_ref().zip(c0.as_ref());
            let (y, (h, c)) = model.forward_with(&x, &Mode::eval(), initial)?;
            let loss = case.loss(device, &[("y", &y), ("h", &h), ("c", &c)])?;
            let inputs = [("x", Some(&x)), ("h0", h0.as_ref()), ("c0", c0.as_ref())];
            if TWICE.contains(&name) {
                case.check_twice(&loss, model.weights(), &inputs)?;
            }
            loss.backward()?;
            case.has_gradients(model.weights(), &inputs)?;
        }
    }
    Ok(())
}

#[test]
fn a_gru_is_pytorchs_on_every_device() -> Result<(), Error> {
    let bytes = file()?;
    let file = &SafeTensors::deserialize(&bytes)?;
    for name in ["gru", "gru_deep", "gru_plain"] {
        let case = Case { file, name };
        for device in hlx_core::testing::devices() {
            let model = Model::new(device, 1, |b| Ok(GRU::new(b, config(name))))?;
            case.upload(model.weights())?;
            let x = case.tensor(device, "x")?.with_gradient();
            let h0 = case.state(device, "h0");
            let (y, h) = model.forward_with(&x, &Mode::eval(), h0.as_ref())?;
            let loss = case.loss(device, &[("y", &y), ("h", &h)])?;
            let inputs = [("x", Some(&x)), ("h0", h0.as_ref())];
            if TWICE.contains(&name) {
                case.check_twice(&loss, model.weights(), &inputs)?;
            }
            loss.backward()?;
            case.has_gradients(model.weights(), &inputs)?;
        }
    }
    Ok(())
}

/// A sample's outputs do not depend on its batch, and a sequence without samples is a batch of one.
#[test]
fn a_sample_has_the_bits_that_it_has_alone() -> Result<(), Error> {
    let device = hlx_core::testing::cpu()?;
    let options = RecurrentConfig {
        num_layers: 2,
        bidirectional: true,
        ..RecurrentConfig::new(4, 6)
    };
    let model = Model::new(&device, 3, |b: &mut ParameterBuilder| {
        Ok(GRU::new(b, options))
    })?;
    let x = Tensor::randn(&device, &[5, 3, 4], 9)?;
    let eval = Mode::eval();
    let whole = model.forward(&x, &eval)?;
    for sample in 0..3 {
        let alone = model.forward(&x.select(1, sample)?, &eval)?;
        assert_eq!(alone.shape(), [5, 12]);
        assert_eq!(
            alone.to_vec::<f32>()?,
            whole.select(1, sample)?.to_vec::<f32>()?
        );
    }
    Ok(())
}

/// Two shards in one pass and in two have the same gradients, with dropout between the layers.
#[test]
fn gradients_do_not_depend_on_the_split_of_the_batch() -> Result<(), Error> {
    for device in hlx_core::testing::own_devices() {
        let options = RecurrentConfig {
            num_layers: 2,
            dropout: 0.25,
            batch_first: true,
            proj_size: 5,
            ..RecurrentConfig::new(4, 6)
        };
        let x = Tensor::randn(&device, &[4, 5, 4], 9)?;
        let gradients = |shards: usize, passes: usize| -> Result<Vec<Vec<f32>>, Error> {
            let model = Model::new(&device, 3, |b| Ok(LSTM::new(b, options)))?;
            let mode = Mode::train(&device, 11)?;
            let each = 4 / passes;
            for pass in 0..passes {
                mode.set_counter(0, (pass * each) as u32)?;
                let part = x
                    .slice(0, pass * each..(pass + 1) * each, 1)?
                    .with_samples(0)?;
                let loss = model.forward(&part, &mode)?.square()?.sum()?;
                let plan = BackwardPlan {
                    shards,
                    accumulate: pass > 0,
                    whole_batch: passes == 1,
                };
                loss.backward_with(&plan)?;
            }
            let weights = model.weights();
            Ok(weights.download(weights.gradients()?)?)
        };
        let chain = gradients(1, 1)?;
        assert_eq!(gradients(1, 2)?, chain);
        assert_eq!(gradients(1, 4)?, chain);
        assert_ne!(gradients(4, 1)?, chain, "shards are a tree");
    }
    Ok(())
}

#[test]
fn shapes_that_do_not_fit_are_refused() -> Result<(), Error> {
    let device = hlx_core::testing::cpu()?;
    let model = Model::new(&device, 1, |b| Ok(LSTM::new(b, RecurrentConfig::new(4, 6))))?;
    let eval = Mode::eval();
    let zeros = |shape: &[usize]| Tensor::zeros(&device, shape, hlx_autograd::DType::F32);
    let error = model
        .forward(&zeros(&[5, 3, 3])?, &eval)
        .expect_err("refused");
    let expected = "lstm: x has shape [5, 3, 3], expected [T, B, 4] or [T, 4] with T of at least 1";
    assert_eq!(error.to_string(), expected);
    let error = model
        .forward(&zeros(&[0, 3, 4])?, &eval)
        .expect_err("refused");
    assert!(error.to_string().starts_with("lstm: x has shape [0, 3, 4]"));
    let (x, wrong) = (zeros(&[5, 3, 4])?, zeros(&[1, 2, 6])?);
    let state = zeros(&[1, 3, 6])?;
    let error = model.forward_with(&x, &eval, Some((&state, &wrong)));
    let expected = "lstm: c_0 has shape [1, 2, 6], expected [1, 3, 6]";
    assert_eq!(error.expect_err("refused").to_string(), expected);
    assert_eq!(
        model.forward(&zeros(&[5, 0, 4])?, &eval)?.shape(),
        [5, 0, 6]
    );
    let projected = RecurrentConfig {
        proj_size: 6,
        ..RecurrentConfig::new(4, 6)
    };
    let wide = Model::new(&device, 1, |b| Ok(LSTM::new(b, projected)))?;
    let error = wide.forward(&x, &eval).expect_err("refused");
    let expected = "lstm: proj_size is 6, expected below hidden_size, 6";
    assert_eq!(error.to_string(), expected);
    let gru = Model::new(&device, 1, |b| Ok(GRU::new(b, projected)))?;
    let error = gru.forward(&x, &eval).expect_err("refused");
    let expected = "gru: proj_size is 6, expected 0: only an LSTM has projections";
    assert_eq!(error.to_string(), expected);
    Ok(())
}
