//! The pictures of run folders.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{LossUnit, NamedRun, draw, draw_runs};
use crate::config::{DataSection, Format};
use crate::run::{RunFolder, read_metrics};

/// Draws the losses of a run. Without a title the picture has the corpus, the number of parameters and the device;
/// without a target it has the configuration's.
///
/// # Errors
/// As [`draw`]; a path that is no run folder.
pub fn draw_folder(run: &Path, title: Option<&str>, target: Option<f64>) -> Result<String> {
    let folder = RunFolder::open(run)?;
    let config = folder.config()?;
    let title = match title {
        Some(title) => title.to_owned(),
        None => usual_title(&folder, &config.data)?,
    };
    // A target of 0 never ends a run, and a logarithm cannot show it.
    let configured = config.train.target_loss.filter(|target| *target > 0.0);
    draw(
        &read_metrics(&folder.metrics_path())?,
        &title,
        target.or(configured),
        LossUnit::of(config.data.format),
    )
}

/// Draws the evaluations of several runs, each under its folder's name.
///
/// # Errors
/// As [`draw_runs`]; a path that is no run folder.
pub fn draw_folders(runs: &[PathBuf], title: &str) -> Result<String> {
    let named = runs.iter().map(|run| {
        let name = run.file_name().unwrap_or(run.as_os_str());
        let folder = RunFolder::open(run)?;
        Ok(NamedRun {
            name: name.to_string_lossy().into_owned(),
            metrics: read_metrics(&folder.metrics_path())?,
            unit: LossUnit::of(folder.config()?.data.format),
        })
    });
    draw_runs(&named.collect::<Result<Vec<_>>>()?, title)
}

fn usual_title(folder: &RunFolder, data: &DataSection) -> Result<String> {
    let corpus = match data.format {
        Format::AsciiPairs => "drawn pairs".into(),
        Format::Digits => "drawn digits".into(),
        _ => {
            let stem = Path::new(&data.path).file_stem();
            stem.unwrap_or_default().to_string_lossy()
        }
    };
    let manifest = folder.manifest()?;
    let manifest = manifest
        .ok_or_else(|| anyhow::anyhow!("{}: has no run.json yet", folder.path().display()))?;
    let device = manifest
        .stretches
        .last()
        .map(|stretch| stretch.device.as_str());
    let device = device.unwrap_or("an unknown device");
    Ok(format!(
        "{corpus}, {} parameters, {device}",
        manifest.n_parameters
    ))
}
