//! The tests of Jinja: `a is name(..)`.

use super::args::Args;
use super::ast::{Comparison, Operator};
use super::bounds::Fuel;
use super::chars;
use super::error::{Result, fault};
use super::names;
use super::ops::{binary, compare, missing};
use super::text_methods::any_text;
use super::value::Value;

/// Whether a test holds for a value.
pub(crate) fn holds(fuel: &mut Fuel, name: &str, value: &Value, args: &Args) -> Result<bool> {
    let comparison = match name {
        "==" | "eq" | "equalto" => Some(Comparison::Equal),
        "!=" | "ne" => Some(Comparison::NotEqual),
        "<" | "lt" | "lessthan" => Some(Comparison::Less),
        "<=" | "le" => Some(Comparison::LessEqual),
        ">" | "gt" | "greaterthan" => Some(Comparison::Greater),
        ">=" | "ge" => Some(Comparison::GreaterEqual),
        "in" => Some(Comparison::In),
        _ => None,
    };
    let one = || {
        let [other] = args.unnamed(name)?;
        other.ok_or_else(|| fault!("{name}: an argument is missing"))
    };
    if let Some(comparison) = comparison {
        return compare(fuel, comparison, value, &one()?);
    }
    match name {
        "divisibleby" => remainder(fuel, value, &one()?, 0.0),
        "sameas" => {
            fuel.walk(value.size())?;
            Ok(is_same(value, &one()?))
        }
        "attr" => Err(fault!("unknown test `{name}`")),
        _ => {
            if !names::TESTS.contains(&name) {
                return Err(fault!("unknown test `{name}`"));
            }
            let [] = args.bind(name, [])?;
            plain(fuel, name, value)
        }
    }
}

fn plain(fuel: &mut Fuel, name: &str, value: &Value) -> Result<bool> {
    use Value::{Bool, Float, Function, Int, Macro, Map, Method, None, Text, Undefined};
    Ok(match name {
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "none" => matches!(value, None),
        "boolean" => matches!(value, Bool(_)),
        "true" => matches!(value, Bool(true)),
        "false" => matches!(value, Bool(false)),
        "integer" => matches!(value, Int(_)),
        "float" => matches!(value, Float(_)),
        "number" => matches!(value, Int(_) | Float(_) | Bool(_)),
        "string" => matches!(value, Text(..)),
        "mapping" => matches!(value, Map(_)),
        "iterable" => is_iterable(value),
        "sequence" => matches!(
            value,
            Undefined(_)
                | Text(..)
                | Value::List(_)
                | Value::Tuple(_)
                | Map(_)
                | Value::Range(..)
                | Value::Group(_)
        ),
        "callable" => match value {
            // Python's classes of values are not values here; `Undefined` has a method that makes it callable.
            Undefined(_) | Function(_) | Macro(_) | Method(_) | Value::Loop(_) => true,
            Value::Counter(counter) => super::value::lock(counter).is_joiner,
            _ => false,
        },
        "escaped" => matches!(value, Text(_, true)),
        "even" => remainder(fuel, value, &Int(2), 0.0)?,
        "odd" => remainder(fuel, value, &Int(2), 1.0)?,
        "filter" | "test" => {
            let all = if name == "filter" {
                names::FILTERS
            } else {
                names::TESTS
            };
            value.as_str().is_some_and(|name| all.contains(&name))
        }
        _ => {
            let text = any_text(fuel, value)?;
            fuel.text(name, text.len())?;
            let has = |test: fn(char) -> bool| text.chars().any(test);
            match name {
                "lower" => has(chars::is_cased) && !has(char::is_uppercase),
                _ => has(chars::is_cased) && !has(char::is_lowercase),
            }
        }
    })
}

fn is_iterable(value: &Value) -> bool {
    matches!(
        value,
        Value::Undefined(_)
            | Value::Text(..)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Map(_)
            | Value::Range(..)
            | Value::View(..)
            | Value::Iterator(_)
            | Value::Group(_)
            | Value::Loop(_)
    )
}

/// Whether the remainder of a division is this.
fn remainder(fuel: &mut Fuel, value: &Value, divisor: &Value, wanted: f64) -> Result<bool> {
    if value.as_float().is_none() {
        return Err(match value {
            Value::Undefined(_) => missing(value),
            other => fault!("{} cannot be divided", other.type_name()),
        });
    }
    let remainder = binary(fuel, Operator::Modulo, value, divisor)?;
    Ok(remainder.as_float() == Some(wanted))
}

/// Python's `is`, as far as it is sure.
fn is_same(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Text(a, safe), Value::Text(b, other)) => a == b && safe == other,
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            std::sync::Arc::ptr_eq(a, b)
        }
        (Value::Map(a), Value::Map(b)) => std::sync::Arc::ptr_eq(a, b),
        (Value::Undefined(_), Value::Undefined(_)) => false,
        _ => false,
    }
}
