//! Carries out one sample and judges the results.

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use serde_json::Value;

use crate::call::{Call, Refused};
use crate::compare::{Tolerance, compare};
use crate::counter::drawn;
use crate::fixture::{Fixture, list, text_of};
use crate::operations::carried_out;
use crate::operations::reductions::names_the_values;
use crate::tensors::{of_values, values_of};

/// What became of a sample.
pub enum Verdict {
    Passed,
    Refused(String),
    /// HLX's result is another one, by a rule of its own.
    Differs(&'static str),
    Failed(String),
}

/// How close results and gradients have to be.
struct Bounds {
    forward: Tolerance,
    gradient: Tolerance,
}

fn bounds(name: &str) -> Bounds {
    let of = |of_value, of_largest, absolute| Tolerance {
        of_value,
        of_largest,
        absolute,
    };
    let (forward, gradient) = match name {
        // Places in an image of 1,000 pixels are known to 6e-5 of a pixel in f32.
        "nn.functional.interpolate/bilinear" | "nn.functional.upsample_bilinear" => (5e-5, 5e-5),
        // Scores reach 230, which f32 knows to 8e-6: so much may a weight be off, in parts of itself.
        "nn.functional.scaled_dot_product_attention" => (1e-5, 1e-5),
        _ => (5e-7, 2e-6),
    };
    // A derivative such as 1 - y^2 is known to a unit of 1; normalised values are differences of such.
    let absolute = match name {
        "nn.functional.layer_norm" | "nn.functional.group_norm" | "nn.functional.batch_norm" => {
            5e-6
        }
        _ => 2.4e-7,
    };
    // A loss of weighted classes is a difference of their terms.
    let forward_absolute = match name {
        "nn.functional.cross_entropy" => 4e-6,
        _ => 0.0,
    };
    Bounds {
        forward: of(2e-6, forward, forward_absolute),
        gradient: of(1e-5, gradient, absolute),
    }
}

/// Carries out a sample and compares its results and gradients with PyTorch's.
pub fn judged(device: &Device, fixture: &Fixture, sample: &Value) -> Verdict {
    if let Some(reason) = sample.get("no") {
        return Verdict::Refused(text_of(reason));
    }
    let name = text_of(&sample["op"]);
    let call = match Call::new(device, fixture, sample) {
        Ok(call) => call,
        Err(error) => return Verdict::Refused(plain(&error.to_string())),
    };
    let outputs = match carried_out(&name, &call) {
        None => return Verdict::Failed("no method carries it out".to_owned()),
        Some(Err(Refused::Error(error))) => return Verdict::Refused(plain(&error.to_string())),
        Some(Err(Refused::Form(form))) => return Verdict::Refused(format!("{NO_FORM}{form}")),
        Some(Ok(outputs)) => outputs,
    };
    // An index out of range is found on the device, and reported by the first wait.
    if let Some(Err(error)) = outputs.iter().map(values_of).find(Result::is_err) {
        return Verdict::Refused(plain(&error.to_string()));
    }
    let unread = call.unread();
    if !unread.is_empty() {
        return Verdict::Failed(format!("its arguments {unread:?} were not read"));
    }
    let bounds = bounds(&name);
    let compared = forward(fixture, sample, &outputs, bounds.forward);
    let compared = compared.or_else(|difference| {
        let is_sort = matches!(name.as_str(), "sort" | "argsort" | "topk");
        match is_sort && names_the_values(&name, &call, &outputs).is_ok_and(|fits| fits) {
            true => values_alone(fixture, sample, &outputs, bounds.forward),
            false => Err(difference),
        }
    });
    let compared = compared.and_then(|()| match sample.get("d") {
        Some(_) => backward(device, fixture, sample, &call, &outputs, bounds.gradient),
        None => Ok(()),
    });
    match (compared, difference(&name, &call)) {
        (Ok(()), _) => Verdict::Passed,
        (Err(_), Some(rule)) => Verdict::Differs(rule),
        (Err(difference), None) => Verdict::Failed(difference),
    }
}

/// Where HLX's rule is another one than PyTorch's, or PyTorch has none.
fn difference(name: &str, call: &Call) -> Option<&'static str> {
    let x = call.x().ok();
    match name {
        "byte" | "char" | "int" if x.is_some_and(|x| x.dtype().is_float()) => Some(
            "a float out of the integers' range saturates, and NaN is 0; PyTorch leaves them open",
        ),
        "nn.functional.elu" => Some(
            "the gradient at NaN is dy; PyTorch's is that or NaN, by the element's place in memory",
        ),
        "arange"
            if call
                .dtype(9, "dtype")
                .is_ok_and(|dtype| dtype != Some(DType::F32)) =>
        {
            Some("elements are start + i step, converted; PyTorch converts start and step before")
        }
        "linspace" => Some("f16 and bf16 are f32 rounded once; PyTorch computes in 16 bits"),
        _ => None,
    }
}

/// Begins the refusals of forms that HLX's methods do not have.
pub const NO_FORM: &str = "no form with ";

