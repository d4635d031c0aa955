//! Python's ways to split a text.

use super::chars::is_space;

/// `split(separator, most)`; without a separator at white space.
pub(crate) fn split<'a>(text: &'a str, separator: Option<&str>, most: usize) -> Vec<&'a str> {
    if let Some(separator) = separator {
        return text.splitn(most.saturating_add(1), separator).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = match parts.len() < most {
            true => rest.find(is_space),
            false => None,
        };
        // The last part has its white space.
        let Some(end) = end else {
            parts.push(rest);
            break;
        };
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

/// `rsplit(separator, most)`
pub(crate) fn split_right<'a>(text: &'a str, separator: Option<&str>, most: usize) -> Vec<&'a str> {
    if let Some(separator) = separator {
        let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
        parts.reverse();
        return parts;
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        let found = match parts.len() < most {
            true => rest.char_indices().rev().find(|(_, char)| is_space(*char)),
            false => None,
        };
        let Some((at, char)) = found else {
            parts.push(rest);
            break;
        };
        parts.push(&rest[at + char.len_utf8()..]);
        rest = rest[..at].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

/// Characters that end a line in Python.
fn ends_line(char: char) -> bool {
    matches!(
        char,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// `splitlines(keepends)`
pub(crate) fn lines(text: &str, keepends: bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = rest.char_indices().find(|(_, char)| ends_line(*char));
        let Some((end, char)) = found else {
            return Some(std::mem::take(&mut rest));
        };
        let next = match rest[end..].starts_with("\r\n") {
            true => end + 2,
            false => end + char.len_utf8(),
        };
        let line = if keepends {
            &rest[..next]
        } else {
            &rest[..end]
        };
        rest = &rest[next..];
        Some(line)
    })
}
