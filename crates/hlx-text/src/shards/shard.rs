//! One shard: its tokens, where documents begin in it, and which tokens are trained on.

use std::ops::Range;
use std::path::{Path, PathBuf};

use hlx_core::files::Source;

use super::foreign;
use super::index::{Index, ShardEntry, shard_files};
use super::words::Width;
use crate::{Result, TextError};

/// Tokens read at once where all are checked.
const CHECKED_AT_A_TIME: u64 = 1 << 20;

/// The files of a shard, whose parts are read when they are needed; ranges and offsets count from its first token.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    path: PathBuf,
    width: Width,
    vocabulary_size: usize,
    /// Bytes before the first token.
    header: usize,
    tokens: Source,
    /// Eight bytes per document: its first token. Without them the shard is one document.
    starts: Option<Source>,
    /// A bit per token, lowest first.
    mask: Option<Source>,
    digests: Option<ShardEntry>,
}

impl Shard {
    /// Opens the files of shard `number` and compares their sizes with the index.
    pub fn open(folder: &Path, number: usize, index: &Index) -> Result<Self> {
        let entry = &index.shards[number];
        let [tokens, starts, mask] = shard_files(folder, number);
        let words = entry.n_tokens.checked_mul(index.dtype.bytes() as u64);
        let mask = match entry.mask_sha256 {
            Some(_) => Some(open(&mask, Some(entry.n_tokens.div_ceil(8)))?),
            None => None,
        };
        Ok(Self {
            width: index.dtype,
            vocabulary_size: index.vocabulary_size,
            header: 0,
            starts: Some(open(&starts, entry.n_documents.checked_mul(8))?),
            mask,
            digests: Some(entry.clone()),
            tokens: open(&tokens, words)?,
            path: tokens,
        })
    }

    /// Opens a file of nanoGPT or llm.c, as one document.
    pub fn open_foreign(path: &Path) -> Result<Self> {
        let file = Source::open(path).map_err(|error| TextError::file(path, error))?;
        Self::of_foreign(file, path)
    }

