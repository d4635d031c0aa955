//! `chain.jsonl`: the states of a run, record by record, each naming the one before it.
//!
//! A line is a JSON object that ends in `,"digest":"..."}`: the SHA-256 of the line's bytes with
//! that member taken out. `docs/reproducibility.md` has the whole format. A record depends on
//! no device and no time, so runs with the same bits have the same chain, byte for byte.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use hlx_core::digest::{canonical_bits, sha256_hex};
use hlx_core::{SPECIFICATION, files};
use hlx_nn::StateDigest;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::specification_before_numbers;
use crate::config::Config;

/// The chain's file in a run folder.
pub const CHAIN_FILE: &str = "chain.jsonl";
/// The format's number. Version 1 (before the specification's number) differs in the identity of
/// the configuration alone, and is still read; a chain of another is refused.
const VERSION: u32 = 2;
/// What precedes a line's digest.
const SEAL: &str = ",\"digest\":\"";
/// Bytes of a line's end: the seal, 64 digits and `"}`.
const SEALED_BYTES: usize = SEAL.len() + 64 + 2;
/// Hexadecimal digits that a record has of each tensor's digest.
const TENSOR_DIGITS: usize = 16;

/// One record: the digests of the state after a step, and the loss and the gradient norm of each
/// step since the record before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainRecord {
    /// Steps done.
    pub step: u64,
    /// The epoch of the next step.
    pub epoch: u64,
    /// The next step's batch within the epoch.
    pub batch_idx: u64,
    /// The identity of the run; in the first record alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The loss of each step since the record before: the sum over the bytes predicted.
    pub losses: Vec<Bits>,
    /// The gradient's norm, before clipping, of each of these steps.
    pub norms: Vec<Bits>,
    /// The tree digest of all parameters.
    pub parameters: String,
    /// The tree digest of the optimizer's tensors.
    pub optimizer: String,
    /// The first 16 digits of each tensor's root: parameters, then the optimizer's tensors.
    pub tensors: Vec<String>,
    /// The digest of the record before; empty in the first.
    pub previous: String,
}

/// The identity of a run: the specification, the arithmetic, the configuration and the corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The format's number.
    pub version: u32,
    /// [`SPECIFICATION`] of the program that began the run; 1 where it is missing.
    #[serde(default = "specification_before_numbers")]
    pub specification: u32,
    /// The arithmetic: `portable`.
    #[serde(alias = "profile")]
    pub arithmetic: String,
    /// [`Config::identity_digest`], as in the checkpoints; of version 1 what
    /// [`Config::digest_before_identities`] returns.
    pub config: String,
    /// SHA-256 of the corpus.
    pub data: String,
}

impl Origin {
    /// Describes a run of this configuration and corpus.
    pub fn new(arithmetic: &str, config: String, data: &str) -> Self {
        Self {
            version: VERSION,
            specification: SPECIFICATION,
            arithmetic: arithmetic.to_owned(),
            config,
            data: data.to_owned(),
        }
    }

    /// The digest by which this chain identifies a configuration.
    ///
    /// # Errors
    /// As [`Config::identity_digest`].
    pub fn digest_of(&self, config: &Config) -> Result<String> {
        match self.version {
            1 => config.digest_before_identities(),
            _ => config.identity_digest(),
        }
    }
}

/// The bits of an f32, every NaN as one; written as 8 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bits(pub u32);

