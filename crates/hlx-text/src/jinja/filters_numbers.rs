//! Filters that make numbers.

use super::args::{Args, integer, text};
use super::ast::Operator;
use super::chars::{is_decimal, is_space};
use super::error::{Result, fault};
use super::eval::Machine;
use super::filters::by_path;
use super::ops::{binary, large, missing};
use super::value::Value;

/// Applies a filter.
pub(crate) fn apply(
    machine: &mut Machine<'_>,
    name: &str,
    value: &Value,
    args: &Args,
) -> Result<Value> {
    if value.is_undefined() && name != "sum" {
        return Err(missing(value));
    }
    match name {
        "abs" => {
            let [] = args.bind(name, [])?;
            match (value, value.as_int()) {
                (Value::Float(value), _) => Ok(Value::Float(value.abs())),
                (_, Some(value)) => value.checked_abs().map(Value::Int).ok_or_else(large),
                _ => Err(fault!(
                    "abs: a number is expected, not {}",
                    value.type_name()
                )),
            }
        }
        "int" => {
            let [default, base] = args.bind(name, ["default", "base"])?;
            let base = integer(name, base.as_ref())?.unwrap_or(10);
            let default = default.unwrap_or(Value::Int(0));
            machine.fuel.text(name, value.size().bytes)?;
            whole(value, base, default)
        }
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            machine.fuel.text(name, value.size().bytes)?;
            let parsed = match value {
                Value::Text(text, _) => parsed_float(text),
                value => value.as_float(),
            };
            let default = default.unwrap_or(Value::Float(0.0));
            Ok(parsed.map_or(default, Value::Float))
        }
        "round" => round(value, args),
        "sum" => sum(machine, value, args),
        _ => {
            machine.fuel.text(name, value.size().bytes)?;
            file_size(value, args)
        }
    }
}

fn whole(value: &Value, base: i128, default: Value) -> Result<Value> {
    let found = match value {
        Value::Text(text, _) => match parsed_int(text, base) {
            Some(value) => return Ok(Value::Int(value)),
            None => parsed_float(text),
        },
        Value::Float(value) => Some(*value),
        other => match other.as_int() {
            Some(value) => return Ok(Value::Int(value)),
            None => None,
        },
    };
    match found {
        Some(value) if value.is_infinite() && matches!(default, Value::Int(0)) => Ok(default),
        Some(value) if value.is_finite() && value.abs() < 1e38 => Ok(Value::Int(value as i128)),
        Some(value) if value.is_finite() => Err(fault!("int: {value:e} is beyond 128 bits")),
        _ => Ok(default),
    }
}

/// A text without the white space around it, its digits as ASCII, and underscores between digits left out.
fn digits(text: &str) -> Option<String> {
    let text = text.trim_matches(is_space);
    let mut plain = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '_' {
            let joins =
                before.is_alphanumeric() && chars.peek().is_some_and(|next| next.is_alphanumeric());
            if !joins {
                return None;
            }
        } else if !char.is_ascii() && is_decimal(char) {
            // Digits of each script are ten in a row.
            let mut zero = u32::from(char);
            let is_digit = |code: u32| char::from_u32(code).is_some_and(is_decimal);
            let from = (zero.saturating_sub(9)..zero)
                .rev()
                .take_while(|&code| is_digit(code));
            zero -= from.count() as u32;
            plain.extend(char::from_digit(u32::from(char) - zero, 10));
        } else {
            plain.push(char);
        }
        before = char;
    }
    Some(plain)
}

fn parsed_int(text: &str, base: i128) -> Option<i128> {
    let base = u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base))?;
    let text = digits(text)?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let prefix = match base {
        16 => ["0x", "0X"],
        8 => ["0o", "0O"],
        2 => ["0b", "0B"],
        _ => ["\0", "\0"],
    };
    let stripped = prefix
        .iter()
        .find_map(|prefix| unsigned.strip_prefix(prefix));
    let number = stripped.unwrap_or(unsigned);
    if number.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from_str_radix(number, base).ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

