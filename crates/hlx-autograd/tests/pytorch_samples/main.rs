//! PyTorch's own samples of its operators, carried out by HLX: results and gradients against PyTorch's.
//!
//! The samples are `fixtures/pytorch_samples.bin`, made by `fixtures/make_samples.py`; PyTorch is not
//! needed here. A sample passes, or HLX refuses it with an error or has no such form; nothing is left
//! out. `docs/operations.md` says how many of each, and the test fails if it says otherwise:
//! `HLX_WRITE_PAGE=1` writes it anew. On Vulkan a stated part of the samples has to give the CPU's bits.

mod call;
mod compare;
mod counter;
mod fixture;
mod operations;
mod page;
mod sample;
mod tensors;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fixture::{Fixture, text_of};
use hlx_core::testing::{cpu, left_out, vulkan_devices};
use page::Tally;
use sample::{Verdict, judged, results};
use serde_json::Value;

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/pytorch_samples.bin"
);

/// On Vulkan, one sample of this many is carried out, and none of more elements than this.
const VULKAN_STRIDE: usize = 41;
const VULKAN_ELEMENTS: usize = 4096;

#[test]
fn every_sample_passes_or_is_refused() {
    let fixture = Fixture::read(PATH);
    let device = cpu().expect("the CPU device opens");
    let only = std::env::var("HLX_SAMPLES_OF").ok();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut failures = Vec::new();
    for (i, sample) in fixture.samples.iter().enumerate() {
        let name = text_of(&sample["op"]);
        if only
            .as_ref()
            .is_some_and(|only| !only.split(',').any(|other| other == name))
        {
            continue;
        }
        let tally = tallies.entry(name.clone()).or_default();
        let verdict = catch_unwind(AssertUnwindSafe(|| judged(&device, &fixture, sample)));
        match verdict.unwrap_or_else(|_| Verdict::Failed("panicked".to_owned())) {
            Verdict::Passed => tally.passed += 1,
            Verdict::Refused(reason) => *tally.refused.entry(reason).or_default() += 1,
            Verdict::Differs(rule) => *tally.differs.entry(rule).or_default() += 1,
            Verdict::Failed(difference) => {
                tally.failed += 1;
                failures.push(format!("sample {i}, {}: {difference}", described(sample)));
            }
        }
    }
    if let Ok(path) = std::env::var("HLX_SAMPLES_REPORT") {
        let mut text = failures.join("\n");
        for (name, tally) in &tallies {
            text += &format!("\n{name}: {} passed, {} failed", tally.passed, tally.failed);
            for (reason, count) in &tally.refused {
                text += &format!("\n    {count} refused: {reason}");
            }
        }
        std::fs::write(path, text).expect("the report can be written");
    }
    let shown = failures
        .iter()
        .take(40)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failures.is_empty(),
        "{} samples differ:\n{shown}",
        failures.len()
    );
    if only.is_none() {
        page::check(&fixture, &tallies);
    }
}

/// A sample's operation, type and arguments, cut short.
fn described(sample: &Value) -> String {
    let text = format!(
        "{} of {}: {} {}",
        sample["op"], sample["t"], sample["a"], sample["k"]
    );
    text.chars().take(400).collect()
}

#[test]
fn vulkan_has_the_cpus_bits() {
    let fixture = Fixture::read(PATH);
    let cpu = cpu().expect("the CPU device opens");
    let devices = vulkan_devices();
    let mut n_left_out = 0;
    for device in &devices {
        for sample in fixture.samples.iter().step_by(VULKAN_STRIDE) {
            if sample::elements(sample) > VULKAN_ELEMENTS {
                n_left_out += 1;
                continue;
            }
            let (here, there) = (
                results(&cpu, &fixture, sample),
                results(device, &fixture, sample),
            );
            assert_eq!(here, there, "{}", described(sample));
        }
    }
    if n_left_out > 0 {
        let what =
            format!("{n_left_out} samples of more than {VULKAN_ELEMENTS} elements on Vulkan");
        left_out(&what, "software Vulkan takes minutes for them");
    }
}
