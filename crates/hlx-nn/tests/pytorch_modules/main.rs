//! PyTorch's own samples of its modules, carried out by HLX's layers and losses: results, changed buffers,
//! and the gradients of inputs and parameters against PyTorch's.
//!
//! The samples are `fixtures/pytorch_modules.bin`, made by `fixtures/make_modules.py`; PyTorch is not
//! needed here. A sample passes, or HLX refuses it with an error or has no such form. `docs/layers.md`
//! says how many of each, and the test fails if it says otherwise: `HLX_WRITE_PAGE=1` writes it anew. On
//! Vulkan every sample of a stated part has to give the CPU's bits.

mod arguments;
#[path = "../../../hlx-autograd/tests/pytorch_samples/compare.rs"]
mod compare;
#[path = "../../../hlx-autograd/tests/pytorch_samples/counter.rs"]
mod counter;
#[path = "../../../hlx-autograd/tests/pytorch_samples/fixture.rs"]
mod fixture;
mod modules;
mod page;
mod sample;
#[path = "../../../hlx-autograd/tests/pytorch_samples/tensors.rs"]
mod tensors;

use std::collections::BTreeMap;

use fixture::{Fixture, text_of};
use hlx_core::testing::{cpu, vulkan_devices};
use page::Tally;
use sample::{Verdict, judged, results};
use serde_json::Value;

/// On Vulkan, one sample of this many is carried out.
const VULKAN_STRIDE: usize = 7;

fn samples() -> Fixture {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/");
    Fixture::read(&format!("{folder}pytorch_modules.bin"))
}

#[test]
fn every_sample_passes_or_is_refused() {
    let fixture = samples();
    let device = cpu().expect("the CPU device opens");
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut failures = Vec::new();
    for sample in &fixture.samples {
        let tally = tallies.entry(text_of(&sample["op"])).or_default();
        match judged(&device, &fixture, sample) {
            Verdict::Passed => tally.passed += 1,
            Verdict::Refused(reason) => *tally.refused.entry(reason).or_default() += 1,
            Verdict::Failed(difference) => {
                failures.push(format!("{}: {difference}", described(sample)));
            }
        }
    }
    let n = failures.len();
    assert!(n == 0, "{n} samples differ:\n{}", failures.join("\n"));
    page::check(&fixture, &tallies);
}

/// A sample's module and arguments, cut short.
fn described(sample: &Value) -> String {
    let text = format!(
        "{} training {}: {} {}",
        sample["op"], sample["train"], sample["k"], sample["a"]
    );
    text.chars().take(400).collect()
}

#[test]
fn vulkan_has_the_cpus_bits() {
    let fixture = samples();
    let cpu = cpu().expect("the CPU device opens");
    for device in &vulkan_devices() {
        for sample in fixture.samples.iter().step_by(VULKAN_STRIDE) {
            let (here, there) = (
                results(&cpu, &fixture, sample),
                results(device, &fixture, sample),
            );
            assert_eq!(here, there, "{}", described(sample));
        }
    }
}
