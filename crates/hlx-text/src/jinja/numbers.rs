//! Numbers in the forms of Python's formats.

use super::error::{Result, fault};
use super::print::{self, exponent_text};

/// What is written before a number that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Sign {
    #[default]
    None,
    Plus,
    Blank,
}

impl Sign {
    /// The sign of a number.
    pub fn of(self, is_negative: bool) -> &'static str {
        match (is_negative, self) {
            (true, _) => "-",
            (false, Self::None) => "",
            (false, Self::Plus) => "+",
            (false, Self::Blank) => " ",
        }
    }
}

/// The digits of a float without its sign, by `f`, `e`, `g` or `%` and the capitals of these.
pub(crate) fn float(value: f64, kind: char, precision: usize, alternate: bool) -> Result<String> {
    let value = value.abs();
    let text = if value.is_nan() {
        "nan".to_owned()
    } else if value.is_infinite() {
        "inf".to_owned()
    } else {
        match kind.to_ascii_lowercase() {
            'f' => format!("{value:.precision$}"),
            '%' => format!("{:.precision$}%", value * 100.0),
            'e' => scientific(value, precision),
            'g' => general(value, precision.max(1), alternate),
            _ => return Err(fault!("unknown format of a float: {kind}")),
        }
    };
    let text = match alternate && precision == 0 && kind != 'g' && !text.contains('.') {
        true => text + ".",
        false => text,
    };
    Ok(match kind.is_ascii_uppercase() {
        true => text.to_uppercase(),
        false => text,
    })
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{digits}e{}", exponent_text(exponent.parse().unwrap_or(0)))
}

/// So many digits, with an exponent where it is large or small.
fn general(value: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{value:.*e}", precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') && !alternate {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i64 {
        return format!("{}e{}", trimmed(digits), exponent_text(exponent as i32));
    }
    let decimals = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

/// A float without a kind, as `str.format` writes it.
pub(crate) fn plain(value: f64, precision: Option<usize>) -> String {
    let value = value.abs();
    let Some(precision) = precision else {
        return print::float(value);
    };
    let text = general(value, precision.max(1), false);
    match text.contains(['.', 'e', 'n', 'i']) {
        true => text,
        false => text + ".0",
    }
}

/// The digits of an integer without its sign, and its prefix.
pub(crate) fn integer(value: i128, kind: char) -> Result<(String, &'static str)> {
    let value = value.unsigned_abs();
    Ok(match kind {
        'd' | 'i' | 'u' | 'n' => (value.to_string(), ""),
        'x' => (format!("{value:x}"), "0x"),
        'X' => (format!("{value:X}"), "0X"),
        'o' => (format!("{value:o}"), "0o"),
        'b' => (format!("{value:b}"), "0b"),
        _ => return Err(fault!("unknown format of an integer: {kind}")),
    })
}

/// Puts a separator between groups of digits in front of the point.
pub(crate) fn grouped(text: &str, separator: char, size: usize) -> String {
    let end = text
        .find(|char: char| !char.is_ascii_hexdigit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let mut grouped = String::new();
    for (at, char) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(size) {
            grouped.push(separator);
        }
        grouped.push(char);
    }
    grouped + rest
}

/// Where a text stands in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Align {
    Left,
    Right,
    Center,
}

/// Fills a text up to a width.
pub(crate) fn padded(text: &str, width: usize, align: Align, fill: char) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let left = match align {
        Align::Left => 0,
        Align::Right => missing,
        Align::Center => missing / 2,
    };
    let filling = |n: usize| std::iter::repeat_n(fill, n);
    filling(left)
        .chain(text.chars())
        .chain(filling(missing - left))
        .collect()
}
