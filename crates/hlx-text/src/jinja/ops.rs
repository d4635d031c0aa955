//! Python's operators.

use std::cmp::Ordering;

use super::ast::{Comparison, Operator};
use super::bounds::Fuel;
use super::error::{Error, Result, fault};
use super::percent;
use super::value::{Value, View};

/// An operation of two values.
pub(crate) fn binary(
    fuel: &mut Fuel,
    operator: Operator,
    left: &Value,
    right: &Value,
) -> Result<Value> {
    match (operator, left, right) {
        (_, value @ Value::Undefined(_), _) | (_, _, value @ Value::Undefined(_))
            if !(operator == Operator::Modulo && left.as_str().is_some()) =>
        {
            Err(missing(value))
        }
        (Operator::Modulo, Value::Text(format, false), right) => {
            percent::format(fuel, format, right)
        }
        (Operator::Add, ..) => add(fuel, left, right),
        (Operator::Multiply, ..) if left.as_float().is_none() || right.as_float().is_none() => {
            repeat(fuel, left, right)
        }
        _ => number(operator, left, right),
    }
}

/// The error of using what is undefined.
pub(crate) fn missing(value: &Value) -> Error {
    match value {
        Value::Undefined(reason) => fault!("{reason}"),
        _ => fault!("undefined value"),
    }
}

fn unsupported(operator: Operator, left: &Value, right: &Value) -> Error {
    let sign = match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Modulo => "%",
        Operator::Power => "**",
    };
    fault!(
        "cannot compute {} {sign} {}",
        left.type_name(),
        right.type_name()
    )
}

fn add(fuel: &mut Fuel, left: &Value, right: &Value) -> Result<Value> {
    match (left, right) {
        (Value::Text(a, false), Value::Text(b, false)) => {
            fuel.text("+", a.len() + b.len())?;
            Ok(Value::text([&**a, &**b].concat()))
        }
        // What is safe stays so: the other text is escaped.
        (Value::Text(a, safe), Value::Text(b, other)) => {
            fuel.text("+", (a.len() + b.len()) * 5)?;
            let part = |text: &str, safe: bool| match safe {
                true => text.to_owned(),
                false => escape(text),
            };
            Ok(Value::Text(
                (part(a, *safe) + &part(b, *other)).into(),
                true,
            ))
        }
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            fuel.elements(a.items.len() + b.items.len())?;
            let items = a.items.iter().chain(&b.items).cloned().collect();
            match left {
                Value::List(_) => Value::list(items),
                _ => Value::tuple(items),
            }
        }
        _ => number(Operator::Add, left, right),
    }
}

/// Escapes a text for HTML, as MarkupSafe does.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

fn repeat(fuel: &mut Fuel, left: &Value, right: &Value) -> Result<Value> {
    let (value, n) = match (left.as_int(), right.as_int()) {
        (None, Some(n)) => (left, n),
        (Some(n), None) => (right, n),
        _ => return Err(unsupported(Operator::Multiply, left, right)),
    };
    let n = usize::try_from(n.max(0)).unwrap_or(usize::MAX);
    match value {
        Value::Text(text, safe) => {
            fuel.text("*", text.len().saturating_mul(n))?;
            let n = if text.is_empty() { 0 } else { n };
            Ok(Value::Text(text.repeat(n).into(), *safe))
        }
        Value::List(list) | Value::Tuple(list) => {
            let n = if list.items.is_empty() { 0 } else { n };
            fuel.elements(list.items.len().saturating_mul(n))?;
            let items = std::iter::repeat_n(&list.items, n)
                .flatten()
                .cloned()
                .collect();
            match value {
                Value::List(_) => Value::list(items),
                _ => Value::tuple(items),
            }
        }
        _ => Err(unsupported(Operator::Multiply, left, right)),
    }
}

