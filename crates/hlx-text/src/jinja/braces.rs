//! Python's `format.format(..)`.

use super::args::Args;
use super::bounds::{Fuel, MAX_WIDTH, check_width};
use super::error::{Error, Result, fault};
use super::numbers::{self, Align, Sign, grouped, padded};
use super::print;
use super::value::Value;

/// What stands after the colon of a field.
#[derive(Debug)]
struct Spec {
    fill: char,
    align: Option<Align>,
    /// Whether blanks come between the sign and the digits.
    behind_sign: bool,
    sign: Sign,
    alternate: bool,
    width: usize,
    group: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Formats a text.
pub(crate) fn format(fuel: &mut Fuel, format: &str, args: &Args) -> Result<Value> {
    let (mut text, mut next) = (String::new(), 0);
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = behind;
            continue;
        }
        if brace == "}" {
            return Err(fault!("format: a single `}}`"));
        }
        let end = rest
            .find('}')
            .ok_or_else(|| fault!("format: a `{{` without an end"))?;
        if rest[..end].contains('{') {
            return Err(fault!("format: fields within fields are not known"));
        }
        field(fuel, &rest[..end], args, &mut next, &mut text)?;
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    fuel.text("format", text.len())?;
    Ok(Value::text(text))
}

fn field(
    fuel: &mut Fuel,
    field: &str,
    args: &Args,
    next: &mut usize,
    text: &mut String,
) -> Result<()> {
    let (name, spec) = field.split_once(':').unwrap_or((field, ""));
    let (name, conversion) = match name.split_once('!') {
        Some((name, conversion)) => (name, Some(conversion)),
        None => (name, None),
    };
    let value = found(name, args, next)?;
    fuel.take(1)?;
    fuel.text("format", value.size().bytes)?;
    fuel.walk(value.size())?;
    let value = match conversion {
        None => value,
        Some("s") => Value::text(print::string(&value)?),
        Some("r") => {
            let mut shown = String::new();
            print::push_repr(&mut shown, &value)?;
            Value::text(shown)
        }
        Some(other) => return Err(fault!("format: unknown conversion `!{other}`")),
    };
    text.push_str(&formatted(&value, spec)?);
    fuel.fits("format", text.len())
}

/// The value of `0[key]`, `name` or an empty name.
fn found(name: &str, args: &Args, next: &mut usize) -> Result<Value> {
    let end = name.find(['[', '.']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let place = match first.is_empty() {
        true => {
            *next += 1;
            Some(*next - 1)
        }
        false => first.parse().ok(),
    };
    let missing = || fault!("format: no value for the field `{name}`");
    let mut value = match place {
        Some(place) => args.positional.get(place).cloned(),
        None => args.named(first).cloned(),
    }
    .ok_or_else(missing)?;
    while !rest.is_empty() {
        if let Some(attribute) = rest.strip_prefix('.') {
            let end = attribute.find(['[', '.']).unwrap_or(attribute.len());
            value = super::attributes::attribute(&value, &attribute[..end].into())?;
            rest = &attribute[end..];
            continue;
        }
        let key = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (key, behind) = key.ok_or_else(missing)?;
        value = match (&value, key.parse::<usize>()) {
            (Value::List(list) | Value::Tuple(list), Ok(at)) => list.items.get(at).cloned(),
            (Value::Map(map), Ok(at)) => map.get(&Value::Int(at as i128)).cloned(),
            (Value::Map(map), Err(_)) => map.get_text(key).cloned(),
            _ => None,
        }
        .ok_or_else(missing)?;
        rest = behind;
    }
    Ok(value)
}

/// `format(value, spec)`.
pub(crate) fn formatted(value: &Value, spec: &str) -> Result<String> {
    if spec.is_empty() {
        return print::string(value);
    }
    let spec = Spec::parse(spec)?;
    match value {
        Value::Text(text, _) => {
            if !matches!(spec.kind, None | Some('s')) {
                return Err(unknown(&spec, value));
            }
            let cut: String = match spec.precision {
                Some(n) => text.chars().take(n).collect(),
                None => text.to_string(),
            };
            Ok(padded(
                &cut,
                spec.width,
                spec.align.unwrap_or(Align::Left),
                spec.fill,
            ))
        }
        Value::Bool(value) if spec.kind.is_none() => {
            let text = if *value { "True" } else { "False" };
            Ok(padded(
                text,
                spec.width,
                spec.align.unwrap_or(Align::Left),
                spec.fill,
            ))
        }
        Value::Int(_) | Value::Bool(_) | Value::Float(_) => number(value, &spec),
        other => Err(fault!("format: {} takes no format", other.type_name())),
    }
}

fn unknown(spec: &Spec, value: &Value) -> Error {
    let kind = spec.kind.unwrap_or(' ');
    fault!("format: `{kind}` is no format of {}", value.type_name())
}

fn number(value: &Value, spec: &Spec) -> Result<String> {
    let (is_negative, digits) = match (value.as_int(), spec.kind) {
        (Some(whole), None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'n')) => {
            let (digits, prefix) = numbers::integer(whole, spec.kind.unwrap_or('d'))?;
            let prefix = if spec.alternate { prefix } else { "" };
            (whole < 0, prefix.to_owned() + &digits)
        }
        (Some(_), Some('c')) => return Err(unknown(spec, value)),
        _ => {
            let float = value.as_float().ok_or_else(|| unknown(spec, value))?;
            let digits = match spec.kind {
                None => numbers::plain(float, spec.precision),
                Some('d' | 'x' | 'X' | 'o' | 'b' | 's') => return Err(unknown(spec, value)),
                Some(kind) => {
                    numbers::float(float, kind, spec.precision.unwrap_or(6), spec.alternate)?
                }
            };
            (float.is_sign_negative() && !float.is_nan(), digits)
        }
    };
    let size = if matches!(spec.kind, Some('x' | 'X' | 'o' | 'b')) {
        4
    } else {
        3
    };
    let digits = match spec.group {
        Some(separator) => grouped(&digits, separator, size),
        None => digits,
    };
    let sign = spec.sign.of(is_negative);
    if spec.behind_sign {
        if spec.group.is_some() && spec.width > 0 {
            return Err(fault!("format: zeros before grouped digits are not known"));
        }
        let width = spec.width.saturating_sub(sign.len());
        return Ok(sign.to_owned() + &padded(&digits, width, Align::Right, spec.fill));
    }
    let align = spec.align.unwrap_or(Align::Right);
    Ok(padded(
        &(sign.to_owned() + &digits),
        spec.width,
        align,
        spec.fill,
    ))
}

