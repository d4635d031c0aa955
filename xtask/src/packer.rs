//! Runs tools/release, which packs what is built; xtask itself has no dependencies.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, command};

/// A verb of tools/release, built if it has to be.
pub fn packer(verb: &str) -> Command {
    command::quiet_cargo(&["run", "--release", "-p", "release", "--", verb])
}

pub const DEVICES_HELP: &str = "\
cargo xtask devices

Writes docs/devices.md from the files in benches/devices, which `hlx doctor --report` has written.";

/// `cargo xtask devices`.
pub fn devices(args: &[String]) -> Outcome {
    if let Some(argument) = args.first() {
        return Err(crate::unknown_argument("devices", argument));
    }
    command::status(packer("devices").arg(command::root()))
}

/// Whether docs/devices.md is what the files give: a line if it is not.
pub fn check_devices(root: &Path) -> Result<Vec<String>, String> {
    let mut check = packer("devices");
    let checked = command::capture("devices", check.arg(root).arg("--check"));
    Ok(checked.err().into_iter().collect())
}
