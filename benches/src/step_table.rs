//! Training steps beside PyTorch in all its modes: written as CSV, read back, shown as Markdown.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::peer_table::{field, read_field, shown, times};
use crate::table::{facts_to_csv, rows_from_csv};

/// A way to run PyTorch's training step.
#[derive(Debug)]
pub struct Mode {
    /// The word of a request, which benches/peers/peers.py reads.
    pub request: &'static str,
    /// The heading of its columns.
    pub heading: &'static str,
    /// The column of the CSV.
    column: &'static str,
    /// Whether the CPU has it.
    pub on_cpu: bool,
}

/// PyTorch's modes. Those with f32 have HLX's precision; TF32 rounds the operands of products to
/// 10 bits, bf16 to 7.
pub const MODES: [Mode; 5] = [
    Mode::new("eager", "f32 eager", "f32_eager_ms", true),
    Mode::new("compiled", "f32 compiled", "f32_compiled_ms", true),
    Mode::new("tf32-eager", "TF32 eager", "tf32_eager_ms", false),
    Mode::new("tf32-compiled", "TF32 compiled", "tf32_compiled_ms", false),
    Mode::new("bf16-graph", "bf16, CUDA graph", "bf16_graph_ms", false),
];

impl Mode {
    const fn new(
        request: &'static str,
        heading: &'static str,
        column: &'static str,
        on_cpu: bool,
    ) -> Self {
        Self {
            request,
            heading,
            column,
            on_cpu,
        }
    }
}

/// HLX's other arithmetics than `portable`, as `hlx-bench serve --arithmetic` takes them; the CPU measures the first alone.
pub const ARITHMETICS: [&str; 2] = ["integer", "fast"];

/// One configuration; what was not measured is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepRow {
    /// The configuration: tiny, small, medium, gpt2.
    pub name: String,
    /// Milliseconds a step of HLX in `portable`.
    pub hlx_ms: Option<f64>,
    /// The same in each of [`ARITHMETICS`].
    pub arithmetic_ms: [Option<f64>; ARITHMETICS.len()],
    /// Milliseconds a step of PyTorch in each of [`MODES`].
    pub peer_ms: [Option<f64>; MODES.len()],
    /// HLX's rate in TFLOP/s.
    pub hlx_tflops: Option<f64>,
    /// Mean power of HLX's steps.
    pub hlx_watts: Option<f64>,
    /// Mean power of PyTorch's f32 eager steps.
    pub peer_watts: Option<f64>,
}

/// The steps of one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTable {
    /// When and where they were measured.
    pub facts: Vec<(String, String)>,
    /// The configurations.
    pub rows: Vec<StepRow>,
}

impl StepRow {
    /// PyTorch's time over HLX's in a mode: above 1 HLX is faster.
    pub fn ratio(&self, mode: usize) -> Option<f64> {
        Some(self.peer_ms.get(mode).copied()?? / self.hlx_ms?)
    }

    /// One line for the screen.
    pub fn line(&self) -> String {
        let mut line = format!("HLX {} ms", shown(self.hlx_ms));
        for (arithmetic, ms) in ARITHMETICS.iter().zip(self.arithmetic_ms) {
            let _ = write!(line, ", {arithmetic} {}", shown(ms));
        }
        for (mode, ms) in MODES.iter().zip(self.peer_ms) {
            let _ = write!(line, "; {} {}", mode.heading, shown(ms));
        }
        line
    }

    fn to_csv(&self) -> String {
        let mut numbers = vec![field(self.hlx_ms)];
        numbers.extend(self.arithmetic_ms.map(field));
        numbers.extend(self.peer_ms.map(field));
        numbers.extend([self.hlx_tflops, self.hlx_watts, self.peer_watts].map(field));
        format!("{},{}", self.name, numbers.join(","))
    }

    fn from_csv(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let expected = 5 + ARITHMETICS.len() + MODES.len();
        ensure!(
            fields.len() == expected,
            "`{line}` has {} fields, expected {expected}",
            fields.len()
        );
        let numbers: Result<Vec<_>> = fields[1..].iter().map(|text| read_field(text)).collect();
        let mut numbers = numbers?.into_iter();
        let mut next = || numbers.next().flatten();
        Ok(Self {
            name: fields[0].to_owned(),
            hlx_ms: next(),
            arithmetic_ms: std::array::from_fn(|_| next()),
            peer_ms: std::array::from_fn(|_| next()),
            hlx_tflops: next(),
            hlx_watts: next(),
            peer_watts: next(),
        })
    }
}