impl Bits {
    /// The value.
    pub fn value(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Bits {
    fn from(value: f32) -> Self {
        Self(canonical_bits(value))
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl From<Bits> for String {
    fn from(bits: Bits) -> Self {
        bits.to_string()
    }
}

impl TryFrom<String> for Bits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bits = u32::from_str_radix(&text, 16).ok().map(Self);
        bits.filter(|bits| bits.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no f32 in 8 hexadecimal digits"))
    }
}

/// The digits that a record has of a root.
pub fn tensor_digits(root: &impl fmt::Display) -> String {
    let mut digits = root.to_string();
    digits.truncate(TENSOR_DIGITS);
    digits
}

impl ChainRecord {
    /// Makes the record of a state without steps after it.
    pub fn new(step: u64, epoch: u64, batch_idx: u64, state: &StateDigest) -> Self {
        let tensors = state.parameters.tensors.iter();
        Self {
            step,
            epoch,
            batch_idx,
            origin: None,
            losses: Vec::new(),
            norms: Vec::new(),
            parameters: state.parameters.root.to_string(),
            optimizer: state.optimizer.root.to_string(),
            tensors: tensors
                .chain(&state.optimizer.tensors)
                .map(|tensor| tensor_digits(&tensor.root))
                .collect(),
            previous: String::new(),
        }
    }

    /// Whether two records are of the same state: step, cursor and digests.
    pub fn same_state(&self, other: &Self) -> bool {
        let state = |record: &Self| (record.step, record.epoch, record.batch_idx);
        let digests = |record: &Self| (record.parameters.clone(), record.optimizer.clone());
        state(self) == state(other)
            && digests(self) == digests(other)
            && self.tensors == other.tensors
    }

    /// Returns the record's line, without its end, and its digest.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn seal(&self) -> Result<(String, String)> {
        let mut line = serde_json::to_string(self)?;
        let digest = sha256_hex(line.as_bytes());
        line.pop();
        line.push_str(&format!("{SEAL}{digest}\"}}"));
        Ok((line, digest))
    }
}

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
            "{}: holds no record",
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
                    "{}: is damaged: its end is no end of a line",
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

/// What a chain comes to, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSummary {
    /// Records, each of whose digest and link is proved.
    pub links: u64,
    /// The step of the first.
    pub first_step: u64,
    /// The step of the last.
    pub head_step: u64,
    /// The digest of the last, which covers all of them.
    pub head: String,
    /// What the run is.
    pub origin: Origin,
    /// Whether the file ends in a line that a crash has cut short.
    pub is_torn: bool,
}

/// What of a record is proved against the one before.
#[derive(Deserialize)]
struct Link {
    step: u64,
    #[serde(default)]
    origin: Option<Origin>,
    losses: Vec<IgnoredAny>,
    norms: Vec<IgnoredAny>,
    previous: String,
}

impl Link {
    fn of(record: &ChainRecord) -> Self {
        Self {
            step: record.step,
            origin: record.origin.clone(),
            losses: vec![IgnoredAny; record.losses.len()],
            norms: vec![IgnoredAny; record.norms.len()],
            previous: record.previous.clone(),
        }
    }
}

impl ChainSummary {
    /// Proves every digest and link of a chain as [`Chain::read`] does, and holds no record: a long chain takes half the
    /// time.
    ///
    /// # Errors
    /// As [`Chain::read`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = files::read(path).with_context(|| path.display().to_string())?;
        let mut found: Option<Self> = None;
        for (line_idx, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let place = || format!("{}:{}", path.display(), line_idx + 1);
            let Some(line) = line.strip_suffix(b"\n") else {
                // Whether it is a line whose end is damaged is said as a reading of the records says it.
                Chain::parse(path, &bytes, u64::MAX)?;
                if let Some(found) = &mut found {
                    found.is_torn = true;
                }
                break;
            };
            let digest = proved(line).with_context(place)?.1;
            let link: std::result::Result<Link, _> = serde_json::from_slice(line);
            let link = link
                .map_err(|error| anyhow!("is no record: {error}"))
                .with_context(place)?;
            let before = found
                .as_ref()
                .map(|found| (found.head_step, &found.head[..]));
            check_follows(before, &link).with_context(place)?;
            match &mut found {
                Some(found) => {
                    found.links += 1;
                    (found.head_step, found.head) = (link.step, digest);
                }
                None => {
                    let origin = link.origin.context("its first record has no origin")?;
                    found = Some(Self {
                        links: 1,
                        first_step: link.step,
                        head_step: link.step,
                        head: digest,
                        origin,
                        is_torn: false,
                    });
                }
            }
        }
        found.with_context(|| format!("{}: holds no record", path.display()))
    }
}

/// Reads a line and proves its digest.
fn unseal(line: &[u8]) -> Result<(ChainRecord, String)> {
    let (body, digest) = proved(line)?;
    let body = [body, b"}"].concat();
    let record = serde_json::from_slice(&body).map_err(|error| anyhow!("is no record: {error}"))?;
    Ok((record, digest))
}

/// A line's bytes without its digest and the end, and the digest, which is theirs.
fn proved(line: &[u8]) -> Result<(&[u8], String)> {
    let sealed = line.len().checked_sub(SEALED_BYTES);
    let (body, end) = sealed
        .and_then(|at| line.split_at_checked(at))
        .ok_or_else(|| anyhow!("is no record of a chain: it is too short"))?;
    let stated = end
        .strip_prefix(SEAL.as_bytes())
        .and_then(|end| end.strip_suffix(b"\"}"))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .ok_or_else(|| anyhow!("is damaged: it does not end in its digest"))?;
    let mut hash = Sha256::new();
    hash.update(body);
    hash.update(b"}");
    let digest = hex(&hash.finalize());
    ensure!(
        digest == stated,
        "is damaged: its SHA-256 is {digest}, it says {stated}"
    );
    Ok((body, digest))
}

/// Digits of a digest.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// Fails unless a record may follow another, or be the first.
fn check_follows(before: Option<(u64, &str)>, link: &Link) -> Result<()> {
    let Link {
        step,
        origin,
        losses,
        norms,
        previous,
    } = link;
    let Some((from, digest)) = before else {
        let Some(origin) = origin else {
            bail!("is not the first record of a chain: records before it are missing");
        };
        ensure!(
            (1..=VERSION).contains(&origin.version),
            "is of version {} of the format, expected 1 to {VERSION}",
            origin.version
        );
        ensure!(previous.is_empty(), "names a record before it, {previous}");
        return Ok(());
    };
    ensure!(
        previous == digest,
        "names {previous} as the record before it, which is {digest}: records are missing or replaced"
    );
    ensure!(
        *step > from && origin.is_none(),
        "is of step {step} behind a record of step {from}"
    );
    let expected = step - from;
    for (what, found) in [("losses", losses.len()), ("norms", norms.len())] {
        ensure!(
            found as u64 == expected,
            "holds {found} {what} of steps {} to {step}, expected {expected}",
            from + 1
        );
    }
    Ok(())
}

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
