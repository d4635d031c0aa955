//! ZIP files with the same bytes whoever makes them, for Windows.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::entries::Entry;

/// Writes a ZIP file; its times are those of the calendar's first day that the format has: it knows no time zone.
///
/// # Errors
/// A file that cannot be read, or the archive that cannot be written.
pub fn write(entries: &[Entry], out: &Path, _epoch: u64) -> Result<()> {
    let mut zip = ZipWriter::new(File::create(out)?);
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(6))
            .last_modified_time(DateTime::default())
            .unix_permissions(entry.mode);
        zip.start_file(&entry.name, options)?;
        zip.write_all(&entry.bytes()?)
            .with_context(|| entry.name.clone())?;
    }
    zip.finish()?;
    Ok(())
}
