//! Python's kinds and cases of characters.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

/// Whether Python's `strip`, `split` and regular expressions count a character as white space.
pub(crate) fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

/// The ranges of a class of Unicode, read once.
struct Ranges(&'static str, OnceLock<Vec<(char, char)>>);

impl Ranges {
    const fn of(pattern: &'static str) -> Self {
        Self(pattern, OnceLock::new())
    }

    fn has(&self, char: char) -> bool {
        let ranges = self.1.get_or_init(|| {
            let parsed = regex_syntax::parse(self.0);
            match parsed.as_ref().map(|hir| hir.kind()) {
                Ok(HirKind::Class(Class::Unicode(class))) => {
                    let ranges = class.iter();
                    ranges.map(|range| (range.start(), range.end())).collect()
                }
                _ => Vec::new(),
            }
        });
        let place = ranges.partition_point(|(_, end)| *end < char);
        ranges.get(place).is_some_and(|(start, _)| *start <= char)
    }
}

static LETTERS: Ranges = Ranges::of(r"\p{L}");
static DECIMALS: Ranges = Ranges::of(r"\p{Nd}");
static NUMBERS: Ranges = Ranges::of(r"\p{N}");
static TITLES: Ranges = Ranges::of(r"\p{Lt}");
static UNPRINTABLE: Ranges = Ranges::of(r"[\p{C}\p{Z}]");
/// Digits that are not decimals: superscripts, digits in circles.
static OTHER_DIGITS: Ranges = Ranges::of(
    r"[\x{b2}\x{b3}\x{b9}\x{1369}-\x{1371}\x{19da}\x{2070}\x{2074}-\x{2079}\x{2080}-\x{2089}\x{2460}-\x{2468}\x{2474}-\x{247c}\x{2488}-\x{2490}\x{24ea}\x{24f5}-\x{24fd}\x{24ff}\x{2776}-\x{277e}\x{2780}-\x{2788}\x{278a}-\x{2792}\x{10a40}-\x{10a43}\x{10e60}-\x{10e68}\x{11052}-\x{1105a}\x{1f100}-\x{1f10a}]",
);
/// Chinese characters that stand for numbers.
const NUMERALS: &str =
    "〇一二三四五六七八九十百千万亿兆零壹贰叁肆伍陆柒捌玖拾佰仟萬億廿卅卌两兩壱弐参";

pub(crate) fn is_letter(char: char) -> bool {
    LETTERS.has(char)
}

pub(crate) fn is_decimal(char: char) -> bool {
    DECIMALS.has(char)
}

pub(crate) fn is_digit(char: char) -> bool {
    DECIMALS.has(char) || OTHER_DIGITS.has(char)
}

pub(crate) fn is_numeric(char: char) -> bool {
    NUMBERS.has(char) || NUMERALS.contains(char)
}

pub(crate) fn is_alphanumeric(char: char) -> bool {
    is_letter(char) || is_numeric(char)
}

pub(crate) fn is_printable(char: char) -> bool {
    char == ' ' || !UNPRINTABLE.has(char)
}

pub(crate) fn is_title(char: char) -> bool {
    TITLES.has(char)
}

/// Whether a character has cases.
pub(crate) fn is_cased(char: char) -> bool {
    char.is_lowercase() || char.is_uppercase() || is_title(char)
}

/// Appends a character as the first of a word is written.
pub(crate) fn push_title(text: &mut String, char: char) {
    let single = match char {
        '\u{1c4}'..='\u{1c6}' => Some('\u{1c5}'),
        '\u{1c7}'..='\u{1c9}' => Some('\u{1c8}'),
        '\u{1ca}'..='\u{1cc}' => Some('\u{1cb}'),
        '\u{1f1}'..='\u{1f3}' => Some('\u{1f2}'),
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => Some(char),
        '\u{1f80}'..='\u{1faf}' => char::from_u32(u32::from(char) | 8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(u32::from(char) + 9),
        '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}' => Some(char),
        _ => None,
    };
    if let Some(single) = single {
        return text.push(single);
    }
    let mut upper = char.to_uppercase();
    text.extend(upper.next());
    text.extend(upper.flat_map(char::to_lowercase));
}

/// Python's `title`: the first letter of each word, where a word is letters that have cases.
pub(crate) fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut within = false;
    for (at, char) in text.char_indices() {
        match within {
            true => push_lower(&mut titled, text, at, char),
            false => push_title(&mut titled, char),
        }
        within = is_cased(char);
    }
    titled
}

/// Python's `capitalize`.
pub(crate) fn capitalize(text: &str) -> String {
    let mut capital = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        match at {
            0 => push_title(&mut capital, char),
            _ => push_lower(&mut capital, text, at, char),
        }
    }
    capital
}

/// Appends a character of a text as a small one; a sigma that ends a word has a form of its own.
fn push_lower(lower: &mut String, text: &str, at: usize, char: char) {
    if char.is_ascii() {
        return lower.push(char.to_ascii_lowercase());
    }
    if char != 'Σ' {
        return lower.extend(char.to_lowercase());
    }
    // What decides is the next letter on each side. Texts of nothing but points and accents are not read to their end.
    let is_plain = |char: &char| char.is_alphanumeric() && !('\u{2b0}'..='\u{36f}').contains(char);
    let up_to = |chars: &mut dyn Iterator<Item = char>| {
        let mut n = 0;
        for char in chars.take(64) {
            n += char.len_utf8();
            if is_plain(&char) {
                break;
            }
        }
        n
    };
    let end = at + char.len_utf8();
    let before = at - up_to(&mut text[..at].chars().rev());
    let behind = end + up_to(&mut text[end..].chars());
    let whole = text[before..behind].to_lowercase();
    let place = text[before..at].to_lowercase().len();
    lower.extend(whole[place..].chars().next());
}
