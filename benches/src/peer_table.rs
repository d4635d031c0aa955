//! Operations and first steps beside PyTorch: written as CSV, read back, shown as Markdown.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::files::write_atomically;

use crate::table::{digits, facts_from_csv, facts_to_csv};

const COLUMNS: &str = "case,unit,hlx_ms,peer_ms,prepared_ms,hlx_watts,peer_watts,hlx_rate";
const START_COLUMNS: &str = "what,seconds,held_bytes,device_bytes";

/// One operation on both sides; a number that is not there was not measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerRow {
    /// The case's name.
    pub case: String,
    /// TFLOP/s or GB/s.
    pub unit: String,
    /// Milliseconds a run of HLX.
    pub hlx_ms: Option<f64>,
    /// Milliseconds a run of PyTorch, launched from Python.
    pub peer_ms: Option<f64>,
    /// The same in a CUDA graph.
    pub prepared_ms: Option<f64>,
    /// Mean power of HLX's runs.
    pub hlx_watts: Option<f64>,
    /// Mean power of PyTorch's runs.
    pub peer_watts: Option<f64>,
    /// HLX's rate in the unit.
    pub hlx_rate: Option<f64>,
}

/// How long a side takes from the start of its process to the end of its first training step.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRow {
    /// Configuration, side, and whether its caches were empty.
    pub what: String,
    /// The time.
    pub seconds: f64,
    /// The bytes that the side says it holds on the device after some steps.
    pub held_bytes: Option<f64>,
    /// The bytes by which the device's memory in use grew.
    pub device_bytes: Option<f64>,
}

/// A whole comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// When and where.
    pub facts: Vec<(String, String)>,
    /// The operations.
    pub rows: Vec<PeerRow>,
    /// The first steps.
    pub starts: Vec<StartRow>,
}

impl PeerRow {
    /// How many times as fast HLX is as PyTorch launched from Python.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.peer_ms? / self.hlx_ms?)
    }

    /// How many times as fast HLX is as PyTorch with its launches prepared.
    pub fn prepared_ratio(&self) -> Option<f64> {
        Some(self.prepared_ms? / self.hlx_ms?)
    }

    /// One line for the screen.
    pub fn line(&self) -> String {
        format!(
            "HLX {} ms, PyTorch {} and {} ms: {} and {} times as fast",
            shown(self.hlx_ms),
            shown(self.peer_ms),
            shown(self.prepared_ms),
            times(self.ratio()),
            times(self.prepared_ratio())
        )
    }

    fn to_csv(&self) -> String {
        let numbers = [
            self.hlx_ms,
            self.peer_ms,
            self.prepared_ms,
            self.hlx_watts,
            self.peer_watts,
            self.hlx_rate,
        ];
        let numbers = numbers.map(field).join(",");
        format!("{},{},{numbers}", self.case, self.unit)
    }

    fn from_csv(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [case, unit, hlx, peer, prepared, hlx_watts, peer_watts, rate] = fields[..] else {
            bail!("`{line}` has {} fields, expected 8", fields.len());
        };
        Ok(Self {
            case: case.to_owned(),
            unit: unit.to_owned(),
            hlx_ms: read_field(hlx)?,
            peer_ms: read_field(peer)?,
            prepared_ms: read_field(prepared)?,
            hlx_watts: read_field(hlx_watts)?,
            peer_watts: read_field(peer_watts)?,
            hlx_rate: read_field(rate)?,
        })
    }
}

impl StartRow {
    fn to_csv(&self) -> String {
        let bytes = [self.held_bytes, self.device_bytes].map(field).join(",");
        // `what` has commas, which separate the fields.
        format!(
            "{},{:.4},{bytes}",
            self.what.replace(", ", "; "),
            self.seconds
        )
    }

    fn from_csv(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [what, seconds, held, device] = fields[..] else {
            bail!("`{line}` has {} fields, expected 4", fields.len());
        };
        Ok(Self {
            what: what.replace("; ", ", "),
            seconds: seconds.parse().with_context(|| format!("`{line}`"))?,
            held_bytes: read_field(held)?,
            device_bytes: read_field(device)?,
        })
    }
}

/// A number as a field of a CSV; nothing is an empty field.
pub(crate) fn field(number: Option<f64>) -> String {
    number.map_or(String::new(), |number| format!("{number:.6}"))
}

/// Reads what [`field`] wrote.
pub(crate) fn read_field(text: &str) -> Result<Option<f64>> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(
        text.parse()
            .with_context(|| format!("`{text}` is no number"))?,
    ))
}

/// A number for a table, or a dash.
pub(crate) fn shown(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), digits)
}

