//! `cargo xtask test`: every test, on the CPU and on each Vulkan device under validation.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{self, step};
use crate::{Outcome, files, setup};

pub const HELP: &str = "\
cargo xtask test [--no-install] [--device cpu|vulkan] [-- ARGUMENTS OF cargo test]

Installs what the tests need (Debian and Ubuntu, through apt, as root or through sudo; elsewhere
prints the commands), then runs all tests and doc tests in release mode: on the CPU device and on
every Vulkan device found, under the Khronos validation layer with synchronization validation.
One message of the layer fails the run. Plain `cargo test --release` runs the same tests without
the layer.

  --no-install   install nothing; go on with what is here
  --device D     cpu: that device alone; vulkan: fail unless there is a Vulkan device";

struct Options {
    install: bool,
    device: Option<String>,
    rest: Vec<String>,
}

pub fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    let with_vulkan = options.device.as_deref() != Some("cpu");
    if with_vulkan {
        setup::prepare(options.install)?;
    }
    if options.device.as_deref() == Some("vulkan") && !setup::has_vulkan() {
        return Err("test: no Vulkan loader or no driver is installed".to_string());
    }
    let log = command::root().join("target").join("validation.log");
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    files::write(&log, b"")?;

    let mut tests = command::cargo(&["test", "--release"]);
    tests.args(&options.rest);
    // Where a driver is installed, finding no device with it is a failure and no reason to skip.
    match (&options.device, setup::has_vulkan()) {
        (Some(device), _) => _ = tests.env("HLX_TEST_DEVICES", device),
        (None, true) => _ = tests.env("HLX_TEST_DEVICES", "vulkan"),
        (None, false) => {}
    }
    if with_vulkan && setup::has_validation() {
        tests
            .env("HLX_VALIDATION", "1")
            .env("HLX_VALIDATION_LOG", &log);
    }
    let status = step("tests", || command::status(&mut tests))?;
    let messages = validation_messages(&log)?;
    match (status, messages) {
        (0, 0) => Ok(0),
        (0, count) => Err(format!(
            "test: {count} messages of the validation layer (above)"
        )),
        (status, _) => Ok(status),
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        install: true,
        device: None,
        rest: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--no-install" => options.install = false,
            "--device" => match args.next().map(String::as_str) {
                Some(device @ ("cpu" | "vulkan")) => options.device = Some(device.to_string()),
                _ => return Err("test: --device takes cpu or vulkan".to_string()),
            },
            "--" => options.rest = args.by_ref().cloned().collect(),
            other => return Err(crate::unknown_argument("test", other)),
        }
    }
    Ok(options)
}

/// Shows what the layer wrote, each kind of message once; gives the number of messages.
fn validation_messages(log: &Path) -> Result<usize, String> {
    let text = String::from_utf8_lossy(&files::bytes(log)?).into_owned();
    let kinds = by_kind(&text);
    for (first, count) in kinds.values() {
        eprintln!("{first}\n  ({count} of this kind)");
    }
    if !kinds.is_empty() {
        eprintln!(
            "xtask: the validation layer spoke; all of it is in {}",
            log.display()
        );
    }
    Ok(kinds.values().map(|(_, count)| count).sum())
}

/// Messages by the identifier they start with: the first of each, and how many there are.
fn by_kind(log: &str) -> BTreeMap<&str, (&str, usize)> {
    let mut kinds = BTreeMap::new();
    for line in log.lines().filter(|line| !line.trim().is_empty()) {
        let kind = line.split(": ").next().unwrap_or(line);
        kinds.entry(kind).or_insert((line, 0)).1 += 1;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::{by_kind, parse};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn reads_its_options() {
        let options = parse(&words("--no-install --device cpu -- -p hlx-core name")).expect("fine");
        assert!(!options.install);
        assert_eq!(options.device.as_deref(), Some("cpu"));
        assert_eq!(options.rest, ["-p", "hlx-core", "name"]);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let error = |line: &str| parse(&words(line)).err().expect("refused");
        assert_eq!(
            error("--device metal"),
            "test: --device takes cpu or vulkan"
        );
        assert_eq!(error("--device"), "test: --device takes cpu or vulkan");
        assert!(error("--quick").starts_with("test: unknown argument `--quick`"));
    }

    #[test]
    fn counts_validation_messages_by_kind() {
        let kinds = by_kind("SYNC-A: one\n\nVUID-B: two\nSYNC-A: three\n");
        let found: Vec<_> = kinds.into_iter().collect();
        assert_eq!(
            found,
            [
                ("SYNC-A", ("SYNC-A: one", 2)),
                ("VUID-B", ("VUID-B: two", 1))
            ]
        );
    }
}
