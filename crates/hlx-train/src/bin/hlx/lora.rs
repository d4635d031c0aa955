//! `hlx lora`: the low-rank adapters of a run as files, apart from the model or merged into it.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_core::{Context, files};
use hlx_nn::{CONFIG_FILE, MODEL_FILE, peft_config};
use hlx_train::model_folder::copy_companions;
use hlx_train::run::RunFolder;
use hlx_train::task::Sizes;
use hlx_train::trained::Trained;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, or RUN/best.
    run: PathBuf,
    /// The folder to write: adapter_model.safetensors and adapter_config.json, or of a merged model
    /// model.safetensors and config.json.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Add the adapters to the weights and write the whole model.
    #[arg(long)]
    merge: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let ctx = Context::cpu()?;
    let trained = Trained::open(&ctx, &arguments.run, false)?;
    let config = trained.config.lora();
    let config = config.with_context(|| {
        format!(
            "{}: has no adapters (section [lora])",
            arguments.run.display()
        )
    })?;
    let weights = trained.model.weights();
    let written: [(&str, Vec<u8>); 2] = if arguments.merge {
        weights.merge_lora(&config)?;
        let sizes = Sizes::Language(trained.model.config());
        [
            (MODEL_FILE, weights.base_to_safetensors()?),
            (CONFIG_FILE, sizes.to_bytes()?),
        ]
    } else {
        [
            ("adapter_model.safetensors", weights.lora_to_safetensors()?),
            (
                "adapter_config.json",
                peft_config(&config, weights)?.into_bytes(),
            ),
        ]
    };
    let out = &arguments.out;
    std::fs::create_dir_all(out)
        .with_context(|| format!("{}: cannot be created", out.display()))?;
    for (name, bytes) in written {
        let path = out.join(name);
        let done = files::write_atomically(&path, &bytes);
        done.with_context(|| format!("{}: cannot be written", path.display()))?;
        println!("{}", path.display());
    }
    if arguments.merge {
        let (run, _) = RunFolder::open_checkpoint(&arguments.run)?;
        copy_companions(run.path(), out)?;
    }
    Ok(())
}
