//! The summary that `cargo xtask test` prints last: devices, tests on each, and what was left out.

use std::collections::{BTreeMap, BTreeSet};

/// What `cargo test` printed of its results.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Results {
    passed: usize,
    failed: usize,
    /// Tests marked `#[ignore]`, each with its reason.
    ignored: Vec<(String, String)>,
}

impl Results {
    /// Counts a line of the output of `cargo test`.
    pub fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count_before(counts, " passed");
            self.failed += count_before(counts, " failed");
        } else if let Some((test, reason)) = ignored(line) {
            self.ignored.push((test.to_string(), reason.to_string()));
        }
    }

    /// Counts a line of the output of pytest, whose last one is `3 failed, 97 passed, 2 skipped in 1.20s`. The
    /// reason of a skipped test is in a line of its own: `SKIPPED [2] tests/test_a.py:5: needs PyTorch`.
    pub fn read_pytest(&mut self, line: &str) {
        let total = line.trim_matches(['=', ' ']);
        let is_total = total.contains(" in ") && total.ends_with(['s', ')']);
        let counts = |word| count_before(total, word);
        if is_total
            && [" passed", " failed", " error", " skipped"]
                .iter()
                .any(|word| counts(word) > 0)
        {
            self.passed += counts(" passed");
            self.failed += counts(" failed") + counts(" error");
        } else if let Some(skipped) = line.strip_prefix("SKIPPED [") {
            let (count, rest) = skipped.split_once("] ").unwrap_or(("1", skipped));
            let (place, reason) = rest.split_once(": ").unwrap_or((rest, "skipped"));
            let one = (place.to_string(), reason.to_string());
            let count = count.parse().unwrap_or(1);
            self.ignored.extend(std::iter::repeat_n(one, count));
        }
    }

    /// The tests that passed.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// The totals without a report.
    pub fn last_line(&self) -> String {
        totals(self.passed, self.failed, self.ignored.len())
    }

    /// Counts a failure for a test program, or a build, that ended without a result.
    pub fn ended_early(&mut self) {
        self.failed = self.failed.max(1);
    }
}

/// The number in front of a word: 12 in `ok. 12 passed; 0 failed`.
fn count_before(text: &str, word: &str) -> usize {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    let digits = before.rsplit(' ').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// The name and the reason of a test that its attribute ignores.
fn ignored(line: &str) -> Option<(&str, &str)> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let reason = rest.trim_start_matches([',', ' ']);
    Some((test, if reason.is_empty() { "ignored" } else { reason }))
}

/// The lines that tests appended to the file that `HLX_TEST_REPORT` names
/// (`crates/hlx-core/src/test_report.rs` writes them).
#[derive(Debug, Default)]
pub struct Report {
    /// The tests that ran on each device, by selector; with the device's name.
    devices: BTreeMap<String, (String, BTreeSet<String>)>,
    /// The tests that did without a device or a tool, by what it is and why.
    left_out: BTreeMap<(String, String), BTreeSet<String>>,
    /// The pipelines that were made: a shader with its specialization constants.
    pub pipelines: BTreeSet<String>,
}

impl Report {
    /// Reads the lines; one that cannot be read is an error, so that no test goes uncounted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut report = Self::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [verb, program, test, subject, detail] = fields[..] else {
                return Err(format!("test report: `{line}` has not five fields"));
            };
            let test = format!("{program}::{test}");
            let (subject, detail) = (subject.to_string(), detail.to_string());
            match verb {
                "ran" => {
                    let device = report.devices.entry(subject);
                    let (_, tests) = device.or_insert_with(|| (detail, BTreeSet::new()));
                    tests.insert(test);
                }
                "left out" => {
                    let tests = report.left_out.entry((subject, detail)).or_default();
                    tests.insert(test);
                }
                "pipeline" => {
                    report.pipelines.insert(format!("{subject} {detail}"));
                }
                _ => return Err(format!("test report: `{line}` starts with no known word")),
            }
        }
        Ok(report)
    }

    /// Whether a test ran on a Vulkan device.
    pub fn has_vulkan(&self) -> bool {
        self.devices
            .keys()
            .any(|device| device.starts_with("vulkan"))
    }

    /// The tests that ran on some device.
    fn ran(&self) -> BTreeSet<&String> {
        self.devices.values().flat_map(|(_, tests)| tests).collect()
    }

    /// The tests that did without something and ran on no device: they passed without a check.
    fn skipped(&self) -> usize {
        let ran = self.ran();
        let without: BTreeSet<&String> = self.left_out.values().flatten().collect();
        without.difference(&ran).count()
    }
}

