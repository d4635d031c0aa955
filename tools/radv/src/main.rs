//! Compiles HLX's modules with Mesa's RADV for an AMD chip that is not here, and searches the machine
//! code for instructions that HLX's arithmetic forbids.
//!
//! - `radv check LIST OUTPUT first|all NAME FILE [NAME FILE]...` compiles each module with the
//!   specialization constants of the list (the first row of each, or all), for the chip that
//!   `RADV_FORCE_FAMILY` names; prints one line per breach, writes one line per pipeline to OUTPUT, and exits
//!   with status 1 if there is a breach;
//! - `radv table OUTPUT...` prints registers, spills and waves of several chips as a table.
//!
//! Nothing is computed: there is no card. A program of its own, so that xtask needs no dependency.

mod assembly;
mod check;
mod driver;
mod jobs;
mod pipeline;
mod rules;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((verb, rest)) if verb == "check" => check::run(rest),
        Some((verb, rest)) if verb == "table" => table::print(rest),
        _ => Err("expected check or table".to_owned()),
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("radv: {message}");
            ExitCode::from(2)
        }
    }
}
