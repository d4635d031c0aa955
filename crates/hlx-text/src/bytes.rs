//! A file's bytes: in memory, or mapped.

use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::{Result, TextError};

/// Bytes that clones share.
#[derive(Clone)]
pub enum SharedBytes {
    /// Made in memory.
    Owned(Arc<[u8]>),
    /// The pages of a file, which the system reads when they are first used and may drop again.
    Mapped(Arc<Mmap>),
}

impl SharedBytes {
    /// Maps a file. Nothing of it is copied, so it may be larger than memory. It must not change while
    /// it is in use.
    ///
    /// # Errors
    /// [`TextError::File`]: a folder, or the system's message.
    pub fn map(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| TextError::file(path, error);
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if found.is_dir() {
            return Err(TextError::file(path, "is a folder"));
        }
        if found.len() == 0 {
            // Nothing can be mapped, and a pipe has no length: what there is is read.
            return Ok(Self::Owned(std::fs::read(path).map_err(failed)?.into()));
        }
        // SAFETY: the mapping is read-only and lives as long as the handle. What another process
        // writes into the file meanwhile would show in the bytes, which nothing relies on: they are
        // read as plain bytes (no `str` is kept), each time anew. The documentation says that
        // a corpus must not change during a run, and digests tell when it did.
        let mapped = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Self::Mapped(Arc::new(mapped)))
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes.into())
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(file) => file,
        }
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
