//! The run folder itself: created, locked, found again, and refused where it holds something else.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::files;

use super::checkpoint::{self, Checkpoint, list};
use super::lock::{HOLDER_FILE, LOCK_FILE};
use super::{CHAIN_FILE, Manifest, MetricsFile, RunLock, write};
use crate::config::Config;

/// The configuration's file: the first that a run writes.
const CONFIG_FILE: &str = "config.toml";
const CHECKPOINTS: &str = "checkpoints";

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Creates the folder of a new run and locks it. A folder that is there already must be one
    /// that a process left before it wrote its first file (see [`RunFolder::is_unstarted`]).
    ///
    /// # Errors
    /// A folder that holds a run or other files, or that another process holds; the system's
    /// words.
    pub fn claim(path: &Path) -> Result<(Self, RunLock)> {
        let cannot = || format!("{}: cannot be created", path.display());
        fs::create_dir_all(files::parent(path)).with_context(cannot)?;
        match fs::create_dir(path) {
            Ok(()) => files::sync_folder(files::parent(path)).with_context(cannot)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => check_free(path)?,
            Err(error) => return Err(error).with_context(cannot),
        }
        let lock = RunLock::acquire(path)?;
        // Another process may have begun a run in it before the lock was taken.
        check_free(path)?;
        let path = path.to_owned();
        Ok((Self { path }, lock))
    }

    /// Claims the first of `runs/NAME`, `runs/NAME-2`, `runs/NAME-3`, ... that holds no run.
    ///
    /// # Errors
    /// The system's message.
    pub fn claim_numbered(runs: &Path, name: &str) -> Result<(Self, RunLock)> {
        for path in numbered(runs, name) {
            match Self::claim(&path) {
                Err(_) if path.exists() => {}
                done => return done,
            }
        }
        bail!("{}: has no free number", runs.join(name).display())
    }

    /// Whether a folder is there and holds nothing but what a process leaves that was killed
    /// before it wrote its configuration: a lock, temporary files, no checkpoints. The lock is empty, and its
    /// holder's file names a process: files of these names that hold anything else are a user's.
    pub fn is_unstarted(path: &Path) -> bool {
        let Ok(mut entries) = fs::read_dir(path) else {
            return false;
        };
        entries.all(|entry| {
            entry.is_ok_and(|entry| {
                let (path, name) = (entry.path(), entry.file_name());
                let empty = || fs::read_dir(&path).is_ok_and(|mut inside| inside.next().is_none());
                let text = files::read_settings(&path).unwrap_or_default();
                (name == OsStr::new(LOCK_FILE) && text.is_empty())
                    || (name == OsStr::new(HOLDER_FILE) && names_process(&text))
                    || files::is_temporary(&path)
                    || (name == OsStr::new(CHECKPOINTS) && empty())
            })
        })
    }

    /// Fails early, before a device is opened, if [`RunFolder::claim`] would be refused.
    ///
    /// # Errors
    /// As [`RunFolder::claim`], except for the lock.
    pub fn check_free(path: &Path) -> Result<()> {
        if path.exists() {
            check_free(path)
        } else {
            Ok(())
        }
    }

    /// Writes the configuration of a run into a claimed folder: from now on it holds a run.
    ///
    /// # Errors
    /// The system's message, such as a full disk.
    pub fn begin(&self, config: &Config) -> Result<()> {
        self.clear_temporaries()?;
        let checkpoints = self.checkpoints();
        let made = fs::create_dir_all(&checkpoints);
        made.with_context(|| format!("{}: cannot be created", checkpoints.display()))?;
        write(&self.config_path(), config.to_toml()?.as_bytes())
    }

    /// Opens the folder of a run.
    ///
    /// # Errors
    /// A path that is not a run folder.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Self {
            path: path.to_owned(),
        };
        if folder.config_path().is_file() && folder.checkpoints().is_dir() {
            return Ok(folder);
        }
        match fs::metadata(folder.config_path()) {
            // What it holds is not known.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(error).with_context(|| path.display().to_string())
            }
            _ => bail!("{}: {}", path.display(), folder.why_none()),
        }
    }

    /// Why the folder is that of no run.
    fn why_none(&self) -> String {
        let parts = [CHAIN_FILE, CONFIG_FILE, CHECKPOINTS];
        let is_there = |name: &&str| self.path.join(name).exists();
        let is_part = parts.iter().any(is_there);
        let missing = match (self.config_path().is_file(), self.checkpoints().is_dir()) {
            (false, _) => CONFIG_FILE,
            (true, _) => "checkpoints/",
        };
        match is_part {
            true => format!(
                "is no run folder: {missing} is not there (a run folder holds config.toml and checkpoints/)"
            ),
            false => "is no run folder (a run folder holds config.toml and checkpoints/; `hlx list DIR` lists the runs \
                      below DIR)"
                .to_owned(),
        }
    }

    /// The folder of a rank that has not been told yet where the run lies.
    pub(crate) fn unopened() -> Result<Self> {
        let path = PathBuf::new();
        Ok(Self { path })
    }

    /// The same folder by a path that does not depend on where the program was started.
    ///
    /// # Errors
    /// The system's message.
    pub(crate) fn absolute(&self) -> Result<Self> {
        let path = std::path::absolute(&self.path)?;
        Ok(Self { path })
    }

    /// Who holds the lock, as the folder says; empty if nobody does.
    pub(crate) fn holder(&self) -> String {
        files::read_settings_text(&self.path.join(HOLDER_FILE)).unwrap_or_default()
    }

    /// Opens a run and its newest checkpoint; of a path to one checkpoint that one, and of `RUN/best` the
    /// one with the lowest loss.
    ///
    /// # Errors
    /// As [`RunFolder::open`] and [`Checkpoint::open`]; a run without a checkpoint.
    pub fn open_checkpoint(path: &Path) -> Result<(Self, Checkpoint)> {
        if path.join(checkpoint::DIGESTS_FILE).is_file() {
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
        if let (false, Some(run)) = (path.exists(), best_of(path)) {
            let folder = Self::open(run)?;
            let best = folder.best()?;
            let best = match (best, folder.newest_path()?) {
                (Some(best), _) => best,
                (None, Some(_)) => {
                    bail!("{}: holds no checkpoint with a finite loss", run.display())
                }
                (None, None) => bail!("{}: holds no checkpoint yet", run.display()),
            };
            return Ok((folder, Checkpoint::open(&best)?));
        }
        let folder = Self::open(path)?;
        match folder.newest()? {
            Some(checkpoint) => Ok((folder, checkpoint)),
            None => bail!("{}: holds no checkpoint yet", path.display()),
        }
    }

    /// The folder of the checkpoint with the lowest loss, the newest of equals; `None` without any.
    ///
    /// # Errors
    /// The system's message.
    pub fn best(&self) -> Result<Option<PathBuf>> {
        let listed = list(&self.checkpoints())?;
        let best = checkpoint::best(&listed);
        let is_best = |(step, _): &(u64, PathBuf)| Some(*step) == best;
        Ok(listed.into_iter().find(is_best).map(|(_, path)| path))
    }

    /// The folder of the newest checkpoint, if there is one.
    ///
    /// # Errors
    /// The system's message.
    pub(crate) fn newest_path(&self) -> Result<Option<PathBuf>> {
        Ok(list(&self.checkpoints())?.pop().map(|(_, path)| path))
    }

    /// Reads the newest checkpoint, if there is one, with its digests checked.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn newest(&self) -> Result<Option<Checkpoint>> {
        let newest = self.newest_path()?;
        newest.map(|path| Checkpoint::open(&path)).transpose()
    }

    /// Removes the temporaries that a crash has left. The folder must be locked.
    ///
    /// # Errors
    /// The system's message.
    pub fn clear_temporaries(&self) -> Result<()> {
        for folder in [self.path.clone(), self.checkpoints()] {
            if folder.is_dir() {
                let removed = files::remove_temporaries(&folder, Duration::ZERO);
                removed.with_context(|| folder.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Reads the run's configuration.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn config(&self) -> Result<Config> {
        Config::load(&self.config_path(), &[])
    }

    /// Seals and writes `run.json`.
    ///
    /// # Errors
    /// The system's message.
    pub fn write_manifest(&self, mut manifest: Manifest) -> Result<()> {
        write(&self.manifest_path(), &manifest.to_sealed_bytes()?)
    }

    /// Reads `run.json`; a run killed before it was written has none.
    ///
    /// # Errors
    /// A damaged file, named.
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.manifest_path();
        let bytes = match files::read_settings(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| path.display().to_string())?,
        };
        let manifest = Manifest::from_bytes(&bytes);
        manifest
            .map(Some)
            .with_context(|| path.display().to_string())
    }

    /// Opens `metrics.jsonl` to continue after a step.
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
    /// The system's message.
    pub fn listed_checkpoints(&self) -> Result<Vec<(u64, PathBuf)>> {
        list(&self.checkpoints())
    }

    /// Where the verdicts of `hlx verify` lie.
    pub fn verdicts_path(&self) -> PathBuf {
        self.path.join("verified.jsonl")
    }

    /// Where the folder lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the checkpoints lie.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// Where the metrics lie.
    pub fn metrics_path(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    fn config_path(&self) -> PathBuf {
        self.path.join(CONFIG_FILE)
    }

    fn manifest_path(&self) -> PathBuf {
        self.path.join("run.json")
    }
}

/// Whether the text of a lock's holder is one that [`RunLock`] writes, or none yet.
fn names_process(text: &[u8]) -> bool {
    text.is_empty() || text.starts_with(b"process ")
}

/// The run of a path `RUN/best`.
fn best_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|_| path.ends_with("best"))
}

/// Fails unless a new run may begin in a folder that is there.
fn check_free(path: &Path) -> Result<()> {
    if path.join(CONFIG_FILE).exists() {
        bail!(
            "{}: already holds a run; --resume goes on with it, another --out keeps it",
            path.display()
        );
    }
    ensure!(
        RunFolder::is_unstarted(path),
        "{}: holds files that are not a run's; --out names an empty or a new folder",
        path.display()
    );
    Ok(())
}

/// `runs/NAME`, `runs/NAME-2`, `runs/NAME-3`, ...
fn numbered(runs: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    let first = runs.join(name);
    let (runs, name) = (runs.to_owned(), name.to_owned());
    let rest = (2_u64..).map(move |number| runs.join(format!("{name}-{number}")));
    std::iter::once(first).chain(rest)
}

/// The last of `runs/NAME`, `runs/NAME-2`, ... that is there: it holds a run, or one was killed in
/// it before its first file.
pub fn latest_folder(runs: &Path, name: &str) -> Option<PathBuf> {
    let holds_run =
        |path: &PathBuf| path.join(CONFIG_FILE).is_file() || RunFolder::is_unstarted(path);
    numbered(runs, name).take_while(holds_run).last()
}
