//! Filters of lists, maps and iterators.

use std::collections::HashSet;
use std::sync::Arc;

use super::args::{Args, integer, text, truth};
use super::bounds::{Fuel, check_width};
use super::collections::Key;
use super::error::{Result, fault};
use super::eval::Machine;
use super::filters::{self, by_path, without_case};
use super::objects::Group;
use super::ops::{equal, order};
use super::sorting::sorted_by_keys;
use super::tests;
use super::text_methods::any_text;
use super::value::Value;

/// Arguments that `map`, `select` and the like hand on.
const MAX_ARGUMENTS: usize = 16;

/// Applies a filter.
pub(crate) fn apply(
    machine: &mut Machine<'_>,
    name: &str,
    value: &Value,
    args: Args,
) -> Result<Value> {
    if let "first" | "last" = name {
        return end_of(machine, name, value, &args);
    }
    machine.fuel.walk(value.size())?;
    match name {
        "list" => {
            let [] = args.bind(name, [])?;
            let items = value.items(&mut machine.fuel)?;
            made(machine, items, Value::list)
        }
        "reverse" => {
            let [] = args.bind(name, [])?;
            reverse(machine, value)
        }
        "items" => {
            let [] = args.bind(name, [])?;
            let items = match value {
                Value::Undefined(_) => Vec::new(),
                Value::Map(map) => {
                    Value::View(super::value::View::Items, map.clone()).items(&mut machine.fuel)?
                }
                other => {
                    return Err(fault!(
                        "items: a map is expected, not {}",
                        other.type_name()
                    ));
                }
            };
            made(machine, items, Value::iterator)
        }
        "join" => join(machine, value, &args),
        "map" => map(machine, value, &args),
        "select" | "reject" | "selectattr" | "rejectattr" => select(machine, name, value, &args),
        "sort" | "dictsort" => sort(machine, name, value, &args),
        "unique" => unique(machine, value, &args),
        "min" | "max" => extreme(machine, name, value, &args),
        "groupby" => group_by(machine, value, &args),
        _ => pieces(machine, name, value, &args),
    }
}

/// A list or an iterator, whose making is charged.
fn made(
    machine: &mut Machine<'_>,
    items: Vec<Value>,
    make: fn(Vec<Value>) -> Result<Value>,
) -> Result<Value> {
    machine.fuel.elements(items.len())?;
    make(items)
}

fn end_of(machine: &mut Machine<'_>, name: &str, value: &Value, args: &Args) -> Result<Value> {
    let [] = args.bind(name, [])?;
    let found = match (name, value) {
        ("first", Value::Iterator(iter)) => iter.next(),
        ("first", Value::List(list) | Value::Tuple(list)) => list.items.first().cloned(),
        (_, Value::List(list) | Value::Tuple(list)) => list.items.last().cloned(),
        (_, Value::Text(text, safe)) => {
            let mut chars = text.chars();
            let char = match name {
                "first" => chars.next(),
                _ => chars.next_back(),
            };
            char.map(|char| Value::Text(char.to_string().into(), *safe))
        }
        ("first", value) => value.items(&mut machine.fuel)?.into_iter().next(),
        (_, Value::Iterator(_)) => {
            return Err(fault!("last: a generator has no end; use `list` before"));
        }
        (_, value) => value.items(&mut machine.fuel)?.pop(),
    };
    Ok(found.unwrap_or_else(|| Value::undefined(format!("undefined: there is no {name} item"))))
}

fn reverse(machine: &mut Machine<'_>, value: &Value) -> Result<Value> {
    if let Value::Text(text, safe) = value {
        machine.fuel.text("reverse", text.len())?;
        return Ok(Value::Text(
            text.chars().rev().collect::<String>().into(),
            *safe,
        ));
    }
    let mut items = value.items(&mut machine.fuel)?;
    items.reverse();
    // Python reverses what has an order without making a list of it.
    match value {
        Value::Iterator(_) => made(machine, items, Value::list),
        _ => made(machine, items, Value::iterator),
    }
}

fn join(machine: &mut Machine<'_>, value: &Value, args: &Args) -> Result<Value> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"])?;
    let separator = match &separator {
        Some(separator) => any_text(&mut machine.fuel, separator)?,
        None => "".into(),
    };
    let items = value.items(&mut machine.fuel)?;
    machine
        .fuel
        .text("join", items.len().saturating_mul(separator.len()))?;
    let mut text = String::new();
    for (at, item) in items.iter().enumerate() {
        text.push_str(if at > 0 { &separator } else { "" });
        let item = by_path(&mut machine.fuel, item, attribute.as_ref(), None)?;
        machine.fuel.text("join", item.size().bytes)?;
        machine.push_printed(&mut text, &item)?;
        if text.len() > super::bounds::MAX_TEXT_BYTES {
            machine.fuel.text("join", text.len())?;
        }
    }
    Ok(Value::Text(text.into(), machine.autoescape))
}

