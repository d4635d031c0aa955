//! A report of one or several runs, as one HTML file and as Markdown.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::document::Document;
use crate::facts::{RunFacts, RunState};
use crate::sections::{key_figures, sections};
use crate::text::{spoken, with_commas};
use crate::{markdown, page};

/// The facts of the runs of a report, and how they are laid out.
#[derive(Clone, Debug)]
pub struct Report {
    /// The runs in the given order.
    pub runs: Vec<RunFacts>,
    /// The document.
    pub document: Document,
}

impl Report {
    /// Reads runs, side by side.
    ///
    /// # Errors
    /// A path that is no run folder, or whose configuration cannot be read; a run given twice.
    pub fn read(paths: &[PathBuf], title: Option<&str>) -> Result<Self> {
        ensure!(!paths.is_empty(), "there is no run to report on");
        for (place, path) in paths.iter().enumerate() {
            let same = |other: &&PathBuf| match (other.canonicalize(), path.canonicalize()) {
                (Ok(a), Ok(b)) => a == b,
                _ => *other == path,
            };
            let twice = paths[..place].iter().find(same);
            ensure!(twice.is_none(), "{}: is given twice", path.display());
        }
        let runs = std::thread::scope(|scope| {
            let reading = paths.iter();
            let reading: Vec<_> = reading
                .map(|path| scope.spawn(|| RunFacts::read(path)))
                .collect();
            let runs = reading.into_iter().map(|one| match one.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            runs.collect::<Result<Vec<RunFacts>>>()
        })?;
        let runs = with_own_names(runs);
        let document = document(&runs, title);
        Ok(Self { runs, document })
    }

    /// The page: one file, which needs no network and no script.
    pub fn html(&self) -> String {
        page::html(&self.document)
    }

    /// The same facts as Markdown, tables in the place of pictures.
    pub fn markdown(&self) -> String {
        markdown::markdown(&self.document)
    }

    /// The facts as one JSON object of the kind `report`.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn to_json(&self, html: &Path, markdown: Option<&Path>) -> Result<serde_json::Value> {
        Ok(serde_json::json!({
            "kind": "report", "version": 1, "html": html, "markdown": markdown, "runs": self.runs,
        }))
    }
}

/// Folders of one name in different places get their whole paths as names.
fn with_own_names(mut runs: Vec<RunFacts>) -> Vec<RunFacts> {
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for run in &mut runs {
        if names.iter().filter(|name| **name == run.name).count() > 1 {
            run.name = run.path.display().to_string();
        }
    }
    runs
}

fn document(runs: &[RunFacts], title: Option<&str>) -> Document {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let title = title.map_or_else(|| names.join(", "), str::to_owned);
    let subtitle = match runs {
        [run] => {
            let task = sentence(&run.task);
            let device = run
                .device()
                .map_or_else(String::new, |device| format!(" on {device}"));
            let written = run.written.as_deref().map(spoken);
            let written = written.as_deref().unwrap_or("at an unknown time");
            format!(
                "{task}. {}{device}, last written {written}.",
                sentence(run.state.name())
            )
        }
        runs => format!(
            "{} training runs beside each other.",
            with_commas(runs.len() as u64)
        ),
    };
    let faults = runs
        .iter()
        .flat_map(|run| run.faults.iter().cloned().chain(empty_log(run)));
    Document {
        title,
        subtitle,
        faults: faults.collect(),
        key_figures: match runs {
            [run] => key_figures(run),
            _ => Vec::new(),
        },
        sections: sections(runs),
        // Without a time: the same folders give the same bytes.
        footer: format!(
            "Written by hlx report {}, from the runs' folders alone.",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

/// A line on a log that has none, unless it could not be read.
fn empty_log(run: &RunFacts) -> Option<String> {
    let is_named = run
        .faults
        .iter()
        .any(|fault| fault.contains("metrics.jsonl"));
    (run.log_lines == 0 && !is_named).then(|| {
        let why = match run.state {
            RunState::Finished => "its log has no line, and the page no curves",
            RunState::Running | RunState::Stopped => {
                "its log has no line yet: curves begin with the first log period (train.log_every steps)"
            }
        };
        format!("{}: {why}", run.path.display())
    })
}

/// The words with a capital at their beginning.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}
