//! What a run's folder says: its configuration, its course, its devices, its chain, and what was verified.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use hlx_train::config::{Config, Format, ModelKind};
use hlx_train::curve::LossUnit;
use hlx_train::run::{
    ChainSummary, Checkpoint, Digests, EvalSplit, Manifest, Metric, RunFolder, Standing,
    read_metrics,
};
use hlx_train::verify::Verdict;
use serde::Serialize;

use crate::text::{moment, name_of, quoted, with_commas};

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process trains it.
    Running,
    /// It has come to its end.
    Finished,
    /// It has ended before, and can go on.
    Stopped,
}

impl RunState {
    /// As it is read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
        }
    }
}

impl RunState {
    /// What a run that stands so is doing.
    pub fn of(standing: &Standing) -> Self {
        match (&standing.holder, standing.has_ended) {
            (Some(_), _) => Self::Running,
            (None, true) => Self::Finished,
            (None, false) => Self::Stopped,
        }
    }
}

/// The chain of a run, read to its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainFacts {
    /// Records, each of whose digest and link is proved.
    pub links: u64,
    /// The step of the first record.
    pub first_step: u64,
    /// The step of the last.
    pub head_step: u64,
    /// The digest of the last record, which covers all of them.
    pub head: String,
    /// The specification of the arithmetic that the run began with.
    pub specification: Option<u32>,
    /// Whether the last line was cut short, or is being written.
    pub is_torn: bool,
}

/// What one run's folder says.
#[derive(Clone, Debug, Serialize)]
pub struct RunFacts {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// The model and its data in a few words.
    pub task: String,
    /// Whether it is running, finished or stopped.
    pub state: RunState,
    /// Who trains it right now.
    pub holder: Option<String>,
    /// The last step that the log or a checkpoint has.
    pub step: u64,
    /// Steps of the whole run, as far as the configuration and the log tell.
    pub planned_steps: Option<u64>,
    /// Epochs done, in part.
    pub epochs: f64,
    /// Values that are trained.
    pub n_parameters: Option<u64>,
    /// Seconds that its steps took, evaluations and checkpoints left out.
    pub seconds: f64,
    /// When its log was last written, as RFC 3339 writes it.
    pub written: Option<String>,
    /// What a loss is a mean over: `byte`, `token` or `image`.
    pub unit: &'static str,
    /// Lines of the log.
    pub log_lines: u64,
    /// The last training line, an object as in `metrics.jsonl`.
    pub last: Option<Metric>,
    /// The evaluations, as in `metrics.jsonl`.
    pub evaluations: Vec<Metric>,
    /// The samples, as in `metrics.jsonl`.
    pub samples: Vec<Metric>,
    /// Every key of the configuration, dotted, as TOML.
    pub config: BTreeMap<String, String>,
    /// What it was made of and on: `run.json`.
    pub manifest: Option<Manifest>,
    /// Its chain, where it is whole.
    pub chain: Option<ChainFacts>,
    /// The newest checkpoint's listing.
    pub checkpoint: Option<Digests>,
    /// What verifications have found, the oldest first.
    pub verdicts: Vec<Verdict>,
    /// The command that repeats the run.
    pub repeat: String,
    /// What could not be read, one line each.
    pub faults: Vec<String>,
    /// The whole log.
    #[serde(skip)]
    pub metrics: Vec<Metric>,
    /// Keys that decide the bits of a step.
    #[serde(skip)]
    pub identity: BTreeMap<String, String>,
}

