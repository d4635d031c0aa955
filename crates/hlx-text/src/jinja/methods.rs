//! Methods of values that are not texts.

use super::args::{Args, integer};
use super::bounds::Fuel;
use super::error::{Result, fault};
use super::names;
use super::ops::equal;
use super::text_methods;
use super::value::{Value, View, lock};

/// Calls a method.
pub(crate) fn call(fuel: &mut Fuel, value: &Value, name: &str, args: &Args) -> Result<Value> {
    if !names::methods(value).contains(&name) {
        return Err(fault!(
            "unknown method: {} has no `{name}`",
            value.type_name()
        ));
    }
    match value {
        Value::Text(text, safe) => {
            let result = text_methods::call(fuel, text, name, args)?;
            if *safe {
                safe_again(result)
            } else {
                Ok(result)
            }
        }
        Value::Map(map) => match name {
            "get" => {
                let [key, default] = args.unnamed("get")?;
                let key = key.ok_or_else(|| fault!("get: an argument is missing"))?;
                fuel.walk(key.size())?;
                let found = map.get(&key).cloned();
                Ok(found.or(default).unwrap_or(Value::None))
            }
            "fromkeys" => from_keys(fuel, args),
            _ => {
                let [] = args.bind(name, [])?;
                Ok(match name {
                    "copy" => value.clone(),
                    "keys" => Value::View(View::Keys, map.clone()),
                    "values" => Value::View(View::Values, map.clone()),
                    _ => Value::View(View::Items, map.clone()),
                })
            }
        },
        Value::List(_) | Value::Tuple(_) | Value::Range(..) | Value::Group(_) => {
            listed(fuel, value, name, args)
        }
        Value::Loop(state) => lock(state).call(fuel, name, args),
        Value::Counter(counter) => lock(counter).call(name),
        Value::Function(_) => from_keys(fuel, args),
        Value::Float(number) => Ok(Value::Bool(number.is_finite() && number.fract() == 0.0)),
        _ => {
            let number = value.as_int().unwrap_or(0).unsigned_abs();
            Ok(Value::Int(i128::from(128 - number.leading_zeros())))
        }
    }
}

/// The texts that a method makes of a safe text are safe.
fn safe_again(value: Value) -> Result<Value> {
    let all = |items: &[Value]| {
        items
            .iter()
            .cloned()
            .map(safe_again)
            .collect::<Result<Vec<_>>>()
    };
    match value {
        Value::Text(text, _) => Ok(Value::Text(text, true)),
        Value::List(list) => Value::list(all(&list.items)?),
        Value::Tuple(list) => Value::tuple(all(&list.items)?),
        other => Ok(other),
    }
}

fn listed(fuel: &mut Fuel, value: &Value, name: &str, args: &Args) -> Result<Value> {
    if name == "copy" {
        return Ok(value.clone());
    }
    fuel.walk(value.size())?;
    let [wanted, start, stop] = args.unnamed(name)?;
    let wanted = wanted.ok_or_else(|| fault!("{name}: an argument is missing"))?;
    let items = value.items(fuel)?;
    if name == "count" {
        let n = items.iter().filter(|item| equal(item, &wanted)).count();
        return Ok(Value::Int(n as i128));
    }
    let place = |at: Option<i128>, default: usize| match at {
        None => default,
        Some(at) if at < 0 => usize::try_from(at + items.len() as i128).unwrap_or(0),
        Some(at) => usize::try_from(at).unwrap_or(usize::MAX),
    };
    let start = place(integer(name, start.as_ref())?, 0);
    let stop = place(integer(name, stop.as_ref())?, usize::MAX);
    let mut places = items.iter().enumerate();
    let found = places.find(|(at, item)| *at >= start && *at < stop && equal(item, &wanted));
    match found {
        Some((at, _)) => Ok(Value::Int(at as i128)),
        None => Err(fault!(
            "index: the value is not in the {}",
            value.type_name()
        )),
    }
}

/// `dict.fromkeys(keys, value)`
fn from_keys(fuel: &mut Fuel, args: &Args) -> Result<Value> {
    let [keys, value] = args.unnamed("fromkeys")?;
    let keys = keys.ok_or_else(|| fault!("fromkeys: an argument is missing"))?;
    let value = value.unwrap_or(Value::None);
    let keys = keys.items(fuel)?;
    fuel.take(keys.len() * 2)?;
    let pairs = keys.into_iter().map(|key| (key, value.clone()));
    Value::map(pairs.collect())
}