impl Spec {
    fn parse(text: &str) -> Result<Self> {
        let align = |char: Option<&char>| match char {
            Some('<') => Some(Align::Left),
            Some('>' | '=') => Some(Align::Right),
            Some('^') => Some(Align::Center),
            _ => None,
        };
        let chars: Vec<char> = text.chars().collect();
        let mut spec = Self {
            fill: ' ',
            align: None,
            behind_sign: false,
            sign: Sign::None,
            alternate: false,
            width: 0,
            group: None,
            precision: None,
            kind: None,
        };
        let mut at = 0;
        if let Some(found) = align(chars.get(1)) {
            (spec.fill, spec.align, at) = (chars[0], Some(found), 2);
        } else if let Some(found) = align(chars.first()) {
            (spec.align, at) = (Some(found), 1);
        }
        spec.behind_sign = at > 0 && chars[at - 1] == '=';
        spec.rest(&chars, at)?;
        check_width(
            "format",
            spec.width
                .max(spec.precision.unwrap_or(0).min(MAX_WIDTH + 1)),
        )?;
        Ok(spec)
    }

    fn rest(&mut self, chars: &[char], mut at: usize) -> Result<()> {
        let number = |at: &mut usize| {
            let digits = chars[*at..].iter().take_while(|char| char.is_ascii_digit());
            let digits: String = digits.collect();
            *at += digits.len();
            (!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX))
        };
        let signs = [('+', Sign::Plus), (' ', Sign::Blank), ('-', Sign::None)];
        if let Some((_, sign)) = signs.iter().find(|(char, _)| chars.get(at) == Some(char)) {
            (self.sign, at) = (*sign, at + 1);
        }
        if chars.get(at) == Some(&'#') {
            (self.alternate, at) = (true, at + 1);
        }
        if chars.get(at) == Some(&'0') && self.align.is_none() {
            (self.fill, self.behind_sign) = ('0', true);
        }
        self.width = number(&mut at).unwrap_or(0);
        if let Some(separator @ (',' | '_')) = chars.get(at) {
            (self.group, at) = (Some(*separator), at + 1);
        }
        if chars.get(at) == Some(&'.') {
            at += 1;
            self.precision = number(&mut at);
        }
        self.kind = chars.get(at).copied();
        match at + 1 < chars.len() {
            true => Err(fault!("format: an unknown format")),
            false => Ok(()),
        }
    }
}