fn few(args: &Args) -> Result<()> {
    match args.positional.len() + args.named.len() > MAX_ARGUMENTS {
        true => Err(fault!(
            "a filter that calls others takes at most {MAX_ARGUMENTS} arguments"
        )),
        false => Ok(()),
    }
}

fn map(machine: &mut Machine<'_>, value: &Value, args: &Args) -> Result<Value> {
    few(args)?;
    let mut mapped = Vec::new();
    if args.positional.is_empty() && args.named("attribute").is_some() {
        let [attribute, default] = args.bind("map", ["attribute", "default"])?;
        let default = default.filter(|default| !matches!(default, Value::None));
        for item in value.items(&mut machine.fuel)? {
            mapped.push(by_path(
                &mut machine.fuel,
                &item,
                attribute.as_ref(),
                default.as_ref(),
            )?);
        }
        return made(machine, mapped, Value::iterator);
    }
    let Some(name) = args.positional.first() else {
        return Err(fault!(
            "map: the name of a filter, or `attribute`, is needed"
        ));
    };
    let name = text("map", Some(name))?;
    let rest = args.behind_first();
    for item in value.items(&mut machine.fuel)? {
        machine.fuel.take(1)?;
        mapped.push(filters::apply(machine, &name, item, rest.clone())?);
    }
    made(machine, mapped, Value::iterator)
}

fn select(machine: &mut Machine<'_>, name: &str, value: &Value, args: &Args) -> Result<Value> {
    few(args)?;
    let mut rest = args.clone();
    let attribute = match name.ends_with("attr") {
        true => {
            let attribute = args.positional.first().cloned();
            rest = rest.behind_first();
            Some(attribute.ok_or_else(|| fault!("{name}: an attribute is needed"))?)
        }
        false => None,
    };
    let test = match rest.positional.first() {
        Some(test) => Some(text(name, Some(test))?),
        None => None,
    };
    let rest = rest.behind_first();
    let wanted = name.starts_with("select");
    let mut chosen = Vec::new();
    for item in value.items(&mut machine.fuel)? {
        machine.fuel.take(1)?;
        let tested = by_path(&mut machine.fuel, &item, attribute.as_ref(), None)?;
        let holds = match &test {
            Some(test) => tests::holds(&mut machine.fuel, test, &tested, &rest)?,
            None => tested.truth(),
        };
        if holds == wanted {
            chosen.push(item);
        }
    }
    made(machine, chosen, Value::iterator)
}

/// Keys for a sort: one, or several between commas.
fn sort_key(
    fuel: &mut Fuel,
    item: &Value,
    attribute: Option<&Value>,
    case_sensitive: bool,
) -> Result<Value> {
    let paths: Vec<Option<Value>> = match attribute {
        Some(Value::Text(paths, _)) => {
            check_width("attribute", paths.len())?;
            let paths = paths.split(',');
            paths.map(|path| Some(Value::text(path))).collect()
        }
        other => vec![other.cloned()],
    };
    let keys = paths.iter().map(|path| {
        let key = by_path(fuel, item, path.as_ref(), None)?;
        without_case(fuel, key, case_sensitive)
    });
    Value::list(keys.collect::<Result<_>>()?)
}

fn sort(machine: &mut Machine<'_>, name: &str, value: &Value, args: &Args) -> Result<Value> {
    let (keyed, reverse) = match name {
        "sort" => {
            let names = ["reverse", "case_sensitive", "attribute"];
            let [reverse, case, attribute] = args.bind(name, names)?;
            let case = truth(case.as_ref(), false);
            let keyed = value.items(&mut machine.fuel)?.into_iter().map(|item| {
                let key = sort_key(&mut machine.fuel, &item, attribute.as_ref(), case)?;
                Ok((key, item))
            });
            (keyed.collect::<Result<Vec<_>>>()?, reverse)
        }
        _ => {
            let [case, by, reverse] = args.bind(name, ["case_sensitive", "by", "reverse"])?;
            let case = truth(case.as_ref(), false);
            let by = by.unwrap_or_else(|| Value::text("key"));
            let place = match by.as_str() {
                Some("key") => 0,
                Some("value") => 1,
                _ => return Err(fault!("dictsort: by `key` or `value`")),
            };
            let Value::Map(map) = value else {
                return Err(fault!(
                    "dictsort: a map is expected, not {}",
                    value.type_name()
                ));
            };
            let keyed = map.pairs.iter().map(|(key, value)| {
                let by = if place == 0 { key } else { value };
                let pair = Value::tuple(vec![key.clone(), value.clone()])?;
                Ok((without_case(&mut machine.fuel, by.clone(), case)?, pair))
            });
            (keyed.collect::<Result<Vec<_>>>()?, reverse)
        }
    };
    let keyed = sorted_by_keys(&mut machine.fuel, keyed, truth(reverse.as_ref(), false))?;
    made(
        machine,
        keyed.into_iter().map(|(_, item)| item).collect(),
        Value::list,
    )
}

