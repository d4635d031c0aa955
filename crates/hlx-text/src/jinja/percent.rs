//! Python's `format % values`.

use std::iter::Peekable;
use std::str::Chars;

use super::bounds::{Fuel, check_width};
use super::error::{Result, fault};
use super::numbers::{self, Align, Sign, padded};
use super::print::{self, escaped};
use super::value::Value;

/// One conversion.
#[derive(Debug, Default)]
struct Spec {
    left: bool,
    sign: Sign,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// The values, and how many are taken.
struct Values<'a> {
    all: &'a Value,
    listed: Vec<Value>,
    taken: usize,
    by_name: bool,
}

impl Values<'_> {
    fn next(&mut self) -> Result<Value> {
        let next = self.listed.get(self.taken).cloned();
        self.taken += 1;
        next.ok_or_else(|| fault!("%: not enough values for the format"))
    }

    fn named(&mut self, name: &str) -> Result<Value> {
        self.by_name = true;
        let Value::Map(map) = self.all else {
            return Err(fault!("%: a format with names takes a map"));
        };
        let found = map.get_text(name).cloned();
        found.ok_or_else(|| fault!("%: the map has no key `{name}`"))
    }
}

/// Formats a text.
pub(crate) fn format(fuel: &mut Fuel, format: &str, all: &Value) -> Result<Value> {
    let listed = match all {
        Value::Tuple(list) => list.items.clone(),
        other => vec![other.clone()],
    };
    let mut values = Values {
        all,
        listed,
        taken: 0,
        by_name: false,
    };
    let mut text = String::new();
    let mut chars = format.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '%' => {
                fuel.take(1)?;
                conversion(fuel, &mut chars, &mut values, &mut text)?;
                fuel.fits("%", text.len())?;
            }
            char => text.push(char),
        }
    }
    let n = values.listed.len();
    let is_unused = values.taken < n && !values.by_name;
    // A map or a list may be left unused, any other value may not.
    if is_unused && (!matches!(all, Value::Map(_) | Value::List(_)) || values.taken > 0) {
        return Err(fault!("%: the format takes {} of {n} values", values.taken));
    }
    fuel.text("%", text.len())?;
    Ok(Value::text(text))
}

fn conversion(
    fuel: &mut Fuel,
    chars: &mut Peekable<Chars<'_>>,
    values: &mut Values<'_>,
    text: &mut String,
) -> Result<()> {
    if chars.next_if_eq(&'%').is_some() {
        text.push('%');
        return Ok(());
    }
    let mut named = None;
    if chars.next_if_eq(&'(').is_some() {
        named = Some(values.named(&name(chars)?)?);
    }
    let mut spec = Spec::default();
    while let Some(flag) = chars.next_if(|char| "-+ 0#".contains(*char)) {
        match flag {
            '-' => spec.left = true,
            '+' => spec.sign = Sign::Plus,
            ' ' if spec.sign == Sign::None => spec.sign = Sign::Blank,
            '0' => spec.zero = true,
            '#' => spec.alternate = true,
            _ => {}
        }
    }
    spec.width = match chars.next_if_eq(&'*') {
        Some(_) => {
            let width = starred(values)?;
            spec.left |= width < 0;
            usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX)
        }
        None => digits(chars).unwrap_or(0),
    };
    if chars.next_if_eq(&'.').is_some() {
        spec.precision = Some(match chars.next_if_eq(&'*') {
            Some(_) => usize::try_from(starred(values)?.max(0)).unwrap_or(usize::MAX),
            None => digits(chars).unwrap_or(0),
        });
    }
    check_width("%", spec.width)?;
    _ = chars.next_if(|char| "hlL".contains(*char));
    let Some(kind) = chars.next() else {
        return Err(fault!("%: the format ends within a conversion"));
    };
    let value = match named {
        Some(value) => value,
        None => values.next()?,
    };
    converted(fuel, &spec, kind, &value, text)
}

