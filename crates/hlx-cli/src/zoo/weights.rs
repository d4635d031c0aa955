//! The weights of 16 bits that a recipe is published with: a GGUF file, which depends on the run's parameters and its
//! tokenizer alone.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::digest::sha256_hex;
use hlx_core::files;
use hlx_gguf::{BlockKind, NewKinds};
use hlx_train::model_folder;

use super::index::{Recipe, Trained, Zoo};
use crate::golden::Verdict;
use crate::print::say;

/// SHA-256 of a file.
pub fn digest(path: &Path) -> Result<String> {
    let bytes = files::read(path).with_context(|| path.display().to_string())?;
    Ok(sha256_hex(&bytes))
}

/// Writes the weights of a run.
///
/// # Errors
/// A model that GGUF has no place for, and what the disk reports.
pub fn write(run: &Path, out: &Path) -> Result<()> {
    model_folder::export_gguf(run, out, NewKinds::Floats(BlockKind::F16), None).map(drop)
}

/// A file beside nothing else, removed in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// SHA-256 of the file that [`write`] makes of a run.
fn digest_of_run(run: &Path) -> Result<String> {
    let name = format!("hlx-zoo-{}.gguf", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    write(run, &scratch.0)?;
    digest(&scratch.0)
}

/// Compares the file of weights with the published digest; `None` where the recipe is published without.
///
/// # Errors
/// A file that is missing or cannot be read.
pub fn check_file(zoo: &Zoo, recipe: &Recipe) -> Result<Option<Verdict>> {
    let results = zoo.results_of(&recipe.name);
    let mut published = results.iter().filter_map(|one| one.weights.as_ref());
    let Some(published) = published.next() else {
        return Ok(None);
    };
    let path = zoo.weights_path(&recipe.name);
    let found = digest(&path)?;
    compare(&path.display().to_string(), published, &found).map(Some)
}

/// Compares the weights of a run with those that were published for its data, if some were.
///
/// # Errors
/// As [`write`].
pub fn check_run(zoo: &Zoo, recipe: &Recipe, run: &Path, trained: &Trained) -> Result<Verdict> {
    let results = zoo.results_of(&recipe.name);
    let same_data = results.iter().find(|one| one.data == trained.data);
    match same_data.and_then(|one| one.weights.as_ref()) {
        Some(published) => compare("of this run", published, &digest_of_run(run)?),
        None => Ok(Verdict::Equal),
    }
}

fn compare(what: &str, published: &str, found: &str) -> Result<Verdict> {
    if found == published {
        say!("weights    {published}, {what}: equal")?;
        return Ok(Verdict::Equal);
    }
    say!("weights    {published}")?;
    say!("differs    {found}, {what}")?;
    Ok(Verdict::Differs)
}