fn unique(machine: &mut Machine<'_>, value: &Value, args: &Args) -> Result<Value> {
    let [case, attribute] = args.bind("unique", ["case_sensitive", "attribute"])?;
    let case = truth(case.as_ref(), false);
    let (mut seen, mut chosen) = (HashSet::new(), Vec::new());
    for item in value.items(&mut machine.fuel)? {
        let found = by_path(&mut machine.fuel, &item, attribute.as_ref(), None)?;
        let found = without_case(&mut machine.fuel, found, case)?;
        let key = Key::of(&found);
        let key = key.ok_or_else(|| fault!("unique: {} cannot be a key", found.type_name()))?;
        if seen.insert(key) {
            chosen.push(item);
        }
    }
    made(machine, chosen, Value::iterator)
}

fn extreme(machine: &mut Machine<'_>, name: &str, value: &Value, args: &Args) -> Result<Value> {
    let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
    let case = truth(case.as_ref(), false);
    let wanted = match name {
        "min" => std::cmp::Ordering::Less,
        _ => std::cmp::Ordering::Greater,
    };
    let mut best: Option<(Value, Value)> = None;
    for item in value.items(&mut machine.fuel)? {
        let key = by_path(&mut machine.fuel, &item, attribute.as_ref(), None)?;
        let key = without_case(&mut machine.fuel, key, case)?;
        let is_better = match &best {
            None => true,
            Some((other, _)) => order(&key, other)? == Some(wanted),
        };
        if is_better {
            best = Some((key, item));
        }
    }
    let empty = || Value::undefined(format!("undefined: {name} of no items"));
    Ok(best.map_or_else(empty, |(_, item)| item))
}

fn group_by(machine: &mut Machine<'_>, value: &Value, args: &Args) -> Result<Value> {
    let names = ["attribute", "default", "case_sensitive"];
    let [attribute, default, case] = args.bind("groupby", names)?;
    let attribute = attribute.ok_or_else(|| fault!("groupby: an attribute is needed"))?;
    let case = truth(case.as_ref(), false);
    let key_of =
        |fuel: &mut Fuel, item: &Value| by_path(fuel, item, Some(&attribute), default.as_ref());
    let fuel = &mut machine.fuel;
    let mut keyed = Vec::new();
    for item in value.items(fuel)? {
        let key = key_of(fuel, &item)?;
        keyed.push((without_case(fuel, key, case)?, item));
    }
    let keyed = sorted_by_keys(fuel, keyed, false)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in keyed {
        match groups.last_mut() {
            Some((last, items)) if equal(last, &key) => items.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(_, items)| {
        let key = key_of(fuel, &items[0])?;
        let group = Group::new(key, Value::list(items)?)?;
        Ok(Value::Group(Arc::new(group)))
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    made(machine, groups, Value::list)
}

/// `batch(n, fill)` and `slice(n, fill)`.
fn pieces(machine: &mut Machine<'_>, name: &str, value: &Value, args: &Args) -> Result<Value> {
    let names = if name == "batch" {
        ["linecount", "fill_with"]
    } else {
        ["slices", "fill_with"]
    };
    let [n, fill] = args.bind(name, names)?;
    let n = integer(name, n.as_ref())?
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n > 0);
    let n = n.ok_or_else(|| fault!("{name}: a number from 1 on is needed"))?;
    let fill = fill.filter(|fill| !matches!(fill, Value::None));
    let items = value.items(&mut machine.fuel)?;
    let filled = fill.is_some() || name == "slice";
    machine
        .fuel
        .elements(items.len().saturating_add(if filled { n } else { 0 }))?;
    let mut parts = Vec::new();
    if name == "batch" {
        for part in items.chunks(n) {
            let mut part = part.to_vec();
            if let Some(fill) = &fill {
                part.resize_with(n, || fill.clone());
            }
            parts.push(Value::list(part)?);
        }
    } else {
        let (each, longer) = (items.len() / n, items.len() % n);
        let mut rest = &items[..];
        for at in 0..n {
            let (part, behind) = rest.split_at(each + usize::from(at < longer));
            rest = behind;
            let mut part = part.to_vec();
            if at >= longer {
                part.extend(fill.clone());
            }
            parts.push(Value::list(part)?);
        }
    }
    made(machine, parts, Value::iterator)
}
