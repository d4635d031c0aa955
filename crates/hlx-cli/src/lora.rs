//! `hlx lora`: the low-rank adapters of a run as files, apart from the model or merged into it, and those of the
//! library PEFT merged into a model folder.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_core::Device;
use hlx_gguf::NewKinds;
use hlx_nn::{
    CONFIG_FILE, CausalLm, LoraConfig, MODEL_FILE, Model, PEFT_CONFIG_FILE, PEFT_FILE, peft_config,
};
use hlx_train::model_folder::{
    FolderKind, NamedFile, NewFolder, folders_of, merge_to_gguf, merged, stated_companions,
};
use hlx_train::task::Sizes;
use hlx_train::trained::Trained;

use crate::print::say;
use crate::quantize::kinds;

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
    /// Write the merged model as a GGUF file, OUT, in such blocks or floats: f16, bf16, q8_0, q4_k_m, ..
    #[arg(long, value_name = "KIND", value_parser = kinds, requires = "merge")]
    to: Option<NewKinds>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(kinds) = arguments.to {
        let (run, adapter) = (&arguments.run, arguments.adapter.as_deref());
        merge_to_gguf(run, adapter, &arguments.out, kinds)?;
        return say!("{}", arguments.out.display());
    }
    let read = arguments.read()?;
    let kind = match arguments.merge {
        true => FolderKind::Merged,
        false => FolderKind::Adapter,
    };
    let new = NewFolder::at(&arguments.out, kind, &read)?;
    let (own, companions): ([NamedFile; 2], Vec<NamedFile>) = if arguments.merge {
        let model = merged(&arguments.run, arguments.adapter.as_deref())?;
        let sizes = Sizes::Language(Box::new(model.config().clone()));
        let own = [
            (MODEL_FILE, model.weights().to_safetensors()?),
            (CONFIG_FILE, sizes.to_bytes()?),
        ];
        (own, stated_companions(&read[0])?)
    } else {
        let (model, config) = arguments.open()?;
        let (weights, family) = (model.weights(), model.config().family());
        let own = [
            (PEFT_FILE, weights.lora_to_safetensors(&config, family)?),
            (
                PEFT_CONFIG_FILE,
                peft_config(&config, weights, family)?.into_bytes(),
            ),
        ];
        (own, Vec::new())
    };
    new.write(&own, &companions)?;
    for (name, _) in own {
        say!("{}", arguments.out.join(name).display())?;
    }
    Ok(())
}

impl Arguments {
    /// The model of a run with its adapters, and their numbers.
    fn open(&self) -> Result<(Model<CausalLm>, LoraConfig)> {
        let trained = Trained::open(&Device::cpu()?, &self.run, false)?;
        let config = trained.config.lora();
        let config = config
            .with_context(|| format!("{}: has no adapters (section [lora])", self.run.display()))?;
        Ok((trained.model, config))
    }

    /// The folders that are read; the model's tokenizer lies in the first.
    fn read(&self) -> Result<Vec<PathBuf>> {
        let mut folders = folders_of(&self.run)?;
        folders.extend(self.adapter.clone());
        Ok(folders)
    }
}