/// Arithmetic of numbers: integers stay exact, `/` gives a float, and a remainder has the sign of the divisor.
fn number(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    let zero = || fault!("division by zero");
    let (Some(x), Some(y)) = (left.as_float(), right.as_float()) else {
        return Err(unsupported(operator, left, right));
    };
    let divides = matches!(
        operator,
        Operator::Divide | Operator::FloorDivide | Operator::Modulo
    );
    if divides && y == 0.0 {
        return Err(zero());
    }
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int())
        && operator != Operator::Divide
        && !(operator == Operator::Power && b < 0)
    {
        return integer(operator, a, b);
    }
    Ok(Value::Float(match operator {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::FloorDivide => {
            let remainder = float_remainder(x, y);
            ((x - remainder) / y).round()
        }
        Operator::Modulo => float_remainder(x, y),
        Operator::Power => return power(left, right),
    }))
}

/// Powers of floats whose result is the same on every system: those of a general exponent are not.
fn power(left: &Value, right: &Value) -> Result<Value> {
    let (x, y) = (
        left.as_float().unwrap_or(0.0),
        right.as_float().unwrap_or(0.0),
    );
    if x == 0.0 && y < 0.0 {
        return Err(fault!("division by zero"));
    }
    if let (Some(base), Some(exponent)) = (left.as_int(), right.as_int()) {
        let exponent = exponent.checked_neg().ok_or_else(large)?;
        let whole = integer(Operator::Power, base, exponent)?;
        return Ok(Value::Float(1.0 / whole.as_float().unwrap_or(1.0)));
    }
    Ok(Value::Float(match y {
        0.0 => 1.0,
        1.0 => x,
        2.0 => x * x,
        0.5 if x >= 0.0 => x.sqrt(),
        _ => return Err(fault!("powers of fractions are not known to HLX")),
    }))
}

fn float_remainder(x: f64, y: f64) -> f64 {
    let remainder = x % y;
    match remainder {
        0.0 => 0.0_f64.copysign(y),
        remainder if (remainder < 0.0) != (y < 0.0) => remainder + y,
        remainder => remainder,
    }
}

/// The error of an integer that HLX does not have.
pub(crate) fn large() -> Error {
    fault!("an integer is beyond 128 bits")
}

fn integer(operator: Operator, a: i128, b: i128) -> Result<Value> {
    let floor = |a: i128, b: i128| {
        let (quotient, remainder) = (a.checked_div(b)?, a.checked_rem(b)?);
        Some(match remainder != 0 && (remainder < 0) != (b < 0) {
            true => (quotient - 1, remainder + b),
            false => (quotient, remainder),
        })
    };
    let value = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::FloorDivide => floor(a, b).map(|(quotient, _)| quotient),
        Operator::Modulo if b == -1 => Some(0),
        Operator::Modulo => floor(a, b).map(|(_, remainder)| remainder),
        Operator::Power => match u32::try_from(b) {
            Ok(exponent) => a.checked_pow(exponent),
            Err(_) if [0, 1].contains(&a) => Some(a),
            Err(_) => None,
        },
        Operator::Divide => None,
    };
    value.map(Value::Int).ok_or_else(large)
}

/// Compares two values by an operator.
pub(crate) fn compare(
    fuel: &mut Fuel,
    comparison: Comparison,
    left: &Value,
    right: &Value,
) -> Result<bool> {
    let ordered = |left: &Value, right: &Value| order(left, right);
    fuel.walk(left.size())?;
    Ok(match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => !equal(left, right),
        Comparison::In => contains(fuel, right, left)?,
        Comparison::NotIn => !contains(fuel, right, left)?,
        Comparison::Less => ordered(left, right)? == Some(Ordering::Less),
        Comparison::Greater => ordered(left, right)? == Some(Ordering::Greater),
        Comparison::LessEqual => {
            matches!(
                ordered(left, right)?,
                Some(Ordering::Less | Ordering::Equal)
            )
        }
        Comparison::GreaterEqual => {
            matches!(
                ordered(left, right)?,
                Some(Ordering::Greater | Ordering::Equal)
            )
        }
    })
}