impl RunFacts {
    /// Reads a folder. What is damaged in it is left out and named in `faults`.
    ///
    /// # Errors
    /// A path that is no run folder; a configuration that this HLX cannot read.
    pub fn read(path: &Path) -> Result<Self> {
        let folder = RunFolder::open(path)?;
        let config = folder.config()?;
        let mut faults = Vec::new();
        // Before the chain: a run that trains writes a record before the checkpoint that names it.
        let checkpoint = noted(newest(&folder), &mut faults).flatten();
        // The two long files, at the same time.
        let (metrics, chain) = std::thread::scope(|scope| {
            let chain = scope.spawn(|| read_chain(&folder));
            let metrics = read_log(&folder);
            let chain = chain.join();
            (
                metrics,
                chain.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        });
        let metrics = noted(metrics, &mut faults).unwrap_or_default();
        let chain = noted(chain, &mut faults).flatten();
        let manifest = noted(folder.manifest(), &mut faults).flatten();
        faults.extend(lacking(&folder, chain.as_ref(), checkpoint.as_ref()));
        let verdicts = noted(Verdict::read_all(&folder), &mut faults).unwrap_or_default();
        let standing = noted(folder.standing(), &mut faults);
        let is_train = |metric: &&Metric| matches!(metric, Metric::Train { .. });
        let last = metrics.iter().rev().find(is_train).cloned();
        let saved = checkpoint.as_ref().map(|digests| digests.step);
        let logged = metrics.iter().map(Metric::step).max();
        Ok(Self {
            name: name_of(path),
            path: path.to_owned(),
            task: task(&config, manifest.as_ref()),
            state: standing.as_ref().map_or(RunState::Stopped, RunState::of),
            holder: standing.and_then(|standing| standing.holder),
            step: saved.max(logged).unwrap_or(0),
            planned_steps: planned_steps(&config, last.as_ref()),
            epochs: match &last {
                Some(Metric::Train { epoch, .. }) => *epoch,
                _ => 0.0,
            },
            n_parameters: manifest.as_ref().map(|manifest| manifest.n_parameters),
            seconds: seconds(&metrics),
            written: written(path).map(moment),
            unit: LossUnit::of(config.data.format).name(),
            log_lines: metrics.len() as u64,
            last,
            evaluations: only(&metrics, |metric| matches!(metric, Metric::Eval { .. })),
            samples: only(&metrics, |metric| matches!(metric, Metric::Sample { .. })),
            config: config.keys()?,
            identity: config.identity()?,
            repeat: repeat(path, manifest.as_ref()),
            manifest,
            chain,
            checkpoint,
            verdicts,
            faults,
            metrics,
        })
    }

    /// What `hlx train` ran on last.
    pub fn device(&self) -> Option<&str> {
        let stretch = self.manifest.as_ref()?.stretches.last()?;
        Some(&stretch.device)
    }

    /// The last training loss.
    pub fn last_loss(&self) -> Option<f64> {
        match self.last.as_ref()? {
            Metric::Train { loss, .. } => Some(*loss),
            _ => None,
        }
    }

    /// The evaluations of what is held out, or, where nothing is, of what is trained on: steps and losses.
    pub fn evaluated(&self) -> Vec<(u64, f64)> {
        let of = |wanted: EvalSplit| {
            let losses = self.evaluations.iter().filter_map(|metric| match metric {
                Metric::Eval {
                    step, split, loss, ..
                } if *split == wanted => Some((*step, *loss)),
                _ => None,
            });
            losses.collect::<Vec<_>>()
        };
        match of(EvalSplit::HeldOut) {
            held_out if held_out.is_empty() => of(EvalSplit::Train),
            held_out => held_out,
        }
    }

    /// The lowest finite loss of these evaluations, and its step.
    pub fn best(&self) -> Option<(u64, f64)> {
        let finite = self
            .evaluated()
            .into_iter()
            .filter(|(_, loss)| loss.is_finite());
        finite.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The value, or none and its error among the faults.
fn noted<T>(read: Result<T>, faults: &mut Vec<String>) -> Option<T> {
    let named = read.map_err(|error| format!("{error:#}"));
    named
        .map_err(|fault| {
            // One file that cannot be read may be read twice.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        })
        .ok()
}

fn only(metrics: &[Metric], wanted: impl Fn(&Metric) -> bool) -> Vec<Metric> {
    metrics
        .iter()
        .filter(|metric| wanted(metric))
        .cloned()
        .collect()
}

/// The log; that of a run that has measured nothing yet is empty.
fn read_log(folder: &RunFolder) -> Result<Vec<Metric>> {
    let path = folder.metrics_path();
    match path.exists() {
        true => read_metrics(&path),
        false => Ok(Vec::new()),
    }
}

fn read_chain(folder: &RunFolder) -> Result<Option<ChainFacts>> {
    let path = folder.chain_path();
    if !path.exists() {
        return Ok(None);
    }
    let chain = ChainSummary::read(&path)?;
    Ok(Some(ChainFacts {
        links: chain.links,
        first_step: chain.first_step,
        head_step: chain.head_step,
        head: chain.head,
        specification: Some(chain.origin.specification),
        is_torn: chain.is_torn,
    }))
}

/// A line if a whole chain lacks the record that the newest checkpoint names: its end was cut off, or another run's
/// chain lies in its place.
fn lacking(
    folder: &RunFolder,
    chain: Option<&ChainFacts>,
    checkpoint: Option<&Digests>,
) -> Option<String> {
    let (chain, checkpoint) = (chain?, checkpoint?);
    let is_there = match checkpoint.step.cmp(&chain.head_step) {
        Ordering::Less => true,
        Ordering::Equal => checkpoint.record == chain.head,
        Ordering::Greater => false,
    };
    (!is_there && !checkpoint.record.is_empty()).then(|| {
        format!(
            "{}: ends at step {} and lacks the record of the checkpoint of step {}",
            folder.chain_path().display(),
            chain.head_step,
            checkpoint.step
        )
    })
}

fn newest(folder: &RunFolder) -> Result<Option<Digests>> {
    let newest = folder.listed_checkpoints()?.pop();
    newest
        .map(|(_, path)| Checkpoint::stated(&path))
        .transpose()
}

/// When the log was last written; of a run without one, when it began.
pub(crate) fn written(path: &Path) -> Option<SystemTime> {
    let changed = |name: &str| {
        fs::metadata(path.join(name))
            .and_then(|data| data.modified())
            .ok()
    };
    changed("metrics.jsonl").or_else(|| changed("config.toml"))
}

/// What the steps took, line by line.
fn seconds(metrics: &[Metric]) -> f64 {
    let (mut total, mut before) = (0.0, 0);
    for metric in metrics {
        if let Metric::Train {
            step, ms_per_step, ..
        } = metric
        {
            let n = step.saturating_sub(before);
            before = *step;
            if ms_per_step.is_finite() {
                total += ms_per_step * 1e-3 * n as f64;
            }
        }
    }
    total
}

/// The steps of a whole run: its configuration's, or its epochs' by the steps of one, which a line of the log tells.
pub fn planned_steps(config: &Config, last: Option<&Metric>) -> Option<u64> {
    let by_epochs = match (config.train.epochs, last) {
        (Some(epochs), Some(Metric::Train { step, epoch, .. })) if *epoch > 0.0 => {
            let per_epoch = (*step as f64 / epoch).round() as u64;
            Some(per_epoch.saturating_mul(epochs))
        }
        _ => None,
    };
    [by_epochs, config.train.max_steps]
        .into_iter()
        .flatten()
        .min()
}

/// The model and its data: `language model of bytes, 0.87 M parameters, tinyshakespeare`.
pub(crate) fn task(config: &Config, manifest: Option<&Manifest>) -> String {
    let data = &config.data;
    let model = match (data.format, config.model.kind) {
        (format, _) if !format.is_of_texts() => match config.model.kind {
            Some(ModelKind::Cnn) => "convolutional classifier of images",
            Some(ModelKind::Resnet) => "residual classifier of images",
            _ => "classifier of images",
        },
        (Format::Shards, _) => "language model of tokens",
        _ => "language model of bytes",
    };
    let parameters = manifest.map(|manifest| match manifest.n_parameters {
        n @ ..100_000 => format!("{} parameters", with_commas(n)),
        n @ ..1_000_000_000 => format!("{:.1} M parameters", n as f64 / 1e6),
        n => format!("{:.1} G parameters", n as f64 / 1e9),
    });
    let corpus = match data.format {
        Format::AsciiPairs => "drawn pairs".to_owned(),
        Format::Digits => "drawn digits".to_owned(),
        _ if data.path.is_empty() => "drawn digits".to_owned(),
        _ => {
            let path = Path::new(&data.path);
            let stem = path.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        }
    };
    let parts = [Some(model.to_owned()), parameters, Some(corpus)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The command that repeats a run from its folder's configuration, which has every default filled in.
fn repeat(path: &Path, manifest: Option<&Manifest>) -> String {
    let config = path.join("config.toml");
    let mut words = vec!["hlx".to_owned(), "train".to_owned()];
    words.push(quoted(&config.to_string_lossy()));
    if let Some(stretch) = manifest.and_then(|manifest| manifest.stretches.last()) {
        let devices: Vec<&str> = stretch
            .ranks
            .iter()
            .map(|rank| &rank.selector[..])
            .collect();
        match devices.len() {
            0 => words.extend(["--device".to_owned(), quoted(&stretch.selector)]),
            _ => words.extend(["--devices".to_owned(), quoted(&devices.join(","))]),
        }
    }
    let again = format!("{}-again", path.to_string_lossy().trim_end_matches('/'));
    words.extend(["--out".to_owned(), quoted(&again)]);
    words.join(" ")
}
