//! `cargo xtask lint`: what a change must satisfy before its tests are worth running.

use std::path::Path;

use crate::command::{self, step};
use crate::{
    Outcome, activations, arrows, book, constants, digests, families, file_calls, files, floors,
    libm, noted_tables, packer, products, publisher, python, shaders, specializations, tidy,
    workflows,
};

pub const HELP: &str = "\
cargo xtask lint

Checks the tree itself (first line of each file, unfinished work, unused shaders, broken links;
dependency arrows; floors inside the crates; calls of the platform's mathematics; files read or written past hlx_core::files;
lengths multiplied without a check; generated constants; tables of the benchmarks' notes; shader digests; SPIR-V rules; docs/devices.md; the book's contents, links and commands; workflows;
Python files, if `cargo xtask python` has installed ruff), then formatting, then clippy and rustdoc without a warning. It needs neither a shader compiler nor Vulkan.";

type Check = (&'static str, fn(&Path) -> Result<Vec<String>, String>);

/// Checks that only read the tree: together well under a second, once shader-lint is built.
const CHECKS: [Check; 16] = [
    ("tidiness", tidy::check),
    ("dependency arrows", arrows::check),
    ("floors", floors::check),
    ("generated constants", |root| {
        let generated = [
            constants::generate(root, true),
            activations::generate(root, true),
            families::generate(root, true),
        ];
        Ok(generated.into_iter().filter_map(Result::err).collect())
    }),
    ("tables of the benchmarks' notes", |root| {
        noted_tables::generate(root, true)
    }),
    ("the platform's mathematics", libm::check),
    ("files that are read and written", file_calls::check),
    ("products of sizes", products::check),
    ("shader digests", digests::check),
    ("specialization constants", specializations::check),
    ("SPIR-V rules", lint_modules),
    ("the book", book::check),
    ("page of devices", packer::check_devices),
    ("workflows", workflows::check),
    ("publisher", publisher::check),
    ("Python files", python::lint),
];

pub fn run(args: &[String]) -> Outcome {
    if let Some(argument) = args.first() {
        return Err(crate::unknown_argument("lint", argument));
    }
    let root = command::root();
    let mut failed = 0;
    for (name, check) in CHECKS {
        failed += report(step(name, || {
            let wrong = check(&root)?;
            if wrong.is_empty() {
                Ok(())
            } else {
                Err(wrong.join("\n"))
            }
        }));
    }
    failed += report(step("formatting", || {
        command::succeed(
            "cargo fmt --all",
            &mut command::cargo(&["fmt", "--all", "--check"]),
        )
    }));
    failed += report(step("clippy", clippy));
    failed += report(step("documentation", documentation));
    if failed > 0 {
        return Err(format!("lint: {failed} checks failed"));
    }
    Ok(0)
}

/// Shows an error and counts it, so that one run names everything that is wrong.
fn report(result: Result<(), String>) -> u32 {
    let Err(message) = result else { return 0 };
    eprintln!("{message}");
    1
}

/// The default members, and the native layer of the Python package, which is none (Cargo.toml).
const CHECKED: [&[&str]; 2] = [&["--all-targets"], &["-p", "hlx-python"]];

fn clippy() -> Result<(), String> {
    for members in CHECKED {
        let mut clippy = command::quiet_cargo(&["clippy", "--release"]);
        clippy.args(members).args(["--", "-D", "warnings"]);
        command::succeed("clippy", &mut clippy)?;
    }
    Ok(())
}

fn documentation() -> Result<(), String> {
    command::document(&[])?;
    command::document(CHECKED[1])
}

fn lint_modules(root: &Path) -> Result<Vec<String>, String> {
    let family = |module: &Path| {
        let name = files::relative(root, &module.with_extension(""));
        let below = name.split_once("/spv/").map(|(_, below)| below.to_owned());
        below.unwrap_or(name)
    };
    let modules = digests::modules(root)?.into_iter();
    let named: Vec<_> = modules.map(|module| (family(&module), module)).collect();
    let mut wrong = shaders::lint(&named)?;
    wrong.extend(shaders::compare_structs(root)?);
    Ok(wrong)
}
