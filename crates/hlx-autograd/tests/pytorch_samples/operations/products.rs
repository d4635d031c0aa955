//! Products and convolutions.

use hlx_autograd::{ConvOptions, DType, Tensor};

use super::one;
use crate::call::{Arg, Call, Outcome, no_form, number};

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    Some(match name {
        "matmul" | "mm" | "bmm" | "mv" | "dot" => product(call),
        "inner" => inner(call),
        "outer" => call.x().and_then(|x| one(x.outer(call.tensor(1, "vec2")?))),
        "addmm" | "baddbmm" => added(call),
        "einsum" => einsum(call),
        "nn.functional.linear" => linear(call),
        "nn.functional.conv1d" => convolution(call, 1),
        "nn.functional.conv2d" => convolution(call, 2),
        "nn.functional.conv_transpose1d" => transposed(call, 1),
        "nn.functional.conv_transpose2d" => transposed(call, 2),
        _ => return None,
    })
}

fn product(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call.x()?.matmul(call.tensor(1, "other")?))
}

/// The sums over both last dimensions.
fn inner(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, y) = (call.x()?, call.tensor(1, "other")?);
    match (x.rank(), y.rank()) {
        (0, _) | (_, 0) => one(x.mul(y)),
        (_, 1) => one(x.matmul(y)),
        _ => one(x.matmul(&y.transpose(-2, -1)?)),
    }
}

/// beta c + alpha a b.
fn added(call: &Call) -> Outcome<Vec<Tensor>> {
    let c = call.x()?;
    // Rounded once, as in PyTorch, where all are of 16 bits.
    let wide = |x: &Tensor| match x.dtype().is_float() {
        true => x.to_dtype(DType::F32),
        false => Ok(x.clone()),
    };
    let mut sum = wide(call.tensor(1, "mat1")?)?.matmul(&wide(call.tensor(2, "mat2")?)?)?;
    let factor = |name| call.get(9, name).and_then(number).unwrap_or(1.0);
    let (alpha, beta) = (factor("alpha"), factor("beta"));
    if !sum.dtype().is_float() {
        // PyTorch takes the whole part of factors beside integers.
        return one(sum.mul(alpha as i32)?.add(c.mul(beta as i32)?));
    }
    if alpha != 1.0 {
        sum = sum.mul(alpha as f32)?;
    }
    // A beta of 0 leaves c out, with its NaNs.
    let c_or_zeros = match beta == 0.0 {
        true => c.masked_fill(&Tensor::ones(&call.device, &[], DType::Bool)?, 0.0)?,
        false => c.clone(),
    };
    sum = sum.add_scaled(&wide(&c_or_zeros)?, beta as f32)?;
    one(sum.to_dtype(c.dtype()))
}

fn einsum(call: &Call) -> Outcome<Vec<Tensor>> {
    // The sample's input is the list of operands, and its argument the expression.
    let operands = call.tensors(0, "operands")?;
    match call.get(1, "equation") {
        Some(Arg::Text(expression)) => one(Tensor::einsum(expression, &operands)),
        _ => no_form("lists of indices"),
    }
}

fn linear(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call
        .x()?
        .linear(call.tensor(1, "weight")?, call.optional_tensor(2, "bias")?))
}

/// One number for each dimension of the image, from one for all or one each.
fn each(call: &Call, place: usize, name: &str, n: usize, default: usize) -> Outcome<[usize; 2]> {
    if let Some(Arg::Text(text)) = call.get(place, name) {
        return no_form(format!("`{name}` `{text}`"));
    }
    let given = call.ints(place, name)?.unwrap_or_default();
    let given = super::counts(&given)?;
    Ok(match (given.as_slice(), n) {
        ([], _) => [default; 2],
        (&[all], 1) => [default, all],
        (&[all], _) => [all; 2],
        (&[first, second, ..], _) => [first, second],
    })
}

fn convolution(call: &Call, n: usize) -> Outcome<Vec<Tensor>> {
    let (padding, same) = match call.get(4, "padding") {
        Some(Arg::Text(text)) if text == "same" => ([0, 0], true),
        Some(Arg::Text(text)) if text == "valid" => ([0, 0], false),
        _ => (each(call, 4, "padding", n, 0)?, false),
    };
    let options = ConvOptions {
        stride: each(call, 3, "stride", n, 1)?,
        padding,
        dilation: each(call, 5, "dilation", n, 1)?,
        groups: call.int(6, "groups")?.unwrap_or(1) as usize,
        same,
    };
    let (weight, bias) = (call.tensor(1, "weight")?, call.optional_tensor(2, "bias")?);
    one(match n {
        1 => call.x()?.conv1d(weight, bias, &options),
        _ => call.x()?.conv2d(weight, bias, &options),
    })
}

fn transposed(call: &Call, n: usize) -> Outcome<Vec<Tensor>> {
    let options = ConvOptions {
        stride: each(call, 3, "stride", n, 1)?,
        padding: each(call, 4, "padding", n, 0)?,
        groups: call.int(6, "groups")?.unwrap_or(1) as usize,
        dilation: each(call, 7, "dilation", n, 1)?,
        same: false,
    };
    let more = each(call, 5, "output_padding", n, 0)?;
    let (weight, bias) = (call.tensor(1, "weight")?, call.optional_tensor(2, "bias")?);
    one(match n {
        1 => call.x()?.conv_transpose1d(weight, bias, &options, more[1]),
        _ => call.x()?.conv_transpose2d(weight, bias, &options, more),
    })
}
