//! `cargo xtask test`: every test, on the CPU and on each Vulkan device under validation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::command::{self, step};
use crate::setup::Consent;
use crate::summary::{Report, Results, summary};
use crate::{Outcome, files, setup, specializations, test_choice, test_programs};

pub const HELP: &str = "\
cargo xtask test [--all] [--yes | --no-install] [--device all|cpu|vulkan] [--pipelines]
                 [-- ARGUMENTS OF cargo test]

Runs the tests that prove the most for their time in release mode, on the CPU device and on every
Vulkan device found, under the Khronos validation layer with synchronization validation. One message
of the layer fails the run. The last lines say how many tests ran on which device, and what was left
out and why.

The tests need a Vulkan driver, the validation layer and spirv-val. On Debian and Ubuntu the verb
prints which packages are missing, prompts, and installs them through apt (as root or through sudo);
elsewhere it prints the commands. Where standard input is not a terminal it installs nothing and
goes on with what is here.

  --all          all tests, with all of their cases, two programs at a time, and doc tests; CI=true
                 does the same
  --yes          install without asking; the environment variable CI=true does the same
  --no-install   install nothing; go on with what is here
  --device D     the devices under test, as the environment variable HLX_TEST_DEVICES:
                 all (default); cpu: that device alone; vulkan: fail without a Vulkan device.
                 With CI=true the default is vulkan
  --pipelines    add the specialization constants of the pipelines that were made to
                 shaders/specializations.txt";

struct Options {
    all: bool,
    consent: Consent,
    device: Option<String>,
    pipelines: bool,
    rest: Vec<String>,
}

pub fn run(args: &[String]) -> Outcome {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    let device = std::env::var("HLX_TEST_DEVICES").ok();
    let options = parse(args, ci, device)?;
    let device = options.device.as_deref().unwrap_or("all");
    let mut left_out = match device {
        "cpu" => vec!["Vulkan: the CPU device alone is tested".to_string()],
        _ => setup::prepare(options.consent, &setup::TESTS)?,
    };
    if device == "vulkan" && !setup::has_vulkan() {
        return Err("test: no Vulkan loader or no driver is installed".to_string());
    }
    let (log, report) = (output_file("validation.log")?, output_file("tests.tsv")?);
    let mut variables = vec![("HLX_TEST_REPORT".to_string(), report.display().to_string())];
    let mut set = |name: &str, value: &str| variables.push((name.to_string(), value.to_string()));
    // Where a driver is installed, finding no device with it is a failure and no reason to skip.
    let device = if device == "all" && setup::has_vulkan() {
        "vulkan"
    } else {
        device
    };
    set("HLX_TEST_DEVICES", device);
    if device != "cpu" && setup::has_validation() {
        set("HLX_VALIDATION", "1");
        set("HLX_VALIDATION_LOG", &log.display().to_string());
    }
    // With one thread libtest runs tests on its main thread, which is not named after the test.
    if std::thread::available_parallelism().is_ok_and(|threads| threads.get() == 1) {
        set("RUST_TEST_THREADS", "2");
    }
    let is_chosen = !options.all && options.rest.is_empty();
    if is_chosen {
        set("HLX_TEST_CASES", "chosen");
        left_out.extend(test_choice::left_out());
    }
    let mut results = Results::default();
    let status = step("tests", || {
        if options.all && options.rest.is_empty() {
            return test_programs::run_all(&variables, &mut results);
        }
        let mut tests = command::cargo(&["test", "--release", "--no-fail-fast"]);
        if is_chosen {
            tests.args(test_choice::arguments(&command::root())?);
        }
        tests.args(&options.rest).envs(variables.iter().cloned());
        test_programs::run(&mut tests, &mut results)
    })?;
    let messages = validation_messages(&log)?;
    if messages > 0 {
        left_out.push(format!(
            "{messages} messages of the validation layer (above)"
        ));
    }
    left_out.extend(
        crate::book::blocks(&pages::pages(&command::root())?)
            .lines()
            .map(str::to_string),
    );
    let report = Report::parse(&files::text(&report)?)?;
    println!("\n{}", summary(&results, &report, &left_out));
    if options.pipelines {
        let added = specializations::add(&command::root(), &report.pipelines)?;
        println!("{added} pipelines added to shaders/specializations.txt");
    }
    finish(
        status,
        messages,
        device == "vulkan" && options.rest.is_empty() && !report.has_vulkan(),
    )
}

