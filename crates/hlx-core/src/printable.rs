//! Text of others on a terminal: control characters become escapes that do nothing.
//!
//! Names of files and tensors, keys, values and messages of peers come from outside. An escape sequence in
//! one of them could clear the screen, change the terminal's title or hide what follows.

use std::borrow::Cow;
use std::str;

/// Whether a character moves the cursor, begins a sequence of the terminal's, ends a line or reverses the
/// direction of what follows.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text with each control character as Rust writes it, such as `\u{1b}` and `\n`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// As [`printable`], of text whose newlines and tabs are meant.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

fn escaped(text: &str, allowed: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |character: char| is_control(character) && !allowed(character);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_escaped(character) {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// Makes text that arrives in pieces printable, as [`printable_lines`] does: a piece may end within a
/// character.
#[derive(Debug, Default)]
pub struct PrintableStream {
    /// The bytes of a character that is not whole yet: three at most.
    begun: Vec<u8>,
}

impl PrintableStream {
    /// The printable text of the next bytes; what is no UTF-8 becomes U+FFFD.
    pub fn next(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.begun);
        let (mut text, mut rest) = (String::new(), &bytes[..]);
        loop {
            let error = match str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(&printable_lines(whole));
                    return text;
                }
                Err(error) => error,
            };
            let (whole, others) = rest.split_at(error.valid_up_to());
            text.push_str(&printable_lines(str::from_utf8(whole).unwrap_or_default()));
            let Some(n_wrong) = error.error_len() else {
                self.begun = others.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &others[n_wrong..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes() {
        let text = "a\u{1b}[2Jb\u{7}\u{9b}\r\n\tc\u{202e}\u{2066}\u{2028}é";
        let line = r"a\u{1b}[2Jb\u{7}\u{9b}\r\n\tc\u{202e}\u{2066}\u{2028}é";
        assert_eq!(printable(text), line);
        assert_eq!(printable(line), line, "once is enough");
        let lines = "a\\u{1b}[2Jb\\u{7}\\u{9b}\\r\n\tc\\u{202e}\\u{2066}\\u{2028}é";
        assert_eq!(printable_lines(text), lines);
        assert!(matches!(printable("größer"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_sequence_cut_into_pieces_is_no_sequence_either() {
        // The control sequence introducer of 8-bit terminals, by itself and in UTF-8, ESC, and an é.
        let bytes = b"a\x9b2J\xc2\x9b2J\x1b[2J\xc3\xa9\n";
        let whole = "a\u{fffd}2J\\u{9b}2J\\u{1b}[2Jé\n";
        for at in 0..=bytes.len() {
            let mut stream = PrintableStream::default();
            let (first, second) = bytes.split_at(at);
            let text = stream.next(first) + &stream.next(second);
            assert_eq!(text, whole, "cut at {at}");
        }
    }
}
