//! Writing files so that a crash leaves the old or the new, never a part.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Writes a file under a temporary name, flushes it to the disk and renames it.
///
/// # Errors
/// The file and the system's words, such as a full disk; the old file is left as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let written = write_and_flush(&temporary, bytes).and_then(|()| {
        fs::rename(&temporary, path)?;
        sync_folder(path.parent())
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("{}: cannot be written", path.display()))
}

/// Writes a file and flushes it to the disk.
pub fn write_and_flush(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Flushes a folder's names to the disk, where the system can (Windows cannot).
pub fn sync_folder(folder: Option<&Path>) -> std::io::Result<()> {
    match folder {
        // The parent of a bare file name.
        Some(folder) if cfg!(unix) && folder.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