    /// As [`Shard::open_foreign`], of bytes that are there.
    pub fn of_foreign(bytes: Source, path: &Path) -> Result<Self> {
        let failed = |reason: String| TextError::file(path, reason);
        let start = bytes.read(0..bytes.len().min(foreign::HEADER as u64));
        let start = start.map_err(|error| failed(error.to_string()))?;
        let layout = foreign::layout(&start, bytes.len()).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            width: layout.width,
            vocabulary_size: layout.width.limit() as usize,
            header: layout.header,
            tokens: bytes,
            starts: None,
            mask: None,
            digests: None,
        })
    }

    /// Takes tokens in memory; `starts` and `mask` are as in the files.
    pub fn in_memory(
        vocabulary_size: usize,
        tokens: Vec<u8>,
        starts: Vec<u8>,
        mask: Option<Vec<u8>>,
    ) -> Self {
        Self {
            path: PathBuf::from("documents in memory"),
            width: Width::of(vocabulary_size),
            vocabulary_size,
            header: 0,
            tokens: tokens.into(),
            starts: Some(starts.into()),
            mask: mask.map(Source::from),
            digests: None,
        }
    }

    /// The file of its tokens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tokens.
    pub fn len(&self) -> u64 {
        (self.tokens.len() - self.header as u64) / self.width.bytes() as u64
    }

    /// Documents.
    pub fn n_documents(&self) -> u64 {
        match &self.starts {
            Some(starts) => starts.len() / 8,
            None => u64::from(self.len() > 0),
        }
    }

    /// Whether some of its tokens are not trained on.
    pub fn has_mask(&self) -> bool {
        self.mask.is_some()
    }

    /// Whether the file is llm.c's.
    pub fn is_of_llm_c(&self) -> bool {
        self.header > 0
    }

    /// The vocabulary that the tokens are below, or the width's.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    /// Appends the tokens of a range within the shard.
    ///
    /// # Errors
    /// A token that the vocabulary does not have; a file that was cut short.
    pub fn read(&self, range: Range<u64>, tokens: &mut Vec<u32>) -> Result<()> {
        let size = self.width.bytes() as u64;
        let place = |token: u64| self.header as u64 + token * size;
        let first = tokens.len();
        let words = self.tokens.read(place(range.start)..place(range.end));
        let words = words.map_err(|error| TextError::file(&self.path, error))?;
        self.width.read(&words, tokens);
        let limit = self.vocabulary_size;
        match tokens[first..].iter().position(|&id| id as usize >= limit) {
            Some(at) => {
                let (id, place) = (tokens[first + at], range.start + at as u64);
                let reason = format!(
                    "the token {id} at {place} is out of range: the vocabulary has {limit}"
                );
                Err(TextError::file(&self.path, reason))
            }
            None => Ok(()),
        }
    }

    /// Fails for the first token at or above a limit.
    ///
    /// # Errors
    /// [`TextError::File`] with the token and its place.
    pub fn check_below(&self, limit: usize) -> Result<()> {
        let (mut tokens, mut start) = (Vec::new(), 0);
        while start < self.len() {
            let end = self.len().min(start + CHECKED_AT_A_TIME);
            tokens.clear();
            self.read(start..end, &mut tokens)?;
            if let Some(at) = tokens.iter().position(|&id| id as usize >= limit) {
                let (id, place) = (tokens[at], start + at as u64);
                let reason = format!(
                    "the token {id} at {place} is outside of the model's vocabulary of {limit}"
                );
                return Err(TextError::file(&self.path, reason));
            }
            start = end;
        }
        Ok(())
    }

    /// Appends whether each token of a range is trained on.
    ///
    /// # Errors
    /// A file that was cut short.
    pub fn trained(&self, range: Range<u64>, flags: &mut Vec<bool>) -> Result<()> {
        match &self.mask {
            Some(mask) => {
                let first = range.start / 8;
                let bytes = mask.read(first..range.end.div_ceil(8).max(first));
                let bytes = bytes.map_err(|error| self.failed("mask", error))?;
                let bit = |token: u64| bytes[(token / 8 - first) as usize] >> (token % 8) & 1 == 1;
                flags.extend(range.map(bit));
            }
            None => flags.extend(range.map(|_| true)),
        }
        Ok(())
    }

    /// The tokens of document `number` of this shard.
    ///
    /// # Errors
    /// Starts that do not rise, or lie outside the shard; a file that was cut short.
    pub fn document(&self, number: u64) -> Result<Range<u64>> {
        let Some(starts) = &self.starts else {
            return Ok(0..self.len());
        };
        let start = self.start_of(starts, number)?;
        let end = match number + 1 < self.n_documents() {
            true => self.start_of(starts, number + 1)?,
            false => self.len(),
        };
        let first_is_wrong = number == 0 && start != 0;
        if start >= end || end > self.len() || first_is_wrong {
            let reason = format!("document {number} is said to take the tokens {start} to {end}");
            return Err(TextError::file(&self.path.with_extension("starts"), reason));
        }
        Ok(start..end)
    }

    /// The number of the document that holds a token.
    ///
    /// # Errors
    /// A file that was cut short.
    pub fn document_at(&self, token: u64) -> Result<u64> {
        let Some(starts) = &self.starts else {
            return Ok(0);
        };
        // The first document that starts after the token.
        let (mut low, mut high) = (0, self.n_documents());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.start_of(starts, middle)? <= token {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// Hashes the files and compares them with the index.
    pub fn verify(&self) -> Result<()> {
        let Some(stated) = &self.digests else {
            return Ok(());
        };
        let files = [
            ("bin", Some(&self.tokens), Some(&stated.tokens_sha256)),
            ("starts", self.starts.as_ref(), Some(&stated.starts_sha256)),
            ("mask", self.mask.as_ref(), stated.mask_sha256.as_ref()),
        ];
        for (kind, bytes, stated) in files {
            let (Some(bytes), Some(stated)) = (bytes, stated) else {
                continue;
            };
            let found = bytes.sha256_hex();
            let found = found.map_err(|error| self.failed(kind, error))?;
            if found != *stated {
                let reason = format!("has the SHA-256 {found}, the index states {stated}");
                return Err(TextError::file(&self.path.with_extension(kind), reason));
            }
        }
        Ok(())
    }

    /// The bytes that tell the shard from others: tokens, starts, mask.
    pub fn parts(&self) -> [Option<&Source>; 3] {
        [Some(&self.tokens), self.starts.as_ref(), self.mask.as_ref()]
    }

    /// The first token of document `number`; 2^64 - 1 after the last document.
    fn start_of(&self, starts: &Source, number: u64) -> Result<u64> {
        let mut word = [0; 8];
        if number >= starts.len() / 8 {
            return Ok(u64::MAX);
        }
        let read = starts.read_at(number * 8, &mut word);
        read.map_err(|error| self.failed("starts", error))?;
        Ok(u64::from_le_bytes(word))
    }

    /// The error of one of the shard's files, by its ending.
    fn failed(&self, kind: &str, error: std::io::Error) -> TextError {
        TextError::file(&self.path.with_extension(kind), error)
    }
}

/// Opens a file that must have `stated` bytes.
fn open(path: &Path, stated: Option<u64>) -> Result<Source> {
    let bytes = Source::open(path).map_err(|error| TextError::file(path, error))?;
    let found = bytes.len();
    match stated {
        Some(stated) if stated == found => Ok(bytes),
        Some(stated) => {
            let reason = format!("has {found} bytes, the index states {stated}");
            Err(TextError::file(path, reason))
        }
        None => Err(TextError::file(
            path,
            "the index states more than 2^64 bytes",
        )),
    }
}
