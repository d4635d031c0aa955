//! `hlx digest`: what proves that two runs are equal.

use std::path::PathBuf;

use anyhow::Result;
use hlx_train::run::RunFolder;

use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, or one of its checkpoints.
    run: PathBuf,
    /// Print the whole list of digests as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let (_, checkpoint) = RunFolder::open_checkpoint(&arguments.run)?;
    hlx_train::trained::prove(&checkpoint)?;
    let digests = &checkpoint.digests;
    if arguments.json {
        say!("{}", serde_json::to_string(digests)?)?;
        return Ok(());
    }
    say!("step       {}", digests.step)?;
    say!("parameters {}", digests.parameters)?;
    say!("optimizer  {}", digests.optimizer)
}
