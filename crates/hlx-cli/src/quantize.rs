//! `hlx quantize`: a model as a GGUF file, with weights of 4 to 8 bits or as floats of 16.

use std::path::PathBuf;

use anyhow::Result;
use hlx_gguf::{BlockKind, NewKinds, Recipe};
use hlx_train::model_folder;

use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, an imported model's or a Hugging Face folder, or a GGUF file.
    model: PathBuf,
    /// How matrices are stored.
    #[arg(long, value_name = "KIND", value_parser = kinds)]
    to: NewKinds,
    /// The file to write.
    #[arg(long, value_name = "FILE.gguf")]
    out: PathBuf,
}

/// The names of the kinds: recipes of blocks, and floats.
fn kinds(name: &str) -> Result<NewKinds, String> {
    let floats = [BlockKind::F32, BlockKind::F16, BlockKind::BF16];
    let floats = floats.map(|kind| (kind.name().to_lowercase(), NewKinds::Floats(kind)));
    let recipes = Recipe::ALL.map(|recipe| (recipe.name().to_owned(), NewKinds::Recipe(recipe)));
    let all: Vec<(String, NewKinds)> = recipes.into_iter().chain(floats).collect();
    if let Some((_, kinds)) = all.iter().find(|(known, _)| known == name) {
        return Ok(*kinds);
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| &name[..]).collect();
    Err(format!("expected one of {}", names.join(", ")))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let n_bytes = model_folder::export_gguf(&arguments.model, &arguments.out, arguments.to)?;
    say!("{n_bytes} bytes of weights in {}", arguments.out.display())
}
