//! Carries out one sample and judges the results.

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use hlx_nn::{Mode, ParameterBuilder, Weights};
use serde_json::Value;

use crate::arguments::{Arguments, Refused, Result};
use crate::compare::{Tolerance, compare};
use crate::counter::drawn;
use crate::fixture::{Fixture, list, text_of};
use crate::modules::{applied, declared};
use crate::tensors::{of_values, tensor, values_of};

/// What became of a sample.
pub enum Verdict {
    Passed,
    Refused(String),
    Failed(String),
}

/// The results of a sample, after its backward pass.
struct Outcome {
    outputs: Vec<Tensor>,
    /// The inputs and parameters with gradients, in the sample's order.
    leaves: Vec<Tensor>,
    weights: Weights,
}

const FORWARD: Tolerance = Tolerance {
    of_value: 2e-6,
    of_largest: 1e-6,
    absolute: 5e-7,
};
/// Normalised values are differences of values of about 1.
const GRADIENT: Tolerance = Tolerance {
    of_value: 1e-5,
    of_largest: 2e-6,
    absolute: 5e-6,
};

/// Carries out a sample and compares results, buffers and gradients with PyTorch's.
pub fn judged(device: &Device, fixture: &Fixture, sample: &Value) -> Verdict {
    if let Some(reason) = sample.get("no") {
        return Verdict::Refused(text_of(reason));
    }
    let outcome = match carried_out(device, fixture, sample) {
        Ok(outcome) => outcome,
        Err(Refused::Form(form)) => return Verdict::Refused(format!("no form with {form}")),
        Err(Refused::Error(error)) => return Verdict::Refused(error.to_string()),
    };
    match compared(fixture, sample, &outcome) {
        Ok(()) => Verdict::Passed,
        Err(difference) => Verdict::Failed(difference),
    }
}

fn carried_out(device: &Device, fixture: &Fixture, sample: &Value) -> Result<Outcome> {
    let mut builder = ParameterBuilder::new();
    let k = Arguments::new(device, fixture, &sample["k"]);
    let made = declared(&text_of(&sample["op"]), &k, &mut builder)?;
    let weights = builder.build_zeroed(device)?;
    fill(device, fixture, &sample["p"], &weights)?;
    let mode = match sample["train"].as_bool() {
        Some(true) => Mode::train(device, 1)?,
        _ => Mode::eval(),
    };
    let inputs = inputs(device, fixture, sample)?;
    let outputs = applied(&made, (&k, &inputs), &mode)?;
    k.check_read()?;
    let mut leaves: Vec<Tensor> = inputs.into_iter().flatten().collect();
    leaves.retain(Tensor::requires_grad);
    for name in list(&sample["names"]).iter().map(text_of) {
        let parameters = weights.parameters().iter();
        for parameter in parameters.filter(|one| one.name() == name) {
            leaves.push(parameter.tensor()?);
        }
    }
    differentiate(device, sample, &outputs)?;
    Ok(Outcome {
        outputs,
        leaves,
        weights,
    })
}

/// The inputs in the order of the call; a list is several.
fn inputs(device: &Device, fixture: &Fixture, sample: &Value) -> Result<Vec<Option<Tensor>>> {
    let call = Arguments::new(device, fixture, &sample["a"]);
    let mut inputs = Vec::new();
    for name in list(&sample["in"]).iter().map(text_of) {
        match call.given(&name) {
            Some(Value::Array(items)) => {
                for item in items {
                    inputs.push(Some(tensor(device, fixture, item)?));
                }
            }
            _ => inputs.push(call.ids(&name)?),
        }
    }
    Ok(inputs)
}