/// Python's `==`.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    use Value::{Bool, Float, Group, Int, Iterator, List, Map, Text, Tuple};
    match (left, right) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Text(a, _), Text(b, _)) => a == b,
        (Int(_) | Bool(_), Int(_) | Bool(_)) => left.as_int() == right.as_int(),
        (Int(_) | Bool(_) | Float(_), Int(_) | Bool(_) | Float(_)) => {
            left.as_float() == right.as_float()
        }
        (List(a), List(b)) | (Tuple(a), Tuple(b)) => {
            a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| equal(a, b))
        }
        (Map(a), Map(b)) => {
            let mut pairs = a.pairs.iter();
            a.pairs.len() == b.pairs.len()
                && pairs.all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        (Value::Range(a, _, step), Value::Range(b, _, other)) => {
            let n = left.length().unwrap_or(0);
            right.length() == Some(n) && (n == 0 || (a == b && (n == 1 || step == other)))
        }
        (Value::View(View::Keys, a), Value::View(View::Keys, b)) => {
            a.pairs.len() == b.pairs.len() && a.pairs.iter().all(|(key, _)| b.get(key).is_some())
        }
        (Group(a), Group(b)) => equal(&a.key, &b.key) && equal(&a.list, &b.list),
        (Iterator(a), Iterator(b)) => std::sync::Arc::ptr_eq(a, b),
        (Value::Namespace(a), Value::Namespace(b)) => std::sync::Arc::ptr_eq(a, b),
        (Value::Macro(a), Value::Macro(b)) => std::sync::Arc::ptr_eq(a, b),
        (Value::Function(a), Value::Function(b)) => a == b,
        _ => false,
    }
}

/// Python's order of two values; none for a comparison with NaN.
///
/// # Errors
/// Values that have no order.
pub(crate) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>> {
    use Value::{List, Text, Tuple};
    match (left, right) {
        (value @ Value::Undefined(_), _) | (_, value @ Value::Undefined(_)) => Err(missing(value)),
        (Text(a, _), Text(b, _)) => Ok(Some(a.cmp(b))),
        (List(a), List(b)) | (Tuple(a), Tuple(b)) => {
            let mut pairs = a.items.iter().zip(&b.items);
            match pairs.find(|(a, b)| !equal(a, b)) {
                Some((a, b)) => order(a, b),
                None => Ok(Some(a.items.len().cmp(&b.items.len()))),
            }
        }
        (Value::Group(a), Value::Group(b)) => match equal(&a.key, &b.key) {
            true => order(&a.list, &b.list),
            false => order(&a.key, &b.key),
        },
        _ => match (
            left.as_int(),
            right.as_int(),
            left.as_float(),
            right.as_float(),
        ) {
            (Some(a), Some(b), ..) => Ok(Some(a.cmp(&b))),
            (_, _, Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
            _ => Err(fault!(
                "{} and {} have no order",
                left.type_name(),
                right.type_name()
            )),
        },
    }
}

/// Whether `item` is in `container`.
pub(crate) fn contains(fuel: &mut Fuel, container: &Value, item: &Value) -> Result<bool> {
    fuel.walk(container.size())?;
    match container {
        Value::Text(text, _) => match item {
            Value::Text(part, _) => Ok(text.contains(&**part)),
            Value::Undefined(_) => Err(missing(item)),
            other => Err(fault!(
                "`in` a text takes a text, not {}",
                other.type_name()
            )),
        },
        Value::Map(map) | Value::View(View::Keys, map) => {
            match super::collections::Key::of(item).is_some() || item.is_undefined() {
                true => Ok(map.get(item).is_some()),
                false => Err(fault!("{} cannot be the key of a map", item.type_name())),
            }
        }
        Value::Iterator(iter) => {
            while let Some(other) = iter.next() {
                if equal(&other, item) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        other => Ok(other.items(fuel)?.iter().any(|other| equal(other, item))),
    }
}