/// The summary: a line for each device, a line for each thing left out, and the totals. A test
/// that passed only because its device or tool is missing counts as skipped, not as passed.
pub fn summary(results: &Results, report: &Report, also_left_out: &[String]) -> String {
    let mut lines = vec!["Tests by device".to_string()];
    let width = report.devices.keys().map(String::len).max().unwrap_or(0);
    for (selector, (name, tests)) in &report.devices {
        lines.push(format!("  {selector:width$}  {:4} on {name}", tests.len()));
    }
    let skipped = report.skipped().min(results.passed);
    let without_device = (results.passed + results.failed)
        .saturating_sub(report.ran().len())
        .saturating_sub(skipped);
    lines.push(format!(
        "  {:width$}  {without_device:4} need no device",
        ""
    ));
    let mut left_out: Vec<String> = report
        .left_out
        .iter()
        .map(|((what, why), tests)| format!("{} without {what}: {why}", counted(tests.len())))
        .collect();
    left_out.extend(
        results
            .ignored
            .iter()
            .map(|(test, why)| format!("{test}: {why}")),
    );
    left_out.extend_from_slice(also_left_out);
    lines.push("Left out".to_string());
    if left_out.is_empty() {
        left_out.push("nothing".to_string());
    }
    lines.extend(left_out.iter().map(|line| format!("  {line}")));
    let passed = results.passed - skipped;
    lines.push(totals(
        passed,
        results.failed,
        skipped + results.ignored.len(),
    ));
    lines.join("\n")
}

fn totals(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

fn counted(tests: usize) -> String {
    match tests {
        1 => "1 test".to_string(),
        tests => format!("{tests} tests"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Results, summary};

    fn results(lines: &[&str]) -> Results {
        let mut results = Results::default();
        lines.iter().for_each(|line| results.read(line));
        results
    }

    #[test]
    fn the_lines_of_pytest_are_counted() {
        let mut results = Results::default();
        let lines = [
            "SKIPPED [2] python/tests/test_exchange.py:7: PyTorch is not installed",
            "FAILED python/tests/test_a.py::test_in_place - assert 1 == 2",
            "==== 3 failed, 97 passed, 2 skipped, 1 error in 61.20s (0:01:01) ====",
            "4 passed in 0.10s",
        ];
        lines.iter().for_each(|line| results.read_pytest(line));
        assert_eq!(
            (results.passed, results.failed, results.ignored.len()),
            (101, 4, 2)
        );
        assert_eq!(results.ignored[0].1, "PyTorch is not installed");
    }

    const REPORT: &str = "ran\tkernels-1\tsoftmax\tcpu\tAMD EPYC\n\
                          ran\tkernels-1\tsoftmax\tvulkan:0\tllvmpipe\n\
                          ran\tkernels-1\tsoftmax\tvulkan:0\tllvmpipe\n\
                          ran\ttrain-2\tsoftmax\tcpu\tAMD EPYC\n";

    #[test]
    fn results_are_summed_over_programs() {
        let found = results(&[
            "test a ... ok",
            "test b ... ignored, needs two GPUs",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!((found.passed, found.failed), (15, 2));
        let ignored = vec![("b".to_string(), "needs two GPUs".to_string())];
        assert_eq!(found.ignored, ignored);
    }

    #[test]
    fn each_test_counts_once_a_device() {
        let results = results(&["test result: ok. 5 passed; 0 failed; 0 ignored"]);
        let report = Report::parse(REPORT).expect("reads");
        assert!(report.has_vulkan());
        assert_eq!(
            summary(&results, &report, &[]),
            "Tests by device\n\
             \x20 cpu          2 on AMD EPYC\n\
             \x20 vulkan:0     1 on llvmpipe\n\
             \x20              3 need no device\n\
             Left out\n\
             \x20 nothing\n\
             5 passed, 0 failed, 0 skipped"
        );
    }

    #[test]
    fn pipelines_are_listed_once() {
        let text = "pipeline\tk-1\ta\tsoftmax/forward\t0=1 1000=1\n\
                    pipeline\tk-1\tb\tsoftmax/forward\t0=1 1000=1\n";
        let report = Report::parse(text).expect("reads");
        let made: Vec<&String> = report.pipelines.iter().collect();
        assert_eq!(made, ["softmax/forward 0=1 1000=1"]);
    }

    #[test]
    fn a_test_whose_device_is_missing_is_skipped_and_named() {
        let results = results(&["test result: ok. 5 passed; 0 failed; 0 ignored"]);
        let text = "ran\tk-1\tsoftmax\tcpu\tAMD EPYC\n\
                    left out\tk-1\tsoftmax\tVulkan\tno Vulkan device was found\n\
                    left out\tk-1\tbarriers\tVulkan\tno Vulkan device was found\n";
        let report = Report::parse(text).expect("reads");
        assert!(!report.has_vulkan());
        let also = ["the validation layer is not installed".to_string()];
        let text = summary(&results, &report, &also);
        assert!(
            text.contains("  2 tests without Vulkan: no Vulkan device was found\n"),
            "{text}"
        );
        assert!(text.contains("\n  the validation layer is not installed\n"));
        assert!(text.ends_with("\n4 passed, 0 failed, 1 skipped"), "{text}");
    }

    #[test]
    fn a_program_that_ends_early_is_a_failure() {
        let mut results = results(&["test result: ok. 5 passed; 0 failed; 0 ignored"]);
        results.ended_early();
        let text = summary(&results, &Report::default(), &[]);
        assert!(text.ends_with("\n5 passed, 1 failed, 0 skipped"), "{text}");
    }

    #[test]
    fn a_broken_report_is_an_error() {
        let error = |text: &str| Report::parse(text).expect_err("refused");
        assert!(error("ran\tonly\tthree").contains("has not five fields"));
        assert!(error("flew\ta\tb\tc\td").contains("no known word"));
    }
}
