//! A section of the page: the rows of devices, the files that they come from, and the GPUs that nobody has tried yet.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::sheet::Sheet;
use crate::peer_table::Comparison;
use crate::rank_table::RankTable;
use crate::step_table::StepTable;
use crate::table::{Facts, fact_of};

/// GPUs whose rows say so until a machine's folder has their files: what the row is called, and words of their names.
const VENDORS: [(&str, &[&str]); 3] = [
    ("AMD GPU", &["AMD", "Radeon"]),
    ("Intel GPU", &["Intel"]),
    ("Apple GPU", &["Apple"]),
];

/// What one machine's folder holds.
pub(super) struct Machine {
    /// The folder's name below benches/results.
    pub folder: String,
    path: PathBuf,
    pub steps: StepTable,
    pub ranks: RankTable,
    pub operations: Comparison,
}

impl Machine {
    /// Reads the folder.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default();
        Ok(Self {
            folder: name.to_string_lossy().into_owned(),
            path: path.to_owned(),
            steps: StepTable::read(path)?,
            ranks: RankTable::read(path)?,
            operations: Comparison::read(path)?,
        })
    }

    /// A file of the folder, if it is there.
    pub fn sheet(&self, file: &str) -> Result<Option<Sheet>> {
        Sheet::read(&self.path.join(file))
    }
}

/// A section's rows, and where they come from.
pub(super) struct Table {
    heading: &'static str,
    about: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    sources: Vec<String>,
    /// The GPUs that have rows.
    gpus: Vec<String>,
    /// Text in the place of rows, for tables of other forms.
    body: String,
    /// Whether GPUs have no rows at all.
    is_of_cpus: bool,
}

impl Table {
    /// A section without rows; the columns are separated by bars.
    pub fn new(heading: &'static str, about: &'static str, columns: &'static str) -> Self {
        Self {
            heading,
            about,
            columns: columns.split('|').collect(),
            rows: Vec::new(),
            sources: Vec::new(),
            gpus: Vec::new(),
            body: String::new(),
            is_of_cpus: false,
        }
    }

    /// The section, which expects no rows of GPUs.
    pub fn of_cpus(self) -> Self {
        Self {
            is_of_cpus: true,
            ..self
        }
    }

    /// Adds a row of a device.
    pub fn add(&mut self, facts: &Facts, cells: impl IntoIterator<Item = String>) {
        let device = label(facts);
        if is_gpu(facts) && !self.gpus.contains(&device) {
            self.gpus.push(device.clone());
        }
        self.rows
            .push(std::iter::once(device).chain(cells).collect());
    }

    /// Adds a table of another form below the rows.
    pub fn add_text(&mut self, facts: &Facts, text: &str) {
        if is_gpu(facts) {
            self.gpus.push(label(facts));
        }
        self.body += &format!("{}:\n\n{}", label(facts), text.trim_start());
    }

    /// Names the file that rows come from.
    pub fn source(&mut self, machine: &Machine, file: &str, facts: &Facts) {
        let shown = facts
            .iter()
            .filter(|(key, _)| !["device", "kind"].contains(&key.as_str()));
        let parts: Vec<String> = shown
            .map(|(key, value)| match key.as_str() {
                "date" => value.clone(),
                "command" => format!("`{value}`"),
                _ => format!("{key}: {value}"),
            })
            .collect();
        let path = format!("../benches/results/{}/{file}", machine.folder);
        self.sources.push(format!(
            "- {}: {} [CSV]({path})",
            label(facts),
            parts.join("; ")
        ));
    }

    /// The section's text.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("\n## {}\n\n{}\n\n", self.heading, self.about);
        let untried: Vec<&str> = VENDORS
            .iter()
            .filter(|_| !self.is_of_cpus)
            .filter(|(_, words)| {
                !self
                    .gpus
                    .iter()
                    .any(|gpu| words.iter().any(|word| gpu.contains(word)))
            })
            .map(|(name, _)| *name)
            .collect();
        if self.columns.len() > 1 {
            let width = self.columns.len();
            text += &format!(
                "| {} |\n{}|\n",
                self.columns.join(" | "),
                "|---".repeat(width)
            );
            for row in &self.rows {
                text += &format!("| {} |\n", row.join(" | "));
            }
            for name in &untried {
                text += &format!("| {name} | untried{} |\n", " | ".repeat(width - 2));
            }
            text += "\n";
        }
        text += &self.body;
        if self.columns.len() == 1 {
            text += &format!("{}: untried.\n\n", untried.join(", "));
        }
        let mut sources = self.sources.clone();
        sources.dedup();
        if !sources.is_empty() {
            text += &format!("{}\n", sources.join("\n"));
        }
        text
    }
}

fn fact<'a>(facts: &'a Facts, key: &str) -> &'a str {
    fact_of(facts, key).unwrap_or_default()
}

/// The threads of a CPU; nothing of other devices.
fn threads(facts: &Facts) -> Option<&str> {
    let own = fact(facts, "threads");
    if !own.is_empty() {
        return Some(own);
    }
    // HLX calls the CPU device by its processor and its threads.
    let (_, last) = fact(facts, "hlx").rsplit_once(", ")?;
    last.strip_suffix(" threads)")
}

/// What rows call a device.
pub(super) fn label(facts: &Facts) -> String {
    let device = fact(facts, "device").replace('|', "/");
    match threads(facts) {
        Some(threads) => format!("{device}, CPU, {threads} threads"),
        None => device,
    }
}

/// Whether a device is a GPU, and neither the CPU nor a software driver.
pub(super) fn is_gpu(facts: &Facts) -> bool {
    threads(facts).is_none() && !fact(facts, "device").contains("llvmpipe")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn processors_are_no_gpus_of_their_vendor() {
        let cpu = facts(&[("device", "AMD EPYC"), ("threads", "2")]);
        let old = facts(&[
            ("device", "AMD EPYC"),
            ("hlx", "HLX 0.1.0, AMD EPYC, hlx 0.1.0 (avx512, 2 threads)"),
        ]);
        let gpu = facts(&[("device", "AMD Radeon PRO W7900"), ("date", "2026-11-27")]);
        assert_eq!(label(&cpu), "AMD EPYC, CPU, 2 threads");
        assert_eq!(label(&old), label(&cpu));
        let mut table = Table::new("A", "B", "device|ms");
        table.add(&cpu, ["1.0".to_owned()]);
        let text = table.to_markdown();
        assert!(
            text.contains("| AMD GPU | untried |") && text.contains("| Apple GPU |"),
            "{text}"
        );
        table.add(&gpu, ["2.0".to_owned()]);
        let text = table.to_markdown();
        assert!(
            !text.contains("AMD GPU") && text.contains("| Intel GPU | untried |"),
            "{text}"
        );
    }
}
