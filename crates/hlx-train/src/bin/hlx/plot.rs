//! `hlx plot`: a run's loss curve, or those of several.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_train::curve::{LossUnit, NamedRun, draw, draw_runs};
use hlx_train::model_folder::files_of;
use hlx_train::run::{RunFolder, read_metrics};

use crate::output::output;
use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder; of several, their evaluations are drawn in one picture.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The SVG file to write.
    #[arg(long, value_name = "FILE", default_value = "training-curve.svg")]
    out: PathBuf,
    /// The line above the picture; the run's model, corpus and device if left out, of several runs "evaluations".
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// For one run: the loss to draw a line at; the configuration's target if left out.
    #[arg(long, value_name = "LOSS")]
    target: Option<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let out = output(&arguments.out, &files_of(&arguments.runs))?;
    let svg = match &arguments.runs[..] {
        [run] => of_run(run, arguments)?,
        runs => {
            ensure!(
                arguments.target.is_none(),
                "--target: belongs to the picture of one run"
            );
            let named = runs.iter().map(|run| {
                let name = run.file_name().unwrap_or(run.as_os_str());
                let folder = RunFolder::open(run)?;
                Ok(NamedRun {
                    name: name.to_string_lossy().into_owned(),
                    metrics: read_metrics(&folder.metrics_path())?,
                    unit: LossUnit::of(folder.config()?.data.format),
                })
            });
            let title = arguments.title.as_deref().unwrap_or("evaluations");
            draw_runs(&named.collect::<Result<Vec<_>>>()?, title)?
        }
    };
    let written = out.write(svg.as_bytes());
    written.with_context(|| arguments.out.display().to_string())?;
    if !out.is_stdout() {
        say!("{}", arguments.out.display())?;
    }
    Ok(())
}

fn of_run(run: &Path, arguments: &Arguments) -> Result<String> {
    let folder = RunFolder::open(run)?;
    let config = folder.config()?;
    let title = match &arguments.title {
        Some(title) => title.clone(),
        None => {
            let manifest = folder.manifest()?;
            let corpus = PathBuf::from(&config.data.path);
            let corpus = corpus
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let manifest =
                manifest.with_context(|| format!("{}: has no run.json yet", run.display()))?;
            let device = manifest
                .stretches
                .last()
                .map(|stretch| stretch.device.as_str());
            let device = device.unwrap_or("an unknown device");
            format!("{corpus}, {} parameters, {device}", manifest.n_parameters)
        }
    };
    draw(
        &read_metrics(&folder.metrics_path())?,
        &title,
        // A target of 0 never ends a run, and a logarithm cannot show it.
        arguments
            .target
            .or(config.train.target_loss.filter(|target| *target > 0.0)),
        LossUnit::of(config.data.format),
    )
}
