//! The rows of a kernel run: printed, written as CSV, read back and compared.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::statistics::Statistics;

/// Past this part of the old median a case counts as slower.
pub const SLOWEST_ALLOWED: f64 = 0.95;

/// The columns of the CSV.
const COLUMNS: &str = "case,unit,runs,median,mean,deviation,min,max,peak,median_ms";

/// Facts such as `device: NVIDIA H200`, in order.
pub type Facts = Vec<(String, String)>;

/// The value of a fact.
pub fn fact_of<'a>(facts: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = facts.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

/// What was measured of one case; rates in `unit`.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// TFLOP/s or GB/s.
    pub unit: String,
    /// The rates of the runs.
    pub rate: Statistics,
    /// The peak of the device in the same unit and run.
    pub peak: f64,
    /// The median time of a run.
    pub median_ms: f64,
}

/// A whole run: where and when, and its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Facts such as `device: NVIDIA H200`, in order.
    pub facts: Vec<(String, String)>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The heading of a printed table.
pub fn heading() -> String {
    format!(
        "{:42} {:>9} {:>9} {:>8} {:>9} {:>9} {:8} {:>6} {:>10}",
        "case", "median", "mean", "dev", "min", "max", "unit", "peak", "ms"
    )
}

impl Row {
    /// The row of a printed table.
    pub fn line(&self) -> String {
        let Statistics {
            median,
            mean,
            deviation,
            min,
            max,
            ..
        } = self.rate;
        format!(
            "{:42} {:>9} {:>9} {:>8} {:>9} {:>9} {:8} {:>5.1}% {:>10}",
            self.case,
            digits(median),
            digits(mean),
            digits(deviation),
            digits(min),
            digits(max),
            self.unit,
            self.share() * 100.0,
            digits(self.median_ms),
        )
    }

    /// The median as a share of the peak.
    pub fn share(&self) -> f64 {
        self.rate.median / self.peak
    }

    fn to_csv(&self) -> String {
        let rate = &self.rate;
        let numbers = [rate.median, rate.mean, rate.deviation, rate.min, rate.max];
        let numbers = numbers.map(|number| format!("{number:.6}")).join(",");
        format!(
            "{},{},{},{numbers},{:.6},{:.6}",
            self.case, self.unit, rate.count, self.peak, self.median_ms
        )
    }

    fn from_csv(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [case, unit, runs, numbers @ ..] = &fields[..] else {
            bail!("`{line}` has {} fields", fields.len());
        };
        let numbers: Result<Vec<f64>, _> = numbers.iter().map(|text| text.parse()).collect();
        let numbers = numbers.with_context(|| format!("a number of `{line}`"))?;
        let [median, mean, deviation, min, max, peak, median_ms] = numbers[..] else {
            bail!("`{line}` has {} fields", fields.len());
        };
        Ok(Self {
            case: (*case).to_owned(),
            unit: (*unit).to_owned(),
            rate: Statistics {
                count: runs.parse().with_context(|| format!("runs of `{line}`"))?,
                mean,
                deviation,
                min,
                max,
                median,
            },
            peak,
            median_ms,
        })
    }
}

/// A number with four digits that count.
pub fn digits(number: f64) -> String {
    let places = match number.abs() {
        value if value >= 1000.0 || value == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        value if value >= 1.0 => 3,
        _ => 4,
    };
    format!("{number:.places$}")
}

