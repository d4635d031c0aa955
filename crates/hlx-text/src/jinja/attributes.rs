//! What `a.b` and `a[b]` find: attributes first for a dot, elements first for brackets, as Jinja's sandbox does.

use std::sync::Arc;

use super::bounds::{Fuel, shown};
use super::error::{Result, fault};
use super::names;
use super::value::{Value, lock};

/// `value.name`
pub(crate) fn attribute(value: &Value, name: &Arc<str>) -> Result<Value> {
    if let Value::Undefined(reason) = value {
        return Err(fault!("{reason}"));
    }
    if let Some(found) = own(value, name)? {
        return Ok(found);
    }
    if let Value::Map(map) = value
        && let Some(found) = map.get_text(name)
    {
        return Ok(found.clone());
    }
    Ok(missing(value, name))
}

fn missing(value: &Value, name: &str) -> Value {
    Value::undefined(format!(
        "undefined: {} has no attribute `{}`",
        value.type_name(),
        shown(name)
    ))
}

/// `value[key]`
pub(crate) fn item(fuel: &mut Fuel, value: &Value, key: &Value) -> Result<Value> {
    fuel.walk(key.size())?;
    if let Value::Text(..) = value {
        fuel.walk(value.size())?;
    }
    if let Value::Undefined(reason) = value {
        return Err(fault!("{reason}"));
    }
    if let Some(found) = element(value, key)? {
        return Ok(found);
    }
    if let Value::Text(name, _) = key {
        return Ok(own(value, name)?.unwrap_or_else(|| missing(value, name)));
    }
    let mut key_text = String::new();
    if key.size().elements < 16 {
        super::print::push_repr(&mut key_text, key).unwrap_or_default();
    }
    Ok(Value::undefined(format!(
        "undefined: {} has no element {}",
        value.type_name(),
        shown(&key_text)
    )))
}

/// The element of a key or a place, if there is one.
pub(crate) fn element(value: &Value, key: &Value) -> Result<Option<Value>> {
    let place = |n: usize| {
        let at = key.as_int()?;
        let at = if at < 0 { at + n as i128 } else { at };
        usize::try_from(at).ok().filter(|at| *at < n)
    };
    Ok(match value {
        Value::Map(map) => map.get(key).cloned(),
        Value::List(list) | Value::Tuple(list) => {
            place(list.items.len()).map(|at| list.items[at].clone())
        }
        Value::Text(text, safe) => {
            let char = place(text.chars().count()).and_then(|at| text.chars().nth(at));
            char.map(|char| Value::Text(char.to_string().into(), *safe))
        }
        Value::Range(start, _, step) => {
            let n = value.length().unwrap_or(0);
            place(n).map(|at| Value::Int(start + at as i128 * step))
        }
        Value::Group(group) => place(2).map(|at| match at {
            0 => group.key.clone(),
            _ => group.list.clone(),
        }),
        _ => None,
    })
}

/// What Python's type of a value has under a name: a method, or an attribute.
fn own(value: &Value, name: &Arc<str>) -> Result<Option<Value>> {
    if name.starts_with("__") && name.ends_with("__") {
        let reason = format!("access to the attribute `{}` is unsafe", shown(name));
        return Ok(Some(Value::undefined(reason)));
    }
    if names::methods(value).contains(&&**name) {
        return Ok(Some(Value::Method(Arc::new((value.clone(), name.clone())))));
    }
    if names::changing(value).contains(&&**name) {
        if value.as_str().is_some() {
            return Err(fault!("the method `{name}` of texts is not known to HLX"));
        }
        let reason = format!(
            "`{name}` changes a {}, which templates cannot",
            value.type_name()
        );
        return Ok(Some(Value::undefined(reason)));
    }
    Ok(match value {
        Value::Group(group) => match &**name {
            "grouper" => Some(group.key.clone()),
            "list" => Some(group.list.clone()),
            _ => None,
        },
        Value::Namespace(namespace) => {
            let values = lock(namespace);
            let found = values.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        }
        Value::Loop(state) => lock(state).attribute(name),
        Value::Macro(found) => match &**name {
            "name" => Some(Value::text(found.definition.name.clone())),
            "arguments" => {
                let names = found.definition.parameters.iter();
                Some(Value::tuple(names.cloned().map(Value::text).collect())?)
            }
            "catch_varargs" => Some(Value::Bool(found.definition.takes.varargs)),
            "catch_kwargs" => Some(Value::Bool(found.definition.takes.kwargs)),
            "caller" => Some(Value::Bool(found.definition.takes.caller)),
            _ => None,
        },
        Value::Counter(counter) if &**name == "current" => {
            let counter = lock(counter);
            counter.items.get(counter.at).cloned()
        }
        Value::Int(_) | Value::Bool(_) | Value::Float(_) if &**name == "real" => {
            Some(value.clone())
        }
        Value::Range(start, stop, step) => match &**name {
            "start" => Some(Value::Int(*start)),
            "stop" => Some(Value::Int(*stop)),
            "step" => Some(Value::Int(*step)),
            _ => None,
        },
        _ => None,
    })
}

/// `value[start:stop:step]`
pub(crate) fn slice(fuel: &mut Fuel, value: &Value, bounds: [Value; 3]) -> Result<Value> {
    let number = |value: &Value| match value {
        Value::None => Ok(None),
        value => match value.as_int() {
            Some(number) => Ok(Some(number)),
            None => Err(fault!("a slice takes integers, not {}", value.type_name())),
        },
    };
    let [start, stop, step] = [
        number(&bounds[0])?,
        number(&bounds[1])?,
        number(&bounds[2])?,
    ];
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(fault!("a slice has a step of 0"));
    }
    let n = match value {
        Value::Undefined(reason) => return Err(fault!("{reason}")),
        Value::Text(..) | Value::List(_) | Value::Tuple(_) | Value::Range(..) => {
            value.length().unwrap_or(0) as i128
        }
        other => return Err(fault!("{} cannot be sliced", other.type_name())),
    };
    let (least, most) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |at: Option<i128>, default: i128| match at {
        None => default,
        Some(at) => (if at < 0 { at.saturating_add(n) } else { at }).clamp(least, most),
    };
    let (first, last) = if step > 0 { (0, n) } else { (n - 1, -1) };
    let (start, stop) = (place(start, first), place(stop, last));
    if let Value::Range(from, _, by) = value {
        let far = || fault!("a slice has a step beyond 63 bits");
        let step = by.checked_mul(step).ok_or_else(far)?;
        if step.unsigned_abs() > 1 << 62 {
            return Err(far());
        }
        return Ok(Value::Range(from + start * by, from + stop * by, step));
    }
    let places = Value::Range(start, stop, step.clamp(-n - 1, n + 1));
    fuel.walk(value.size())?;
    let places = places.items(fuel)?;
    let places = places
        .iter()
        .filter_map(Value::as_int)
        .filter_map(|at| usize::try_from(at).ok());
    Ok(match value {
        Value::Text(text, safe) => {
            fuel.text("a slice", text.len())?;
            let chars: Vec<char> = text.chars().collect();
            let text: String = places.filter_map(|at| chars.get(at)).collect();
            Value::Text(text.into(), *safe)
        }
        Value::List(list) => Value::list(places.map(|at| list.items[at].clone()).collect())?,
        Value::Tuple(list) => Value::tuple(places.map(|at| list.items[at].clone()).collect())?,
        _ => Value::None,
    })
}
