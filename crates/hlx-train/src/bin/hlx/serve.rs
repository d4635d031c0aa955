//! `hlx serve` and `hlx bench-serve`: run the programs `hlx-serve` and `hlx-bench-serve`, which lie beside this one.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// The program's arguments; --help lists them.
    #[arg(
        value_name = "ARGUMENT",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    all: Vec<OsString>,
}

/// Becomes the program of a name; where a program cannot, waits for it and ends with its status.
pub fn become_program(name: &str, arguments: &Arguments) -> Result<()> {
    let own = std::env::current_exe().context("the place of this program")?;
    let other = own.with_file_name(format!("{name}{EXE_SUFFIX}"));
    ensure!(
        other.is_file(),
        "{}: is not there; `cargo build --release -p hlx-serve` makes it",
        other.display()
    );
    let mut command = Command::new(&other);
    command.args(&arguments.all);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        Err(command.exec()).with_context(|| other.display().to_string())
    }
    #[cfg(not(unix))]
    {
        let status = command.status();
        let status = status.with_context(|| other.display().to_string())?;
        std::process::exit(status.code().unwrap_or(1))
    }
}
