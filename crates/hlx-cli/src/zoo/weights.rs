//! The weights of 16 bits that a recipe is published with: a GGUF file, which depends on the run's parameters and its
//! tokenizer alone.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::digest::sha256_hex;
use hlx_core::files;
use hlx_gguf::{BlockKind, NewKinds};
use hlx_train::model_folder;
use serde_json::json;

use super::index::{Recipe, Trained, Zoo};
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

/// Weights, and the digest that is published of them.
pub struct Weights {
    /// What has them.
    what: String,
    /// Whether they were made of the run.
    pub is_of_run: bool,
    published: String,
    found: String,
}

impl Weights {
    /// Whether they are the published ones.
    pub fn is_equal(&self) -> bool {
        self.published == self.found
    }

    /// Says so.
    pub fn print(&self) -> Result<()> {
        let Self {
            what,
            published,
            found,
            ..
        } = self;
        if self.is_equal() {
            return say!("weights    {published}, {what}: equal");
        }
        say!("weights    {published}")?;
        say!("differs    {found}, {what}")
    }

    /// The same as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({ "of": self.what, "published": self.published, "found": self.found })
    }
}

/// Compares the file of weights with the published digest; `None` where the recipe is published without.
///
/// # Errors
/// A file that is missing or cannot be read.
pub fn check_file(zoo: &Zoo, recipe: &Recipe) -> Result<Option<Weights>> {
    let results = zoo.results_of(&recipe.name);
    let mut published = results.iter().filter_map(|one| one.weights.clone());
    let Some(published) = published.next() else {
        return Ok(None);
    };
    let path = zoo.weights_path(&recipe.name);
    Ok(Some(Weights {
        what: path.display().to_string(),
        is_of_run: false,
        published,
        found: digest(&path)?,
    }))
}

/// Compares the weights of a run with those that were published for its data, if some were.
///
/// # Errors
/// As [`write`].
pub fn check_run(
    zoo: &Zoo,
    recipe: &Recipe,
    run: &Path,
    trained: &Trained,
) -> Result<Option<Weights>> {
    let results = zoo.results_of(&recipe.name);
    let same_data = results.iter().find(|one| one.data == trained.data);
    let Some(published) = same_data.and_then(|one| one.weights.clone()) else {
        return Ok(None);
    };
    Ok(Some(Weights {
        what: "of this run".to_owned(),
        is_of_run: true,
        published,
        found: digest_of_run(run)?,
    }))
}
