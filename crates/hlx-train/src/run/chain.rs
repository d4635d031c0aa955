//! `chain.jsonl`: the states of a run, record by record, each naming the one before it.
//!
//! A line is a JSON object that ends in `,"digest":"..."}`: the SHA-256 of the line's bytes with
//! that member taken out. `docs/reproducibility.md` has the whole format. A record depends on
//! no device and no time, so runs with the same bits have the same chain, byte for byte.

mod file;
mod line;
mod record;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::files;

pub use file::ChainFile;
pub use record::{Bits, ChainRecord, Origin, tensor_digits};
pub use summary::ChainSummary;

use super::place::Place;
use line::{Link, WAY_OUT, check_follows, unseal};

/// The chain's file in a run folder.
pub const CHAIN_FILE: &str = "chain.jsonl";
/// The format's number. Version 1 (before the specification's number) differs in the identity of
/// the configuration alone, and is still read; a chain of another is refused.
const VERSION: u32 = 2;

/// A record as it was read, with its digest proved.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvedRecord {
    /// The record.
    pub record: ChainRecord,
    /// Its digest.
    pub digest: String,
    /// Bytes of the file up to its line's end.
    end: usize,
}

/// A whole chain, read and proved.
#[derive(Clone, Debug)]
pub struct Chain {
    path: PathBuf,
    records: Vec<ProvedRecord>,
    /// Bytes of the file.
    n_bytes: usize,
    torn: bool,
}

impl Chain {
    /// Reads a chain and proves every record's digest and link. A last line that a crash has cut
    /// short is left out.
    ///
    /// # Errors
    /// The file, the line and what is wrong in it.
    pub fn read(path: &Path) -> Result<Self> {
        let chain = Self::read_until(path, u64::MAX)?;
        ensure!(
            !chain.records.is_empty(),
            "{}: holds no record{WAY_OUT}",
            path.display()
        );
        Ok(chain)
    }

    /// Reads a chain up to the record of the step that a run continues from, or all of it. Later
    /// records will be made again and may be damaged; a chain without a record is allowed.
    ///
    /// # Errors
    /// As [`Chain::read`].
    pub fn read_until(path: &Path, step: u64) -> Result<Self> {
        let bytes = files::read(path).with_context(|| path.display().to_string())?;
        Self::parse(path, &bytes, step)
    }

    fn parse(path: &Path, bytes: &[u8], until: u64) -> Result<Self> {
        let mut end = 0;
        let mut chain = Self {
            path: path.to_owned(),
            records: Vec::new(),
            n_bytes: bytes.len(),
            torn: false,
        };
        for (line_idx, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let place = || format!("{}:{}", path.display(), line_idx + 1);
            let Some(line) = line.strip_suffix(b"\n") else {
                ensure!(
                    unseal(&line[..line.len() - 1]).is_err(),
                    "{}: is damaged: its end is no end of a line{WAY_OUT}",
                    place()
                );
                chain.torn = true;
                break;
            };
            end += line.len() + 1;
            let (record, digest) = unseal(line).with_context(place)?;
            let proved = ProvedRecord {
                record,
                digest,
                end,
            };
            let before = chain.records.last();
            let before = before.map(|before| (before.record.step, &before.digest[..]));
            check_follows(before, &Link::of(&proved.record)).with_context(place)?;
            let step = proved.record.step;
            chain.records.push(proved);
            if step >= until {
                break;
            }
        }
        Ok(chain)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The records; one at least.
    pub fn records(&self) -> &[ProvedRecord] {
        &self.records
    }

    /// What the run is.
    ///
    /// # Errors
    /// None of a chain that was read: its first record has been checked.
    pub fn origin(&self) -> Result<&Origin> {
        let origin = self
            .records
            .first()
            .and_then(|proved| proved.record.origin.as_ref());
        origin.with_context(|| format!("{}: its first record has no origin", self.path.display()))
    }

    /// The record of a step.
    pub fn at(&self, step: u64) -> Option<&ProvedRecord> {
        self.records
            .iter()
            .find(|proved| proved.record.step == step)
    }

    /// Where the steps before a record of this step, or the last one before, were computed; `None` of an arithmetic whose
    /// bits do not depend on it.
    pub fn place_at(&self, step: u64) -> Option<&Place> {
        let until = self
            .records
            .iter()
            .take_while(|proved| proved.record.step <= step);
        until
            .filter_map(|proved| proved.record.place.as_ref())
            .last()
    }

    /// Whether the file ends in a line that a crash has cut short.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// The file's bytes up to the end of a record's line, read anew.
    ///
    /// # Errors
    /// The file and the system's message; a file that has become shorter.
    pub fn bytes_to(&self, record: &ProvedRecord) -> Result<Vec<u8>> {
        let place = || self.path.display().to_string();
        let mut bytes = files::read(&self.path).with_context(place)?;
        ensure!(bytes.len() >= record.end, "{}: has become shorter", place());
        bytes.truncate(record.end);
        Ok(bytes)
    }

    /// The file's bytes up to the end of its last record's line, read anew.
    ///
    /// # Errors
    /// As [`Chain::bytes_to`].
    pub fn proved_bytes(&self) -> Result<Vec<u8>> {
        let last = self.records.last();
        last.map_or_else(|| Ok(Vec::new()), |last| self.bytes_to(last))
    }
}
