//! The sections of a report, made of the facts of its runs.

mod chains;
mod configuration;
mod devices;
mod evaluations;
mod key_figures;
mod samples;

use hlx_train::verify::Verdict;

use self::chains::{chains, digests};
use self::configuration::{configuration, differences, repetition};
use self::devices::devices;
use self::evaluations::evaluations;
use self::key_figures::summary;
use self::samples::samples;
use crate::document::{Block, Section, Table};
use crate::facts::RunFacts;
use crate::figures::charts;

pub(crate) use self::key_figures::key_figures;

/// Digits of a digest beside others; the section of digests has all of them.
const SHORT_DIGEST: usize = 16;

/// All sections.
pub(crate) fn sections(runs: &[RunFacts]) -> Vec<Section> {
    let (losses, others) = charts(runs);
    let with_charts = |charts: Vec<_>| match charts.is_empty() {
        true => Vec::new(),
        false => vec![Block::Charts(charts)],
    };
    let sections = [
        (runs.len() > 1).then(|| summary(runs)).flatten(),
        Section::of("Losses", with_charts(losses)),
        Section::of("Rates, norms and speed", with_charts(others)),
        evaluations(runs),
        Section::of("Samples over time", samples(runs)),
        differences(runs),
        Section::of("Device and versions", devices(runs)),
        Section::of("Chain and verification", chains(runs)),
        digests(runs),
        Section::of("Configuration", configuration(runs)),
        repetition(runs),
    ];
    sections.into_iter().flatten().collect()
}

fn verdict_step(verdict: &Verdict) -> u64 {
    verdict.difference.as_ref().map_or(verdict.to, |it| it.step)
}

/// At most `most` places of `n`, the first and the last among them, evenly apart.
fn evenly(n: usize, most: usize) -> Vec<usize> {
    match n {
        0 => Vec::new(),
        n if n <= most => (0..n).collect(),
        n => (0..most)
            .map(|place| place * (n - 1) / (most - 1))
            .collect(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// The first digits of a digest.
fn short(digest: &str) -> String {
    digest.chars().take(SHORT_DIGEST).collect()
}

/// Takes the first column out, which names the run, where there is one alone.
fn without_first_of_one(runs: &[RunFacts], table: &mut Table) {
    if runs.len() == 1 {
        table.head.remove(0);
        table.rows.iter_mut().for_each(|row| _ = row.remove(0));
    }
}
