//! What a Rust source names: its paths and imports, without comments, texts and tests.

/// An import or a path in an expression.
#[derive(Debug, PartialEq)]
pub struct Path {
    /// Its parts; a star is a part too.
    pub parts: Vec<String>,
    /// The name by which an import brings it into the file; none of a path in an expression.
    pub name: Option<String>,
}

/// What a source names.
#[derive(Debug, Default)]
pub struct Names {
    pub paths: Vec<Path>,
    /// The modules that are compiled for tests alone.
    pub test_modules: Vec<String>,
}

impl Names {
    pub fn of(text: &str) -> Self {
        let mut names = Self::default();
        let tokens = without_tests(&tokens(text), &mut names.test_modules);
        let mut at = 0;
        while at < tokens.len() {
            at = match tokens[at].as_str() {
                "use" if !is(&tokens, at + 1, "<") => {
                    tree(&tokens, at + 1, &[], &mut names.paths, true)
                }
                "crate" | "super" | "self" if begins_path(&tokens, at) => {
                    tree(&tokens, at, &[], &mut names.paths, false)
                }
                _ => at + 1,
            };
        }
        names
    }
}

/// Whether a path in an expression begins at a word: not in `a::self::b`, nor in `pub(in crate::a)`.
fn begins_path(tokens: &[String], at: usize) -> bool {
    let behind = |n: usize, wanted| at >= n && is(tokens, at - n, wanted);
    let is_visibility = behind(1, "in") && behind(2, "(");
    is(tokens, at + 1, "::") && !behind(1, "::") && !is_visibility
}

fn is(tokens: &[String], at: usize, wanted: &str) -> bool {
    tokens.get(at).is_some_and(|token| token == wanted)
}

/// Reads a path, or the tree of paths of an import, and returns the place after it.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    paths: &mut Vec<Path>,
    is_import: bool,
) -> usize {
    let mut parts = before.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") if is_import => {
                at += 1;
                while at < tokens.len() && !is(tokens, at, "}") {
                    at = tree(tokens, at, &parts, paths, true);
                    at += usize::from(is(tokens, at, ","));
                }
                return at + 1;
            }
            Some(part) if part == "*" || is_word(part) => parts.push(part.to_owned()),
            // `::` at the front of an import; otherwise `::<T>`.
            Some("::") if parts.is_empty() => {}
            _ => break,
        }
        at += 1;
        match is(tokens, at, "::") {
            true => at += 1,
            false => break,
        }
    }
    let mut name = parts.last().cloned();
    if is_import && is(tokens, at, "as") {
        name = tokens.get(at + 1).cloned();
        at += 2;
    }
    if parts.len() > 1 && is_import && parts.last().is_some_and(|last| last == "self") {
        parts.pop();
        name = match name.as_deref() {
            Some("self") => parts.last().cloned(),
            _ => name,
        };
    }
    if !parts.is_empty() {
        let name = name.filter(|_| is_import);
        paths.push(Path { parts, name });
    }
    // Whatever stopped the path is passed over, so that a strange import ends.
    match is_import && !matches!(tokens.get(at).map(String::as_str), Some("," | "}" | ";")) {
        true => at + 1,
        false => at,
    }
}

fn is_word(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_')
}

/// The words and signs of a source; texts, characters and comments are left out.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let rest = &chars[at..];
        at += match rest {
            ['/', '/', ..] => rest.iter().take_while(|&&c| c != '\n').count(),
            ['/', '*', ..] => comment(rest),
            ['"', ..] => quoted(rest),
            ['r', '"' | '#', ..] if raw(rest) > 0 => raw(rest),
            ['b', 'r', '"' | '#', ..] if raw(&rest[1..]) > 0 => 1 + raw(&rest[1..]),
            ['\'', '\\', ..] => 2 + quoted_until(&rest[2..], '\''),
            ['\'', _, '\'', ..] => 3,
            [':', ':', ..] => {
                tokens.push("::".to_owned());
                2
            }
            [first, ..] if first.is_alphanumeric() || *first == '_' => {
                let word = rest
                    .iter()
                    .take_while(|c| c.is_alphanumeric() || **c == '_');
                let word: String = word.collect();
                let length = word.chars().count();
                tokens.push(word);
                length
            }
            [first, ..] => {
                if !first.is_whitespace() {
                    tokens.push(first.to_string());
                }
                1
            }
            [] => 1,
        };
    }
    tokens
}

