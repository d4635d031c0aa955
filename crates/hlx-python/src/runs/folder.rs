//! What a run folder holds, as JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use hlx_train::curve::{draw_folder, draw_folders};
use hlx_train::run::{Chain, Checkpoint, EventFile, Metric, RunFolder, read_metrics};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::keywords::of_run;
use crate::wait::run_as;

/// Reads a run without the interpreter's lock.
fn read<T: Send>(py: Python<'_>, read: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    run_as(py, |error| of_run("Run", error), read)
}

/// A run's configuration, every default filled in.
#[pyfunction]
pub fn run_config(py: Python<'_>, run: PathBuf) -> PyResult<String> {
    read(py, || {
        let config = RunFolder::open(&run)?.config()?;
        Ok(serde_json::to_string(&config)?)
    })
}

/// A run's lines of `metrics.jsonl`; a damaged line is left out.
#[pyfunction]
pub fn run_metrics(py: Python<'_>, run: PathBuf) -> PyResult<String> {
    read(py, || {
        let path = RunFolder::open(&run)?.metrics_path();
        let metrics = match path.exists() {
            true => read_metrics(&path)?,
            false => Vec::new(),
        };
        Ok(serde_json::to_string(&metrics)?)
    })
}

/// The records of a run's chain with their digests, each proved, and whether its last line is cut short.
#[pyfunction]
pub fn run_chain(py: Python<'_>, run: PathBuf) -> PyResult<(String, bool)> {
    read(py, || {
        let path = RunFolder::open(&run)?.chain_path();
        if !path.exists() {
            return Ok(("[]".to_owned(), false));
        }
        let chain = Chain::read(&path)?;
        let record = |proved: &hlx_train::run::ProvedRecord| -> Result<Value> {
            let mut record = serde_json::to_value(&proved.record)?;
            let of_bits = |bits: &[hlx_train::run::Bits]| -> Vec<f32> {
                bits.iter().map(|bits| bits.value()).collect()
            };
            record["loss_values"] = json!(of_bits(&proved.record.losses));
            record["norm_values"] = json!(of_bits(&proved.record.norms));
            record["digest"] = json!(proved.digest);
            Ok(record)
        };
        let records = chain.records().iter().map(record);
        let records = Value::Array(records.collect::<Result<_>>()?);
        Ok((records.to_string(), chain.is_torn()))
    })
}

/// A run's checkpoints in order: their folders and digests, and which has the lowest loss.
#[pyfunction]
pub fn run_checkpoints(py: Python<'_>, run: PathBuf) -> PyResult<String> {
    read(py, || {
        let folder = RunFolder::open(&run)?;
        let best = folder.best()?;
        let mut found = Vec::new();
        for (step, path) in folder.listed_checkpoints()? {
            // One that a run has removed meanwhile is none.
            let Ok(digests) = Checkpoint::stated(&path) else {
                continue;
            };
            let is_best = best.as_ref() == Some(&path);
            found.push(json!({
                "step": step, "path": path, "loss": digests.loss, "best": is_best,
                "parameters": digests.parameters, "optimizer": digests.optimizer,
                "record": digests.record, "non_finite": digests.non_finite,
            }));
        }
        Ok(Value::Array(found).to_string())
    })
}

/// How far a run has come, and `run.json`.
#[pyfunction]
pub fn run_facts(py: Python<'_>, run: PathBuf) -> PyResult<String> {
    read(py, || {
        let folder = RunFolder::open(&run)?;
        let (standing, manifest) = (folder.standing()?, folder.manifest()?);
        Ok(json!({
            "saved_step": standing.saved_step, "holder": standing.holder,
            "has_ended": standing.has_ended, "manifest": manifest,
        })
        .to_string())
    })
}

/// The picture of a run, or of several, as SVG.
#[pyfunction]
pub fn plot_runs(
    py: Python<'_>,
    runs: Vec<PathBuf>,
    title: Option<String>,
    target: Option<f64>,
) -> PyResult<String> {
    run_as(
        py,
        |error| of_run("plot", error),
        || match &runs[..] {
            [run] => draw_folder(run, title.as_deref(), target),
            runs => draw_folders(runs, title.as_deref().unwrap_or("evaluations")),
        },
    )
}

/// TensorBoard's event file in a folder.
#[pyclass(frozen, module = "hlx._hlx")]
pub struct EventWriter(Mutex<EventFile>);

#[pymethods]
impl EventWriter {
    /// Creates the file of a run that goes on after a step.
    #[new]
    fn new(folder: PathBuf, step: u64) -> PyResult<Self> {
        let made = make(&folder, step);
        made.map(|file| Self(Mutex::new(file)))
            .map_err(|error| of_run("TensorBoard", error))
    }

    /// Appends a metric, a line of `metrics.jsonl`.
    fn append(&self, metric: &str) -> PyResult<()> {
        let written = || -> Result<()> {
            let metric: Metric = serde_json::from_str(metric)?;
            let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            file.append(&metric)
        };
        written().map_err(|error| of_run("TensorBoard", error))
    }
}

fn make(folder: &Path, step: u64) -> Result<EventFile> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    EventFile::create(folder, step)
}
