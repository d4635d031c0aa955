//! The table of PyTorch's samples in `docs/layers.md`, made of what became of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::fixture::Fixture;

/// What became of a module's samples.
#[derive(Default)]
pub struct Tally {
    pub passed: usize,
    /// How many were refused, by the reason.
    pub refused: BTreeMap<String, usize>,
}

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/layers.md");
const BEGIN: &str = "<!-- Made by crates/hlx-nn/tests/pytorch_modules. -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// Compares the page with what became of the samples, or writes it.
pub fn check(fixture: &Fixture, tallies: &BTreeMap<String, Tally>) {
    let page = std::fs::read_to_string(PATH).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the table's begin");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let expected = format!("{before}{BEGIN}{}{END}{after}", table(fixture, tallies));
    if std::env::var_os("HLX_WRITE_PAGE").is_some() {
        std::fs::write(PATH, expected).expect("the page can be written");
        return;
    }
    assert!(
        page == expected,
        "docs/layers.md is out of date (HLX_WRITE_PAGE=1 writes it)"
    );
}

fn table(fixture: &Fixture, tallies: &BTreeMap<String, Tally>) -> String {
    let passed: usize = tallies.values().map(|tally| tally.passed).sum();
    let refused = |tally: &Tally| tally.refused.values().sum::<usize>();
    let n_refused: usize = tallies.values().map(refused).sum();
    let mut text = format!(
        "PyTorch {}: {} samples of {} modules, {passed} passed, {n_refused} refused.\n\n\
         | PyTorch | samples | passed | refused | why |\n|---|---|---|---|---|\n",
        fixture.version,
        passed + n_refused,
        tallies.len(),
    );
    for (name, tally) in tallies {
        let n_refused = refused(tally);
        let reasons = tally.refused.iter();
        let why: Vec<String> = reasons
            .map(|(reason, count)| format!("{count}: {}", reason.replace('|', "\\|")))
            .collect();
        let (samples, why) = (tally.passed + n_refused, why.join("; "));
        let _ = writeln!(
            text,
            "| `{name}` | {samples} | {} | {n_refused} | {why} |",
            tally.passed
        );
    }
    let others: Vec<String> = fixture
        .others
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let _ = writeln!(
        text,
        "\nModules of `module_db` that HLX does not have, whose samples are not tried: {}.",
        others.join(", ")
    );
    text
}
