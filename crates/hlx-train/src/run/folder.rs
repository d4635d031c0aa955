//! The run folder itself: made, found again, and refused where it is not what was asked for.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use super::checkpoint::{Checkpoint, list, remove_temporaries};
use super::files::write_atomically;
use super::{CHAIN_FILE, Manifest, MetricsFile};
use crate::config::Config;

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of a new run and writes its configuration.
    ///
    /// # Errors
    /// A folder that already holds a run; the system's words.
    pub fn create(path: &Path, config: &Config) -> Result<Self> {
        let folder = Self {
            path: path.to_owned(),
        };
        ensure!(
            !folder.config_path().exists(),
            "{}: already holds a run; --resume goes on with it, another --out keeps it",
            path.display()
        );
        let made = fs::create_dir_all(folder.checkpoints());
        made.with_context(|| format!("{}: cannot be made", path.display()))?;
        write_atomically(&folder.config_path(), config.to_toml()?.as_bytes())?;
        Ok(folder)
    }

    /// Opens the folder of a run.
    ///
    /// # Errors
    /// A path that is no run folder.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Self {
            path: path.to_owned(),
        };
        ensure!(
            folder.config_path().is_file() && folder.checkpoints().is_dir(),
            "{}: is no run folder (config.toml and checkpoints/ are looked for)",
            path.display()
        );
        Ok(folder)
    }

    /// Opens a run and its newest checkpoint, or, of a path to one checkpoint, that one.
    ///
    /// # Errors
    /// As [`RunFolder::open`] and [`Checkpoint::open`]; a run without a checkpoint.
    pub fn open_checkpoint(path: &Path) -> Result<(Self, Checkpoint)> {
        if path.join("digests.json").is_file() {
            let checkpoint = Checkpoint::open(path)?;
            let run = path
                .canonicalize()
                .with_context(|| path.display().to_string())?;
            let run = run
                .ancestors()
                .nth(2)
                .map(Path::to_owned)
                .unwrap_or_default();
            return Ok((Self::open(&run)?, checkpoint));
        }
        let folder = Self::open(path)?;
        match folder.newest()? {
            Some(checkpoint) => Ok((folder, checkpoint)),
            None => bail!("{}: holds no checkpoint yet", path.display()),
        }
    }

    /// Reads the newest checkpoint, if there is one, with its digests checked.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn newest(&self) -> Result<Option<Checkpoint>> {
        let listed = list(&self.checkpoints())?;
        listed
            .last()
            .map(|(_, path)| Checkpoint::open(path))
            .transpose()
    }

    /// Removes what a crash left half-written.
    ///
    /// # Errors
    /// The system's words.
    pub fn clear_temporaries(&self) -> Result<()> {
        remove_temporaries(&self.checkpoints())
    }

    /// Reads the run's configuration.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn config(&self) -> Result<Config> {
        Config::load(&self.config_path(), &[])
    }

    /// Writes `run.json`.
    ///
    /// # Errors
    /// The system's words.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(manifest)?;
        text.push(b'\n');
        write_atomically(&self.path.join("run.json"), &text)
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub fn manifest(&self) -> Result<Manifest> {
        let path = self.path.join("run.json");
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
    }

    /// Opens `metrics.jsonl` to go on after a step.
    ///
    /// # Errors
    /// As [`MetricsFile::open_after`].
    pub fn metrics_after(&self, step: u64) -> Result<MetricsFile> {
        MetricsFile::open_after(&self.metrics_path(), step)
    }

    /// Where the chain lies.
    pub fn chain_path(&self) -> PathBuf {
        self.path.join(CHAIN_FILE)
    }

    /// The checkpoints' steps and folders, in order.
    ///
    /// # Errors
    /// The system's words.
    pub fn listed_checkpoints(&self) -> Result<Vec<(u64, PathBuf)>> {
        list(&self.checkpoints())
    }

    /// Where the folder lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the checkpoints lie.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Where the metrics lie.
    pub fn metrics_path(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    fn config_path(&self) -> PathBuf {
        self.path.join("config.toml")
    }
}

/// The first of `runs/NAME`, `runs/NAME-2`, `runs/NAME-3`, ... that holds no run.
pub fn fresh_folder(runs: &Path, name: &str) -> PathBuf {
    let numbered = (2_u64..).map(|number| runs.join(format!("{name}-{number}")));
    let mut candidates = std::iter::once(runs.join(name)).chain(numbered);
    candidates
        .find(|path| !path.exists())
        .unwrap_or_else(|| runs.join(name))
}

/// The last of `runs/NAME`, `runs/NAME-2`, ... that holds a run.
pub fn latest_folder(runs: &Path, name: &str) -> Option<PathBuf> {
    let numbered = (2_u64..).map(|number| runs.join(format!("{name}-{number}")));
    let candidates = std::iter::once(runs.join(name)).chain(numbered);
    candidates
        .take_while(|path| path.join("config.toml").is_file())
        .last()
}
