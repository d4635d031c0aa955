//! The page of operations, `docs/operations.md`, made of what became of the samples.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::fixture::Fixture;

/// What became of an operation's samples.
#[derive(Default)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    /// How many were refused, by the reason.
    pub refused: BTreeMap<String, usize>,
    /// How many have another result by a rule of HLX's.
    pub differs: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn n_refused(&self) -> usize {
        self.refused.values().sum()
    }

    fn n_different(&self) -> usize {
        self.differs.values().sum()
    }

    /// The reasons with their counts.
    fn reasons(&self) -> String {
        let refused = self
            .refused
            .iter()
            .map(|(reason, count)| (reason.as_str(), count));
        let all = refused.chain(self.differs.iter().map(|(&rule, count)| (rule, count)));
        let all = all.map(|(reason, count)| format!("{count}: {}", reason.replace('|', "\\|")));
        all.collect::<Vec<_>>().join("; ")
    }
}

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");

const INTRODUCTION: &str = "\
# Operations against PyTorch's samples

A test writes this page (`crates/hlx-autograd/tests/pytorch_samples`) and fails if the page is
out of date. `HLX_WRITE_PAGE=1 cargo test --release -p hlx-autograd --test pytorch_samples` renews it.

The samples are PyTorch's own: `op_db` of `torch.testing._internal.common_methods_invocations`, with its
`reference_inputs` for f32 and its `sample_inputs` for f16, bf16, i32, i8, u8 and bool. They have broadcast
and zero-size shapes, strided memory (views whose elements overlap are made contiguous), edge values, NaN
and infinity, and up to 943,593 elements. 64-bit integers become i32.

A sample **passes** if every result has PyTorch's shape and type (i32 or u32 for i64) and its values, and
if every gradient, under a random upstream gradient, has its values too:

- Integers, truth values and elements that are only moved must be equal, except for the sign of zeros.
- Floats may differ by 2e-6 of the value and 5e-7 of the largest beside it (bilinear images: 5e-5, as
  places in them are f32), gradients by 1e-5, 2e-6 and 2.4e-7 (norms of layers: 5e-6) absolute, losses of
  weighted classes by 4e-6, and 16-bit results by one unit of their type.
- The reference is PyTorch's result in f64 if PyTorch has the operation in f64.
- If PyTorch does not specify the order of equal elements (`sort`, `argsort`, `topk`), places must name
  the values.
- What PyTorch does here with one argument (`dtype=`, `dim=None`, -1 for an extent) is written out with
  HLX's methods.

A sample is **refused** if HLX returns an error, which the page names (N stands for numbers, `[..]` for
lists), or if its methods have no such form.
";

/// Compares the page with what became of the samples, or writes it.
pub fn check(fixture: &Fixture, tallies: &BTreeMap<String, Tally>) {
    let text = page(fixture, tallies);
    if std::env::var_os("HLX_WRITE_PAGE").is_some() {
        std::fs::write(PATH, text).expect("the page can be written");
        return;
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    let differs = found
        .lines()
        .zip(text.lines())
        .find(|(one, two)| one != two);
    assert!(
        found == text,
        "docs/operations.md is out of date (HLX_WRITE_PAGE=1 writes it): {differs:?}"
    );
}

fn page(fixture: &Fixture, tallies: &BTreeMap<String, Tally>) -> String {
    let mut text = INTRODUCTION.to_owned();
    let sum = |count: fn(&Tally) -> usize| tallies.values().map(count).sum::<usize>();
    let (passed, refused) = (sum(|tally| tally.passed), sum(Tally::n_refused));
    let different = sum(Tally::n_different);
    let _ = write!(
        text,
        "\nPyTorch {}: {} samples of {} operations, {passed} passed, {refused} refused, {different} by \
         another rule.\n\n\
         | PyTorch | samples | passed | refused | by another rule | why |\n|---|---|---|---|---|---|\n",
        fixture.version,
        passed + refused + different,
        tallies.len(),
    );
    for (name, tally) in tallies {
        let (passed, refused, different) = (tally.passed, tally.n_refused(), tally.n_different());
        let (samples, why) = (passed + refused + different, tally.reasons());
        let counts = format!("{samples} | {passed} | {refused} | {different}");
        let _ = writeln!(text, "| `{name}` | {counts} | {why} |");
    }
    let names: Vec<String> = fixture
        .others
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let _ = write!(
        text,
        "\n## Operations of `op_db` that HLX does not have\n\n\
         Their samples are not tried: {}.\n",
        names.join(", ")
    );
    text
}
