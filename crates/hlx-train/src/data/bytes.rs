//! A corpus's bytes: in memory, or mapped from its file.

use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use memmap2::Mmap;

/// Bytes that clones share.
#[derive(Clone)]
pub(super) enum CorpusBytes {
    /// Made in memory.
    Owned(Arc<[u8]>),
    /// The pages of a file, which the system reads when they are first used and may drop again.
    Mapped(Arc<Mmap>),
}

impl CorpusBytes {
    /// Maps a file. Nothing of it is copied: a corpus may be larger than memory.
    ///
    /// # Errors
    /// The system's message.
    pub fn map(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let file = File::open(path).with_context(name)?;
        let found = file.metadata().with_context(name)?;
        ensure!(!found.is_dir(), "{}: is a folder", name());
        if found.len() == 0 {
            // Nothing can be mapped, and a pipe has no length: what there is is read.
            return Ok(Self::Owned(std::fs::read(path).with_context(name)?.into()));
        }
        // SAFETY: the mapping is read-only and lives as long as the handle. What another process
        // writes into the file meanwhile would show in the bytes, which nothing relies on: they are
        // read as plain bytes (no `str` is kept), each sample anew. The documentation says
        // that a corpus must not change during a run, and its digest is checked when a run goes on.
        let mapped = unsafe { Mmap::map(&file) }.with_context(name)?;
        Ok(Self::Mapped(Arc::new(mapped)))
    }
}

impl Deref for CorpusBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(file) => file,
        }
    }
}

impl fmt::Debug for CorpusBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Format;
    use crate::data::Dataset;

    #[test]
    fn a_text_is_mapped_and_has_the_samples_and_the_digest_of_its_bytes() {
        let path = std::env::temp_dir().join(format!("hlx-corpus-{}", std::process::id()));
        let text = "the cat sat on the mat. ".repeat(9);
        std::fs::write(&path, &text).expect("writes");
        let mapped = Dataset::load(&path, Format::Text, 16).expect("loads");
        let read = Dataset::from_bytes(text.as_bytes(), "d", Format::Text, 16).expect("loads");
        assert!(matches!(mapped.bytes, CorpusBytes::Mapped(_)));
        assert_eq!(mapped.digest(), read.digest());
        assert_eq!(mapped.len(), read.len());
        for index in 0..read.len() {
            assert_eq!(mapped.sample(index), read.sample(index));
        }
        std::fs::write(&path, "").expect("writes");
        let error = Dataset::load(&path, Format::Text, 16).expect_err("empty");
        assert!(error.to_string().ends_with("holds no data"), "{error}");
        std::fs::remove_file(&path).expect("cleared");
        let error = Dataset::load(&std::env::temp_dir(), Format::Text, 16).expect_err("a folder");
        assert!(error.to_string().ends_with("is a folder"), "{error}");
    }
}
