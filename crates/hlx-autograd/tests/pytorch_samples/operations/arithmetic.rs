//! Operations of two operands, and choices by a condition.

use hlx_autograd::{Result, Rounding, Tensor};

use super::{one, operand};
use crate::call::{Arg, Call, Outcome, no_form};

type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "mul" => |a, b| a.mul(b),
        "div/no_rounding_mode" | "true_divide" => |a, b| a.div(b),
        "pow" => |a, b| a.pow(b),
        "maximum" | "max/binary" => |a, b| a.maximum(b),
        "minimum" | "min/binary" => |a, b| a.minimum(b),
        "remainder" => |a, b| a.remainder(b),
        "floor_divide" => |a, b| a.floor_divide(b),
        "atan2" => |a, b| a.atan2(b),
        "eq" => |a, b| a.eq(b),
        "ne" => |a, b| a.ne(b),
        "lt" => |a, b| a.lt(b),
        "le" => |a, b| a.le(b),
        "gt" => |a, b| a.gt(b),
        "ge" => |a, b| a.ge(b),
        "logical_and" => |a, b| a.logical_and(b),
        "logical_or" => |a, b| a.logical_or(b),
        "logical_xor" => |a, b| a.logical_xor(b),
        "bitwise_and" => |a, b| a.bitwise_and(b),
        "bitwise_or" => |a, b| a.bitwise_or(b),
        "bitwise_xor" => |a, b| a.bitwise_xor(b),
        "bitwise_left_shift" => |a, b| a.left_shift(b),
        "bitwise_right_shift" => |a, b| a.right_shift(b),
        _ => return None,
    })
}

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    if let Some(operation) = binary(name) {
        return Some(of_two(call, operation));
    }
    Some(match name {
        "add" | "sub" | "rsub" => sum(name, call),
        "div/floor_rounding" | "div/trunc_rounding" => rounded_quotient(call),
        "where" => chosen(call),
        "clamp_min" => of_two(call, |x, low| x.clamp_min(low)),
        "clamp_max" => of_two(call, |x, high| x.clamp_max(high)),
        _ => return None,
    })
}

/// The left operand, which may be a number beside a tensor.
fn left(call: &Call) -> Outcome<Tensor> {
    match call.get(0, "input") {
        Some(Arg::Tensor(x)) => Ok(x.clone()),
        left => operand(call.tensor(1, "other")?, left),
    }
}

fn of_two(call: &Call, operation: Binary) -> Outcome<Vec<Tensor>> {
    let x = left(call)?;
    one(operation(&x, &operand(&x, call.get(1, "other"))?))
}

/// x + alpha y and its like.
fn sum(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = left(call)?;
    let other = operand(&x, call.get(1, "other"))?;
    // `rsub` has its operands the other way round.
    let (x, other) = if name == "rsub" {
        (other, x)
    } else {
        (x, other)
    };
    let Some(alpha) = call.get(2, "alpha") else {
        return one(if name == "add" {
            x.add(&other)
        } else {
            x.sub(&other)
        });
    };
    let alpha = operand(&other, Some(alpha))?;
    one(match name {
        "add" => x.add_scaled(&other, &alpha),
        _ => x.add_scaled(&other, alpha.neg()),
    })
}

fn rounded_quotient(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = left(call)?;
    let other = operand(&x, call.get(1, "other"))?;
    match call.text(2, "rounding_mode")? {
        Some("floor") => one(x.div_rounded(&other, Rounding::Floor)),
        Some("trunc") => one(x.div_rounded(&other, Rounding::Trunc)),
        _ => one(x.div(&other)),
    }
}

fn chosen(call: &Call) -> Outcome<Vec<Tensor>> {
    // The sample's order is `where(x, condition, other)`.
    let condition = call.tensor(1, "condition")?;
    let (x, other) = (call.get(0, "input"), call.get(2, "other"));
    let (Some(x), Some(other)) = (x, other) else {
        return no_form("a condition alone");
    };
    let x = operand(condition, Some(x))?;
    one(x.where_(condition, operand(condition, Some(other))?))
}