impl Run {
    /// A fact by its key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        fact_of(&self.facts, key)
    }

    /// The text of the CSV: facts as comments, the columns, the rows.
    pub fn to_csv(&self) -> String {
        let mut text = facts_to_csv(&self.facts);
        let _ = writeln!(text, "{COLUMNS}");
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.to_csv());
        }
        text
    }

    /// Reads what [`Run::to_csv`] wrote.
    ///
    /// # Errors
    /// A line that is not a row, or other columns.
    pub fn from_csv(text: &str) -> Result<Self> {
        let (facts, rows) = rows_from_csv(text, COLUMNS, Row::from_csv)?;
        Ok(Self { facts, rows })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Run::from_csv`], with the file's name.
    pub fn read(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(name)?;
        Self::from_csv(&text).with_context(name)
    }

    /// Compares the medians of this run with an older one's: a line for each case that both
    /// have, and how many are slower by more than 5%.
    ///
    /// # Errors
    /// Runs without a common case.
    pub fn compare(&self, old: &Self) -> Result<(Vec<String>, usize)> {
        let mut lines = Vec::new();
        let mut slower = 0;
        for new in &self.rows {
            let Some(old) = old.rows.iter().find(|old| old.case == new.case) else {
                continue;
            };
            let ratio = new.rate.median / old.rate.median;
            let fails = ratio.is_nan() || ratio < SLOWEST_ALLOWED;
            slower += usize::from(fails);
            lines.push(format!(
                "{:42} {:>9} -> {:>9} {:8} {ratio:>6.3}{}",
                new.case,
                digits(old.rate.median),
                digits(new.rate.median),
                new.unit,
                if fails { "  slower" } else { "" },
            ));
        }
        ensure!(!lines.is_empty(), "the two runs have no case in common");
        Ok((lines, slower))
    }
}

/// Facts as comment lines.
pub fn facts_to_csv(facts: &[(String, String)]) -> String {
    let lines = facts
        .iter()
        .map(|(key, value)| format!("# {key}: {value}\n"));
    lines.collect()
}

/// The facts at the head of a CSV, and its rows.
///
/// # Errors
/// Other columns, or a line that is not a row.
pub fn rows_from_csv<T>(
    text: &str,
    columns: &str,
    row: impl Fn(&str) -> Result<T>,
) -> Result<(Facts, Vec<T>)> {
    let (facts, mut lines) = facts_from_csv(text);
    let found = lines.next().unwrap_or_default();
    ensure!(found == columns, "columns `{found}`, expected `{columns}`");
    Ok((facts, lines.map(row).collect::<Result<_>>()?))
}

/// The facts at the head of a CSV, and the lines after them.
pub fn facts_from_csv(text: &str) -> (Facts, impl Iterator<Item = &str>) {
    let fact = |line: &str| {
        let (key, value) = line.strip_prefix("# ")?.split_once(": ")?;
        Some((key.to_owned(), value.to_owned()))
    };
    let facts = text.lines().map_while(fact).collect();
    let rest = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    (facts, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(medians: &[(&str, f64)]) -> Run {
        let row = |&(case, median): &(&str, f64)| Row {
            case: case.to_owned(),
            unit: "GB/s".to_owned(),
            rate: Statistics::of(&[median, median]),
            peak: 4000.0,
            median_ms: 0.25,
        };
        Run {
            facts: vec![("device".to_owned(), "a: b, c".to_owned())],
            rows: medians.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_run_is_read_back_from_its_csv() -> Result<()> {
        let written = run(&[("softmax_forward 2x3", 2000.0), ("add 7", 12.5)]);
        assert_eq!(Run::from_csv(&written.to_csv())?, written);
        let cut = written.to_csv().replace(",4000.000000", "");
        assert!(Run::from_csv(&cut).is_err());
        assert!(Run::from_csv("a,b\n1,2\n").is_err());
        Ok(())
    }

    #[test]
    fn five_percent_slower_fails_and_less_does_not() -> Result<()> {
        let old = run(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("gone", 1.0)]);
        let new = run(&[("a", 95.1), ("b", 94.9), ("c", 130.0), ("new", 1.0)]);
        let (lines, slower) = new.compare(&old)?;
        assert_eq!((lines.len(), slower), (3, 1));
        assert!(lines[1].ends_with("slower") && !lines[0].ends_with("slower"));
        assert!(run(&[("x", 1.0)]).compare(&old).is_err());
        Ok(())
    }

    #[test]
    fn four_digits_count() {
        let texts = [4060.4, 205.26, 35.123, 8.7, 0.12345, 0.0].map(digits);
        assert_eq!(texts, ["4060", "205.3", "35.12", "8.700", "0.1235", "0"]);
    }
}
