//! Texts and numbers as templates write them.

use super::error::{Error, Result, fault};
use super::token::Token;

/// The text of a literal at the beginning of `source`, and the literal's length.
pub(crate) fn text(source: &str) -> Result<(String, usize)> {
    let mut chars = source.char_indices();
    let quote = chars.next().map_or('"', |(_, quote)| quote);
    while let Some((at, char)) = chars.next() {
        if char == quote {
            return Ok((unescaped(&source[1..at])?, at + 1));
        }
        if char == '\\' {
            chars.next();
        }
    }
    Err(fault!("syntax error: a text has no end: {quote}"))
}

/// Carries out Python's escapes.
fn unescaped(source: &str) -> Result<String> {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(char) = rest.chars().next() else {
            break;
        };
        let simple = match char {
            '\n' => Some(""),
            '\\' => Some("\\"),
            '\'' => Some("'"),
            '"' => Some("\""),
            'a' => Some("\x07"),
            'b' => Some("\x08"),
            'f' => Some("\x0c"),
            'n' => Some("\n"),
            'r' => Some("\r"),
            't' => Some("\t"),
            'v' => Some("\x0b"),
            _ => None,
        };
        rest = match simple {
            Some(simple) => {
                text.push_str(simple);
                &rest[1..]
            }
            None => coded(rest, char, &mut text)?,
        };
    }
    Ok(text + rest)
}

/// Escapes with the number of a character, and those that Python leaves as they are.
fn coded<'a>(rest: &'a str, char: char, text: &mut String) -> Result<&'a str> {
    let wrong = || fault!("syntax error: a malformed escape in a text: \\{char}");
    let (start, digits) = match char {
        'x' => (1, 2),
        'u' => (1, 4),
        'U' => (1, 8),
        '0'..='7' => {
            let digits = rest
                .bytes()
                .take(3)
                .take_while(|byte| (b'0'..=b'7').contains(byte));
            let n = digits.count();
            let code = u32::from_str_radix(&rest[..n], 8).map_err(|_| wrong())?;
            text.extend(char::from_u32(code));
            return Ok(&rest[n..]);
        }
        'N' => {
            return Err(fault!(
                "syntax error: characters by name (\\N) are not known"
            ));
        }
        _ => {
            text.push('\\');
            return Ok(rest);
        }
    };
    let code = rest.get(start..start + digits).ok_or_else(wrong)?;
    let code = u32::from_str_radix(code, 16).map_err(|_| wrong())?;
    let decoded = char::from_u32(code);
    text.push(decoded.ok_or_else(|| {
        fault!("syntax error: the escape \\{char} of a surrogate, which is no character")
    })?);
    Ok(&rest[start + digits..])
}

/// A number at the beginning of `source`; after a dot it is an integer.
pub(crate) fn number(source: &str, after_dot: bool) -> Result<(Token, usize)> {
    let wrong = |text: &str| {
        fault!(
            "syntax error: {} is no number that is known",
            super::bounds::shown(text)
        )
    };
    let digits = |from: usize, radix: u32| {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
        let bytes = &source.as_bytes()[from..];
        let mut n = 0;
        while bytes.get(n).is_some_and(is_digit)
            || (bytes.get(n) == Some(&b'_') && bytes.get(n + 1).is_some_and(is_digit))
        {
            n += 1;
        }
        from + n
    };
    let decimal = |from: usize| digits(from, 10);
    if !after_dot && let Some(token) = float(source, decimal) {
        return token;
    }
    let prefix = source.get(..2).unwrap_or_default().to_ascii_lowercase();
    let radix = match prefix.as_str() {
        "0x" => Some(16),
        "0o" => Some(8),
        "0b" => Some(2),
        _ => None,
    };
    let (radix, start, end) = match radix {
        Some(radix) => (radix, 2, digits(2, radix)),
        None => (10, 0, decimal(0)),
    };
    let text = source[start..end].replace('_', "");
    let value = i128::from_str_radix(&text, radix).map_err(|_| wrong(&source[..end]))?;
    Ok((Token::Int(value), end))
}

/// A number with a point or an exponent.
fn float(source: &str, decimal: impl Fn(usize) -> usize) -> Option<Result<(Token, usize)>> {
    let bytes = source.as_bytes();
    let mut end = decimal(0);
    let mut is_float = false;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = decimal(end + 1);
        is_float = true;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = decimal(end + 1 + sign);
            is_float = true;
        }
    }
    let text = source[..end].replace('_', "");
    let parsed = text
        .parse()
        .map_err(|_| Error::new("syntax error: a malformed number"));
    is_float.then(|| parsed.map(|value| (Token::Float(value), end)))
}
