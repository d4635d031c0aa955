//! `hlx plot`: a run's loss curve, or those of several.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_train::curve::{draw_folder, draw_folders};
use hlx_train::model_folder::files_of;

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
        [run] => draw_folder(run, arguments.title.as_deref(), arguments.target)?,
        runs => {
            ensure!(
                arguments.target.is_none(),
                "--target: belongs to the picture of one run"
            );
            let title = arguments.title.as_deref().unwrap_or("evaluations");
            draw_folders(runs, title)?
        }
    };
    let written = out.write(svg.as_bytes());
    written.with_context(|| arguments.out.display().to_string())?;
    if !out.is_stdout() {
        say!("{}", arguments.out.display())?;
    }
    Ok(())
}
