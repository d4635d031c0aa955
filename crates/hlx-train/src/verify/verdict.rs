//! `verified.jsonl`: what the verifications of a run have found, a line each, for those who read about the run.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use hlx_core::files;
use serde::{Deserialize, Serialize};

use super::{Difference, Report};
use crate::run::{RunFolder, warn_of_damaged_lines};

/// A line of the file. It says what a program has found and proves nothing: whoever doubts it verifies again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// When, as RFC 3339 writes it.
    pub time: String,
    /// HLX's version.
    pub hlx: String,
    /// The device that recomputed the stretch.
    pub device: String,
    /// Steps done in the state that it began with.
    pub from: u64,
    /// The step of the last requested record.
    pub to: u64,
    /// Records compared.
    pub records: u64,
    /// Checkpoints compared, element by element.
    pub checkpoints: u64,
    /// Whether all of it was equal.
    pub equal: bool,
    /// The step of the last record that is equal.
    pub equal_to: Option<u64>,
    /// The digest of that record.
    pub digest: String,
    /// The first difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

impl Verdict {
    /// What a report says, now.
    pub fn of(report: &Report) -> Self {
        Self {
            time: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            hlx: env!("CARGO_PKG_VERSION").to_owned(),
            device: report.device.clone(),
            from: report.from,
            to: report.to,
            records: report.records,
            checkpoints: report.checkpoints,
            equal: report.difference.is_none(),
            equal_to: report.equal_to,
            digest: report.digest.clone(),
            difference: report.difference.clone(),
        }
    }

    /// Appends the line to the run's file.
    ///
    /// # Errors
    /// The file and the system's message, such as a folder that cannot be written.
    pub fn append(&self, folder: &RunFolder) -> Result<()> {
        let path = folder.verdicts_path();
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(&line));
        written.with_context(|| format!("{}: cannot be written", path.display()))
    }

    /// The verdicts on a run, the oldest first; lines that cannot be read are left out with a warning.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn read_all(folder: &RunFolder) -> Result<Vec<Self>> {
        let path = folder.verdicts_path();
        let bytes = match files::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.with_context(|| path.display().to_string())?,
        };
        let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
        let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
        let mut damaged = Vec::new();
        let read = |(number, line): (u64, &[u8])| {
            let verdict = serde_json::from_slice(line);
            verdict.map_err(|_| damaged.push(number)).ok()
        };
        let verdicts = lines.filter_map(read).collect();
        warn_of_damaged_lines(&path, &damaged);
        Ok(verdicts)
    }
}
