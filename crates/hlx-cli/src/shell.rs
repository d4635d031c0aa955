//! `hlx completions` and `hlx man`: what a shell and a manual know of the command line, made from its definition.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use hlx_core::files::write_with_folder;

use crate::print::{self, say};

#[derive(clap::Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

#[derive(clap::Args)]
pub struct Manual {
    /// The folder to write the pages to, made if it is not there.
    folder: PathBuf,
}

/// Prints the script that makes a shell complete `hlx`.
pub fn completions(arguments: &Completions) -> Result<()> {
    let mut script = Vec::new();
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "hlx", &mut script);
    print::bytes(&script)
}

/// Writes a page of the manual for the program, and one for each of its verbs: `hlx.1`, `hlx-train.1`, ..
pub fn manual(arguments: &Manual) -> Result<()> {
    let folder = &arguments.folder;
    ensure!(
        !folder.exists() || folder.is_dir(),
        "{}: is no folder",
        folder.display()
    );
    let mut command = crate::Arguments::command().disable_help_subcommand(true);
    command.build();
    let n_pages = pages(&command, "hlx", folder)?;
    say!("{}: {n_pages} pages", folder.display())
}

/// Writes the page of a command and those of the commands below it, and counts them.
fn pages(command: &Command, name: &str, folder: &Path) -> Result<usize> {
    let page = command.clone().disable_help_flag(true);
    let mut text = Vec::new();
    // Without a date, so that one version has the same pages whenever they are made.
    Man::new(page)
        .title(name.to_uppercase())
        .date("")
        .manual("HLX")
        .render(&mut text)?;
    let path = folder.join(format!("{name}.1"));
    write_with_folder(&path, &text).with_context(|| path.display().to_string())?;
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let counts = below.map(|below| pages(below, &format!("{name}-{}", below.get_name()), folder));
    Ok(1 + counts.sum::<Result<usize>>()?)
}
