//! Blocks have at most the error of those that llama.cpp's quantiser makes, and always the same bytes.

mod common;

use hlx_core::digest::sha256_hex;
use hlx_gguf::{BlockKind, quantise, widen};

use common::fixture;

const ROWS: usize = 64;
const COLUMNS: usize = 512;

/// Any numbers of 16 bits, as `make_quantisers.py` makes them.
fn words(name: &str, n: usize) -> Vec<f64> {
    let mut words = Vec::with_capacity(n + 16);
    for at in 0..n.div_ceil(16) {
        let hex = sha256_hex(format!("{name} {at}").as_bytes());
        let byte = |at: usize| u16::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("digits");
        words.extend((0..16).map(|at| f64::from(byte(2 * at) | byte(2 * at + 1) << 8)));
    }
    words.truncate(n);
    words
}

fn values(name: &str) -> Vec<f32> {
    let words = words(name, ROWS * COLUMNS * 9);
    let value = |nine: &[f64]| {
        let normal = nine[..8].iter().sum::<f64>() / 65_536.0 - 4.0;
        let wide = match name {
            "heavy" => normal / ((nine[8] + 3277.0) / 65_536.0),
            _ => normal,
        };
        (wide / 64.0) as f32
    };
    words.chunks_exact(9).map(value).collect()
}

fn importance() -> Vec<f32> {
    let square = |word: f64| ((word + 1.0) * (word + 1.0) / (65_536.0 * 65_536.0)) as f32;
    words("importance", COLUMNS)
        .into_iter()
        .map(square)
        .collect()
}

fn error_of(kind: BlockKind, values: &[f32], bytes: &[u8], importance: Option<&[f32]>) -> f64 {
    let found = widen(kind, bytes).expect("whole blocks");
    let square = |at: usize| {
        let error = f64::from(values[at]) - f64::from(found[at]);
        error * error * importance.map_or(1.0, |all| f64::from(all[at % COLUMNS]))
    };
    (0..values.len()).map(square).sum()
}

#[test]
fn errors_are_at_most_those_of_llama_cpp() {
    let table = std::fs::read_to_string(fixture("quantisers.txt")).expect("the errors");
    let importance = importance();
    let mut digests = Vec::new();
    for line in table.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let &[name, set, how, theirs] = &parts[..] else {
            panic!("{line}");
        };
        let kind = BlockKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .expect("a kind");
        let importance = (how == "guided").then_some(&importance[..]);
        let values = values(set);
        let bytes = quantise(kind, &values, COLUMNS, importance).expect("blocks");
        let error = error_of(kind, &values, &bytes, importance);
        let theirs: f64 = theirs.parse().expect("a number");
        assert!(
            error <= theirs,
            "{name} {set} {how}: {error:e}, llama.cpp has {theirs:e}"
        );
        digests.push(format!("{name} {set} {how} {}\n", sha256_hex(&bytes)));
    }
    let expected = std::fs::read_to_string(fixture("quantised.txt")).expect("the digests");
    assert_eq!(digests.concat(), expected);
}
