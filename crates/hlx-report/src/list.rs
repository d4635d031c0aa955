//! The runs below a folder, one line each.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use hlx_train::run::{Digests, EvalSplit, Metric, RunFolder, read_metrics};
use serde::Serialize;

use crate::facts::{RunState, planned_steps, task, written};
use crate::text::moment;

/// Folders within folders that are looked into.
const MOST_LEVELS: usize = 6;
/// What a run folder may hold, by which one that lacks another part is known.
const PARTS: [&str; 4] = ["run.json", "chain.jsonl", "metrics.jsonl", "checkpoints"];

/// A folder that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its path below the folder that was listed.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// When its log was last written, as RFC 3339 writes it.
    pub written: Option<String>,
    /// What it holds; none of a damaged folder.
    #[serde(flatten)]
    pub run: Option<ListedRun>,
    /// Why it cannot be read.
    pub fault: Option<String>,
    /// The same time as a number, to sort by.
    #[serde(skip)]
    pub time: Option<SystemTime>,
}

/// A run in short.
#[derive(Clone, Debug, Serialize)]
pub struct ListedRun {
    /// The model and its data in a few words.
    pub task: String,
    /// Whether it is running, finished or stopped.
    pub state: RunState,
    /// The last step that the log or a checkpoint has.
    pub step: u64,
    /// Steps of the whole run, as far as the configuration and the log tell.
    pub planned_steps: Option<u64>,
    /// The last training loss.
    pub loss: Option<f64>,
    /// The last loss over what is held out.
    pub held_out: Option<f64>,
    /// What it ran on last.
    pub device: Option<String>,
}

/// What runs are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    Time,
    /// By their paths.
    Name,
    /// The lowest held-out loss first, then the lowest training loss; runs without one last.
    Loss,
    /// The largest first.
    Size,
}

/// Finds the runs below a folder, and folders that were runs; the folder itself may be one.
///
/// # Errors
/// A path that is no folder; the system's message.
pub fn list(folder: &Path, order: Order) -> Result<Vec<Listed>> {
    ensure!(
        folder.exists(),
        "{}: is not there (`hlx train` makes runs/; `hlx list DIR` lists the runs below another folder)",
        folder.display()
    );
    ensure!(folder.is_dir(), "{}: is no folder", folder.display());
    let mut paths = Vec::new();
    find(folder, 0, &mut paths).with_context(|| folder.display().to_string())?;
    let mut listed: Vec<Listed> = std::thread::scope(|scope| {
        let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = paths.chunks(paths.len().div_ceil(n_threads).max(1));
        let reading = parts.map(|part| {
            scope.spawn(move || {
                part.iter()
                    .map(|path| Listed::read(folder, path))
                    .collect::<Vec<_>>()
            })
        });
        let reading: Vec<_> = reading.collect();
        let read = reading.into_iter().flat_map(|one| match one.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        read.collect()
    });
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let loss = |one: &Listed| {
        let run = one.run.as_ref();
        let held_out = run.and_then(|run| run.held_out).unwrap_or(f64::INFINITY);
        let loss = run.and_then(|run| run.loss).unwrap_or(f64::INFINITY);
        (held_out, loss)
    };
    match order {
        Order::Name => {}
        Order::Time => listed.sort_by_key(|one| Reverse(one.time)),
        Order::Size => listed.sort_by_key(|one| Reverse(one.bytes)),
        Order::Loss => listed.sort_by(|a, b| {
            let (a, b) = (loss(a), loss(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        }),
    }
    Ok(listed)
}

/// Adds the folders that hold a run, or parts of one; nothing within them is looked at.
fn find(folder: &Path, level: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let is_run = folder.join("config.toml").is_file() && folder.join("checkpoints").is_dir();
    let is_part = || {
        PARTS
            .iter()
            .filter(|part| folder.join(part).exists())
            .count()
            >= 2
    };
    if is_run || is_part() {
        found.push(folder.to_owned());
        return Ok(());
    }
    if level == MOST_LEVELS {
        return Ok(());
    }
    let mut within = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        // Links may lead back.
        if !is_hidden && entry.file_type()?.is_dir() {
            within.push(entry.path());
        }
    }
    within.sort();
    for path in within {
        match find(&path, level + 1, found) {
            // A folder that may not be read holds no run that could be.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            done => done?,
        }
    }
    Ok(())
}

impl Listed {
    fn read(below: &Path, path: &Path) -> Self {
        let name = path.strip_prefix(below).unwrap_or(path);
        let name = match name.as_os_str().is_empty() {
            true => crate::text::name_of(path),
            false => name.to_string_lossy().into_owned(),
        };
        let (run, fault) = match ListedRun::read(path) {
            Ok(run) => (Some(run), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let time = written(path);
        Self {
            name,
            path: path.to_owned(),
            bytes: bytes_of(path),
            written: time.map(moment),
            run,
            fault,
            time,
        }
    }
}

impl ListedRun {
    fn read(path: &Path) -> Result<Self> {
        let folder = RunFolder::open(path)?;
        let config = folder.config()?;
        let manifest = folder.manifest()?;
        let newest = folder.listed_checkpoints()?.pop();
        let stated = newest.map(|(_, path)| hlx_train::run::Checkpoint::stated(&path));
        let stated: Option<Digests> = stated.transpose()?;
        let metrics = match folder.metrics_path().exists() {
            true => read_metrics(&folder.metrics_path())?,
            false => Vec::new(),
        };
        let standing = folder.standing()?;
        let last = metrics
            .iter()
            .rev()
            .find(|metric| matches!(metric, Metric::Train { .. }));
        let held_out = metrics.iter().rev().find_map(|metric| match metric {
            Metric::Eval {
                split: EvalSplit::HeldOut,
                loss,
                ..
            } => Some(*loss),
            _ => None,
        });
        let logged = metrics.iter().map(Metric::step).max();
        Ok(Self {
            task: task(&config, manifest.as_ref()),
            state: RunState::of(&standing),
            step: logged.max(stated.map(|digests| digests.step)).unwrap_or(0),
            planned_steps: planned_steps(&config, last),
            loss: match last {
                Some(Metric::Train { loss, .. }) => Some(*loss),
                _ => None,
            },
            held_out,
            device: manifest.and_then(|manifest| Some(manifest.stretches.last()?.device.clone())),
        })
    }
}

/// The bytes of all files below a folder; what cannot be read counts nothing.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_of(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