fn parsed_float(text: &str) -> Option<f64> {
    // Rust reads what Python reads, apart from underscores and digits of other scripts.
    digits(text)?.parse().ok()
}

/// Python's `round`, half to even of the exact value; `ceil` and `floor` give a float.
fn round(value: &Value, args: &Args) -> Result<Value> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let precision = integer("round", precision.as_ref())?.unwrap_or(0);
    let precision = i32::try_from(precision)
        .ok()
        .filter(|precision| precision.abs() <= 300);
    let precision = precision.ok_or_else(|| fault!("round: a precision of more than 300"))?;
    let method = match &method {
        Some(method) => text("round", Some(method))?,
        None => "common".into(),
    };
    let number = value.as_float();
    let number =
        number.ok_or_else(|| fault!("round: a number is expected, not {}", value.type_name()))?;
    let scale: f64 = format!("1e{precision}").parse().unwrap_or(1.0);
    match (&*method, value.as_int()) {
        ("common", Some(whole)) if precision >= 0 => Ok(Value::Int(whole)),
        ("common", Some(whole)) => {
            let unit = 10_i128.checked_pow(precision.unsigned_abs());
            let unit = unit.ok_or_else(|| fault!("round: the precision is too large"))?;
            let (low, rest) = match (whole / unit, whole % unit) {
                (low, rest) if rest < 0 => (low - 1, rest + unit),
                parts => parts,
            };
            let is_up = rest > unit - rest || (rest == unit - rest && low % 2 != 0);
            let rounded = (low + i128::from(is_up)).checked_mul(unit);
            rounded.map(Value::Int).ok_or_else(large)
        }
        ("common", None) if number.is_finite() && precision >= 0 => {
            let text = format!("{number:.*}", precision.unsigned_abs() as usize);
            Ok(Value::Float(text.parse().unwrap_or(number)))
        }
        ("common", None) => Ok(Value::Float((number * scale).round_ties_even() / scale)),
        ("ceil", _) => Ok(Value::Float((number * scale).ceil() / scale)),
        ("floor", _) => Ok(Value::Float((number * scale).floor() / scale)),
        _ => Err(fault!("round: the method is `common`, `ceil` or `floor`")),
    }
}

fn sum(machine: &mut Machine<'_>, value: &Value, args: &Args) -> Result<Value> {
    let [attribute, start] = args.bind("sum", ["attribute", "start"])?;
    let mut total = start.unwrap_or(Value::Int(0));
    if total.as_str().is_some() {
        return Err(fault!("sum: texts are joined by the filter `join`"));
    }
    for item in value.items(&mut machine.fuel)? {
        let item = by_path(&mut machine.fuel, &item, attribute.as_ref(), None)?;
        total = binary(&mut machine.fuel, Operator::Add, &total, &item)?;
    }
    Ok(total)
}

fn file_size(value: &Value, args: &Args) -> Result<Value> {
    let [binary] = args.bind("filesizeformat", ["binary"])?;
    let is_binary = binary.is_some_and(|binary| binary.truth());
    let bytes = match value {
        Value::Text(text, _) => parsed_float(text),
        value => value.as_float(),
    };
    let bytes = bytes.ok_or_else(|| fault!("filesizeformat: a number is expected"))?;
    let (base, middle) = if is_binary {
        (1024.0, "i")
    } else {
        (1000.0_f64, "")
    };
    if bytes == 1.0 {
        return Ok(Value::text("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::text(format!("{} Bytes", bytes as i64)));
    }
    let mut unit = base;
    let mut text = String::new();
    for prefix in ["k", "M", "G", "T", "P", "E", "Z", "Y"] {
        let prefix = if is_binary {
            prefix.to_uppercase()
        } else {
            prefix.to_owned()
        };
        unit *= base;
        text = format!("{:.1} {prefix}{middle}B", base * bytes / unit);
        if bytes < unit {
            break;
        }
    }
    Ok(Value::text(text))
}