/// Uploads the sample's parameters and buffers.
fn fill(device: &Device, fixture: &Fixture, values: &Value, weights: &Weights) -> Result<()> {
    let of = |name: &str| -> Result<Vec<f32>> {
        let Some(entry) = values.get(name) else {
            return Err(Refused::Form(format!("no value of `{name}`")));
        };
        let values = values_of(&tensor(device, fixture, entry)?)?;
        Ok(values.into_iter().map(|value| value as f32).collect())
    };
    let parameters = weights.parameters().iter();
    let all: Vec<Vec<f32>> = parameters
        .map(|one| of(one.name()))
        .collect::<Result<_>>()?;
    weights.upload(weights.values(), &all)?;
    for buffer in weights.buffers() {
        let (held, found) = (buffer.tensor()?, of(buffer.name())?);
        let target = held.buffer()?;
        match held.dtype() {
            DType::U32 => device.upload_words(&target, &[found[0] as u32])?,
            _ => device.upload(&target, &found)?,
        }
    }
    Ok(())
}

/// Goes backward from the upstream gradients of the fixture.
fn differentiate(device: &Device, sample: &Value, outputs: &[Tensor]) -> Result<()> {
    let Some(seed) = sample["seed"].as_u64() else {
        return Ok(());
    };
    let mut total: Option<Tensor> = None;
    let tracked = outputs.iter().filter(|output| output.requires_grad());
    for (i, output) in tracked.enumerate() {
        let seed = (seed + i as u64) % (1 << 32);
        let upstream = drawn(seed, (-1.0, 1.0), output.n_elements(), false);
        let upstream = of_values(device, &upstream, DType::F32, output.shape())?;
        let sum = output.mul(&upstream)?.sum()?;
        total = Some(match total {
            Some(total) => total.add(&sum)?,
            None => sum,
        });
    }
    Ok(total.map_or(Ok(()), |total| total.backward())?)
}

fn compared(
    fixture: &Fixture,
    sample: &Value,
    outcome: &Outcome,
) -> std::result::Result<(), String> {
    let pairs = |what: &str, found: usize, expected: usize| match found == expected {
        true => Ok(()),
        false => Err(format!("{found} {what}, expected {expected}")),
    };
    let outputs = list(&sample["o"]);
    pairs("results", outcome.outputs.len(), outputs.len())?;
    for (i, (found, expected)) in outcome.outputs.iter().zip(outputs).enumerate() {
        let compared = compare(fixture, found, expected, FORWARD);
        compared.map_err(|difference| format!("result {i} {difference}"))?;
    }
    for buffer in outcome.weights.buffers() {
        let found = buffer.tensor().map_err(|error| error.to_string())?;
        let compared = compare(fixture, &found, &sample["b"][buffer.name()], FORWARD);
        compared.map_err(|difference| format!("{} {difference}", buffer.name()))?;
    }
    let gradients = list(&sample["d"]);
    if sample.get("d").is_some() {
        pairs("leaves", outcome.leaves.len(), gradients.len())?;
    }
    for (i, (leaf, expected)) in outcome.leaves.iter().zip(gradients).enumerate() {
        match (leaf.grad(), expected.is_null()) {
            (Some(found), false) => compare(fixture, &found, expected, GRADIENT)
                .map_err(|difference| format!("gradient {i} {difference}"))?,
            (None, true) => {}
            (found, _) => return Err(format!("gradient {i} is there: {}", found.is_some())),
        }
    }
    Ok(())
}

/// The results, buffers and gradients of a sample as bits, or the refusal; NaNs are one.
pub fn results(
    device: &Device,
    fixture: &Fixture,
    sample: &Value,
) -> std::result::Result<Vec<Vec<u64>>, String> {
    if sample.get("no").is_some() {
        return Ok(Vec::new());
    }
    let outcome = carried_out(device, fixture, sample).map_err(|refused| match refused {
        Refused::Form(form) => form,
        Refused::Error(error) => error.to_string(),
    })?;
    let gradients = outcome.leaves.iter().filter_map(Tensor::grad);
    let buffers = outcome.weights.buffers().iter();
    let buffers = buffers.filter_map(|buffer| buffer.tensor().ok());
    let all = outcome
        .outputs
        .iter()
        .cloned()
        .chain(gradients)
        .chain(buffers);
    let bits = |value: f64| match value.is_nan() {
        true => f64::NAN.to_bits(),
        false => value.to_bits(),
    };
    all.map(|x| {
        let values = values_of(&x).map_err(|error| error.to_string())?;
        Ok(values.into_iter().map(bits).collect())
    })
    .collect()
}
