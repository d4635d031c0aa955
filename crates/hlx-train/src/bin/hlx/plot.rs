//! `hlx plot`: a run's loss curve.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_train::curve::draw;
use hlx_train::run::{RunFolder, read_metrics};

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder.
    run: PathBuf,
    /// The SVG file to write.
    #[arg(long, value_name = "FILE", default_value = "training-curve.svg")]
    out: PathBuf,
    /// The line above the picture; the run's model, corpus and device if left out.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The loss to draw a line at; the configuration's target if left out.
    #[arg(long, value_name = "LOSS")]
    target: Option<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
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
            let manifest = manifest
                .with_context(|| format!("{}: has no run.json yet", arguments.run.display()))?;
            let device = manifest
                .stretches
                .last()
                .map(|stretch| stretch.device.as_str());
            let device = device.unwrap_or("an unknown device");
            format!("{corpus}, {} parameters, {device}", manifest.n_parameters)
        }
    };
    let svg = draw(
        &read_metrics(&folder.metrics_path())?,
        &title,
        arguments.target.or(config.train.target_loss),
    )?;
    let written = std::fs::write(&arguments.out, svg);
    written.with_context(|| arguments.out.display().to_string())?;
    println!("{}", arguments.out.display());
    Ok(())
}
