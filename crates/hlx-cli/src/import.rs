//! `hlx import` and `hlx export`: between model folders of HLX and of Hugging Face, and GGUF files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_nn::{gguf_of, is_nf4_folder};
use hlx_train::model_folder;
use serde_json::{Value, json};

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
    /// Write the values of a GGUF file as f32, in the place of its blocks.
    #[arg(long)]
    widen: bool,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Export {
    /// The run folder, one of its checkpoints, an imported model's folder, or a GGUF file.
    model: PathBuf,
    /// The folder to write, which `transformers` loads.
    #[arg(required_unless_present = "gguf", conflicts_with = "gguf")]
    folder: Option<PathBuf>,
    /// Write one GGUF file, with the model's own values: blocks as they are stored, or floats of the type of its
    /// matrices. `hlx quantize` writes other types.
    #[arg(long, requires = "out")]
    gguf: bool,
    /// The file to write.
    #[arg(long, value_name = "FILE.gguf", requires = "gguf")]
    out: Option<PathBuf>,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub fn import(arguments: &Import) -> Result<()> {
    let from = &arguments.from;
    let is_nf4 = is_nf4_folder(from);
    let has_blocks = gguf_of(from).is_some() || is_nf4;
    ensure!(
        has_blocks || !from.is_file(),
        "{}: is no GGUF file",
        from.display()
    );
    ensure!(
        has_blocks || !arguments.widen,
        "--widen: {} is no GGUF file and no folder in NF4",
        from.display()
    );
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => PathBuf::from("models").join(name_of(from)?),
    };
    if has_blocks && !arguments.widen {
        let n_bytes = match is_nf4 {
            true => model_folder::import_nf4(from, &out)?,
            false => model_folder::import_blocks(from, &out)?,
        };
        return match arguments.json {
            true => say!("{}", line("import", &out, None, Some(n_bytes))),
            false => say!("{n_bytes} bytes of weights in {}", out.display()),
        };
    }
    let n_parameters = match from.is_file() {
        true => model_folder::import_gguf(from, &out)?,
        false => model_folder::import(from, &out)?,
    };
    match arguments.json {
        true => say!("{}", line("import", &out, Some(n_parameters as u64), None)),
        false => say!("{n_parameters} parameters in {}", out.display()),
    }
}

/// The line of JSON on a model that was written: values that were widened are counted, others by their bytes.
fn line(kind: &str, out: &Path, n_parameters: Option<u64>, n_bytes: Option<u64>) -> Value {
    json!({
        "kind": kind, "out": out.display().to_string(), "parameters": n_parameters,
        "weight_bytes": n_bytes,
    })
}

/// The name of a model by its folder or its file.
fn name_of(from: &Path) -> Result<PathBuf> {
    let name = match from.is_file() {
        true => from.file_stem(),
        false => from.file_name(),
    };
    let name = name.context("the folder has no name: say --out FOLDER")?;
    Ok(PathBuf::from(name))
}

pub fn export(arguments: &Export) -> Result<()> {
    if let Some(file) = &arguments.out {
        let n_bytes = model_folder::export_as_stored(&arguments.model, file)?;
        return match arguments.json {
            true => say!("{}", line("export", file, None, Some(n_bytes))),
            false => say!("{n_bytes} bytes of weights in {}", file.display()),
        };
    }
    let folder = arguments.folder.as_ref();
    let folder = folder.context("the folder to write is missing")?;
    model_folder::export(&arguments.model, folder)?;
    match arguments.json {
        true => say!("{}", line("export", folder, None, None)),
        false => say!("{}", folder.display()),
    }
}
