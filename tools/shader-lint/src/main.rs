//! What `cargo xtask` does with SPIR-V modules:
//!
//! - `shader-lint lint NAME FILE [NAME FILE]...` checks them by the rules of HLX's arithmetic,
//!   prints a line a breach, and exits with status 1 if there is one;
//! - `shader-lint structs NAME FILE [NAME FILE]...` writes each module's push-constant block as a
//!   Rust struct beside it, with the extension `rs`; `compare-structs` compares instead.
//!
//! A program of its own, so that xtask needs no dependency and starts within a second.

mod structs;

use std::process::ExitCode;

/// What a verb says of one module, from its name, its file and its bytes.
type Verb = fn(&str, &str, &[u8]) -> Vec<String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, modules): (Verb, _) = match arguments.split_first() {
        Some((verb, rest)) if verb == "lint" => (
            |name, _, bytes| hlx_spirv::arithmetic::check(name, bytes),
            rest,
        ),
        Some((verb, rest)) if verb == "structs" => (structs::write, rest),
        Some((verb, rest)) if verb == "compare-structs" => (structs::compare, rest),
        _ => return usage(),
    };
    let mut failed = false;
    for pair in modules.chunks(2) {
        let [name, file] = pair else {
            return usage();
        };
        let breaches = match std::fs::read(file) {
            Ok(bytes) => verb(name, file, &bytes),
            Err(error) => vec![format!("{file}: {error}")],
        };
        failed |= !breaches.is_empty();
        for breach in breaches {
            println!("{breach}");
        }
    }
    ExitCode::from(u8::from(failed))
}

fn usage() -> ExitCode {
    eprintln!("shader-lint: expected lint, structs or compare-structs, then pairs of NAME FILE");
    ExitCode::from(2)
}
