//! Writing files so that a crash leaves the old one or the new one, never a part; where caches are.

use std::fs::{self, File, OpenOptions};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Replaces a file as one: writes a temporary file beside it, flushes it to the disk, renames it
/// and flushes the folder. Processes and threads may write one file at the same time; the last
/// rename wins.
///
/// # Errors
/// The system's, such as a full disk; the old file is left as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary_beside(path);
    let written = write_and_sync(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(parent(path)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// As [`write_atomically`], and creates the folder that is to hold the file if it is missing.
///
/// # Errors
/// The system's, such as a full disk; the old file is left as it was.
pub fn write_with_folder(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(parent(path))?;
    write_atomically(path, bytes)
}

/// Makes a folder of files as one: a temporary folder beside it is filled, flushed to the disk and
/// renamed. The folder must not be there.
///
/// # Errors
/// The system's, such as a full disk; nothing is left behind.
pub fn write_folder_atomically(path: &Path, contents: &[(&str, &[u8])]) -> Result<()> {
    let temporary = temporary_beside(path);
    let fill = || -> Result<()> {
        fs::create_dir(&temporary)?;
        for (name, bytes) in contents {
            write_and_sync(&temporary.join(name), bytes)?;
        }
        sync_folder(&temporary)?;
        fs::rename(&temporary, path)?;
        sync_folder(parent(path))
    };
    let written = fill();
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    written
}

/// Writes a file that must not exist yet, and flushes it to the disk; its folder is not flushed.
///
/// # Errors
/// The system's; `AlreadyExists` if the file is there.
pub fn write_and_sync(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

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

/// A name beside `path` that no other writer uses, hidden: `.NAME.PID-N.tmp`.
pub fn temporary_beside(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()))
}

/// Whether a name in a folder is one of [`temporary_beside`].
pub fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Removes temporary files and folders that are at least `age` old: those that a killed process
/// has left. An age of zero is for a folder that nobody else writes to.
///
/// # Errors
/// The system's.
pub fn remove_temporaries(folder: &Path, age: Duration) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let old = || -> Result<bool> {
            let since = entry.metadata()?.modified()?.elapsed();
            Ok(age.is_zero() || since.is_ok_and(|since| since >= age))
        };
        if !is_temporary(&path) || !old()? {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
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
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_temporaries_go() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("hlx-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let path = folder.join("a.bin");
        write_atomically(&path, b"old")?;
        write_atomically(&path, b"new")?;
        assert_eq!(fs::read(&path)?, b"new");
        assert!(
            write_and_sync(&path, b"again").is_err(),
            "an existing file is kept"
        );
        let left = temporary_beside(&path);
        assert!(is_temporary(&left) && left != temporary_beside(&path));
        fs::write(&left, b"half")?;
        fs::create_dir(folder.join(".step-1.tmp"))?;
        remove_temporaries(&folder, Duration::from_secs(3600))?;
        assert!(left.exists(), "another process may be writing it");
        remove_temporaries(&folder, Duration::ZERO)?;
        assert_eq!(fs::read_dir(&folder)?.count(), 1);
        let missing = folder.join("no/file");
        assert!(write_atomically(&missing, b"x").is_err());
        write_with_folder(&missing, b"x")?;
        assert_eq!(fs::read(&missing)?, b"x");
        fs::remove_dir_all(&folder)
    }

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        assert_eq!(parent(Path::new("a")), Path::new("."));
        assert_eq!(parent(Path::new("a/b")), Path::new("a"));
    }
}
