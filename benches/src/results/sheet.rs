//! A file of results: facts, columns, rows of words.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::files::write_atomically;

use crate::table::{Facts, fact_of, facts_from_csv, facts_to_csv};

/// The contents of a CSV file whose cells are words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Facts such as `device: NVIDIA H200`, in order.
    pub facts: Facts,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a cell per column.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// A sheet without rows; `columns` are separated by commas.
    pub fn new(facts: &[(String, String)], columns: &str) -> Self {
        Self {
            facts: facts.to_vec(),
            columns: columns.split(',').map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; commas, which separate cells, become semicolons.
    pub fn add<const N: usize>(&mut self, cells: [String; N]) {
        let row = cells.map(|cell| cell.replace(',', ";"));
        self.rows.push(row.to_vec());
    }

    /// Reads a file; nothing where there is none.
    ///
    /// # Errors
    /// A file that cannot be read, a row with another number of cells than there are columns.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        if !path.is_file() {
            return Ok(None);
        }
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(name)?;
        Self::from_csv(&text).with_context(name).map(Some)
    }

    fn from_csv(text: &str) -> Result<Self> {
        let (facts, mut lines) = facts_from_csv(text);
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let columns = cells(lines.next().context("there is no line of columns")?);
        let rows: Vec<_> = lines.map(cells).collect();
        for row in &rows {
            let (found, expected) = (row.len(), columns.len());
            ensure!(
                found == expected,
                "`{}` has {found} cells, expected {expected}",
                row.join(",")
            );
        }
        Ok(Self {
            facts,
            columns,
            rows,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn write(&self, path: &Path) -> Result<()> {
        let lines = std::iter::once(&self.columns).chain(&self.rows);
        let lines: Vec<String> = lines.map(|cells| cells.join(",")).collect();
        let text = facts_to_csv(&self.facts) + &lines.join("\n") + "\n";
        write_atomically(path, text.as_bytes()).with_context(|| path.display().to_string())
    }

    /// A fact by its key; an empty word if there is none.
    pub fn fact(&self, key: &str) -> &str {
        fact_of(&self.facts, key).unwrap_or_default()
    }

    /// The cell of a row in a column; an empty word if there is no such column.
    pub fn cell<'a>(&self, row: &'a [String], column: &str) -> &'a str {
        let place = self.columns.iter().position(|name| name == column);
        place
            .and_then(|place| row.get(place))
            .map_or("", String::as_str)
    }

    /// The number in a row's column, if there is one.
    pub fn number(&self, row: &[String], column: &str) -> Option<f64> {
        self.cell(row, column).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_read_back() -> Result<()> {
        let mut sheet = Sheet::new(&[("device".to_owned(), "A, B".to_owned())], "what,ms");
        sheet.add(["a, b".to_owned(), "1.5".to_owned()]);
        let path = std::env::temp_dir().join(format!("hlx-sheet-{}.csv", std::process::id()));
        sheet.write(&path)?;
        let read = Sheet::read(&path)?.context("a file")?;
        std::fs::remove_file(&path)?;
        assert_eq!(read, sheet);
        assert_eq!(read.cell(&read.rows[0], "what"), "a; b");
        assert_eq!(read.number(&read.rows[0], "ms"), Some(1.5));
        assert_eq!((read.fact("device"), read.fact("date")), ("A, B", ""));
        assert!(Sheet::read(&path)?.is_none());
        assert!(Sheet::from_csv("a,b\n1\n").is_err());
        Ok(())
    }
}
