//! PyTorch's operations by HLX's methods: every argument form that HLX has, a refusal for each other.

use hlx_autograd::{DType, Tensor};

use crate::call::{Arg, Call, Outcome, kind, no_form};

mod arithmetic;
mod creation;
mod functions;
mod images;
mod indexing;
mod layers;
mod movements;
mod products;
pub mod reductions;

/// Carries out an operation; `None` if this module does not know its name.
pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    [
        arithmetic::carried_out,
        functions::carried_out,
        reductions::carried_out,
        movements::carried_out,
        indexing::carried_out,
        products::carried_out,
        images::carried_out,
        layers::carried_out,
        creation::carried_out,
    ]
    .into_iter()
    .find_map(|family: fn(&str, &Call) -> Option<Outcome<Vec<Tensor>>>| family(name, call))
}

/// One result.
fn one(result: hlx_autograd::Result<Tensor>) -> Outcome<Vec<Tensor>> {
    Ok(vec![result?])
}

/// Two results.
fn pair(result: hlx_autograd::Result<(Tensor, Tensor)>) -> Outcome<Vec<Tensor>> {
    let (one, two) = result?;
    Ok(vec![one, two])
}

/// A number or a tensor as the other operand of `x`.
fn operand(x: &Tensor, argument: Option<&Arg>) -> Outcome<Tensor> {
    let scalar = |value: f64, dtype| Ok(Tensor::full(x.device(), &[], value as f32, dtype)?);
    match argument {
        Some(Arg::Tensor(tensor)) => Ok(tensor.clone()),
        Some(&Arg::Float(value)) => scalar(value, DType::F32),
        Some(&Arg::Int(value)) => match i32::try_from(value) {
            Ok(value) => Ok(Tensor::from_slice(x.device(), &[value], &[])?),
            Err(_) => no_form("integers past 32 bits"),
        },
        Some(&Arg::Bool(value)) => scalar(f64::from(u8::from(value)), DType::Bool),
        Some(other) => no_form(format!("an operand {}", kind(other))),
        None => no_form("one operand"),
    }
}

/// Counts that may not be negative.
fn counts(numbers: &[i64]) -> Outcome<Vec<usize>> {
    let count = |&number: &i64| match usize::try_from(number) {
        Ok(count) => Ok(count),
        Err(_) => no_form("a negative extent"),
    };
    numbers.iter().map(count).collect()
}

/// Dimensions.
fn dims(numbers: &[i64]) -> Vec<isize> {
    numbers.iter().map(|&dim| dim as isize).collect()
}
