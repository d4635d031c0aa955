//! The specialist's corpora follow docs/ascii-notation.md: the 182 pairs, and those that are drawn.

use std::collections::HashSet;
use std::path::Path;

use hlx_train::config::{Config, Format};
use hlx_train::data::Dataset;

fn corpus() -> Dataset {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = Config::load(&root.join("configs/ascii-specialist.toml"), &[]).expect("loads");
    let path = root.join("configs").join(&config.data.path);
    Dataset::load(&path, Format::Pairs, config.positions()).expect("loads")
}

/// Reads one value and returns what follows it; `None` if there is none.
fn value(text: &str) -> Option<&str> {
    for word in ["TRUE", "FALSE", "NULL"] {
        if let Some(rest) = text.strip_prefix(word) {
            return Some(rest);
        }
    }
    match text.as_bytes().first()? {
        b'"' => text[1..].split_once('"').map(|(_, rest)| rest),
        b'@' => name(&text[1..]),
        b'[' => listing(&text[1..], "]", value),
        b'{' => match text.strip_prefix("{C:") {
            Some(contract) => places(digits(contract)?, 0),
            None => listing(&text[1..], "}", |field| {
                value(name(field)?.strip_prefix(':')?)
            }),
        },
        _ => {
            let whole = digits(text.strip_prefix('-').unwrap_or(text))?;
            whole.strip_prefix('.').map_or(Some(whole), digits)
        }
    }
}

/// Reads items separated by commas up to `close`.
fn listing<'a>(
    text: &'a str,
    close: &str,
    item: impl Fn(&'a str) -> Option<&'a str>,
) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix(close) {
        return Some(rest);
    }
    let rest = item(text)?;
    match rest.strip_prefix(',') {
        Some(more) if !more.starts_with(close) => listing(more, close, item),
        _ => rest.strip_prefix(close),
    }
}

/// Reads `,0=value,1=value...}` with the places in order.
fn places(text: &str, place: usize) -> Option<&str> {
    match text.strip_prefix(&format!(",{place}=")) {
        Some(rest) => places(value(rest)?, place + 1),
        None if place > 0 => text.strip_prefix('}'),
        None => None,
    }
}

fn digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

fn name(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '_');
    (rest.len() < text.len()).then_some(rest)
}

#[test]
fn there_are_182_distinct_pairs() {
    let data = corpus();
    assert_eq!(data.len(), 182);
    let inputs: HashSet<&[u8]> = (0..data.len()).map(|index| data.pair(index).0).collect();
    assert_eq!(inputs.len(), 182);
    for index in 0..data.len() {
        assert!(data.time(index) <= 96, "{:?}", data.pair(index));
    }
}

#[test]
fn every_output_follows_the_notation() {
    let data = corpus();
    for index in 0..data.len() {
        let (input, output) = data.pair(index);
        let text = std::str::from_utf8(output).expect("ASCII");
        assert!(input.is_ascii() && output.is_ascii());
        assert_eq!(value(text), Some(""), "{text}");
    }
}

#[test]
fn drawn_pairs_follow_the_notation_too() {
    for pair in hlx_data::ascii_pairs(5000, 11).expect("pairs") {
        assert_eq!(value(&pair.output), Some(""), "{pair:?}");
    }
}

#[test]
fn the_grammar_refuses_what_is_not_in_it() {
    for bad in [
        "",
        "[1,]",
        "{C:21}",
        "{C:30,1=2}",
        "@",
        "tRUE",
        "{a 1}",
        "1.",
        "\"a",
        "[1 2]",
    ] {
        assert_ne!(value(bad), Some(""), "{bad}");
    }
}

#[test]
fn the_examples_of_the_docs_are_pairs() {
    let data = corpus();
    let pairs: Vec<_> = (0..data.len()).map(|index| data.pair(index)).collect();
    for (input, output) in [
        ("Search for documents", "{C:1000,0=\"search\",1=@documents}"),
        ("List of numbers one two three", "[1,2,3]"),
        ("Enable flag", "TRUE"),
        ("Null literal", "{C:21,0=NULL}"),
    ] {
        assert!(
            pairs.contains(&(input.as_bytes(), output.as_bytes())),
            "{input}"
        );
    }
}