/// The outcome of a whole run.
fn finish(status: u8, messages: usize, without_vulkan: bool) -> Outcome {
    if status == 0 && messages > 0 {
        return Err(format!(
            "test: {messages} messages of the validation layer (above)"
        ));
    }
    if status == 0 && without_vulkan {
        return Err("test: no test ran on a Vulkan device".to_string());
    }
    Ok(status)
}

/// An empty file in the target folder.
pub fn output_file(name: &str) -> Result<PathBuf, String> {
    let folder = command::root().join("target");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(name);
    files::write(&path, b"")?;
    Ok(path)
}

fn parse(args: &[String], ci: bool, device: Option<String>) -> Result<Options, String> {
    let mut options = Options {
        all: ci,
        consent: if ci { Consent::Given } else { Consent::Unknown },
        device: device.or_else(|| ci.then(|| "vulkan".to_string())),
        pipelines: false,
        rest: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--all" => options.all = true,
            "--yes" => options.consent = Consent::Given,
            "--no-install" => options.consent = Consent::Refused,
            "--pipelines" => options.pipelines = true,
            "--device" => options.device = Some(args.next().cloned().unwrap_or_default()),
            "--" => options.rest = args.by_ref().cloned().collect(),
            other => return Err(crate::unknown_argument("test", other)),
        }
    }
    match options.device.as_deref() {
        None | Some("all" | "cpu" | "vulkan") => Ok(options),
        Some(other) => Err(format!(
            "test: --device (or HLX_TEST_DEVICES) is `{other}`, expected all, cpu or vulkan"
        )),
    }
}

/// Prints the first message of each kind that the layer wrote; gives the number of messages.
pub fn validation_messages(log: &Path) -> Result<usize, String> {
    let text = String::from_utf8_lossy(&files::bytes(log)?).into_owned();
    let kinds = by_kind(&text);
    for (first, count) in kinds.values() {
        eprintln!("{first}\n  ({count} of this kind)");
    }
    if !kinds.is_empty() {
        eprintln!(
            "xtask: all messages of the validation layer are in {}",
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
    use super::{Consent, by_kind, finish, parse};
    use crate::command::words;

    #[test]
    fn reads_its_options() {
        let read = |line: &str| parse(&words(line), false, None).expect("fine");
        let options = read("--no-install --device cpu -- -p hlx-core name");
        assert_eq!(options.consent, Consent::Refused);
        assert_eq!(options.device.as_deref(), Some("cpu"));
        assert_eq!(options.rest, ["-p", "hlx-core", "name"]);
        assert_eq!(read("").consent, Consent::Unknown);
        assert_eq!(read("").device, None);
        assert_eq!(read("--yes").consent, Consent::Given);
        assert!(read("--all").all && !read("").all);
        assert!(read("--pipelines").pipelines && !read("--yes").pipelines);
    }

    #[test]
    fn continuous_integration_installs_unasked_and_needs_vulkan() {
        let options = parse(&[], true, None).expect("fine");
        assert_eq!(options.consent, Consent::Given);
        assert!(options.all);
        assert_eq!(options.device.as_deref(), Some("vulkan"));
        let chosen = parse(&[], true, Some("cpu".to_string())).expect("fine");
        assert_eq!(chosen.device.as_deref(), Some("cpu"));
    }

    #[test]
    fn the_argument_wins_over_the_variable() {
        let variable = Some("vulkan".to_string());
        let options = parse(&words("--device cpu"), false, variable).expect("fine");
        assert_eq!(options.device.as_deref(), Some("cpu"));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let error = |line: &str| parse(&words(line), false, None).err().expect("refused");
        let devices = |found: &str| {
            format!(
                "test: --device (or HLX_TEST_DEVICES) is `{found}`, expected all, cpu or vulkan"
            )
        };
        assert_eq!(error("--device metal"), devices("metal"));
        assert_eq!(error("--device"), devices(""));
        assert!(error("--quick").starts_with("test: unknown argument `--quick`"));
    }

    #[test]
    fn a_run_without_a_vulkan_device_fails_where_one_is_required() {
        assert_eq!(finish(0, 0, false), Ok(0));
        assert_eq!(finish(101, 3, true), Ok(101));
        assert!(finish(0, 3, false).is_err_and(|error| error.contains("3 messages")));
        assert!(finish(0, 0, true).is_err_and(|error| error.contains("Vulkan device")));
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
