//! Tensors of a rule.

use hlx_autograd::{DType, Tensor};

use super::{counts, one};
use crate::call::{Arg, Call, Outcome, kind, no_form, number};

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    Some(match name {
        "zeros" => filled(call, Some(0.0)),
        "ones" => filled(call, Some(1.0)),
        "full" => filled(call, None),
        "zeros_like" => like(call, Some(0.0)),
        "ones_like" => like(call, Some(1.0)),
        "full_like" => like(call, None),
        "arange" => range(call),
        "linspace" => linspace(call),
        "eye" => identity(call),
        _ => return None,
    })
}

fn value_of(call: &Call, place: usize, name: &str) -> Outcome<f32> {
    match call.get(place, name) {
        None => no_form(format!("no `{name}`")),
        Some(argument) => match number(argument) {
            Some(value) => Ok(value as f32),
            None => no_form(format!("`{name}` {}", kind(argument))),
        },
    }
}

fn filled(call: &Call, value: Option<f32>) -> Outcome<Vec<Tensor>> {
    let shape = counts(&call.ints(0, "size")?.unwrap_or_default())?;
    let value = match value {
        Some(value) => value,
        None => value_of(call, 1, "fill_value")?,
    };
    let dtype = call.dtype(9, "dtype")?.unwrap_or(DType::F32);
    one(Tensor::full(&call.device, &shape, value, dtype))
}

fn like(call: &Call, value: Option<f32>) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let value = match value {
        Some(value) => value,
        None => value_of(call, 1, "fill_value")?,
    };
    let dtype = call.dtype(9, "dtype")?.unwrap_or(x.dtype());
    one(Tensor::full(&call.device, x.shape(), value, dtype))
}

fn range(call: &Call) -> Outcome<Vec<Tensor>> {
    let arguments = [(0, "start"), (1, "end"), (2, "step")];
    let is_whole = |&(i, name): &(usize, &str)| !matches!(call.get(i, name), Some(Arg::Float(_)));
    let whole = arguments.iter().all(is_whole);
    let (start, end) = match call.get(1, "end") {
        None => (0.0, call.float(0, "start", 0.0)?),
        Some(_) => (call.float(0, "start", 0.0)?, call.float(1, "end", 0.0)?),
    };
    let step = call.float(2, "step", 1.0)?;
    let range = Tensor::arange(&call.device, start, end, step)?;
    match call.dtype(9, "dtype")? {
        Some(dtype) => one(range.to_dtype(dtype)),
        None if whole => one(range.to_dtype(DType::I32)),
        None => Ok(vec![range]),
    }
}

fn linspace(call: &Call) -> Outcome<Vec<Tensor>> {
    let steps = call.int(2, "steps")?.unwrap_or(0) as usize;
    let (start, end) = (value_of(call, 0, "start")?, value_of(call, 1, "end")?);
    let values = Tensor::linspace(&call.device, start, end, steps)?;
    match call.dtype(9, "dtype")? {
        Some(DType::F32) | None => Ok(vec![values]),
        Some(dtype) => one(values.to_dtype(dtype)),
    }
}

fn identity(call: &Call) -> Outcome<Vec<Tensor>> {
    let n = call.int(0, "n")?.unwrap_or(0) as usize;
    let m = call.int(1, "m")?.map_or(n, |m| m as usize);
    let dtype = call.dtype(9, "dtype")?.unwrap_or(DType::F32);
    one(Tensor::eye_of(&call.device, n, m)?.to_dtype(dtype))
}
