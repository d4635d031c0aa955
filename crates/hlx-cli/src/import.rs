//! `hlx import` and `hlx export`: between model folders of HLX and of Hugging Face.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_train::model_folder;

use crate::print::say;

#[derive(clap::Args)]
pub struct Import {
    /// The Hugging Face folder: config.json, model.safetensors or its parts, tokenizer.json.
    folder: PathBuf,
    /// Where to write the model; models/NAME of the folder's name if left out.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct Export {
    /// The run folder, one of its checkpoints, or an imported model's folder.
    model: PathBuf,
    /// The folder to write, which `transformers` loads.
    folder: PathBuf,
}

pub fn import(arguments: &Import) -> Result<()> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => {
            let name = arguments.folder.file_name();
            let name = name.context("the folder has no name: say --out FOLDER")?;
            PathBuf::from("models").join(name)
        }
    };
    let n_parameters = model_folder::import(&arguments.folder, &out)?;
    say!("{n_parameters} parameters in {}", out.display())
}

pub fn export(arguments: &Export) -> Result<()> {
    model_folder::export(&arguments.model, &arguments.folder)?;
    say!("{}", arguments.folder.display())
}
