//! Training: hlx-train's loop on a thread of its own, with its events for Python.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Arithmetic, Device};
use hlx_train::config::{Config, Override};
use hlx_train::curve::LossUnit;
use hlx_train::image_report::{report_images, reported, write_report};
use hlx_train::metric_line::metric_line;
use hlx_train::run::{Metric, checkpoint_folder, latest_folder};
use hlx_train::task::Task;
use hlx_train::train::{Observer, Outcome, Start, TrainOptions, Trainer};
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::worker::{PyRunWorker, Reporter};
use crate::device::PyDevice;
use crate::keywords::in_keywords;

/// Where the configuration comes from.
enum Source {
    /// A TOML file; the data's path is relative to it.
    File(PathBuf),
    /// Values in memory, as JSON; the data's path is relative to the working directory.
    Values(String),
}

/// What `hlx.train` was called with.
struct Wish {
    source: Source,
    /// Dotted keys and their values, as JSON.
    changes: Vec<(String, String)>,
    data: Option<PathBuf>,
    run: Option<PathBuf>,
    /// The folder of runs that are not named, and the name there.
    runs: PathBuf,
    name: String,
    resume: bool,
    device: Option<PyDevice>,
}

impl Wish {
    fn config(&self) -> Result<Config> {
        let changes = self.changes.iter().map(|(key, value)| {
            let value: Value = serde_json::from_str(value).with_context(|| key.clone())?;
            Override::value(key, &value)
        });
        let mut changes = changes.collect::<Result<Vec<_>>>()?;
        if let Some(path) = &self.data {
            changes.push(Override::text("data.path", &path.to_string_lossy()));
        }
        match &self.source {
            Source::File(path) => Config::load(path, &changes),
            Source::Values(text) => {
                Config::of_json(&serde_json::from_str(text)?, "config", &changes)
            }
        }
    }

    fn options(&self, config: &Config) -> Result<TrainOptions> {
        let data_path = match (&self.data, &self.source) {
            (Some(path), _) => path.clone(),
            (None, Source::File(file)) => {
                let folder = file.parent().unwrap_or(Path::new("."));
                folder.join(&config.data.path)
            }
            (None, Source::Values(_)) => PathBuf::from(&config.data.path),
        };
        let start = match (&self.run, self.resume) {
            (Some(run), true) => Start::Resume(run.clone()),
            (Some(run), false) => Start::New(run.clone()),
            (None, false) => Start::Numbered {
                runs: self.runs.clone(),
                name: self.name.clone(),
            },
            (None, true) => {
                let latest = latest_folder(&self.runs, &self.name);
                let place = || format!("{}: there is no run", self.runs.join(&self.name).display());
                Start::Resume(latest.with_context(place)?)
            }
        };
        Ok(TrainOptions { start, data_path })
    }

    fn device(&self, config: &Config) -> Result<Device> {
        let Some(device) = &self.device else {
            return Ok(Device::open_from_env("auto")?);
        };
        let of_device = device.arithmetic_of_products();
        ensure!(
            [Arithmetic::Portable, config.arithmetic].contains(&of_device),
            "the device is of arithmetic {of_device}, the configuration's arithmetic is {}",
            config.arithmetic
        );
        Ok(device.open_apart()?)
    }

    /// Trains to the end of the run.
    fn train(&self, reporter: &Reporter) -> Result<Value> {
        let config = self.config()?;
        let options = self.options(&config)?;
        let device = self.device(&config)?;
        let mut trainer = Trainer::new(&device, config, &options)?;
        let unit = LossUnit::of(trainer.config().data.format);
        let mut facts = trainer.facts();
        facts["unit"] = json!(unit.name());
        facts["run"] = json!(std::path::absolute(trainer.folder().path())?);
        reporter.at(trainer.step(), trainer.total_steps());
        reporter.tell("start", facts);
        let outcome = trainer.run(&mut Telling { reporter, unit })?;
        report_classifier(&trainer, &outcome)?;
        Ok(ended(&trainer, &outcome))
    }
}

/// Writes what the program writes at the end of a classifier's run: the confusion matrix and the misread images.
fn report_classifier(trainer: &Trainer, outcome: &Outcome) -> Result<()> {
    let is_whole = outcome.not_finite.as_ref().is_none_or(|why| why.at_end);
    if let (Task::Images(task), false, true) = (trainer.task(), outcome.interrupted, is_whole) {
        let report = report_images(task, reported(trainer.split()))?;
        write_report(trainer.folder().path(), task, &report)?;
    }
    Ok(())
}

/// How a run ended.
fn ended(trainer: &Trainer, outcome: &Outcome) -> Value {
    json!({
        "step": outcome.step, "total_steps": trainer.total_steps(), "epochs": outcome.epochs,
        "reached_target": outcome.reached_target, "stopped_early": outcome.stopped_early,
        "skipped": outcome.skipped, "first_non_finite": outcome.first_non_finite,
        "not_finite": outcome.not_finite.as_ref().map(|why| in_keywords(&why.line)),
        "interrupted": outcome.interrupted, "train": outcome.train, "held_out": outcome.held_out,
        "last_loss": outcome.last_loss, "parameters": outcome.digests.parameters,
        "optimizer": outcome.digests.optimizer,
    })
}

/// Tells Python of the run's events.
struct Telling<'a> {
    reporter: &'a Reporter,
    unit: LossUnit,
}

impl Observer for Telling<'_> {
    fn step(&mut self, step: u64, total_steps: u64) {
        self.reporter.at(step, total_steps);
    }

    fn metric(&mut self, metric: &Metric) {
        // As a text, whose members stay in their order.
        let text = serde_json::to_string(metric).unwrap_or_default();
        let line = metric_line(metric, self.unit);
        self.reporter
            .tell("metric", json!({"metric": text, "line": line}));
    }

    fn checkpoint(&mut self, step: u64, folder: &Path) {
        let path = checkpoint_folder(folder, step);
        let path = std::path::absolute(&path).unwrap_or(path);
        self.reporter
            .tell("checkpoint", json!({"step": step, "path": path}));
    }

    fn must_stop(&self) -> bool {
        self.reporter.must_stop()
    }
}

/// Starts a run: of a TOML file, or of values as JSON.
#[pyfunction]
#[pyo3(signature = (file, values, changes, data, run, runs, name, resume, device))]
pub fn start_training(
    file: Option<PathBuf>,
    values: Option<String>,
    changes: Vec<(String, String)>,
    data: Option<PathBuf>,
    run: Option<PathBuf>,
    runs: PathBuf,
    name: String,
    resume: bool,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyRunWorker> {
    let source = match (file, values) {
        (Some(file), _) => Source::File(file),
        (None, values) => Source::Values(values.unwrap_or_default()),
    };
    let wish = Wish {
        source,
        changes,
        data,
        run,
        runs,
        name,
        resume,
        device: PyDevice::chosen(device)?,
    };
    PyRunWorker::start("train", move |reporter| wish.train(reporter))
}
