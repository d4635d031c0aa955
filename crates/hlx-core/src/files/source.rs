//! Bytes that are read by their places: in memory, or in a file that may be larger than memory.
//!
//! A file is not mapped. Another process may shorten or rewrite it at any time: a mapping would then end this process
//! by a signal, or change bytes after a slice. A read of a place is an error where the file was cut short.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::reading;
use crate::bytes::to_hex;

/// Bytes that a pass over all of them reads at a time.
const PIECE: usize = 1 << 20;
/// Bytes of a pointer of git-lfs at most, as its specification says.
const MAX_LFS_POINTER: u64 = 1024;
/// Files that a process holds open at most, whose limit is often 1,024; others are opened for each read.
const MAX_OPEN: usize = 512;
/// How many are.
static N_OPEN: AtomicUsize = AtomicUsize::new(0);

/// Bytes that clones share.
#[derive(Clone)]
pub struct Source {
    bytes: Bytes,
}

#[derive(Clone)]
enum Bytes {
    Memory(Arc<[u8]>),
    File(Arc<SourceFile>),
}

/// A file whose bytes are read by their places.
struct SourceFile {
    path: PathBuf,
    /// The open file; without it, the file is opened for each read.
    file: Option<File>,
    len: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// Opens a regular file; nothing of it is read, except that a small one is checked not to be a git-lfs pointer. Of standard input
    /// everything is read.
    ///
    /// # Errors
    /// As [`open`](super::open); a pointer of git-lfs.
    pub fn open(path: &Path) -> Result<Self> {
        let file = reading::open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(Self::from(reading::read(path)?));
        }
        let bytes = Bytes::File(Arc::new(SourceFile::new(path, file, &found)));
        let source = Self { bytes };
        let is_small = source.len() <= MAX_LFS_POINTER;
        if is_small && reading::is_lfs_pointer(&source.read(0..source.len())?) {
            return Err(Error::new(ErrorKind::InvalidData, reading::IS_LFS_POINTER));
        }
        Ok(source)
    }

    /// Bytes. Of a file, those that it had when it was opened.
    pub fn len(&self) -> u64 {
        match &self.bytes {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::File(file) => file.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, where they are in memory.
    pub fn memory(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Memory(bytes) => Some(bytes),
            Bytes::File(_) => None,
        }
    }

    /// Reads `into.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// Bytes after the end; a file that was cut short or replaced since it was opened; the system's.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(into.len() as u64);
        let Some(end) = end.filter(|&end| end <= self.len()) else {
            return Err(self.behind(offset));
        };
        match &self.bytes {
            Bytes::Memory(bytes) => {
                into.copy_from_slice(&bytes[offset as usize..end as usize]);
                Ok(())
            }
            Bytes::File(file) => file.read_at(offset, into),
        }
    }

    fn behind(&self, place: u64) -> Error {
        let reason = format!("byte {place} is out of range: there are {}", self.len());
        Error::new(ErrorKind::UnexpectedEof, reason)
    }

    /// Reads a range of bytes.
    ///
    /// # Errors
    /// As [`Source::read_at`].
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        // Before memory is taken for it.
        let n_bytes = range.end.checked_sub(range.start);
        let Some(n_bytes) = n_bytes.filter(|_| range.end <= self.len()) else {
            return Err(self.behind(range.end));
        };
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(n_bytes as usize)?;
        bytes.resize(n_bytes as usize, 0);
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Calls `body` with all bytes in order, a MiB at a time.
    ///
    /// # Errors
    /// As [`Source::read_at`].
    pub fn each_piece(&self, mut body: impl FnMut(&[u8])) -> Result<()> {
        if let Some(bytes) = self.memory() {
            bytes.chunks(PIECE).for_each(body);
            return Ok(());
        }
        let mut piece = vec![0; PIECE.min(self.len() as usize)];
        let mut at = 0;
        while at < self.len() {
            let n_bytes = (self.len() - at).min(PIECE as u64);
            let part = &mut piece[..n_bytes as usize];
            self.read_at(at, part)?;
            body(part);
            at += n_bytes;
        }
        Ok(())
    }

    /// The SHA-256 of all bytes as 64 hexadecimal digits.
    ///
    /// # Errors
    /// As [`Source::read_at`].
    pub fn sha256_hex(&self) -> Result<String> {
        let mut hash = Sha256::new();
        self.each_piece(|piece| hash.update(piece))?;
        Ok(to_hex(&hash.finalize()))
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        let bytes = Bytes::Memory(bytes.into());
        Self { bytes }
    }
}

impl From<&[u8]> for Source {
    fn from(bytes: &[u8]) -> Self {
        let bytes = Bytes::Memory(bytes.into());
        Self { bytes }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl SourceFile {
    fn new(path: &Path, file: File, found: &Metadata) -> Self {
        let n_open = N_OPEN.fetch_add(1, Ordering::Relaxed);
        let file = (n_open < MAX_OPEN).then_some(file);
        if file.is_none() {
            N_OPEN.fetch_sub(1, Ordering::Relaxed);
        }
        Self {
            path: path.to_owned(),
            file,
            len: found.len(),
            modified: found.modified().ok(),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = self.open_again()?;
                &opened
            }
        };
        read_exact_at(file, into, offset).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let now = file.metadata().map_or(0, |found| found.len());
                let reason = format!(
                    "was cut short while it was in use: it had {} bytes, now {now}",
                    self.len
                );
                Error::new(ErrorKind::UnexpectedEof, reason)
            }
            _ => error,
        })
    }

    /// Opens the file for one read, if it is the one that was there.
    fn open_again(&self) -> Result<File> {
        let file = reading::open(&self.path)?;
        let found = file.metadata()?;
        match found.len() == self.len && found.modified().ok() == self.modified {
            true => Ok(file),
            false => Err(Error::other("was changed while it was in use")),
        }
    }
}

impl Drop for SourceFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            N_OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, into: &mut [u8], offset: u64) -> Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut into: &mut [u8], mut offset: u64) -> Result<()> {
    use std::os::windows::fs::FileExt;

    while !into.is_empty() {
        match file.seek_read(into, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                into = &mut into[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
