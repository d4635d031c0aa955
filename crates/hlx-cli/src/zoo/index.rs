//! `zoo.json` and `results.json`: what the recipes are, and what they have led to.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::files;
use hlx_report::RunFacts;
use hlx_train::run::{Chain, RunFolder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A recipe, beside its configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name, that of its files.
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// What it reads.
    pub kind: Kind,
    /// Its data.
    pub data: String,
    /// The licence of the data, and who may use the weights.
    pub licence: String,
    /// What it cannot do.
    pub limits: String,
    /// What `--data` must name; data of its own if left out.
    #[serde(default)]
    pub needs: Option<String>,
    /// What it is trained on without `--data`; nothing if left out.
    #[serde(default)]
    pub without: Option<String>,
    /// The tokens of the tokenizer that its text is prepared with.
    #[serde(default)]
    pub vocabulary: Option<usize>,
    /// The recipe whose run it begins with.
    #[serde(default)]
    pub after: Option<String>,
}

/// What a recipe's model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Images, which it names the class of.
    Images,
    /// Inputs, which it answers.
    Pairs,
    /// The beginning of a text, which it goes on from.
    Text,
}

/// A published result: of a recipe and data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The recipe.
    pub name: String,
    /// SHA-256 of the data.
    pub data: String,
    /// The number of the specification of HLX's arithmetic.
    pub specification: u32,
    /// Steps.
    pub steps: u64,
    /// Values that the run has trained or read.
    pub n_parameters: u64,
    /// The newest held-out loss; where nothing is held out, that of the last evaluation of the data it was trained on.
    pub loss: Option<f64>,
    /// Whether it is a held-out loss.
    pub held_out: bool,
    /// The tree digest of the parameters.
    pub parameters: String,
    /// The digest of the chain's last record.
    pub record: String,
    /// SHA-256 of the weights of 16 bits, where they are published as a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// How long it took.
    pub times: Vec<Time>,
}

/// A time by device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// The device.
    pub device: String,
    /// Seconds from the start of the program to its end.
    pub seconds: f64,
}

/// What a run has led to.
#[derive(Clone)]
pub struct Trained {
    pub data: String,
    pub parameters: String,
    pub record: String,
    specification: u32,
    steps: u64,
    n_parameters: u64,
    loss: Option<f64>,
    held_out: bool,
    device: String,
}

/// The recipes of a folder.
pub struct Zoo {
    folder: PathBuf,
    /// In the order of the file.
    pub recipes: Vec<Recipe>,
    results: Vec<Published>,
}

impl Zoo {
    /// Opens the folder.
    ///
    /// # Errors
    /// A folder without the files, and files that are not as they should be.
    pub fn open(folder: &Path) -> Result<Self> {
        let index = folder.join("zoo.json");
        ensure!(
            index.is_file(),
            "{}: is no zoo: it holds no zoo.json (--zoo names the folder of HLX's repository)",
            folder.display()
        );
        let results = folder.join("results.json");
        Ok(Self {
            recipes: read(&index)?,
            results: match results.is_file() {
                true => read(&results)?,
                false => Vec::new(),
            },
            folder: folder.to_owned(),
        })
    }

    /// A recipe.
    ///
    /// # Errors
    /// A name that none has; all names are listed.
    pub fn recipe(&self, name: &str) -> Result<&Recipe> {
        let found = self.recipes.iter().find(|recipe| recipe.name == name);
        found.with_context(|| {
            let names: Vec<&str> = self.recipes.iter().map(|one| one.name.as_str()).collect();
            format!("{name}: is no recipe, expected {}", names.join(", "))
        })
    }

    /// What was published of a recipe.
    pub fn results_of(&self, name: &str) -> Vec<&Published> {
        let results = self.results.iter();
        results.filter(|one| one.name == name).collect()
    }

    /// The configuration of a recipe.
    pub fn recipe_path(&self, name: &str) -> PathBuf {
        self.folder.join("recipes").join(format!("{name}.toml"))
    }

    /// The card of a recipe.
    pub fn card_path(&self, name: &str) -> PathBuf {
        self.folder.join("cards").join(format!("{name}.md"))
    }

    /// The published weights of a recipe, of 16 bits; few have some.
    pub fn weights_path(&self, name: &str) -> PathBuf {
        self.folder.join("weights").join(format!("{name}.gguf"))
    }

    /// The file of the results.
    pub fn results_path(&self) -> PathBuf {
        self.folder.join("results.json")
    }

    /// Adds what a run has led to; a time of another device joins the others.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn publish(
        &self,
        name: &str,
        trained: &Trained,
        weights: Option<String>,
        seconds: f64,
    ) -> Result<()> {
        let mut results = self.results.clone();
        let is_same = |one: &Published| one.name == name && one.data == trained.data;
        let mut times = Vec::new();
        if let Some(at) = results.iter().position(is_same) {
            let old = results.remove(at);
            if old.record == trained.record {
                times = old.times;
                times.retain(|time| time.device != trained.device);
            }
        }
        times.push(Time {
            device: trained.device.clone(),
            seconds: (seconds * 10.0).round() / 10.0,
        });
        results.push(Published {
            name: name.to_owned(),
            data: trained.data.clone(),
            specification: trained.specification,
            steps: trained.steps,
            n_parameters: trained.n_parameters,
            loss: trained.loss,
            held_out: trained.held_out,
            parameters: trained.parameters.clone(),
            record: trained.record.clone(),
            weights,
            times,
        });
        results.sort_by(|a, b| (&a.name, &a.data).cmp(&(&b.name, &b.data)));
        let mut bytes = serde_json::to_vec_pretty(&results)?;
        bytes.push(b'\n');
        let path = self.results_path();
        files::write_atomically(&path, &bytes)
            .with_context(|| format!("{}: cannot be written", path.display()))
    }
}

impl Trained {
    /// Reads a run's end.
    ///
    /// # Errors
    /// A run without a checkpoint, and a damaged one.
    pub fn read(run: &Path) -> Result<Self> {
        let folder = RunFolder::open(run)?;
        let chain = Chain::read(&folder.chain_path())?;
        let place = || format!("{}: holds no checkpoint yet", run.display());
        let last = chain.records().last().with_context(place)?;
        let checkpoint = folder.newest()?.with_context(place)?;
        let manifest = folder.manifest()?;
        let stretch = manifest.as_ref().and_then(|found| found.stretches.last());
        let facts = RunFacts::read(run)?;
        let evaluated = facts.evaluated().last().map(|&(_, loss)| loss);
        let loss = checkpoint.digests.loss.or(evaluated);
        Ok(Self {
            data: chain.origin()?.data.clone(),
            parameters: last.record.parameters.clone(),
            record: last.digest.clone(),
            specification: chain.origin()?.specification,
            steps: last.record.step,
            n_parameters: manifest.as_ref().map_or(0, |found| found.n_parameters),
            loss: loss.or(facts.last_loss()).filter(|loss| loss.is_finite()),
            held_out: folder.config()?.data.eval_fraction > 0.0,
            device: stretch.map_or_else(String::new, |one| one.device.clone()),
        })
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = files::read_settings_text(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