/// The length of a comment between slashes and stars, which may hold others.
fn comment(chars: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < chars.len() {
        match chars[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(chars: &[char]) -> usize {
    1 + quoted_until(&chars[1..], '"')
}

/// The length of a text up to and with its end.
fn quoted_until(chars: &[char], end: char) -> usize {
    let mut at = 0;
    while at < chars.len() && chars[at] != end {
        at += 1 + usize::from(chars[at] == '\\');
    }
    at + 1
}

/// The length of a raw text, or 0 where there is none.
fn raw(chars: &[char]) -> usize {
    let hashes = chars[1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let end: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let body = &chars[2 + hashes..];
    let found = body.windows(end.len()).position(|part| part == end);
    2 + hashes + found.map_or(body.len(), |found| found + end.len())
}

/// Leaves out what is compiled for tests alone, and notes the modules among it.
fn without_tests(tokens: &[String], modules: &mut Vec<String>) -> Vec<String> {
    const TEST: [[&str; 7]; 2] = [
        ["#", "[", "cfg", "(", "test", ")", "]"],
        ["#", "[", "cfg", "(", "doctest", ")", "]"],
    ];
    let (mut product, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let is_test = TEST.iter().any(|test| {
            let there = tokens[at..].iter().map(String::as_str);
            there.take(test.len()).eq(*test)
        });
        if is_test {
            at = behind_item(tokens, at + TEST[0].len(), modules);
        } else {
            product.push(tokens[at].clone());
            at += 1;
        }
    }
    product
}

/// The place after an item: after its `;`, or after the braces of its body.
fn behind_item(tokens: &[String], mut at: usize, modules: &mut Vec<String>) -> usize {
    if is(tokens, at, "mod") {
        modules.extend(tokens.get(at + 1).cloned());
    }
    let (mut depth, is_import) = (0, is(tokens, at, "use"));
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" | "(" | "[" => depth += 1,
            closing @ ("}" | ")" | "]") => {
                depth -= 1;
                if depth == 0 && closing == "}" && !is_import {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::Names;

    fn paths(text: &str) -> Vec<String> {
        let names = Names::of(text);
        names.paths.iter().map(|one| one.parts.join("::")).collect()
    }

    #[test]
    fn imports_are_found_one_by_one_and_in_trees() {
        let text = "//! crate::probe\nuse crate::memory::Buffer;\nuse crate::{Shader, arith, \
                    cpu::{self, Level as L}};\nfn f<'a>() -> char { super::list(\"crate::no\"); '\"' }\n\
                    #[cfg(test)]\nuse crate::{open, shut};\n#[cfg(test)]\nmod tests { fn f() { crate::no() } }\n\
                    pub(in crate::here) fn g() { for x in crate::there::all() {} }";
        assert_eq!(
            paths(text),
            [
                "crate::memory::Buffer",
                "crate::Shader",
                "crate::arith",
                "crate::cpu",
                "crate::cpu::Level",
                "super::list",
                "crate::there::all"
            ]
        );
    }

    #[test]
    fn paths_in_macros_and_behind_texts_are_found() {
        let text = "macro_rules! m { () => { $crate::map::Map::new(r#\"a \" crate::no\"#) } }\n\
                    /* crate::no /* nested */ */ m!(crate::rows::<u8>::sum, '\\'', b'x', crate::end);";
        assert_eq!(
            paths(text),
            ["crate::map::Map::new", "crate::rows", "crate::end"]
        );
    }

    #[test]
    fn imports_have_names() {
        let names = Names::of("pub use self::a::{B as C, D};\nuse super::e::*;");
        let found = names.paths.iter().map(|one| one.name.as_deref());
        assert_eq!(found.collect::<Vec<_>>(), [Some("C"), Some("D"), Some("*")]);
    }
}
