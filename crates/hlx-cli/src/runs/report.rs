//! `hlx report`: one or several runs as one HTML file, and the same as Markdown.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_report::Report;
use hlx_train::model_folder::files_of;

use crate::output::output;
use crate::print::say;

#[derive(clap::Args)]
#[command(
    after_help = "The page needs no network, and no script to be read. docs/reports.md shows one."
)]
pub struct Arguments {
    /// The run folders; several are shown beside each other, with what differs between them.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The HTML file to write; the same facts as Markdown lie beside it, as FILE.md.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// The report's title; the runs' names if left out.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Print the facts as one line of JSON, too.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let markdown_path = arguments.out.with_extension("md");
    ensure!(
        markdown_path != arguments.out,
        "--out {}: is the name of the Markdown file, expected one that ends in .html",
        arguments.out.display()
    );
    let inputs = files_of(&arguments.runs);
    let html = output(&arguments.out, &inputs)?;
    // Beside a device or a pipe lies nothing.
    let is_beside = fs::metadata(&arguments.out).map_or(true, |found| found.is_file());
    let markdown = match is_beside && !html.is_stdout() {
        true => Some(output(&markdown_path, &inputs)?),
        false => None,
    };
    let report = Report::read(&arguments.runs, arguments.title.as_deref())?;
    for fault in &report.document.faults {
        tracing::warn!("{fault}");
    }
    let written = html.write(report.html().as_bytes());
    written.with_context(|| arguments.out.display().to_string())?;
    if let Some(markdown) = &markdown {
        let written = markdown.write(report.markdown().as_bytes());
        written.with_context(|| markdown_path.display().to_string())?;
    }
    let markdown_path = markdown.map(|_| markdown_path);
    match arguments.json {
        _ if html.is_stdout() => Ok(()),
        true => say!(
            "{}",
            report.to_json(&arguments.out, markdown_path.as_deref())?
        ),
        false => {
            say!("{}", arguments.out.display())?;
            markdown_path.map_or(Ok(()), |path| say!("{}", path.display()))
        }
    }
}
