//! `hlx list`: the runs below a folder.

use std::path::PathBuf;

use anyhow::Result;
use hlx_report::list::{Listed, ListedRun, Order, list};
use hlx_report::text::{number, with_commas};
use hlx_train::train::written;

use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// The folder that runs lie below.
    #[arg(value_name = "DIR", default_value = "runs")]
    folder: PathBuf,
    /// What the lines are sorted by: the newest, the lowest held-out loss or the largest first.
    #[arg(long, value_enum, value_name = "KEY", default_value = "time")]
    sort: Sort,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sort {
    Time,
    Name,
    Loss,
    Size,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Time => Self::Time,
            Sort::Name => Self::Name,
            Sort::Loss => Self::Loss,
            Sort::Size => Self::Size,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let listed = list(&arguments.folder, arguments.sort.into())?;
    if arguments.json {
        let line = serde_json::json!({
            "kind": "list", "version": 1, "folder": arguments.folder, "runs": listed,
        });
        return say!("{line}");
    }
    if listed.is_empty() {
        return say!(
            "{}: no run lies below it; hlx train begins one, in runs/ unless --out names a folder",
            arguments.folder.display()
        );
    }
    let rows: Vec<[String; 8]> = listed.iter().filter_map(row).collect();
    let head = [
        "name",
        "steps",
        "loss",
        "held out",
        "state",
        "size",
        "written",
        "model and device",
    ];
    if !rows.is_empty() {
        let rows: Vec<[String; 8]> = std::iter::once(head.map(str::to_owned))
            .chain(rows)
            .collect();
        for line in aligned(&rows) {
            say!("{line}")?;
        }
    }
    for one in &listed {
        if let Some(fault) = &one.fault {
            say!("{}: cannot be read: {fault}", one.name)?;
        }
    }
    Ok(())
}

fn row(one: &Listed) -> Option<[String; 8]> {
    let ListedRun {
        task,
        state,
        step,
        planned_steps,
        loss,
        held_out,
        device,
    } = one.run.as_ref()?;
    let steps = match planned_steps {
        Some(planned) => format!("{}/{}", with_commas(*step), with_commas(*planned)),
        None => with_commas(*step),
    };
    let written_loss = |loss: &Option<f64>| loss.map_or("-".to_owned(), number);
    let device = device.as_deref().unwrap_or("an unknown device");
    // The minute is enough in a line.
    let written_at = one.written.as_deref().unwrap_or("-");
    let written_at = written_at.get(..16).unwrap_or(written_at).replace('T', " ");
    Some([
        one.name.clone(),
        steps,
        written_loss(loss),
        written_loss(held_out),
        state.name().to_owned(),
        written(one.bytes),
        written_at,
        format!("{task}; {device}"),
    ])
}

/// The rows in columns: words to the left, numbers to the right.
fn aligned(rows: &[[String; 8]]) -> Vec<String> {
    const TO_THE_RIGHT: [bool; 8] = [false, true, true, true, false, true, false, false];
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..8).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            match TO_THE_RIGHT[column] {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
