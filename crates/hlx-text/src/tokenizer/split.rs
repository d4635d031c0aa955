//! Splitting text into words as the regular expressions of GPT-2 and of its successors do, by hand:
//! a regular expression with a look-ahead takes most of the time of tokenising.

use std::ops::Range;
use std::sync::OnceLock;

/// GPT-2's expression, which the pre-tokenizer `ByteLevel` has built in.
pub(super) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// The expression of Llama 3: numbers in groups of up to three digits.
pub(super) const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// The expression of Qwen 2 and 3: each digit by itself.
pub(super) const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Which expression words follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// [`GPT2`].
    Gpt2,
    /// [`LLAMA3`] or [`QWEN2`]: at most this many digits per word.
    Grouped(usize),
}

impl Pattern {
    /// The pattern of an expression that is known.
    pub fn of_regex(regex: &str) -> Option<Self> {
        match regex {
            LLAMA3 => Some(Self::Grouped(3)),
            QWEN2 => Some(Self::Grouped(1)),
            _ => None,
        }
    }
}

/// What the expressions tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

/// The words of a text, which joined are the text.
pub(super) struct Words<'a> {
    text: &'a str,
    at: usize,
    pattern: Pattern,
    tables: &'static Tables,
}

/// Returns the words of a text.
pub(super) fn words(text: &str, pattern: Pattern) -> Words<'_> {
    Words {
        text,
        at: 0,
        pattern,
        tables: Tables::get(),
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.at;
        let (first, after) = self.char_at(start)?;
        let end = match self.pattern {
            Pattern::Gpt2 => self.gpt2(first, after),
            Pattern::Grouped(digits) => self.grouped(first, after, digits),
        };
        self.at = end;
        self.text.get(start..end)
    }
}

impl Words<'_> {
    fn gpt2(&self, first: char, after: usize) -> usize {
        if let Some(end) = self.contraction(first, after, false) {
            return end;
        }
        // All three kinds of words may have one blank in front.
        let (head, head_after) = match first {
            ' ' => self.char_at(after).unwrap_or((first, after)),
            _ => (first, after),
        };
        match self.class(head) {
            Class::Space => self.space(self.at),
            class => self.run(head_after, class),
        }
    }

    fn grouped(&self, first: char, after: usize, digits: usize) -> usize {
        if let Some(end) = self.contraction(first, after, true) {
            return end;
        }
        let class = self.class(first);
        let next = self.char_at(after);
        let next_class = next.map(|(next, _)| self.class(next));
        match class {
            Class::Letter => return self.run(after, Class::Letter),
            Class::Number => return self.digits(after, digits),
            _ => {}
        }
        let is_newline = matches!(first, '\r' | '\n');
        if next_class == Some(Class::Letter) && !is_newline {
            return self.run(after, Class::Letter);
        }
        if class == Class::Other {
            return self.newlines(self.run(after, Class::Other));
        }
        if first == ' ' && next_class == Some(Class::Other) {
            return self.newlines(self.run(after, Class::Other));
        }
        let end = self.run(self.at, Class::Space);
        let last_newline = self.text[self.at..end].rfind(['\r', '\n']);
        match last_newline {
            Some(place) => self.at + place + 1,
            None => self.space(self.at),
        }
    }

    /// The end of `'s`, `'t`, `'re` and so on.
    fn contraction(&self, first: char, after: usize, ignore_case: bool) -> Option<usize> {
        if first != '\'' {
            return None;
        }
        let (one, one_after) = self.char_at(after)?;
        // Ignoring case, the long s counts as an s.
        let folded = |char: char| match (ignore_case, char) {
            (true, '\u{17f}') => 's',
            (true, char) => char.to_ascii_lowercase(),
            (false, char) => char,
        };
        if matches!(folded(one), 's' | 't' | 'm' | 'd') {
            return Some(one_after);
        }
        let (two, two_after) = self.char_at(one_after)?;
        let pair = (folded(one), folded(two));
        matches!(pair, ('r', 'e') | ('v', 'e') | ('l', 'l')).then_some(two_after)
    }

    /// The end of white space: all of it at the text's end, else all but its last character, which
    /// belongs to the next word, unless it is the only one.
    fn space(&self, start: usize) -> usize {
        let end = self.run(start, Class::Space);
        if end == self.text.len() {
            return end;
        }
        let last = self.text[start..end].char_indices().next_back();
        match last {
            Some((place, _)) if place > 0 => start + place,
            _ => end,
        }
    }

    /// The end of the characters of one class from `at` on.
    fn run(&self, mut at: usize, class: Class) -> usize {
        while let Some((char, after)) = self.char_at(at) {
            if self.class(char) != class {
                break;
            }
            at = after;
        }
        at
    }

    fn digits(&self, mut at: usize, limit: usize) -> usize {
        for _ in 1..limit {
            match self.char_at(at) {
                Some((char, after)) if self.class(char) == Class::Number => at = after,
                _ => break,
            }
        }
        at
    }

    fn newlines(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes()[at..].iter();
        at + bytes
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count()
    }

    /// The character at a place, and the place after it.
    fn char_at(&self, at: usize) -> Option<(char, usize)> {
        let byte = *self.text.as_bytes().get(at)?;
        if byte < 0x80 {
            return Some((char::from(byte), at + 1));
        }
        let char = self.text[at..].chars().next()?;
        Some((char, at + char.len_utf8()))
    }

    fn class(&self, char: char) -> Class {
        match char {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            ' ' | '\t'..='\r' => Class::Space,
            '\0'..='\x7f' => Class::Other,
            _ if has(&self.tables.letters, char) => Class::Letter,
            _ if has(&self.tables.numbers, char) => Class::Number,
            _ if char.is_whitespace() => Class::Space,
            _ => Class::Other,
        }
    }
}

