//! Values as Python prints them: `str` and `repr`.

use std::fmt::Write;

use super::chars::is_printable;
use super::error::{Result, fault};
use super::value::{Value, View, lock};

/// Appends `str(value)`.
///
/// # Errors
/// What prints as an address in Python: generators, functions, methods.
pub(crate) fn push_str(text: &mut String, value: &Value) -> Result<()> {
    match value {
        Value::Undefined(_) => Ok(()),
        Value::Text(part, _) => {
            text.push_str(part);
            Ok(())
        }
        value => push_repr(text, value),
    }
}

/// `str(value)`.
pub(crate) fn string(value: &Value) -> Result<String> {
    let mut text = String::new();
    push_str(&mut text, value)?;
    Ok(text)
}

/// Appends `repr(value)`.
///
/// # Errors
/// As [`push_str`].
pub(crate) fn push_repr(text: &mut String, value: &Value) -> Result<()> {
    match value {
        Value::Undefined(_) => text.push_str("Undefined"),
        Value::None => text.push_str("None"),
        Value::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
        Value::Int(value) => _ = write!(text, "{value}"),
        Value::Float(value) => text.push_str(&float(*value)),
        Value::Text(value, safe) => {
            text.push_str(if *safe { "Markup(" } else { "" });
            quoted(text, value);
            text.push_str(if *safe { ")" } else { "" });
        }
        Value::List(list) => listed(text, "[", &list.items, "]")?,
        Value::Tuple(list) => {
            let end = if list.items.len() == 1 { ",)" } else { ")" };
            listed(text, "(", &list.items, end)?;
        }
        Value::Map(map) => pairs(text, &map.pairs)?,
        Value::Range(start, stop, 1) => _ = write!(text, "range({start}, {stop})"),
        Value::Range(start, stop, step) => _ = write!(text, "range({start}, {stop}, {step})"),
        Value::View(view, _) => {
            let name = match view {
                View::Keys => "dict_keys([",
                View::Values => "dict_values([",
                View::Items => "dict_items([",
            };
            listed(text, name, &value.elements()?, "])")?;
        }
        Value::Namespace(namespace) => {
            text.push_str("<Namespace ");
            let values = lock(namespace);
            let values = values
                .iter()
                .map(|(name, value)| (Value::text(name.clone()), value.clone()));
            pairs(text, &values.collect::<Vec<_>>())?;
            text.push('>');
        }
        Value::Loop(state) => {
            let state = lock(state);
            _ = write!(text, "<LoopContext {}/{}>", state.at + 1, state.items.len());
        }
        Value::Macro(found) => {
            text.push_str("<Macro ");
            quoted(text, &found.definition.name);
            text.push('>');
        }
        Value::Group(group) => {
            listed(text, "(", &[group.key.clone(), group.list.clone()], ")")?;
        }
        Value::Iterator(_) | Value::Counter(_) | Value::Function(_) | Value::Method(_) => {
            return Err(fault!(
                "a {} has no text (Python prints its address); a filter such as `list`, or a call, is missing",
                value.type_name()
            ));
        }
    }
    Ok(())
}

fn listed(text: &mut String, begin: &str, items: &[Value], end: &str) -> Result<()> {
    text.push_str(begin);
    for (at, item) in items.iter().enumerate() {
        text.push_str(if at > 0 { ", " } else { "" });
        push_repr(text, item)?;
    }
    text.push_str(end);
    Ok(())
}

fn pairs(text: &mut String, pairs: &[(Value, Value)]) -> Result<()> {
    text.push('{');
    for (at, (key, value)) in pairs.iter().enumerate() {
        text.push_str(if at > 0 { ", " } else { "" });
        push_repr(text, key)?;
        text.push_str(": ");
        push_repr(text, value)?;
    }
    text.push('}');
    Ok(())
}

/// Appends a text in quotes, as Python writes it.
pub(crate) fn quoted(text: &mut String, value: &str) {
    let quote = match value.contains('\'') && !value.contains('"') {
        true => '"',
        false => '\'',
    };
    text.push(quote);
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            char if char == quote => {
                text.push('\\');
                text.push(char);
            }
            char if is_printable(char) => text.push(char),
            char => escaped(text, char),
        }
    }
    text.push(quote);
}

/// Appends the number of a character, as Python escapes it.
pub(crate) fn escaped(text: &mut String, char: char) {
    _ = match u32::from(char) {
        code @ 0..=0xff => write!(text, "\\x{code:02x}"),
        code @ 0..=0xffff => write!(text, "\\u{code:04x}"),
        code => write!(text, "\\U{code:08x}"),
    };
}

/// A float as Python prints it: the shortest digits that give it back, with an exponent from 1e16 and below 1e-4.
pub(crate) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        let text = format!("{value}");
        return match text.contains('.') {
            true => text,
            false => text + ".0",
        };
    }
    format!("{digits}e{}", exponent_text(exponent))
}

/// An exponent with its sign and two digits.
pub(crate) fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.unsigned_abs())
}
