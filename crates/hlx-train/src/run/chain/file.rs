//! The chain of a run under way: records are appended.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::files;

use super::{Chain, ChainRecord};

/// The chain of a run that continues; records are appended.
pub struct ChainFile {
    file: File,
    path: PathBuf,
    /// The step and the digest of the last record.
    last: Option<(u64, String)>,
}

impl ChainFile {
    /// Opens the chain of a run that continues after `step`, or begins it: records of steps that
    /// will be done again are cut off, and so is a last line cut short by a crash. `found` is what
    /// the file holds, if there is one.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn open_after(path: &Path, found: Option<&Chain>, step: u64) -> Result<Self> {
        let mut records = found.map_or(&[][..], Chain::records).iter().rev();
        let last = records.find(|proved| proved.record.step <= step);
        let end = last.map_or(0, |proved| proved.end);
        let name = || format!("{}: cannot be written", path.display());
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.with_context(name)?;
        if found.is_some_and(|found| end < found.n_bytes) {
            file.set_len(end as u64).with_context(name)?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            last: last.map(|proved| (proved.record.step, proved.digest.clone())),
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The step and the digest of the last record.
    pub fn last(&self) -> Option<(u64, &str)> {
        let last = self.last.as_ref();
        last.map(|(step, digest)| (*step, digest.as_str()))
    }

    /// Fills in `previous` and appends a record in one write.
    ///
    /// # Errors
    /// The file and the system's message, such as a full disk.
    pub fn append(&mut self, mut record: ChainRecord) -> Result<()> {
        let previous = self.last.as_ref();
        record.previous = previous
            .map(|(_, digest)| digest.clone())
            .unwrap_or_default();
        let (mut line, digest) = record.seal()?;
        line.push('\n');
        let name = || format!("{}: cannot be written", self.path.display());
        self.file.write_all(line.as_bytes()).with_context(name)?;
        self.last = Some((record.step, digest));
        Ok(())
    }

    /// Flushes the records to the disk: a checkpoint must not name a record that is lost.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn flush(&self) -> Result<()> {
        let flushed = self
            .file
            .sync_all()
            .and_then(|()| files::sync_folder(files::parent(&self.path)));
        flushed.with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}
