//! Filters that lay texts out, and those of HTML.

use super::args::{Args, integer, text, truth};
use super::bounds::{Fuel, check_width};
use super::error::{Result, fault};
use super::eval::Machine;
use super::ops::escape;
use super::print;
use super::splitting::lines;
use super::text_methods::any_text;
use super::value::Value;

/// Applies a filter.
pub(crate) fn apply(
    machine: &mut Machine<'_>,
    name: &str,
    value: &Value,
    args: &Args,
) -> Result<Value> {
    let fuel = &mut machine.fuel;
    match name {
        "urlencode" => {
            let [] = args.bind(name, [])?;
            url_encode(fuel, value)
        }
        "xmlattr" => {
            let [space] = args.bind(name, ["autospace"])?;
            let text = attributes(fuel, value, truth(space.as_ref(), true))?;
            Ok(Value::Text(text.into(), machine.autoescape))
        }
        "pprint" => {
            let [] = args.bind(name, [])?;
            pretty(fuel, value)
        }
        _ => {
            let [] = args.bind(name, [])?;
            let this = any_text(fuel, value)?;
            fuel.text(name, this.len() * 2)?;
            let is_safe = matches!(value, Value::Text(_, true));
            Ok(match name {
                "safe" => Value::Text(this, true),
                "e" | "escape" if is_safe => value.clone(),
                _ => Value::Text(escape(&this).into(), true),
            })
        }
    }
}

/// `indent(width, first, blank)`; the width may be a text.
pub(crate) fn indent(fuel: &mut Fuel, value: &Value, args: &Args) -> Result<Value> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let Value::Text(this, safe) = value else {
        return Err(fault!(
            "indent: a text is expected, not {}",
            value.type_name()
        ));
    };
    let blanks = match &width {
        Some(Value::Text(text, _)) => {
            check_width("indent", text.len())?;
            text.to_string()
        }
        width => {
            let width = integer("indent", width.as_ref())?.unwrap_or(4).max(0);
            let width = usize::try_from(width).unwrap_or(usize::MAX);
            check_width("indent", width)?;
            " ".repeat(width)
        }
    };
    let n_lines = lines(this, false).count() + 1;
    fuel.text("indent", this.len() + blanks.len().saturating_mul(n_lines))?;
    let whole = format!("{this}\n");
    let (first, blank) = (truth(first.as_ref(), false), truth(blank.as_ref(), false));
    let mut text = String::new();
    for (at, line) in lines(&whole, false).enumerate() {
        text.push_str(if at > 0 { "\n" } else { "" });
        let indents = match at {
            0 => first,
            _ => blank || !line.is_empty(),
        };
        text.push_str(if indents { &blanks } else { "" });
        text.push_str(line);
    }
    Ok(Value::Text(text.into(), *safe))
}

/// `truncate(length, killwords, end, leeway)`
pub(crate) fn truncate(this: &str, args: &Args) -> Result<String> {
    let names = ["length", "killwords", "end", "leeway"];
    let [length, kill, end, leeway] = args.bind("truncate", names)?;
    let number = |value: Option<&Value>, default: i128| {
        let value = integer("truncate", value)?.unwrap_or(default);
        usize::try_from(value).map_err(|_| fault!("truncate: a negative length"))
    };
    let (length, leeway) = (number(length.as_ref(), 255)?, number(leeway.as_ref(), 5)?);
    let end = match &end {
        Some(end) => text("truncate", Some(end))?,
        None => "...".into(),
    };
    let n_left = length.checked_sub(end.chars().count());
    let n_left = n_left.ok_or_else(|| fault!("truncate: the end is longer than the length"))?;
    if this.chars().count() <= length.saturating_add(leeway) {
        return Ok(this.to_owned());
    }
    let cut: String = this.chars().take(n_left).collect();
    let cut = match truth(kill.as_ref(), false) {
        true => cut.as_str(),
        false => cut
            .rsplit_once(' ')
            .map_or(cut.as_str(), |(words, _)| words),
    };
    Ok(cut.to_owned() + &end)
}

/// Jinja's `title`: words begin after white space, hyphens and brackets.
pub(crate) fn title(this: &str) -> String {
    let begins = |char: char| super::chars::is_space(char) || "-({[<".contains(char);
    let mut titled = String::with_capacity(this.len());
    let mut rest = this;
    while let Some(first) = rest.chars().next() {
        let end = match begins(first) {
            true => rest.find(|char| !begins(char)),
            false => rest.find(begins),
        };
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        titled.extend(first.to_uppercase());
        titled.push_str(&word[first.len_utf8()..].to_lowercase());
        rest = behind;
    }
    titled
}

