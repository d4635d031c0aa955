//! Checks SPIR-V modules by the rules of HLX's arithmetic: `shader-lint NAME FILE [NAME FILE]...`.
//!
//! Prints a line a breach, and exits with status 1 if there is one. A program of its own, so that
//! xtask needs no dependency and starts within a second.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut failed = false;
    for pair in arguments.chunks(2) {
        let [name, file] = pair else {
            eprintln!("shader-lint: expected NAME FILE pairs");
            return ExitCode::from(2);
        };
        let breaches = match std::fs::read(file) {
            Ok(bytes) => hlx_spirv::arithmetic::check(name, &bytes),
            Err(error) => vec![format!("{file}: {error}")],
        };
        failed |= !breaches.is_empty();
        for breach in breaches {
            println!("{breach}");
        }
    }
    ExitCode::from(u8::from(failed))
}