fn columns() -> String {
    let arithmetics = ARITHMETICS.map(|arithmetic| format!("{arithmetic}_ms"));
    let modes: Vec<&str> = MODES.iter().map(|mode| mode.column).collect();
    format!(
        "step,hlx_ms,{},{},hlx_tflops,hlx_watts,peer_watts",
        arithmetics.join(","),
        modes.join(",")
    )
}

impl StepTable {
    /// Writes steps.csv into a folder; without rows it writes nothing.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn write(&self, folder: &Path) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = self.rows.iter().map(StepRow::to_csv).collect();
        let text = format!(
            "{}{}\n{}\n",
            facts_to_csv(&self.facts),
            columns(),
            lines.join("\n")
        );
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(hlx_core::files::write_atomically(
            &folder.join("steps.csv"),
            text.as_bytes(),
        )?)
    }

    /// Reads what [`StepTable::write`] wrote; a folder without the file has no rows.
    ///
    /// # Errors
    /// Other columns, or a line that is not a row.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("steps.csv");
        if !path.is_file() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path)?;
        let (facts, rows) = rows_from_csv(&text, &columns(), StepRow::from_csv)?;
        Ok(Self { facts, rows })
    }

    /// The table as Markdown: times in ms, then PyTorch's time over HLX's. Modes that no row was
    /// measured in have no column.
    pub fn to_markdown(&self) -> String {
        let measured = |mode: &usize| self.rows.iter().any(|row| row.peer_ms[*mode].is_some());
        let modes: Vec<usize> = (0..MODES.len()).filter(measured).collect();
        if self.rows.is_empty() {
            return String::new();
        }
        let mut page = "| training step | HLX ms |".to_owned();
        for arithmetic in ARITHMETICS {
            let _ = write!(page, " `{arithmetic}` ms |");
        }
        let heading = |page: &mut String, suffix: &str| {
            for &mode in &modes {
                let _ = write!(page, " {}{suffix} |", MODES[mode].heading);
            }
        };
        heading(&mut page, " ms");
        heading(&mut page, " / HLX");
        page += " power HLX / f32 eager |\n";
        page += &"|---".repeat(3 + ARITHMETICS.len() + 2 * modes.len());
        page += "|\n";
        for row in &self.rows {
            let _ = write!(page, "| {} | {} |", row.name, shown(row.hlx_ms));
            for ms in row.arithmetic_ms {
                let _ = write!(page, " {} |", shown(ms));
            }
            for &mode in &modes {
                let _ = write!(page, " {} |", shown(row.peer_ms[mode]));
            }
            for &mode in &modes {
                let _ = write!(page, " {} |", times(row.ratio(mode)));
            }
            let _ = match (row.hlx_watts, row.peer_watts) {
                (Some(hlx), Some(peer)) => writeln!(page, " {hlx:.0} / {peer:.0} W |"),
                _ => writeln!(page, " - |"),
            };
        }
        page + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> StepTable {
        StepTable {
            facts: vec![("device".to_owned(), "a GPU".to_owned())],
            rows: vec![StepRow {
                name: "tiny".to_owned(),
                hlx_ms: Some(2.0),
                arithmetic_ms: [Some(1.0), None],
                peer_ms: [Some(4.0), None, Some(3.0), None, Some(0.5)],
                hlx_tflops: Some(10.0),
                hlx_watts: Some(300.0),
                peer_watts: Some(200.5),
            }],
        }
    }

    #[test]
    fn a_table_is_read_back_from_its_file() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("hlx-step-table-{}", std::process::id()));
        table().write(&folder)?;
        let read = StepTable::read(&folder)?;
        std::fs::remove_dir_all(&folder)?;
        assert_eq!(read, table());
        assert_eq!(StepTable::read(&folder)?, StepTable::default());
        Ok(())
    }

    #[test]
    fn only_measured_modes_have_columns() {
        let page = table().to_markdown();
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines[0],
            "| training step | HLX ms | `integer` ms | `fast` ms | f32 eager ms | TF32 eager ms \
             | bf16, CUDA graph ms | f32 eager / HLX | TF32 eager / HLX | bf16, CUDA graph / HLX | power HLX / f32 eager |"
        );
        assert_eq!(
            lines[2],
            "| tiny | 2.000 | 1.000 | - | 4.000 | 3.000 | 0.5000 | 2.00 | 1.50 | 0.25 | 300 / 200 W |"
        );
        assert_eq!(StepTable::default().to_markdown(), "");
    }

    #[test]
    fn a_row_with_other_fields_is_refused() {
        assert!(StepRow::from_csv("tiny,1,2").is_err());
        assert!(StepRow::from_csv("tiny,1,2,3,4,5,6,7,x,9,10,11").is_err());
    }
}
