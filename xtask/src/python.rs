//! `cargo xtask python`: builds the Python package, installs it into a fresh environment and tests it there.

pub mod environment;
mod interpreters;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::setup::{self, Consent};
use crate::summary::{Report, Results, summary};
use crate::{Outcome, files, test_programs, tests_verb};
use environment::Environment;
pub use wheels::Wanted as WantedWheels;

pub const HELP: &str = "\
cargo xtask python [--stubs | --types | --wheels] [--device all|cpu|vulkan] [--python PROGRAM]
                   [--yes | --no-install] [-- ARGUMENTS OF pytest]

Builds the wheel of the Python package, installs it into a fresh virtual environment (target/python/venv)
beside NumPy, and runs python/tests, the examples in the docstrings and the code of docs/python.md there, Vulkan under the
validation layer. Checks the stubs, the package's types (mypy.stubtest, mypy, pyright) and the Python
files (ruff). The last lines say how many tests ran on which device, and what was left out and why.

It needs Python 3.11 or newer with venv, and PyPI. On Debian and Ubuntu the verb prints which packages are
missing, prompts, and installs them through apt.

  --stubs        writes the stubs (python/hlx/*.pyi) anew from the built package, and checks nothing
  --types        checks the stubs and types alone
  --wheels       builds all wheels and the source distribution into target/wheels, tries them where an
                 interpreter can be had, and prints a table of their sizes: manylinux_2_28 for x86-64 and
                 AArch64, Windows, and free-threaded Python
  --device D     the devices under test, as the environment variable HLX_TEST_DEVICES
  --python P     the interpreter; by default python3, or the newest python3.N on the path
  --yes          install missing packages without asking; CI=true does the same
  --no-install   install nothing";

/// What the verb does besides building the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Test,
    Stubs,
    Types,
    Wheels,
}

#[derive(Debug, PartialEq)]
struct Options {
    task: Task,
    device: String,
    python: Option<String>,
    consent: Consent,
    rest: Vec<String>,
}

/// The Python files that are checked.
const SOURCES: [&str; 4] = [
    "python",
    "examples/python",
    "benches/python_overhead.py",
    "benches/python_step.py",
];
/// The files of types that are generated.
const STUBS: &str = "python/tools/stubs.py";

pub fn run(args: &[String]) -> Outcome {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    let device = std::env::var("HLX_TEST_DEVICES").ok();
    let options = parse(args, ci, device)?;
    setup::prepare(options.consent, &setup::PYTHON)?;
    if options.task == Task::Wheels {
        setup::prepare(options.consent, &setup::WHEELS)?;
    }
    let Some(python) = environment::interpreter(options.python.as_deref()) else {
        let line = "python: no Python 3.11 or newer with venv: the Python package is neither built nor tested";
        println!("Left out\n  {line}");
        return if ci { Err(line.to_string()) } else { Ok(0) };
    };
    let tools = Environment::make("tools", &python, &environment::TOOLS)?;
    if options.task == Task::Wheels {
        return wheels::run(&tools, &python, WantedWheels::default());
    }
    let wheel = build(&tools, &python)?;
    let venv = Environment::make("venv", &python, &environment::BESIDE_THE_PACKAGE)?;
    step("installing the wheel", || venv.install(&wheel))?;
    match options.task {
        Task::Stubs => stubs(&venv, &tools, &[]).map(|()| 0),
        Task::Types => types(&venv, &tools).map(|()| 0),
        _ => test(&venv, &tools, &options),
    }
}

/// Builds the wheels of a release into target/wheels.
pub fn release_wheels(consent: Consent, only: Option<&str>) -> Result<(), String> {
    setup::prepare(consent, &setup::PYTHON)?;
    setup::prepare(consent, &setup::WHEELS)?;
    let python =
        environment::interpreter(None).ok_or("release: no Python 3.11 or newer with venv")?;
    let tools = Environment::make("tools", &python, &environment::TOOLS)?;
    let wanted = WantedWheels {
        only,
        is_release: true,
    };
    match wheels::run(&tools, &python, wanted)? {
        0 => Ok(()),
        status => Err(format!("release: the wheels failed with status {status}")),
    }
}

/// Builds the wheel for this machine; the target folder is that of all other builds.
fn build(tools: &Environment, python: &Path) -> Result<PathBuf, String> {
    let folder = environment::output("wheel");
    let _ = std::fs::remove_dir_all(&folder);
    step("building the wheel", || {
        let mut maturin = tools.command("maturin");
        maturin.args(["build", "--quiet", "--out"]).arg(&folder);
        maturin.arg("--interpreter").arg(python);
        command::succeed("maturin", &mut maturin)
    })?;
    let found = files::under(&folder, &["whl"])?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| format!("python: no wheel in {}", folder.display()))
}

/// All tests, then what needs no run.
fn test(venv: &Environment, tools: &Environment, options: &Options) -> Outcome {
    let mut left_out = match options.device.as_str() {
        "cpu" => vec!["Vulkan: the CPU device alone is tested".to_string()],
        _ if !setup::has_vulkan() => {
            vec!["Vulkan: no loader or no driver is installed".to_string()]
        }
        _ => Vec::new(),
    };
    if options.device == "vulkan" && !setup::has_vulkan() {
        return Err("python: no Vulkan loader or no driver is installed".to_string());
    }
    let report = tests_verb::output_file("python-tests.tsv")?;
    let log = tests_verb::output_file("python-validation.log")?;
    let mut results = Results::default();
    let mut pytest = venv.python();
    pytest
        .args(["-m", "pytest", "-q", "-ra"])
        .args(&options.rest);
    pytest.env("HLX_TEST_REPORT", &report);
    devices(&mut pytest, &options.device, &log);
    let mut failed = step("tests", || {
        test_programs::run_counted(&mut pytest, &mut results, Results::read_pytest)
    })? != 0;
    let messages = tests_verb::validation_messages(&log)?;
    if messages > 0 {
        left_out.push(format!(
            "{messages} messages of the validation layer (above)"
        ));
    }
    if options.rest.is_empty() {
        for check in [types, sources] {
            if let Err(error) = check(venv, tools) {
                eprintln!("{error}");
                results.ended_early();
                failed = true;
            }
        }
    }
    let report = Report::parse(&files::text(&report)?)?;
    println!("\n{}", summary(&results, &report, &left_out));
    Ok(u8::from(failed || messages > 0))
}

/// The devices under test and the validation layer, as for the tests in Rust.
fn devices(pytest: &mut Command, device: &str, log: &Path) {
    // Where a driver is installed, finding no device with it is a failure and no reason to skip.
    let device = match device {
        "all" if setup::has_vulkan() => "vulkan",
        other => other,
    };
    pytest.env("HLX_TEST_DEVICES", device);
    if device != "cpu" && setup::has_validation() {
        pytest
            .env("HLX_VALIDATION", "1")
            .env("HLX_VALIDATION_LOG", log);
    }
}

/// The stubs and the types: generated files are up to date, and three checkers agree with them.
fn types(venv: &Environment, tools: &Environment) -> Result<(), String> {
    stubs(venv, tools, &["--check"])?;
    let example = "python/tests/typing_example.py";
    let mypy = |args: &[&str]| {
        let mut mypy = venv.python();
        mypy.args(["-m"]).args(args);
        mypy
    };
    step("mypy.stubtest", || {
        let allowed = [
            "--allowlist",
            "python/tools/stubtest-allowlist.txt",
            "--ignore-unused-allowlist",
            "--mypy-config-file",
            "pyproject.toml",
        ];
        // A class of Rust is a disjoint base; checkers do not need to know.
        let mut stubtest = mypy(&[
            "mypy.stubtest",
            "hlx",
            "--concise",
            "--ignore-disjoint-bases",
        ]);
        command::succeed("stubtest", stubtest.args(allowed))
    })?;
    step("mypy", || {
        command::succeed("mypy", &mut mypy(&["mypy", "--strict", example]))
    })?;
    step("pyright", || {
        // The public surface of the package as it is installed, and what a user writes.
        for args in [
            &["--verifytypes", "hlx", "--ignoreexternal"][..],
            &[example],
        ] {
            let mut pyright = venv.command("pyright");
            command::capture("pyright", pyright.args(args))?;
        }
        Ok(())
    })
}

/// Writes or checks the stubs. They are formatted as the other Python files are.
fn stubs(venv: &Environment, tools: &Environment, args: &[&str]) -> Result<(), String> {
    step("stubs", || {
        let mut stubs = venv.python();
        // It imports the file beside it.
        stubs.env_remove("PYTHONSAFEPATH");
        stubs.arg(STUBS).arg("--ruff").arg(tools.program("ruff"));
        command::succeed("stubs", stubs.args(args))
    })
}

/// Formatting and lints of the Python files.
fn sources(_: &Environment, tools: &Environment) -> Result<(), String> {
    step("ruff", || ruff(tools))
}

fn ruff(tools: &Environment) -> Result<(), String> {
    let root = command::root();
    let sources = SOURCES.iter().filter(|name| root.join(name).exists());
    let sources: Vec<_> = sources.collect();
    for args in [&["format", "--check"][..], &["check"]] {
        let mut ruff = tools.command("ruff");
        ruff.args(args).arg("--quiet").args(&sources);
        command::succeed("ruff", &mut ruff)?;
    }
    Ok(())
}

/// The check of the Python files, for `cargo xtask lint`: where ruff is installed.
pub fn lint(_: &Path) -> Result<Vec<String>, String> {
    match Environment::existing("tools") {
        Some(tools) => ruff(&tools).map(|()| Vec::new()),
        None => {
            eprintln!("xtask: Python files are not checked: `cargo xtask python` installs ruff");
            Ok(Vec::new())
        }
    }
}

fn parse(args: &[String], ci: bool, device: Option<String>) -> Result<Options, String> {
    let mut options = Options {
        task: Task::Test,
        device: device.unwrap_or_else(|| if ci { "vulkan" } else { "all" }.to_string()),
        python: None,
        consent: if ci { Consent::Given } else { Consent::Unknown },
        rest: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--stubs" => options.task = Task::Stubs,
            "--types" => options.task = Task::Types,
            "--wheels" => options.task = Task::Wheels,
            "--device" => options.device = args.next().cloned().unwrap_or_default(),
            "--python" => {
                let program = args.next().ok_or("python: --python needs a program")?;
                options.python = Some(program.clone());
            }
            "--yes" => options.consent = Consent::Given,
            "--no-install" => options.consent = Consent::Refused,
            "--" => options.rest = args.by_ref().cloned().collect(),
            other => return Err(crate::unknown_argument("python", other)),
        }
    }
    match options.device.as_str() {
        "all" | "cpu" | "vulkan" => Ok(options),
        other => Err(format!(
            "python: --device (or HLX_TEST_DEVICES) is `{other}`, expected all, cpu or vulkan"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, Task, parse};
    use crate::command;
    use crate::setup::Consent;

    #[test]
    fn the_arguments_are_read() {
        let read = |line: &str, ci| parse(&command::words(line), ci, None);
        let options = |task, device: &str, consent| Options {
            task,
            device: device.to_string(),
            python: None,
            consent,
            rest: Vec::new(),
        };
        assert_eq!(
            read("", false),
            Ok(options(Task::Test, "all", Consent::Unknown))
        );
        assert_eq!(
            read("", true),
            Ok(options(Task::Test, "vulkan", Consent::Given))
        );
        assert_eq!(
            read("--wheels --no-install", true),
            Ok(options(Task::Wheels, "vulkan", Consent::Refused))
        );
        let read_on = read("--device cpu --python python3.12 -- -k sum", false).expect("fine");
        assert_eq!(read_on.python.as_deref(), Some("python3.12"));
        assert_eq!((read_on.device.as_str(), read_on.rest.len()), ("cpu", 2));
        for wrong in ["--python", "--device metal", "--quick"] {
            assert!(read(wrong, false).is_err(), "{wrong}");
        }
    }
}
