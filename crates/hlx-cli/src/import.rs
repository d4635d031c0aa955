//! `hlx import` and `hlx export`: between model folders of HLX and of Hugging Face, and from GGUF files.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_train::model_folder;

use crate::print::say;

#[derive(clap::Args)]
pub struct Import {
    /// The Hugging Face folder: config.json, model.safetensors or its parts, tokenizer.json. Or a GGUF file, which may
    /// be one of several of a model.
    #[arg(value_name = "FOLDER|FILE.gguf")]
    from: PathBuf,
    /// Where to write the model; models/NAME of the folder's or the file's name if left out.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write the values of a GGUF file as f32.
    #[arg(long)]
    widen: bool,
}

#[derive(clap::Args)]
pub struct Export {
    /// The run folder, one of its checkpoints, or an imported model's folder.
    model: PathBuf,
    /// The folder to write, which `transformers` loads.
    folder: PathBuf,
}

pub fn import(arguments: &Import) -> Result<()> {
    let from = &arguments.from;
    let is_file = from.is_file();
    ensure!(
        is_file || !arguments.widen,
        "--widen: {} is no GGUF file",
        from.display()
    );
    ensure!(
        !is_file || arguments.widen,
        "{}: a GGUF file is imported with --widen, as f32",
        from.display()
    );
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => {
            let name = if is_file {
                from.file_stem()
            } else {
                from.file_name()
            };
            let name = name.context("the folder has no name: say --out FOLDER")?;
            PathBuf::from("models").join(name)
        }
    };
    let n_parameters = match is_file {
        true => model_folder::import_gguf(from, &out)?,
        false => model_folder::import(from, &out)?,
    };
    say!("{n_parameters} parameters in {}", out.display())
}

pub fn export(arguments: &Export) -> Result<()> {
    model_folder::export(&arguments.model, &arguments.folder)?;
    say!("{}", arguments.folder.display())
}
