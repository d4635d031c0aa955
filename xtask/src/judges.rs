//! `cargo xtask judges`: runs test suites that others wrote on the Python package.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::python::environment::{self, Environment};
use crate::{Outcome, files, unknown_argument};

pub const HELP: &str = "\
cargo xtask judges --suite NAME[=FOLDER] [--suite ..] [--device cpu|vulkan] [--stride N] [--json FILE]
                   [--python PROGRAM]

Runs test suites that others wrote on the Python package, and prints for each how many samples or tests passed
and failed, and how many were refused, with the reason. docs/judges.md has the numbers.

  opinfo               PyTorch's samples of its operations, forward and gradient, from the fixture in
                       crates/hlx-autograd/tests/fixtures
  modules              PyTorch's samples of its layers, beside PyTorch's own in f64
  second-derivatives   second derivatives on PyTorch's samples, beside PyTorch's own in f64
  array-api            array-api-tests, the suite of the array API standard
  tinygrad             tinygrad's test_ops with HLX in the place of PyTorch; needs clang
  nanogpt              nanoGPT's training on HLX and on PyTorch: losses, bits, checkpoints and text
  transformers         language models of the library transformers, beside its own in f64
  lm-eval              lm-evaluation-harness on models of HLX, beside the same models in transformers

array-api, tinygrad and nanogpt are no packages: FOLDER is a checkout, target/judges/NAME if left out. Each suite runs in a
virtual environment, target/python/judges-NAME, with the wheel that `cargo xtask python` has built and the packages
that the suite needs.

  --suite NAME   a suite; may be repeated
  --device D     cpu (default) or vulkan
  --stride N     every N-th sample of opinfo and second-derivatives
  --json FILE    writes the results of all suites to a file
  --python P     an interpreter that has HLX and these packages already";

/// A suite: its script in python/tests, the packages it needs, and where it is fetched from if it is no package.
struct Suite {
    name: &'static str,
    script: &'static str,
    packages: &'static [&'static str],
    source: Option<&'static str>,
    takes_stride: bool,
}

const SUITES: [Suite; 8] = [
    Suite {
        name: "opinfo",
        script: "judge_opinfo.py",
        packages: &["numpy>=1.26"],
        source: None,
        takes_stride: true,
    },
    Suite {
        name: "modules",
        script: "judge_modules.py",
        packages: &["torch==2.15.0", "numpy>=1.26", "scipy", "expecttest"],
        source: None,
        takes_stride: false,
    },
    Suite {
        name: "second-derivatives",
        script: "judge_second_derivatives.py",
        packages: &["torch==2.15.0", "numpy>=1.26", "scipy", "expecttest"],
        source: None,
        takes_stride: true,
    },
    Suite {
        name: "array-api",
        script: "judge_array_api.py",
        packages: &[
            "pytest>=8",
            "pytest-json-report",
            "hypothesis>=6.151",
            "ndindex>=1.8",
        ],
        source: Some("git clone --recursive https://github.com/data-apis/array-api-tests"),
        takes_stride: false,
    },
    Suite {
        name: "tinygrad",
        script: "judge_tinygrad.py",
        packages: &["pytest>=8", "numpy>=1.26"],
        source: Some("git clone --depth 1 https://github.com/tinygrad/tinygrad"),
        takes_stride: false,
    },
    Suite {
        name: "nanogpt",
        script: "judge_nanogpt.py",
        packages: &["torch==2.15.0", "numpy>=1.26", "tiktoken", "requests"],
        source: Some("git clone --depth 1 https://github.com/karpathy/nanoGPT"),
        takes_stride: false,
    },
    Suite {
        name: "transformers",
        script: "judge_transformers.py",
        packages: &[
            "torch==2.15.0",
            "transformers>=5.24",
            "peft>=0.21",
            "safetensors",
            "numpy>=1.26",
        ],
        source: None,
        takes_stride: false,
    },
    Suite {
        name: "lm-eval",
        script: "judge_lm_eval.py",
        packages: &[
            "lm_eval[hf]>=0.4.13",
            "torch==2.15.0",
            "transformers>=5.24",
            "tokenizers>=0.23",
            "numpy>=1.26",
        ],
        source: None,
        takes_stride: false,
    },
];

impl Suite {
    /// The checkout that the suite runs from, if it is no package.
    fn folder(&self, given: Option<&Path>) -> Result<Option<PathBuf>, String> {
        let Some(source) = self.source else {
            return match given {
                Some(_) => Err(format!(
                    "judges: {} is a package and takes no folder",
                    self.name
                )),
                None => Ok(None),
            };
        };
        let folder = given.map_or_else(|| target(self.name), Path::to_path_buf);
        if folder.is_dir() {
            return std::path::absolute(&folder)
                .map(Some)
                .map_err(|error| format!("judges: {}: {error}", folder.display()));
        }
        let name = folder.display();
        Err(format!(
            "judges: no {} in {name}; get it with `{source} {name}`",
            self.name
        ))
    }
}

#[derive(Debug, PartialEq)]
struct Options {
    /// Indexes into `SUITES`, each with the folder that was given.
    suites: Vec<(usize, Option<PathBuf>)>,
    device: String,
    stride: u32,
    json: Option<PathBuf>,
    python: Option<PathBuf>,
}

/// A folder or file below target/judges.
fn target(name: &str) -> PathBuf {
    command::root().join("target/judges").join(name)
}

