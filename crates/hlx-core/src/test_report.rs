//! The file to which tests append what they ran on and what they made, if `HLX_TEST_REPORT` names one.

use std::io::Write;

/// Appends a line to the report. It is written in one call, so that the lines of tests that run
/// at the same time do not mix; a report that cannot be written fails the test.
pub(crate) fn append(verb: &str, subject: &str, detail: &str) {
    let Some(path) = std::env::var_os("HLX_TEST_REPORT") else {
        return;
    };
    // libtest names the thread of a test after the test.
    let thread = std::thread::current();
    let line = line(verb, thread.name().unwrap_or("unnamed"), subject, detail);
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Appends that a pipeline was made of a shader with these specialization constants.
/// `cargo xtask test --pipelines` stores them, so that drivers without a device can compile the same.
pub(crate) fn pipeline_made(shader: &str, specialization: &[(u32, u32)]) {
    let constant = |(id, word): &(u32, u32)| format!("{id}={word}");
    let constants: Vec<String> = specialization.iter().map(constant).collect();
    append("pipeline", shader, &constants.join(" "));
}

/// A line of the report: verb, test program, test, subject and detail, separated by tabs.
fn line(verb: &str, test: &str, subject: &str, detail: &str) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    let detail = detail.replace(['\t', '\n'], " ");
    format!("{verb}\t{program}\t{test}\t{subject}\t{detail}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_report_has_five_fields() {
        let line = line("left out", "a_test", "Vulkan", "no\tdevice\nat all");
        let fields: Vec<&str> = line.trim_end().split('\t').collect();
        assert_eq!(fields.len(), 5, "{line}");
        assert!(fields[1].starts_with("hlx_core-"), "{line}");
        assert_eq!(fields[2..], ["a_test", "Vulkan", "no device at all"]);
    }
}