/// The characters of Unicode's general categories L and N, a bit each, by the tables that the regular
/// expressions have: the standard library's may be of another version of Unicode.
struct Tables {
    letters: Vec<u64>,
    numbers: Vec<u64>,
}

impl Tables {
    fn get() -> &'static Self {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        TABLES.get_or_init(|| Self {
            letters: bits_of(r"\p{L}"),
            numbers: bits_of(r"\p{N}"),
        })
    }
}

fn has(bits: &[u64], char: char) -> bool {
    let code = char as u32;
    bits[code as usize / 64] >> (code % 64) & 1 == 1
}

fn bits_of(regex: &str) -> Vec<u64> {
    let mut bits = vec![0_u64; (char::MAX as usize + 1) / 64];
    for code in ranges(regex).into_iter().flatten() {
        bits[code as usize / 64] |= 1 << (code % 64);
    }
    bits
}

/// The code points of an expression for one character.
fn ranges(regex: &str) -> Vec<Range<u32>> {
    use regex_syntax::hir::{Class, HirKind};
    let parsed = regex_syntax::parse(regex);
    match parsed.map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            let ranges = class.ranges().iter();
            ranges
                .map(|range| range.start() as u32..range.end() as u32 + 1)
                .collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use hlx_core::arith::philox4x32;
    use tokenizers::tokenizer::pattern::Pattern as _;
    use tokenizers::utils::SysRegex;

    use super::*;

    fn by_regex(regex: &SysRegex, text: &str) -> Vec<String> {
        let found = regex.find_matches(text).expect("matches");
        let parts = found.into_iter().map(|((start, end), _)| &text[start..end]);
        let filled = parts.filter(|part| !part.is_empty());
        filled.map(str::to_owned).collect()
    }

    /// Texts of characters that the expressions treat differently.
    fn texts() -> Vec<String> {
        let parts: Vec<&str> =
            "a b Z \u{e9} \u{4e2d} \u{17f} ' 's 'S 'LL 're 'd 0 12 \u{b2} \u{661} . , !? \u{2026} \
                                \u{301} \u{216b} \u{24b6} \u{1f600}"
                .split(' ')
                .chain([
                    " ", "  ", "\n", "\r\n", "\t", "\u{a0}", "\u{3000}", "\u{85}", "\u{200b}",
                ])
                .collect();
        let text = |number: u32| {
            let n = number % 13;
            let part = |at: u32| {
                let [word, ..] = philox4x32([number, at, 0, 0], [5, 6]);
                parts[((u64::from(word) * parts.len() as u64) >> 32) as usize]
            };
            (0..n).map(part).collect()
        };
        (0..20_000).map(text).collect()
    }

    #[test]
    fn words_are_those_of_the_expressions() {
        let patterns = [
            (GPT2, Pattern::Gpt2),
            (LLAMA3, Pattern::Grouped(3)),
            (QWEN2, Pattern::Grouped(1)),
        ];
        for (regex, pattern) in patterns {
            let compiled = SysRegex::new(regex).expect("an expression");
            for text in texts() {
                let found: Vec<&str> = words(&text, pattern).collect();
                assert_eq!(found, by_regex(&compiled, &text), "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn classes_are_those_of_the_expressions() {
        let words = words("", Pattern::Gpt2);
        let classes = [
            (r"\p{L}", Class::Letter),
            (r"\p{N}", Class::Number),
            (r"\s", Class::Space),
        ];
        for (regex, class) in classes {
            let all = ranges(regex).into_iter().flatten();
            let all: std::collections::BTreeSet<u32> = all.collect();
            assert!(all.len() > 20, "{regex}");
            for char in '\0'..=char::MAX {
                let is_class = words.class(char) == class;
                assert_eq!(is_class, all.contains(&(char as u32)), "{char:?}");
            }
        }
    }
}
