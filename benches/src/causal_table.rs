//! Training steps of causal language models beside PyTorch: written as CSV, read back, shown as Markdown.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::peer_table::{field, read_field, shown, times};
use crate::table::{digits, facts_to_csv, rows_from_csv};

const FILE: &str = "causal.csv";
const COLUMNS: &str =
    "model,batch,tokens,recompute,steps,ms,bytes,tflops,f32_ms,f32_bytes,tf32_ms,tf32_bytes";

/// A way to run PyTorch's products.
#[derive(Debug)]
pub struct Mode {
    /// The word of a request, which benches/peers/causal.py reads.
    pub request: &'static str,
    /// The heading of its columns.
    pub heading: &'static str,
    /// Whether the CPU has it.
    pub on_cpu: bool,
}

/// PyTorch's modes: HLX's precision, and products whose operands are rounded to 10 bits.
pub const MODES: [Mode; 2] = [
    Mode {
        request: "f32",
        heading: "PyTorch f32",
        on_cpu: true,
    },
    Mode {
        request: "tf32",
        heading: "PyTorch TF32",
        on_cpu: false,
    },
];

/// PyTorch's step in a mode; what was not measured is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerStep {
    /// Milliseconds a step.
    pub ms: Option<f64>,
    /// The most bytes allocated on the device.
    pub bytes: Option<f64>,
}

/// One shape on both sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CausalRow {
    /// The model's name.
    pub model: String,
    /// Sequences in a batch.
    pub batch: usize,
    /// Tokens of a sequence.
    pub tokens: usize,
    /// Whether the inside of blocks was computed again on the way back, on both sides.
    pub recompute: bool,
    /// The steps of HLX that were timed.
    pub steps: usize,
    /// Milliseconds a step of HLX.
    pub ms: f64,
    /// Bytes that HLX holds on the device.
    pub bytes: f64,
    /// HLX's rate in TFLOP/s, without what is computed again.
    pub tflops: f64,
    /// PyTorch in each of [`MODES`].
    pub peers: [PeerStep; MODES.len()],
}

/// The shapes that were measured on one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CausalTable {
    /// When and where the last one was measured.
    pub facts: Vec<(String, String)>,
    /// The shapes.
    pub rows: Vec<CausalRow>,
}

impl CausalRow {
    fn is_of_shape(&self, other: &Self) -> bool {
        let shape = |row: &Self| (row.model.clone(), row.batch, row.tokens, row.recompute);
        shape(self) == shape(other)
    }

    fn to_csv(&self) -> String {
        let numbers = [Some(self.ms), Some(self.bytes), Some(self.tflops)];
        let peers = self.peers.iter().flat_map(|step| [step.ms, step.bytes]);
        let numbers: Vec<String> = numbers.into_iter().chain(peers).map(field).collect();
        let (batch, tokens, recompute) = (self.batch, self.tokens, self.recompute);
        let (model, steps, numbers) = (&self.model, self.steps, numbers.join(","));
        format!("{model},{batch},{tokens},{recompute},{steps},{numbers}")
    }

    fn from_csv(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [model, batch, tokens, recompute, steps, numbers @ ..] = &fields[..] else {
            bail!("`{line}` has {} fields", fields.len());
        };
        let numbers = numbers.iter().map(|text| read_field(text));
        let numbers = numbers.collect::<Result<Vec<_>>>()?;
        let [Some(ms), Some(bytes), Some(tflops), peers @ ..] = &numbers[..] else {
            bail!("`{line}` lacks HLX's time, bytes or rate");
        };
        ensure!(
            peers.len() == 2 * MODES.len(),
            "`{line}` has {} fields",
            fields.len()
        );
        let mut row = Self {
            model: (*model).to_owned(),
            batch: batch.parse().with_context(|| format!("`{line}`"))?,
            tokens: tokens.parse().with_context(|| format!("`{line}`"))?,
            recompute: recompute.parse().with_context(|| format!("`{line}`"))?,
            steps: steps.parse().with_context(|| format!("`{line}`"))?,
            ms: *ms,
            bytes: *bytes,
            tflops: *tflops,
            ..Self::default()
        };
        for (step, pair) in row.peers.iter_mut().zip(peers.chunks_exact(2)) {
            (step.ms, step.bytes) = (pair[0], pair[1]);
        }
        Ok(row)
    }
}

