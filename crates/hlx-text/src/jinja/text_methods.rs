//! Python's methods of texts.

use std::collections::HashSet;
use std::sync::Arc;

use super::args::{Args, integer, text, truth};
use super::bounds::{Fuel, MAX_ELEMENTS, check_width};
use super::braces;
use super::chars::{self, is_space};
use super::error::{Result, fault};
use super::numbers::{Align, padded};
use super::print;
use super::splitting::{lines, split, split_right};
use super::value::Value;

/// Calls a method whose name is known.
pub(crate) fn call(fuel: &mut Fuel, this: &str, name: &str, args: &Args) -> Result<Value> {
    // What is read, and what a change of case may make of it.
    fuel.text(name, this.len())?;
    match name {
        "format" => braces::format(fuel, this, args),
        "split" | "rsplit" | "splitlines" => parts(fuel, this, name, args),
        "join" => join(fuel, this, args),
        "replace" => {
            let [old, new, count] = args.unnamed(name)?;
            let count = integer(name, count.as_ref())?;
            let (old, new) = (text(name, old.as_ref())?, text(name, new.as_ref())?);
            Ok(Value::text(replace(fuel, this, &old, &new, count)?))
        }
        "find" | "rfind" | "index" | "rindex" | "count" => search(this, name, args),
        "startswith" | "endswith" => affix(fuel, this, name, args),
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.unnamed(name)?;
            let (left, right) = (name != "rstrip", name != "lstrip");
            Ok(Value::text(strip(fuel, this, chars.as_ref(), left, right)?))
        }
        "center" | "ljust" | "rjust" | "zfill" | "expandtabs" => fill(fuel, this, name, args),
        "partition" | "rpartition" => partition(this, name, args),
        "removeprefix" | "removesuffix" => {
            let [affix] = args.unnamed(name)?;
            let affix = text(name, affix.as_ref())?;
            let cut = match name {
                "removeprefix" => this.strip_prefix(&*affix),
                _ => this.strip_suffix(&*affix),
            };
            Ok(Value::text(cut.unwrap_or(this)))
        }
        _ => {
            let [] = args.bind(name, [])?;
            Ok(match cased(this, name) {
                Some(text) => Value::text(text),
                None => Value::Bool(is(this, name)),
            })
        }
    }
}

fn cased(this: &str, name: &str) -> Option<String> {
    Some(match name {
        "upper" => this.to_uppercase(),
        "lower" => this.to_lowercase(),
        "casefold" => this.to_lowercase().replace('ß', "ss").replace('ς', "σ"),
        "capitalize" => chars::capitalize(this),
        "title" => chars::title(this),
        "swapcase" => {
            let mut swapped = String::with_capacity(this.len());
            for char in this.chars() {
                match char.is_uppercase() {
                    true => swapped.extend(char.to_lowercase()),
                    false => swapped.extend(char.to_uppercase()),
                }
            }
            swapped
        }
        _ => return None,
    })
}

/// `isalpha` and the like.
fn is(this: &str, name: &str) -> bool {
    let all = |test: fn(char) -> bool| !this.is_empty() && this.chars().all(test);
    let any_cased = || this.chars().any(chars::is_cased);
    match name {
        "isascii" => this.is_ascii(),
        "isprintable" => this.chars().all(chars::is_printable),
        "isalnum" => all(chars::is_alphanumeric),
        "isalpha" => all(chars::is_letter),
        "isdecimal" => all(chars::is_decimal),
        "isdigit" => all(chars::is_digit),
        "isnumeric" => all(chars::is_numeric),
        "isspace" => all(is_space),
        "islower" => {
            any_cased()
                && !this
                    .chars()
                    .any(|char| char.is_uppercase() || chars::is_title(char))
        }
        "isupper" => {
            any_cased()
                && !this
                    .chars()
                    .any(|char| char.is_lowercase() || chars::is_title(char))
        }
        "istitle" => any_cased() && chars::title(this) == this,
        _ => {
            let begins = |char: char| char == '_' || chars::is_letter(char);
            this.chars().next().is_some_and(begins)
                && this
                    .chars()
                    .all(|char| char == '_' || chars::is_alphanumeric(char))
        }
    }
}