fn url_encode(fuel: &mut Fuel, value: &Value) -> Result<Value> {
    let pairs = match value {
        Value::Map(map) => {
            fuel.take(map.pairs.len())?;
            map.pairs.clone()
        }
        Value::Text(..) => Vec::new(),
        Value::List(_) | Value::Tuple(_) | Value::Iterator(_) | Value::View(..) => {
            let mut pairs = Vec::new();
            fuel.elements(value.size().elements)?;
            for item in value.items(fuel)? {
                match &item.items(fuel)?[..] {
                    [key, value] => pairs.push((key.clone(), value.clone())),
                    _ => return Err(fault!("urlencode: a list of pairs is expected")),
                }
            }
            pairs
        }
        _ => Vec::new(),
    };
    let is_single = !matches!(
        value,
        Value::Map(_) | Value::List(_) | Value::Tuple(_) | Value::Iterator(_) | Value::View(..)
    );
    if is_single {
        let this = any_text(fuel, value)?;
        fuel.text("urlencode", this.len() * 3)?;
        return Ok(Value::text(quoted(&this, true)));
    }
    let mut parts = Vec::new();
    for (key, value) in pairs {
        let (key, value) = (any_text(fuel, &key)?, any_text(fuel, &value)?);
        fuel.text("urlencode", (key.len() + value.len()) * 3)?;
        parts.push(format!("{}={}", quoted(&key, false), quoted(&value, false)));
    }
    Ok(Value::text(parts.join("&")))
}

/// A part of a URL; in a query a blank is a plus sign, and a slash is escaped.
fn quoted(this: &str, is_path: bool) -> String {
    let mut quoted = String::new();
    for byte in this.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                quoted.push(char::from(byte));
            }
            b'/' if is_path => quoted.push('/'),
            b' ' if !is_path => quoted.push('+'),
            byte => quoted.push_str(&format!("%{byte:02X}")),
        }
    }
    quoted
}

fn attributes(fuel: &mut Fuel, value: &Value, space: bool) -> Result<String> {
    let Value::Map(map) = value else {
        return Err(fault!(
            "xmlattr: a map is expected, not {}",
            value.type_name()
        ));
    };
    let mut parts = Vec::new();
    fuel.take(map.pairs.len())?;
    for (key, value) in &map.pairs {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let name = any_text(fuel, key)?;
        if name.contains(|char: char| char.is_whitespace() || "/>=".contains(char)) {
            return Err(fault!(
                "xmlattr: the name of an attribute holds a blank, `/`, `>` or `=`"
            ));
        }
        let shown = any_text(fuel, value)?;
        fuel.text("xmlattr", (name.len() + shown.len()) * 5)?;
        let shown = match value {
            Value::Text(_, true) => shown.to_string(),
            _ => escape(&shown),
        };
        parts.push(format!("{}=\"{shown}\"", escape(&name)));
    }
    let lead = if space && !parts.is_empty() { " " } else { "" };
    Ok(lead.to_owned() + &parts.join(" "))
}

/// Python's `pformat`, where it is one line.
fn pretty(fuel: &mut Fuel, value: &Value) -> Result<Value> {
    fuel.walk(value.size())?;
    let mut text = String::new();
    print::push_repr(&mut text, &sorted(value)?)?;
    match text.chars().count() > 80 {
        true => Err(fault!(
            "pprint: values of more than one line are not known to HLX; use `tojson`"
        )),
        false => Ok(Value::text(text)),
    }
}

/// A value whose maps have their keys in order.
fn sorted(value: &Value) -> Result<Value> {
    let all = |items: &[Value]| items.iter().map(sorted).collect::<Result<Vec<_>>>();
    match value {
        Value::List(list) => Value::list(all(&list.items)?),
        Value::Tuple(list) => Value::tuple(all(&list.items)?),
        Value::Map(map) => {
            let mut pairs = Vec::new();
            for (key, value) in &map.pairs {
                let name = text("pprint", Some(key))?;
                pairs.push((name, sorted(value)?));
            }
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            let pairs = pairs
                .into_iter()
                .map(|(name, value)| (Value::text(name), value));
            Value::map(pairs.collect())
        }
        other => Ok(other.clone()),
    }
}