fn name(chars: &mut Peekable<Chars<'_>>) -> Result<String> {
    let (mut name, mut depth) = (String::new(), 1);
    for char in chars.by_ref() {
        depth += match char {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Ok(name);
        }
        name.push(char);
    }
    Err(fault!("%: a name in the format has no end"))
}

fn starred(values: &mut Values<'_>) -> Result<i128> {
    let value = values.next()?;
    value
        .as_int()
        .ok_or_else(|| fault!("%: `*` takes a number"))
}

fn digits(chars: &mut Peekable<Chars<'_>>) -> Option<usize> {
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX))
}

fn converted(
    fuel: &mut Fuel,
    spec: &Spec,
    kind: char,
    value: &Value,
    text: &mut String,
) -> Result<()> {
    if let Some(precision) = spec.precision
        && !"sra".contains(kind)
    {
        check_width("%", precision)?;
    }
    fuel.text("%", value.size().bytes.saturating_add(spec.width))?;
    fuel.walk(value.size())?;
    let (sign, digits) = match kind {
        's' | 'r' | 'a' => (String::new(), cut(shown(kind, value)?, spec.precision)),
        'c' => (String::new(), character(value)?),
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => whole(spec, kind, value)?,
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            let number = value.as_float().ok_or_else(|| no_number(kind, value))?;
            let digits = numbers::float(number, kind, spec.precision.unwrap_or(6), spec.alternate)?;
            (spec.sign.of(number.is_sign_negative()).to_owned(), digits)
        }
        _ => return Err(fault!("%: unknown conversion `{kind}`")),
    };
    let is_number = !"srac".contains(kind);
    let missing = spec
        .width
        .saturating_sub(sign.chars().count() + digits.chars().count());
    let shown = match spec.zero && is_number && !spec.left {
        true => sign + &"0".repeat(missing) + &digits,
        false => sign + &digits,
    };
    let align = if spec.left { Align::Left } else { Align::Right };
    text.push_str(&padded(&shown, spec.width, align, ' '));
    Ok(())
}

fn shown(kind: char, value: &Value) -> Result<String> {
    if kind == 's' {
        return print::string(value);
    }
    let mut text = String::new();
    print::push_repr(&mut text, value)?;
    if kind == 'r' {
        return Ok(text);
    }
    let mut ascii = String::new();
    for char in text.chars() {
        match char.is_ascii() {
            true => ascii.push(char),
            false => escaped(&mut ascii, char),
        }
    }
    Ok(ascii)
}

fn cut(text: String, precision: Option<usize>) -> String {
    match precision {
        Some(n) => text.chars().take(n).collect(),
        None => text,
    }
}

fn character(value: &Value) -> Result<String> {
    if let Some(code) = value.as_int() {
        let char = u32::try_from(code).ok().and_then(char::from_u32);
        return Ok(char
            .ok_or_else(|| fault!("%c: {code} is no character"))?
            .to_string());
    }
    match value.as_str() {
        Some(text) if text.chars().count() == 1 => Ok(text.to_owned()),
        _ => Err(fault!("%c takes one character")),
    }
}

fn whole(spec: &Spec, kind: char, value: &Value) -> Result<(String, String)> {
    let number = match value {
        Value::Float(value) if "diu".contains(kind) && value.is_finite() => *value as i128,
        other => other.as_int().ok_or_else(|| no_number(kind, value))?,
    };
    let (mut digits, prefix) = numbers::integer(number, kind)?;
    if let Some(precision) = spec.precision {
        digits = padded(&digits, precision, Align::Right, '0');
    }
    let mut sign = spec.sign.of(number < 0).to_owned();
    if spec.alternate {
        sign.push_str(prefix);
    }
    Ok((sign, digits))
}

fn no_number(kind: char, value: &Value) -> super::error::Error {
    fault!("%{kind} takes a number, not {}", value.type_name())
}