fn parts(fuel: &mut Fuel, this: &str, name: &str, args: &Args) -> Result<Value> {
    if name == "splitlines" {
        let [keepends] = args.bind(name, ["keepends"])?;
        let lines = lines(this, truth(keepends.as_ref(), false)).take(MAX_ELEMENTS + 1);
        return listed(fuel, lines.collect());
    }
    let [separator, most] = args.bind(name, ["sep", "maxsplit"])?;
    let most = integer(name, most.as_ref())?.unwrap_or(-1);
    // More parts than a list may have are not made.
    let most = usize::try_from(most).map_or(MAX_ELEMENTS, |most| most.min(MAX_ELEMENTS));
    let separator = match &separator {
        None | Some(Value::None) => None,
        Some(value) => Some(text(name, Some(value))?),
    };
    if separator
        .as_ref()
        .is_some_and(|separator| separator.is_empty())
    {
        return Err(fault!("{name}: the separator is empty"));
    }
    listed(
        fuel,
        match name {
            "split" => split(this, separator.as_deref(), most),
            _ => split_right(this, separator.as_deref(), most),
        },
    )
}

fn listed(fuel: &mut Fuel, parts: Vec<&str>) -> Result<Value> {
    fuel.elements(parts.len())?;
    Value::list(parts.into_iter().map(Value::text).collect())
}

fn join(fuel: &mut Fuel, this: &str, args: &Args) -> Result<Value> {
    let [items] = args.unnamed("join")?;
    let items = items.ok_or_else(|| fault!("join: an argument is missing"))?;
    let size = items.size();
    fuel.text(
        "join",
        size.bytes
            .saturating_add(size.elements.saturating_mul(this.len())),
    )?;
    let items = items.items(fuel)?;
    let texts = items.iter().map(|item| match item {
        Value::Text(text, _) => Ok(&**text),
        other => Err(fault!(
            "join: a text is expected, not {}",
            other.type_name()
        )),
    });
    let texts = texts.collect::<Result<Vec<&str>>>()?;
    Ok(Value::text(texts.join(this)))
}

/// Replaces a text; at most `count` times where it is not negative.
pub(crate) fn replace(
    fuel: &mut Fuel,
    this: &str,
    old: &str,
    new: &str,
    count: Option<i128>,
) -> Result<String> {
    let most = usize::try_from(count.unwrap_or(-1)).unwrap_or(usize::MAX);
    let found = this.matches(old).count().min(most);
    let more = new.len().saturating_sub(old.len());
    fuel.text(
        "replace",
        this.len().saturating_add(found.saturating_mul(more)),
    )?;
    Ok(this.replacen(old, new, most))
}

/// Part of a text between two places of characters, and the place of its begin; none where it begins after the end.
fn window<'a>(
    this: &'a str,
    name: &str,
    bounds: [Option<&Value>; 2],
) -> Result<Option<(usize, &'a str)>> {
    let n = this.chars().count() as i128;
    let place = |value: Option<&Value>, default: i128| {
        let at = integer(name, value)?.unwrap_or(default);
        let at = if at < 0 { (at + n).max(0) } else { at };
        Ok(at)
    };
    let (start, stop) = (place(bounds[0], 0)?, place(bounds[1], n)?.min(n));
    if start > n || start > stop {
        return Ok(None);
    }
    let byte = |at: i128| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        this.char_indices()
            .nth(at)
            .map_or(this.len(), |(byte, _)| byte)
    };
    let start_at = usize::try_from(start).unwrap_or(0);
    Ok(Some((start_at, &this[byte(start)..byte(stop)])))
}

fn search(this: &str, name: &str, args: &Args) -> Result<Value> {
    let [wanted, start, stop] = args.unnamed(name)?;
    let wanted = text(name, wanted.as_ref())?;
    let window = window(this, name, [start.as_ref(), stop.as_ref()])?;
    if name == "count" {
        let n = window.map_or(0, |(_, part)| part.matches(&*wanted).count());
        return Ok(Value::Int(n as i128));
    }
    let found = window.and_then(|(start, part)| {
        let byte = match name.starts_with('r') {
            true => part.rfind(&*wanted),
            false => part.find(&*wanted),
        };
        byte.map(|byte| start + part[..byte].chars().count())
    });
    match found {
        Some(at) => Ok(Value::Int(at as i128)),
        None if name.ends_with("find") => Ok(Value::Int(-1)),
        None => Err(fault!("{name}: the text is not found")),
    }
}