pub fn run(args: &[String]) -> Outcome {
    let options = read(args)?;
    // What is missing is said before anything is installed.
    let folders: Vec<_> = options
        .suites
        .iter()
        .map(|(suite, given)| SUITES[*suite].folder(given.as_deref()))
        .collect::<Result<_, _>>()?;
    let results = target("");
    std::fs::create_dir_all(&results)
        .map_err(|error| format!("cannot make {}: {error}", results.display()))?;
    let (mut worst, mut texts) = (0, Vec::new());
    for ((suite, _), folder) in options.suites.iter().zip(folders) {
        let suite = &SUITES[*suite];
        let (status, text) = judged(suite, folder, &options)?;
        worst = worst.max(status);
        texts.push(text);
    }
    if let Some(file) = &options.json {
        files::write(file, format!("[\n{}\n]\n", texts.join(",\n")).as_bytes())?;
    }
    Ok(worst)
}

/// Runs a suite; its status, and its results as JSON.
fn judged(
    suite: &Suite,
    folder: Option<PathBuf>,
    options: &Options,
) -> Result<(u8, String), String> {
    let mut judge = match &options.python {
        Some(python) => Command::new(python),
        None => environment(suite)?.python(),
    };
    // The scripts import what lies beside them.
    judge.env_remove("PYTHONSAFEPATH");
    judge.arg(command::root().join("python/tests").join(suite.script));
    let result = target(&format!("{}.json", suite.name));
    files::write(&result, b"")?;
    judge.args(folder).args(["--device", &options.device]);
    judge.arg("--json").arg(&result);
    if suite.takes_stride {
        judge.args(["--stride", &options.stride.to_string()]);
    }
    let status = step(suite.name, || command::status(&mut judge))?;
    let text = files::text(&result)?.trim().to_string();
    if text.is_empty() {
        let name = suite.name;
        return Err(format!(
            "judges: {name} ended with status {status} and without results"
        ));
    }
    Ok((status, text))
}

/// A virtual environment with the wheel and the packages of a suite.
fn environment(suite: &Suite) -> Result<Environment, String> {
    let wheels = files::under(&environment::output("wheel"), &["whl"]).unwrap_or_default();
    let (Some(wheel), Some(python)) = (wheels.first(), environment::interpreter(None)) else {
        let line = "judges: no wheel in target/python/wheel; `cargo xtask python` builds it";
        return Err(line.to_string());
    };
    let venv = Environment::make(&format!("judges-{}", suite.name), &python, suite.packages)?;
    step("installing the wheel", || venv.install(wheel))?;
    Ok(venv)
}

fn read(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        suites: Vec::new(),
        device: "cpu".to_string(),
        stride: 1,
        json: None,
        python: None,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || {
            let value = args.next().filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("judges: {arg} needs a value"))
        };
        match arg.as_str() {
            "--suite" => options.suites.push(suite(value()?)?),
            "--device" => options.device.clone_from(value()?),
            "--stride" => {
                let text = value()?;
                let stride = text.parse().ok().filter(|&stride: &u32| stride > 0);
                options.stride = stride.ok_or_else(|| {
                    format!("judges: --stride is `{text}`, expected a number from 1 on")
                })?;
            }
            "--json" => options.json = Some(value()?.into()),
            "--python" => options.python = Some(value()?.into()),
            other => return Err(unknown_argument("judges", other)),
        }
    }
    if options.suites.is_empty() {
        return Err(format!(
            "judges: --suite is missing, expected one of {}",
            names()
        ));
    }
    match options.device.as_str() {
        "cpu" | "vulkan" => Ok(options),
        other => Err(format!(
            "judges: --device is `{other}`, expected cpu or vulkan"
        )),
    }
}

/// A suite by NAME or NAME=FOLDER.
fn suite(text: &str) -> Result<(usize, Option<PathBuf>), String> {
    let (name, folder) = match text.split_once('=') {
        Some((name, folder)) => (name, Some(PathBuf::from(folder))),
        None => (text, None),
    };
    let place = SUITES.iter().position(|suite| suite.name == name);
    let place =
        place.ok_or_else(|| format!("judges: no suite `{name}`, expected one of {}", names()))?;
    Ok((place, folder))
}

fn names() -> String {
    SUITES.map(|suite| suite.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Options, SUITES, read};
    use crate::command;
    use std::path::{Path, PathBuf};

    fn place(name: &str) -> usize {
        let place = SUITES.iter().position(|suite| suite.name == name);
        place.expect("a suite")
    }

    fn read_line(line: &str) -> Result<Options, String> {
        read(&command::words(line))
    }

    #[test]
    fn the_arguments_are_read() {
        let options =
            read_line("--suite opinfo --suite tinygrad=/t --device vulkan --stride 7 --json f");
        let options = options.expect("fine");
        let (opinfo, tinygrad) = (place("opinfo"), place("tinygrad"));
        let folder = Some(PathBuf::from("/t"));
        assert_eq!(options.suites, [(opinfo, None), (tinygrad, folder)]);
        assert_eq!((options.device.as_str(), options.stride), ("vulkan", 7));
        assert_eq!(options.json, Some(PathBuf::from("f")));
        for wrong in [
            "",
            "--suite x",
            "--suite opinfo --stride 0",
            "--suite opinfo --device all",
            "--suite",
        ] {
            assert!(read_line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_missing_suite_says_how_to_get_it() {
        let missing = SUITES[place("array-api")]
            .folder(Some(Path::new("/nowhere/at-all")))
            .expect_err("no folder");
        assert!(missing.contains("git clone --recursive"), "{missing}");
        let opinfo = &SUITES[place("opinfo")];
        assert!(opinfo.folder(Some(Path::new("/"))).is_err());
    }

    #[test]
    fn every_suite_has_its_script() {
        for suite in SUITES {
            let script = command::root().join("python/tests").join(suite.script);
            assert!(script.is_file(), "{}", script.display());
        }
    }
}
