//! `hlx digest`: what proves that two runs, or two models, are equal.

use std::path::PathBuf;

use anyhow::Result;
use hlx_core::Device;
use hlx_nn::{gguf_of, stored_sha256};
use hlx_train::model_folder::{self, is_run};
use hlx_train::opening::Opening;
use hlx_train::receipts::weights_digest;
use hlx_train::run::RunFolder;

use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, an imported model's or a Hugging Face folder, or a GGUF file.
    #[arg(value_name = "MODEL")]
    run: PathBuf,
    /// Print the whole list of digests as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let path = &arguments.run;
    if gguf_of(path).is_some() || path.join(hlx_nn::CONFIG_FILE).is_file() && !is_run(path)? {
        return of_model(arguments);
    }
    let (_, checkpoint) = RunFolder::open_checkpoint(path)?;
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

/// Prints the digest of the weights, as receipts have it, and of tensors in blocks as they are stored.
fn of_model(arguments: &Arguments) -> Result<()> {
    let stored = stored_sha256(&arguments.run)?;
    let model = model_folder::open_as(&Device::cpu()?, &arguments.run, Opening::default())?;
    let weights = weights_digest(&model)?;
    if arguments.json {
        let line = serde_json::json!({"parameters": weights, "stored": stored});
        return say!("{line}");
    }
    say!("parameters {weights}")?;
    match stored {
        Some(stored) => say!("stored     {stored}"),
        None => Ok(()),
    }
}
