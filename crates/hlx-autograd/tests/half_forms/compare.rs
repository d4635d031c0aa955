//! The comparison of an operation's 16-bit form with its f32 form on the same widened numbers.

use hlx_autograd::{BackwardPlan, DType, Result, Tensor};
use hlx_core::Device;

use crate::row::Row;

/// Values of a counter, within -1.5 to 1.5, every seventh of them 0.
fn values(device: &Device, seed: usize, shape: &[usize]) -> Result<Tensor> {
    let value = |at: usize| {
        let word = ((at + 1000 * seed) as u32).wrapping_mul(0x9e37_79b9) >> 8;
        match at % 7 {
            6 => 0.0,
            _ => word as f32 / (1 << 23) as f32 * 1.5 - 1.5,
        }
    };
    let n = shape.iter().product();
    Tensor::from_slice(device, &(0..n).map(value).collect::<Vec<_>>(), shape)
}

/// Results and the inputs' gradients.
struct Passes {
    results: Vec<Tensor>,
    gradients: Vec<Option<Tensor>>,
}

/// Goes forward and, under a given upstream gradient, backward.
fn passes(row: &Row, inputs: &[Tensor], upstream_type: DType) -> Result<Passes> {
    let leaves: Vec<Tensor> = inputs.iter().map(|x| x.detach().with_gradient()).collect();
    let results = (row.call)(&leaves)?;
    let plan = BackwardPlan {
        shards: row.shards,
        ..BackwardPlan::default()
    };
    // Only for one result: what several leave in one leaf is a sum of 16-bit numbers.
    if let Some(result) = results.iter().find(|result| result.requires_grad()) {
        // Numbers that both forms have.
        let upstream = values(result.device(), 50, result.shape())?;
        let upstream = upstream.to_dtype(upstream_type)?.to_dtype(DType::F32)?;
        let loss = result.to_dtype(DType::F32)?.mul(&upstream)?.sum()?;
        loss.backward_with(&plan)?;
    }
    let gradients = leaves.iter().map(Tensor::grad).collect();
    Ok(Passes { results, gradients })
}

/// Whether `found` is `exact` rounded once to its own type; `Err` says where it is not.
fn rounded(what: &str, found: &Tensor, exact: &Tensor) -> Result<Result<(), String>> {
    let exact = exact.detach().to_dtype(found.dtype())?;
    if found.shape() != exact.shape() {
        let shapes = format!("{:?}, not {:?}", found.shape(), exact.shape());
        return Ok(Err(format!("{what} has shape {shapes}")));
    }
    let words = |x: &Tensor| -> Result<Vec<u32>> {
        let values = x.detach().to_dtype(DType::F32)?.to_vec::<f32>()?;
        let word = |value: &f32| if value.is_nan() { f32::NAN } else { *value }.to_bits();
        Ok(values.iter().map(word).collect())
    };
    let differing = words(found)?
        .iter()
        .zip(words(&exact)?)
        .position(|(a, b)| *a != b);
    Ok(match differing {
        None => Ok(()),
        Some(at) => {
            let value = |x: &Tensor| Ok::<_, hlx_autograd::AutogradError>(words(x)?[at]);
            let (one, two) = (
                f32::from_bits(value(found)?),
                f32::from_bits(value(&exact)?),
            );
            Err(format!(
                "{what}, element {at}: {one:e}, the f32 form gives {two:e}"
            ))
        }
    })
}

/// Compares a row's forms and says what differs: inputs at `narrow` have the 16-bit type, the others
/// f32. An error is the 16-bit form's refusal.
pub fn differences(
    device: &Device,
    row: &Row,
    dtype: DType,
    narrow: &[bool],
) -> Result<Vec<String>> {
    let mut inputs = Vec::new();
    for (seed, (shape, is_narrow)) in row.shapes.iter().zip(narrow).enumerate() {
        let x = values(device, seed, shape)?.to_dtype(dtype)?;
        inputs.push(if *is_narrow {
            x
        } else {
            x.to_dtype(DType::F32)?
        });
    }
    let wide = inputs.iter().map(|x| x.to_dtype(DType::F32));
    let exact = passes(row, &wide.collect::<Result<Vec<_>>>()?, dtype);
    let exact = exact.unwrap_or_else(|error| panic!("{} of f32: {error}", row.text()));
    let found = passes(row, &inputs, dtype)?;
    let mut differing = Vec::new();
    for (at, (one, two)) in found.results.iter().zip(&exact.results).enumerate() {
        let all = narrow.iter().all(|&narrow| narrow);
        let (have, want) = (one.dtype(), if all { dtype } else { one.dtype() });
        // Running values are f32.
        let is_typed = row.method != "to_dtype" && !(row.method == "batch_norm" && at > 0);
        if two.dtype() == DType::F32 && have != want && is_typed {
            differing.push(format!(
                "result {at} has elements of {have}, expected {want}"
            ));
        }
        differing.extend(rounded(&format!("result {at}"), one, two)?.err());
    }
    for (at, gradients) in found.gradients.iter().zip(&exact.gradients).enumerate() {
        let (one, two) = match gradients {
            (None, None) => continue,
            (Some(one), Some(two)) => (one, two),
            (found, _) => {
                let has = if found.is_some() {
                    "a gradient"
                } else {
                    "none"
                };
                differing.push(format!("input {at} has {has}, unlike the f32 form's"));
                continue;
            }
        };
        if one.dtype() != inputs[at].dtype() {
            let (found, expected) = (one.dtype(), inputs[at].dtype());
            differing.push(format!(
                "gradient {at} has elements of {found}, expected {expected}"
            ));
        }
        differing.extend(rounded(&format!("gradient {at}"), one, two)?.err());
    }
    Ok(differing)
}