/// A ratio with two places, or a dash.
pub fn times(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

impl Comparison {
    /// Writes peers.csv and start.csv into a folder, whichever has rows.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let table = |columns: &str, lines: Vec<String>| {
            format!(
                "{}{columns}\n{}\n",
                facts_to_csv(&self.facts),
                lines.join("\n")
            )
        };
        if !self.rows.is_empty() {
            let lines = self.rows.iter().map(PeerRow::to_csv).collect();
            let text = table(COLUMNS, lines);
            write_atomically(&folder.join("peers.csv"), text.as_bytes())?;
        }
        if !self.starts.is_empty() {
            let lines = self.starts.iter().map(StartRow::to_csv).collect();
            let text = table(START_COLUMNS, lines);
            write_atomically(&folder.join("start.csv"), text.as_bytes())?;
        }
        Ok(())
    }

    /// Reads what [`Comparison::write`] wrote; a file that is not there has no rows.
    ///
    /// # Errors
    /// A line that is not a row.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut read = Self::default();
        let peers = std::fs::read_to_string(folder.join("peers.csv")).unwrap_or_default();
        let (facts, mut lines) = facts_from_csv(&peers);
        check_columns(lines.next(), COLUMNS)?;
        read.rows = lines.map(PeerRow::from_csv).collect::<Result<_>>()?;
        read.facts = facts;
        let starts = std::fs::read_to_string(folder.join("start.csv")).unwrap_or_default();
        let (facts, mut lines) = facts_from_csv(&starts);
        check_columns(lines.next(), START_COLUMNS)?;
        read.starts = lines.map(StartRow::from_csv).collect::<Result<_>>()?;
        if read.facts.is_empty() {
            read.facts = facts;
        }
        Ok(read)
    }

    /// The tables as Markdown: first steps, operations.
    pub fn to_markdown(&self) -> String {
        let mut page = String::new();
        if !self.starts.is_empty() {
            page += "| process start to the end of the first step | s | memory held | memory on the device |\n|---|---|---|---|\n";
            for start in &self.starts {
                let gigabytes = [start.held_bytes, start.device_bytes].map(|bytes| {
                    bytes.map_or("-".to_owned(), |bytes| format!("{:.2} GB", bytes * 1e-9))
                });
                let _ = writeln!(
                    page,
                    "| {} | {:.2} | {} |",
                    start.what,
                    start.seconds,
                    gigabytes.join(" | ")
                );
            }
            page += "\n";
        }
        if !self.rows.is_empty() {
            page += "| operation | HLX ms | rate | PyTorch ms | in a CUDA graph ms | HLX times as fast | as in a graph | power HLX / PyTorch |\n|---|---|---|---|---|---|---|---|\n";
            for row in &self.rows {
                let _ = writeln!(
                    page,
                    "| {} | {} | {} {} | {} | {} | {} | {} | {} |",
                    row.case,
                    shown(row.hlx_ms),
                    shown(row.hlx_rate),
                    row.unit,
                    shown(row.peer_ms),
                    shown(row.prepared_ms),
                    times(row.ratio()),
                    times(row.prepared_ratio()),
                    watts(row)
                );
            }
        }
        page
    }
}

fn watts(row: &PeerRow) -> String {
    match (row.hlx_watts, row.peer_watts) {
        (Some(hlx), Some(peer)) => format!("{hlx:.0} / {peer:.0} W"),
        _ => "-".to_owned(),
    }
}

/// A file that is not there has no first line; one that is has the columns.
fn check_columns(found: Option<&str>, expected: &str) -> Result<()> {
    ensure!(
        found.is_none_or(|found| found == expected),
        "columns `{}`, expected `{expected}`",
        found.unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison() -> Comparison {
        Comparison {
            facts: vec![("device".to_owned(), "a GPU".to_owned())],
            rows: vec![
                PeerRow {
                    case: "add 7".to_owned(),
                    unit: "GB/s".to_owned(),
                    hlx_ms: Some(2.0),
                    peer_ms: Some(3.0),
                    ..PeerRow::default()
                },
                PeerRow {
                    case: "gelu_forward 2x3".to_owned(),
                    unit: "GB/s".to_owned(),
                    hlx_ms: Some(1.0),
                    prepared_ms: Some(5.5),
                    hlx_watts: Some(300.0),
                    peer_watts: Some(200.5),
                    ..PeerRow::default()
                },
            ],
            starts: vec![StartRow {
                what: "medium, HLX, cold".to_owned(),
                seconds: 4.5,
                held_bytes: Some(7.9e9),
                device_bytes: None,
            }],
        }
    }

    #[test]
    fn a_comparison_is_read_back_from_its_files() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("hlx-peer-table-{}", std::process::id()));
        comparison().write(&folder)?;
        let read = Comparison::read(&folder)?;
        std::fs::remove_dir_all(&folder)?;
        assert_eq!(read, comparison());
        assert_eq!(Comparison::read(&folder)?, Comparison::default());
        Ok(())
    }

    #[test]
    fn the_tables_have_ratios_and_dashes_for_gaps() {
        let page = comparison().to_markdown();
        assert!(
            page.contains("| add 7 | 2.000 | - GB/s | 3.000 | - | 1.50 | - | - |"),
            "{page}"
        );
        assert!(
            page.contains(
                "| gelu_forward 2x3 | 1.000 | - GB/s | - | 5.500 | - | 5.50 | 300 / 200 W |"
            ),
            "{page}"
        );
        assert!(
            page.contains("| medium, HLX, cold | 4.50 | 7.90 GB | - |"),
            "{page}"
        );
    }
}
