//! The filters of Jinja: which name is which function.

use super::args::{Args, integer, text, truth};
use super::attributes;
use super::bounds::{Fuel, check_width};
use super::error::{Result, fault};
use super::eval::Machine;
use super::json::{Layout, dumps};
use super::text_methods::{self, any_text};
use super::value::Value;
use super::{chars, filters_lists, filters_numbers, filters_texts, names, percent};

/// Applies a filter.
pub(crate) fn apply(
    machine: &mut Machine<'_>,
    name: &str,
    value: Value,
    args: Args,
) -> Result<Value> {
    if names::REFUSED_FILTERS.contains(&name) {
        return Err(fault!("the filter `{name}` is not known to HLX"));
    }
    if !names::FILTERS.contains(&name) {
        return Err(fault!("unknown filter `{}`", super::bounds::shown(name)));
    }
    match name {
        "default" | "d" => {
            let [default, boolean] = args.bind(name, ["default_value", "boolean"])?;
            let is_missing =
                value.is_undefined() || (truth(boolean.as_ref(), false) && !value.truth());
            Ok(match is_missing {
                true => default.unwrap_or_else(|| Value::text("")),
                false => value,
            })
        }
        "attr" => attribute(&value, &args),
        "tojson" => {
            let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
            let layout = Layout::of(args.bind("tojson", names)?)?;
            Ok(Value::text(dumps(&mut machine.fuel, &value, layout)?))
        }
        "length" | "count" => {
            let [] = args.bind(name, [])?;
            if let Value::Text(..) = value {
                machine.fuel.walk(value.size())?;
            }
            match value.length() {
                Some(length) => Ok(Value::Int(length as i128)),
                None => Err(fault!("{name}: {} has no length", value.type_name())),
            }
        }
        "abs" | "int" | "float" | "round" | "sum" | "filesizeformat" => {
            filters_numbers::apply(machine, name, &value, &args)
        }
        "capitalize" | "lower" | "title" | "upper" | "string" | "trim" | "center" | "replace"
        | "indent" | "truncate" | "wordcount" | "format" => texts(machine, name, &value, &args),
        "e" | "escape" | "forceescape" | "safe" | "urlencode" | "xmlattr" | "pprint" => {
            filters_texts::apply(machine, name, &value, &args)
        }
        _ => filters_lists::apply(machine, name, &value, args),
    }
}

/// An attribute, never an element.
fn attribute(value: &Value, args: &Args) -> Result<Value> {
    let [name] = args.bind("attr", ["name"])?;
    let name = text("attr", name.as_ref())?;
    match value {
        Value::Map(_) if !names::methods(value).contains(&&*name) => Ok(Value::undefined(format!(
            "undefined: dict has no attribute `{name}`"
        ))),
        value => attributes::attribute(value, &name),
    }
}

/// Filters of texts; a text that is safe stays so where Jinja leaves it so.
fn texts(machine: &mut Machine<'_>, name: &str, value: &Value, args: &Args) -> Result<Value> {
    let fuel = &mut machine.fuel;
    let is_safe = matches!(value, Value::Text(_, true));
    if name == "indent" {
        return filters_texts::indent(fuel, value, args);
    }
    if name == "truncate" && value.as_str().is_none() && !value.is_undefined() {
        return Err(fault!(
            "truncate: a text is expected, not {}",
            value.type_name()
        ));
    }
    let this = any_text(fuel, value)?;
    fuel.text(name, this.len())?;
    let made = match name {
        "trim" => {
            let [chars] = args.bind(name, ["chars"])?;
            text_methods::strip(fuel, &this, chars.as_ref(), true, true)?
        }
        "center" => {
            let [width] = args.bind(name, ["width"])?;
            let width = integer(name, width.as_ref())?.unwrap_or(80).max(0);
            let width = usize::try_from(width).unwrap_or(usize::MAX);
            check_width(name, width)?;
            text_methods::center(&this, width, ' ').into()
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let (Some(old), Some(new)) = (old, new) else {
                return Err(fault!("replace: an argument is missing"));
            };
            let (old, new) = (any_text(fuel, &old)?, any_text(fuel, &new)?);
            let count = integer(name, count.as_ref())?;
            return Ok(Value::text(text_methods::replace(
                fuel, &this, &old, &new, count,
            )?));
        }
        "truncate" => filters_texts::truncate(&this, args)?.into(),
        "wordcount" => {
            let [] = args.bind(name, [])?;
            let is_word = |char: char| char == '_' || chars::is_alphanumeric(char);
            let words = this
                .split(|char| !is_word(char))
                .filter(|word| !word.is_empty());
            return Ok(Value::Int(words.count() as i128));
        }
        "format" => {
            if is_safe {
                return Err(fault!("format: a text that is safe is no format"));
            }
            let values = match (args.positional.is_empty(), args.named.is_empty()) {
                (_, true) => Value::tuple(args.positional.clone())?,
                (true, false) => {
                    let pairs = args.named.iter().cloned();
                    Value::map(
                        pairs
                            .map(|(name, value)| (Value::text(name), value))
                            .collect(),
                    )?
                }
                _ => return Err(fault!("format: values by place or by name, not both")),
            };
            return percent::format(fuel, &this, &values);
        }
        _ => {
            let [] = args.bind(name, [])?;
            match name {
                "capitalize" => chars::capitalize(&this).into(),
                "lower" => this.to_lowercase().into(),
                "upper" => this.to_uppercase().into(),
                "title" => filters_texts::title(&this).into(),
                _ => this,
            }
        }
    };
    Ok(Value::Text(made, is_safe))
}

/// What `make_attrgetter` of Jinja reads: elements by a path with dots, whose numbers are places.
pub(crate) fn by_path(
    fuel: &mut Fuel,
    value: &Value,
    path: Option<&Value>,
    default: Option<&Value>,
) -> Result<Value> {
    let mut found = value.clone();
    let parts: Vec<Value> = match path {
        None | Some(Value::None) => Vec::new(),
        Some(Value::Text(path, _)) => {
            check_width("attribute", path.len())?;
            let part = |part: &str| match part.parse::<u32>() {
                Ok(at) if !part.starts_with('+') => Value::Int(i128::from(at)),
                _ => Value::text(part),
            };
            path.split('.').map(part).collect()
        }
        Some(place) => vec![place.clone()],
    };
    fuel.take(parts.len())?;
    for part in parts {
        found = attributes::item(fuel, &found, &part)?;
        if let (true, Some(default)) = (found.is_undefined(), default) {
            found = default.clone();
        }
    }
    Ok(found)
}

/// A key without its case.
pub(crate) fn without_case(fuel: &mut Fuel, value: Value, case_sensitive: bool) -> Result<Value> {
    match &value {
        Value::Text(text, _) if !case_sensitive => {
            fuel.text("a key", text.len())?;
            Ok(Value::text(text.to_lowercase()))
        }
        _ => Ok(value),
    }
}