/// A message without the numbers of one sample, so that equal refusals are counted together: N stands
/// for numbers, but not within words such as `f32`.
fn plain(message: &str) -> String {
    let mut text = String::new();
    let (mut within_list, mut within_word) = (false, false);
    for c in message.chars() {
        match c {
            '[' => text.push_str("[..]"),
            c if within_list || c == ']' => {}
            c if c.is_ascii_digit() && !within_word => {
                if !text.ends_with('N') {
                    text.push('N');
                }
            }
            c => text.push(c),
        }
        within_list = c == '[' || (within_list && c != ']');
        within_word = c.is_ascii_alphabetic() || (within_word && c.is_ascii_alphanumeric());
    }
    text
}

/// Compares the results except for the places of sorted elements.
fn values_alone(
    fixture: &Fixture,
    sample: &Value,
    outputs: &[Tensor],
    tolerance: Tolerance,
) -> Result<(), String> {
    let pairs = outputs.iter().zip(list(&sample["o"]));
    let mut values = pairs.take(outputs.len() - 1);
    values.try_for_each(|(found, expected)| compare(fixture, found, expected, tolerance))
}

fn forward(
    fixture: &Fixture,
    sample: &Value,
    outputs: &[Tensor],
    tolerance: Tolerance,
) -> Result<(), String> {
    let expected = list(&sample["o"]);
    if outputs.len() != expected.len() {
        return Err(format!(
            "{} results, expected {}",
            outputs.len(),
            expected.len()
        ));
    }
    for (i, (found, expected)) in outputs.iter().zip(expected).enumerate() {
        let compared = compare(fixture, found, expected, tolerance);
        compared.map_err(|difference| format!("result {i} {difference}"))?;
    }
    Ok(())
}

/// Goes backward from the upstream gradients of the fixture.
fn differentiated(device: &Device, sample: &Value, outputs: &[Tensor]) -> hlx_autograd::Result<()> {
    let Some(seed) = sample["seed"].as_u64() else {
        return Ok(());
    };
    let mut total: Option<Tensor> = None;
    for (i, output) in outputs
        .iter()
        .enumerate()
        .filter(|(_, output)| output.requires_grad())
    {
        let seed = (seed + i as u64) % (1 << 32);
        let upstream = drawn(seed, (-1.0, 1.0), output.n_elements(), false);
        let upstream = of_values(device, &upstream, DType::F32, output.shape())?;
        let sum = output.to_dtype(DType::F32)?.mul(&upstream)?.sum()?;
        total = Some(match total {
            Some(total) => total.add(&sum)?,
            None => sum,
        });
    }
    total.map_or(Ok(()), |total| total.backward())
}

fn backward(
    device: &Device,
    fixture: &Fixture,
    sample: &Value,
    call: &Call,
    outputs: &[Tensor],
    tolerance: Tolerance,
) -> Result<(), String> {
    differentiated(device, sample, outputs).map_err(|error| format!("backward: {error}"))?;
    let (leaves, expected) = (call.leaves(), list(&sample["d"]));
    if leaves.len() != expected.len() {
        return Err(format!(
            "{} leaves, expected {}",
            leaves.len(),
            expected.len()
        ));
    }
    for (i, (leaf, expected)) in leaves.iter().zip(expected).enumerate() {
        match (leaf.grad(), expected.is_null()) {
            (Some(found), false) => compare(fixture, &found, expected, tolerance)
                .map_err(|difference| format!("gradient {i} {difference}"))?,
            (None, true) => {}
            (Some(_), true) => return Err(format!("gradient {i} is there, PyTorch has none")),
            (None, false) => return Err(format!("gradient {i} is missing")),
        }
    }
    Ok(())
}

/// The elements of a sample's arguments and results.
pub fn elements(sample: &Value) -> usize {
    fn of(value: &Value) -> u64 {
        match value {
            Value::Array(items) => items.iter().map(of).sum(),
            Value::Object(entry) => match entry.get("s") {
                Some(shape) => list(shape).iter().filter_map(Value::as_u64).product(),
                None => entry.values().map(of).sum(),
            },
            _ => 0,
        }
    }
    (of(&sample["a"]) + of(&sample["k"]) + of(&sample["o"])) as usize
}

/// The results and gradients of a sample as bits, or the refusal; NaNs are one.
pub fn results(
    device: &Device,
    fixture: &Fixture,
    sample: &Value,
) -> Result<Vec<Vec<u64>>, String> {
    if sample.get("no").is_some() {
        return Ok(Vec::new());
    }
    let text = |error: hlx_autograd::AutogradError| error.to_string();
    let call = Call::new(device, fixture, sample).map_err(text)?;
    let outputs = match carried_out(&text_of(&sample["op"]), &call) {
        Some(Ok(outputs)) => outputs,
        Some(Err(Refused::Error(error))) => return Err(text(error)),
        Some(Err(Refused::Form(form))) => return Err(form),
        None => return Ok(Vec::new()),
    };
    differentiated(device, sample, &outputs).map_err(text)?;
    let gradients = call.leaves().into_iter().filter_map(|leaf| leaf.grad());
    let all = outputs.into_iter().chain(gradients);
    let bits = |value: f64| match value.is_nan() {
        true => f64::NAN.to_bits(),
        false => value.to_bits(),
    };
    all.map(|x| Ok(values_of(&x).map_err(text)?.into_iter().map(bits).collect()))
        .collect()
}