impl CausalTable {
    /// Puts a row into `causal.csv` of a folder, in the place of one of the same shape; the facts are
    /// those of the last row.
    ///
    /// # Errors
    /// A file that is not such a table, and what the disk reports.
    pub fn add(folder: &Path, facts: Vec<(String, String)>, row: CausalRow) -> Result<()> {
        let mut table = Self::read(folder)?;
        table.facts = facts;
        match table.rows.iter_mut().find(|old| old.is_of_shape(&row)) {
            Some(old) => *old = row,
            None => table.rows.push(row),
        }
        let lines: Vec<String> = table.rows.iter().map(CausalRow::to_csv).collect();
        let facts = facts_to_csv(&table.facts);
        let text = format!("{facts}{COLUMNS}\n{}\n", lines.join("\n"));
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(hlx_core::files::write_atomically(
            &folder.join(FILE),
            text.as_bytes(),
        )?)
    }

    /// Reads what [`CausalTable::add`] wrote; a folder without the file has no rows.
    ///
    /// # Errors
    /// A line that is not a row.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (facts, rows) = rows_from_csv(&text, COLUMNS, CausalRow::from_csv)?;
        Ok(Self { facts, rows })
    }

    /// The table as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut page =
            "| model | batch | recomputes | HLX ms | tokens/s | TFLOP/s | GB |".to_owned();
        for mode in &MODES {
            let _ = write!(page, " {0} ms | GB | {0} / HLX |", mode.heading);
        }
        let columns = 7 + 3 * MODES.len();
        let _ = writeln!(page, "\n{}|", "|---".repeat(columns));
        for row in &self.rows {
            let tokens = (row.batch * row.tokens) as f64;
            let _ = write!(
                page,
                "| {} | {} x {} | {} | {} | {} | {} | {:.2} |",
                row.model,
                row.batch,
                row.tokens,
                if row.recompute { "yes" } else { "no" },
                digits(row.ms),
                digits(tokens / row.ms * 1e3),
                digits(row.tflops),
                row.bytes * 1e-9
            );
            for step in &row.peers {
                let gigabytes = step
                    .bytes
                    .map_or("-".to_owned(), |bytes| format!("{:.2}", bytes * 1e-9));
                let ratio = times(step.ms.map(|ms| ms / row.ms));
                let _ = write!(page, " {} | {gigabytes} | {ratio} |", shown(step.ms));
            }
            page += "\n";
        }
        page + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(recompute: bool, ms: f64) -> CausalRow {
        CausalRow {
            model: "qwen3-0.6b".to_owned(),
            batch: 4,
            tokens: 1024,
            recompute,
            steps: 30,
            ms,
            bytes: 2e10,
            tflops: 40.0,
            peers: [
                PeerStep {
                    ms: Some(500.0),
                    bytes: Some(3e10),
                },
                PeerStep::default(),
            ],
        }
    }

    #[test]
    fn rows_are_stored_by_shape_and_shown() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("hlx-causal-{}", std::process::id()));
        assert_eq!(CausalTable::read(&folder)?, CausalTable::default());
        let facts = |day: &str| vec![("date".to_owned(), day.to_owned())];
        CausalTable::add(&folder, facts("a"), row(false, 600.0))?;
        CausalTable::add(&folder, facts("b"), row(true, 700.0))?;
        CausalTable::add(&folder, facts("c"), row(false, 400.0))?;
        let table = CausalTable::read(&folder)?;
        std::fs::remove_dir_all(&folder)?;
        assert_eq!(table.rows, [row(false, 400.0), row(true, 700.0)]);
        assert_eq!(table.facts, facts("c"));
        let page = table.to_markdown();
        let line = "| qwen3-0.6b | 4 x 1024 | no | 400.0 | 10240 | 40.00 | 20.00 | 500.0 | 30.00 | \
                    1.25 | - | - | - |";
        assert!(page.contains(line), "{page}");
        Ok(())
    }

    #[test]
    fn a_line_that_is_no_row_is_refused() {
        for line in ["", "a,b", "m,4,8,true,3,,,,,,,", "m,x,8,true,3,1,1,1,,,,"] {
            assert!(CausalRow::from_csv(line).is_err(), "{line}");
        }
    }
}
