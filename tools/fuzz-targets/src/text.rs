//! Readers that take bytes or text.

use std::str::FromStr;

use hlx_core::PrintableStream;
use hlx_train::config::{Config, Format, Override};
use hlx_train::data::Dataset;
use hlx_train::run::{Manifest, State};

/// Reads a checkpoint's state.
pub fn state(data: &[u8]) {
    if let Ok(state) = State::from_bytes(data) {
        let _ = state.to_bytes().expect("an encoding");
    }
}

/// Reads run.json.
pub fn manifest(data: &[u8]) {
    let _ = Manifest::from_bytes(data);
}

/// Reads a configuration; what it is written as is read again.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(config) = Config::parse(text, "fuzz", &[]) {
        let written = config.to_toml().expect("TOML");
        Config::parse(&written, "fuzz", &[]).expect("its own TOML");
        let _ = config.train.warnings(256);
    }
}

/// Reads a corpus in every format.
pub fn corpus(data: &[u8]) {
    for format in [Format::Text, Format::Pairs] {
        let _ = Dataset::from_bytes(data, "fuzz", format, 16);
    }
}

/// Reads an IDX file; what it is written as is read again.
pub fn idx(data: &[u8]) {
    if let Ok(array) = hlx_data::parse_idx(data) {
        let written = array.to_bytes();
        let again = hlx_data::parse_idx(&written).expect("its own bytes");
        assert_eq!(again.to_bytes(), written);
    }
}

/// Makes any bytes printable, in one piece and in two: nothing is left that a terminal carries out.
pub fn printable(data: &[u8]) {
    let mut whole = PrintableStream::default();
    let text = whole.next(data);
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    assert!(text.chars().all(is_shown), "{text:?}");
    let mut pieces = PrintableStream::default();
    let (first, second) = data.split_at(data.len() / 2);
    assert_eq!(pieces.next(first) + &pieces.next(second), text);
    let line = hlx_core::printable(&text).into_owned();
    assert!(!line.contains(char::is_control), "{line:?}");
    assert_eq!(hlx_core::printable(&line), line);
}

/// Reads arguments: an override and a handle, and applies the override.
pub fn arguments(data: &[u8]) {
    const BASE: &str = include_str!("../../../configs/ascii-specialist.toml");
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = hlx_store::Handle::from_str(text);
    if let Ok(value) = Override::from_str(text) {
        let _ = Config::parse(BASE, "fuzz", &[value]);
    }
}