fn affix(fuel: &mut Fuel, this: &str, name: &str, args: &Args) -> Result<Value> {
    let [wanted, start, stop] = args.unnamed(name)?;
    let Some((_, part)) = window(this, name, [start.as_ref(), stop.as_ref()])? else {
        return Ok(Value::Bool(false));
    };
    let has = |affix: &str| match name {
        "startswith" => part.starts_with(affix),
        _ => part.ends_with(affix),
    };
    match wanted {
        Some(Value::Tuple(list)) => {
            fuel.pass(list.items.len())?;
            for item in &list.items {
                if has(&text(name, Some(item))?) {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        wanted => Ok(Value::Bool(has(&text(name, wanted.as_ref())?))),
    }
}

/// Python's `strip`, of white space or of the given characters.
pub(crate) fn strip(
    fuel: &mut Fuel,
    this: &str,
    chars: Option<&Value>,
    left: bool,
    right: bool,
) -> Result<Arc<str>> {
    let chars = match chars {
        None | Some(Value::None) => None,
        Some(value) => {
            let chars = text("strip", Some(value))?;
            fuel.text("strip", chars.len())?;
            Some(chars.chars().collect::<HashSet<char>>())
        }
    };
    let strips = |char: char| match &chars {
        Some(chars) => chars.contains(&char),
        None => is_space(char),
    };
    let mut stripped = this;
    if left {
        stripped = stripped.trim_start_matches(strips);
    }
    if right {
        stripped = stripped.trim_end_matches(strips);
    }
    Ok(stripped.into())
}

fn fill(fuel: &mut Fuel, this: &str, name: &str, args: &Args) -> Result<Value> {
    if name == "expandtabs" {
        let [size] = args.bind(name, ["tabsize"])?;
        return tabs(fuel, this, integer(name, size.as_ref())?.unwrap_or(8));
    }
    let [width, filling] = args.unnamed(name)?;
    let width =
        integer(name, width.as_ref())?.ok_or_else(|| fault!("{name}: a width is missing"))?;
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    check_width(name, width)?;
    if name == "zfill" {
        let digits = this.strip_prefix(['+', '-']).unwrap_or(this);
        let sign = &this[..this.len() - digits.len()];
        let width = width.saturating_sub(sign.len());
        return Ok(Value::text(
            sign.to_owned() + &padded(digits, width, Align::Right, '0'),
        ));
    }
    let filling = match &filling {
        None => ' ',
        Some(value) => {
            let filling = text(name, Some(value))?;
            let mut chars = filling.chars();
            match (chars.next(), chars.next()) {
                (Some(char), None) => char,
                _ => return Err(fault!("{name}: one character fills a text")),
            }
        }
    };
    Ok(Value::text(match name {
        "ljust" => padded(this, width, Align::Left, filling),
        "rjust" => padded(this, width, Align::Right, filling),
        _ => center(this, width, filling),
    }))
}

/// Python's `center`, which puts an odd blank on the left where the width is odd.
pub(crate) fn center(this: &str, width: usize, filling: char) -> String {
    let missing = width.saturating_sub(this.chars().count());
    let left = missing / 2 + (missing & width & 1);
    let n = this.chars().count() + left;
    padded(
        &padded(this, n, Align::Right, filling),
        width,
        Align::Left,
        filling,
    )
}

fn tabs(fuel: &mut Fuel, this: &str, size: i128) -> Result<Value> {
    let size = usize::try_from(size.max(0)).unwrap_or(usize::MAX);
    check_width("expandtabs", size)?;
    fuel.text(
        "expandtabs",
        this.matches('\t').count().saturating_mul(size),
    )?;
    let (mut expanded, mut column) = (String::new(), 0);
    for char in this.chars() {
        match char {
            '\t' if size > 0 => {
                let blanks = size - column % size;
                expanded.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            '\t' => {}
            char => {
                expanded.push(char);
                column = if ['\n', '\r'].contains(&char) {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Ok(Value::text(expanded))
}

fn partition(this: &str, name: &str, args: &Args) -> Result<Value> {
    let [separator] = args.unnamed(name)?;
    let separator = text(name, separator.as_ref())?;
    if separator.is_empty() {
        return Err(fault!("{name}: the separator is empty"));
    }
    let is_first = name == "partition";
    let split = match is_first {
        true => this.split_once(&*separator),
        false => this.rsplit_once(&*separator),
    };
    let parts = match split {
        Some((before, behind)) => [before, &separator, behind],
        None if is_first => [this, "", ""],
        None => ["", "", this],
    };
    Value::tuple(parts.into_iter().map(Value::text).collect())
}

/// The text of any value, as filters read it.
pub(crate) fn any_text(fuel: &mut Fuel, value: &Value) -> Result<Arc<str>> {
    match value {
        Value::Text(text, _) => Ok(text.clone()),
        other => {
            fuel.walk(other.size())?;
            let text = print::string(other)?;
            fuel.text("a text", text.len())?;
            Ok(text.into())
        }
    }
}
