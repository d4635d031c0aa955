//! Functions of an element, softmax, and conversions.

use hlx_autograd::{DType, Result, Tensor};

use super::{one, operand};
use crate::call::{Call, Outcome, no_form};

type Unary = fn(&Tensor) -> Result<Tensor>;

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "neg" => Tensor::neg,
        "abs" => Tensor::abs,
        "exp" => Tensor::exp,
        "exp2" => Tensor::exp2,
        "expm1" => Tensor::expm1,
        "log" => Tensor::log,
        "log2" => Tensor::log2,
        "log10" => Tensor::log10,
        "log1p" => Tensor::log1p,
        "sqrt" => Tensor::sqrt,
        "rsqrt" => Tensor::rsqrt,
        "reciprocal" => Tensor::reciprocal,
        "square" => Tensor::square,
        "sin" => Tensor::sin,
        "cos" => Tensor::cos,
        "tan" => Tensor::tan,
        "asin" => Tensor::asin,
        "acos" => Tensor::acos,
        "atan" => Tensor::atan,
        "sinh" => Tensor::sinh,
        "cosh" => Tensor::cosh,
        "tanh" => Tensor::tanh,
        "sigmoid" => Tensor::sigmoid,
        "erf" => Tensor::erf,
        "sign" => Tensor::sign,
        "floor" => Tensor::floor,
        "ceil" => Tensor::ceil,
        "round" => Tensor::round,
        "trunc" => Tensor::trunc,
        "isnan" => Tensor::isnan,
        "isfinite" => Tensor::isfinite,
        "logical_not" => Tensor::logical_not,
        "bitwise_not" => Tensor::bitwise_not,
        "nn.functional.relu" => Tensor::relu,
        "nn.functional.silu" => Tensor::silu,
        "nn.functional.hardswish" => Tensor::hardswish,
        "nn.functional.mish" => Tensor::mish,
        _ => return None,
    })
}

fn conversion(name: &str) -> Option<DType> {
    Some(match name {
        "float" => DType::F32,
        "half" => DType::F16,
        "bfloat16" => DType::BF16,
        "bool" => DType::Bool,
        "byte" => DType::U8,
        "char" => DType::I8,
        "int" => DType::I32,
        _ => return None,
    })
}

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    if let Some(operation) = unary(name) {
        return Some(with_inplace(call, operation));
    }
    if let Some(dtype) = conversion(name) {
        return Some(call.x().and_then(|x| one(x.to_dtype(dtype))));
    }
    Some(match name {
        "clamp" => clamped(call),
        "nn.functional.leaky_relu" | "nn.functional.elu" => sloped(name, call),
        "nn.functional.gelu" => gelu(call),
        "nn.functional.softplus" => softplus(call),
        "softmax" | "softmax/with_dtype" | "log_softmax" | "log_softmax/with_dtype" => {
            softmax(name, call)
        }
        "to" => to(call),
        _ => return None,
    })
}

/// `inplace=True` of an activation has the same result.
fn with_inplace(call: &Call, operation: Unary) -> Outcome<Vec<Tensor>> {
    call.flag(1, "inplace", false)?;
    one(operation(call.x()?))
}

fn clamped(call: &Call) -> Outcome<Vec<Tensor>> {
    let mut x = call.x()?.clone();
    if let Some(low) = call.get(1, "min") {
        x = x.clamp_min(operand(&x, Some(low))?)?;
    }
    if let Some(high) = call.get(2, "max") {
        x = x.clamp_max(operand(&x, Some(high))?)?;
    }
    Ok(vec![x])
}

fn sloped(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    if name == "nn.functional.elu" {
        call.flag(2, "inplace", false)?;
        return one(x.elu(call.float(1, "alpha", 1.0)? as f32));
    }
    call.flag(2, "inplace", false)?;
    one(x.leaky_relu(call.float(1, "negative_slope", 0.01)? as f32))
}

fn gelu(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    match call.text(1, "approximate")? {
        None | Some("none") => one(x.gelu()),
        _ => one(x.gelu_tanh()),
    }
}

fn softplus(call: &Call) -> Outcome<Vec<Tensor>> {
    let (beta, threshold) = (
        call.float(1, "beta", 1.0)?,
        call.float(2, "threshold", 20.0)?,
    );
    match (beta, threshold) {
        (1.0, 20.0) => one(call.x()?.softplus()),
        _ => one(call.x()?.softplus_with(beta as f32, threshold as f32)),
    }
}

fn softmax(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let dim = call.dim(1, "dim", -1)?;
    let x = call.x()?;
    let x = match call.dtype(2, "dtype")? {
        Some(dtype) => x.to_dtype(dtype)?,
        None => x.clone(),
    };
    match name.starts_with("log") {
        true => one(x.log_softmax(dim)),
        false => one(x.softmax_dim(dim)),
    }
}

fn to(call: &Call) -> Outcome<Vec<Tensor>> {
    no_form(format!("`to` by {} arguments", call.n_positional()))
}
