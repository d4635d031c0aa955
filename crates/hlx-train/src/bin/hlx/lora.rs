//! `hlx lora`: the low-rank adapters of a run as files, apart from the model or merged into it, and those of the
//! library PEFT merged into a model folder.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_core::{Context, files};
use hlx_nn::{
    CONFIG_FILE, LanguageModel, LoraConfig, MODEL_FILE, Model, PEFT_CONFIG_FILE, PEFT_FILE,
    peft_config,
};
use hlx_train::model_folder::{copy_companions, open_adapted};
use hlx_train::run::RunFolder;
use hlx_train::task::Sizes;
use hlx_train::trained::Trained;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, or RUN/best; with --adapter, the folder of the model that it
    /// adapts, imported or of Hugging Face.
    #[arg(value_name = "MODEL")]
    run: PathBuf,
    /// A folder of the library PEFT, adapter_model.safetensors and adapter_config.json, to merge into the
    /// model.
    #[arg(long, value_name = "DIR", requires = "merge")]
    adapter: Option<PathBuf>,
    /// The folder to write: adapter_model.safetensors and adapter_config.json, or of a merged model
    /// model.safetensors and config.json.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Add the adapters to the weights and write the whole model.
    #[arg(long)]
    merge: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let (model, config) = arguments.open()?;
    let weights = model.weights();
    let architecture = model.config().architecture();
    let written: [(&str, Vec<u8>); 2] = if arguments.merge {
        weights.merge_lora(&config)?;
        let sizes = Sizes::Language(model.config());
        [
            (MODEL_FILE, weights.base_to_safetensors()?),
            (CONFIG_FILE, sizes.to_bytes()?),
        ]
    } else {
        [
            (PEFT_FILE, weights.lora_to_safetensors(architecture)?),
            (
                PEFT_CONFIG_FILE,
                peft_config(&config, weights, architecture)?.into_bytes(),
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
        copy_companions(&arguments.folder()?, out)?;
    }
    Ok(())
}

impl Arguments {
    /// The model with its adapters, and their numbers.
    fn open(&self) -> Result<(Model<LanguageModel>, LoraConfig)> {
        let ctx = Context::cpu()?;
        if let Some(adapter) = &self.adapter {
            return open_adapted(&ctx, &self.run, adapter);
        }
        let trained = Trained::open(&ctx, &self.run, false)?;
        let config = trained.config.lora();
        let config = config
            .with_context(|| format!("{}: has no adapters (section [lora])", self.run.display()))?;
        Ok((trained.model, config))
    }

    /// Where the model's tokenizer lies.
    fn folder(&self) -> Result<PathBuf> {
        match self.adapter {
            Some(_) => Ok(self.run.clone()),
            None => Ok(RunFolder::open_checkpoint(&self.run)?.0.path().to_owned()),
        }
    }
}
