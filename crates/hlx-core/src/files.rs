//! Files: reading regular ones of a bounded size; writing so that a crash leaves the old one or the new one, never
//! a part; where caches are.
//!
//! All that HLX reads as a whole passes through [`read`], [`read_settings`] and [`Source`]. All that HLX writes under a name passes through here: one file as an [`Output`], a folder that is made
//! at once by [`write_folder_atomically`], and files that belong together by [`write_set`].
//! `cargo xtask lint` finds code that writes past it.

mod mark;
mod output;
mod reading;
mod set;
mod source;
mod temporary;

use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};

pub use mark::{MARK_FILE, check_free, mark};
pub use output::{Output, folder_behind_links, is_one_of, write_atomically, write_with_folder};
pub use reading::{
    BYTE_ORDER_MARK, IS_LFS_POINTER, MAX_DATA, MAX_SETTINGS, is_lfs_pointer, look, open, read,
    read_at_most, read_json, read_settings, read_settings_text,
};
pub use set::{WrittenFile, place, write_set, write_set_with};
pub use source::Source;
pub use temporary::{
    TemporaryFile, TemporaryFolder, is_temporary, remove_temporaries, temporary_beside,
    write_and_sync, write_folder_atomically,
};

/// Flushes a folder's names to the disk, so that files created, renamed or removed in it stay so
/// after a loss of power. Windows has no such call, and does nothing here.
///
/// # Errors
/// The system's.
pub fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        return File::open(folder)?.sync_all();
    }
    Ok(())
}

/// The folder that holds a path: `.` of a bare name.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The folder of HLX's caches: `HLX_CACHE_DIR`, else `hlx` below the user's cache folder.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("HLX_CACHE_DIR") {
        return Some(PathBuf::from(dir));
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("LOCALAPPDATA").map(PathBuf::from))
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(base.join("hlx"))
}

#[cfg(test)]
mod tests;
