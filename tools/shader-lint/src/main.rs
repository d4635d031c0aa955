//! What `cargo xtask` does with SPIR-V modules:
//!
//! - `shader-lint lint NAME FILE [NAME FILE]...` checks them by the rules of HLX's arithmetic,
//!   prints one line per breach, and exits with status 1 if there is one;
//! - `shader-lint structs FOLDER NAME FILE [NAME FILE]...` writes the push-constant blocks of a crate's
//!   modules as Rust structs to FOLDER/push.rs, a module per family; `compare-structs` compares instead.
//!
//! A program of its own, so that xtask needs no dependency and starts within a second.

mod structs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, rest)) = arguments.split_first() else {
        return usage();
    };
    let breaches = match (verb.as_str(), rest) {
        ("lint", modules) => pairs(modules).map(|modules| modules.iter().flat_map(lint).collect()),
        ("structs", [folder, modules @ ..]) => {
            pairs(modules).map(|modules| structs::write(folder, &modules))
        }
        ("compare-structs", [folder, modules @ ..]) => {
            pairs(modules).map(|modules| structs::compare(folder, &modules))
        }
        _ => None,
    };
    let Some(breaches) = breaches else {
        return usage();
    };
    for breach in &breaches {
        println!("{breach}");
    }
    ExitCode::from(u8::from(!breaches.is_empty()))
}

/// Names and files of modules.
fn pairs(arguments: &[String]) -> Option<Vec<(String, String)>> {
    let pair = |pair: &[String]| match pair {
        [name, file] => Some((name.clone(), file.clone())),
        _ => None,
    };
    arguments.chunks(2).map(pair).collect()
}

fn lint((name, file): &(String, String)) -> Vec<String> {
    match std::fs::read(file) {
        Ok(bytes) => hlx_spirv::arithmetic::check(name, &bytes),
        Err(error) => vec![format!("{file}: {error}")],
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "shader-lint: expected lint, or structs or compare-structs and a folder, then pairs of NAME FILE"
    );
    ExitCode::from(2)
}
