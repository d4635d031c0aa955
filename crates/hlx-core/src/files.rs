//! Writing files so that a crash leaves the old one or the new one, never a part; where caches are.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
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
    let mut temporary = TemporaryFile::beside(path)?;
    temporary.file().write_all(bytes)?;
    temporary.publish(path)?;
    sync_folder(parent(path))
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
    let folder = TemporaryFolder::beside(path)?;
    for (name, bytes) in contents {
        write_and_sync(&folder.path().join(name), bytes)?;
    }
    folder.publish(path)
}

/// A folder under a temporary name, whose files are written one by one, by other processes too. It is
/// removed when it is dropped, unless it was published.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    published: bool,
}

impl TemporaryFolder {
    /// Creates an empty folder beside `path`.
    ///
    /// # Errors
    /// The system's.
    pub fn beside(path: &Path) -> Result<Self> {
        let (path, ()) = create_temporary(path, |name| fs::create_dir(name))?;
        let published = false;
        Ok(Self { path, published })
    }

    /// Its name for now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes the folder's names and renames it; its files must have been flushed. Nothing may be there
    /// under the new name.
    ///
    /// # Errors
    /// The system's; the temporary folder is removed then.
    pub fn publish(mut self, path: &Path) -> Result<()> {
        sync_folder(&self.path)?;
        fs::rename(&self.path, path)?;
        self.published = true;
        sync_folder(parent(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
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

/// A file under a temporary name, for content that is written piece by piece. It is removed when it
/// is dropped, unless it was published.
pub struct TemporaryFile {
    // Before the name, so that it is closed when the name is removed: Windows needs that.
    file: File,
    name: TemporaryName,
}

struct TemporaryName {
    path: PathBuf,
    published: bool,
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl TemporaryFile {
    /// Creates an empty file, open for writing and reading, in the folder of `path`.
    ///
    /// # Errors
    /// The system's.
    pub fn beside(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let (path, file) = create_temporary(path, |name| options.open(name))?;
        let published = false;
        let name = TemporaryName { path, published };
        Ok(Self { file, name })
    }

    /// The file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Its name for now.
    pub fn path(&self) -> &Path {
        &self.name.path
    }

    /// Flushes the content to the disk, closes the file and renames it: a crash leaves no name
    /// without its content. A file of that name is replaced; the folder is not flushed.
    ///
    /// # Errors
    /// The system's; the temporary file is removed then.
    pub fn publish(self, path: &Path) -> Result<()> {
        let Self { file, mut name } = self;
        file.sync_all()?;
        drop(file);
        fs::rename(&name.path, path)?;
        name.published = true;
        Ok(())
    }
}

/// Creates something under a temporary name beside `path`. A killed process of the same number may
/// have left one of that name: in a container, numbers come back at every start.
fn create_temporary<T>(
    path: &Path,
    mut create: impl FnMut(&Path) -> Result<T>,
) -> Result<(PathBuf, T)> {
    loop {
        let name = temporary_beside(path);
        match create(&name) {
            Ok(created) => return Ok((name, created)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
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
    fn a_leftover_of_a_process_with_the_same_number_is_passed_over() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("hlx-leftover-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let path = folder.join("a.bin");
        // The names that come next; other tests of this process use some of them up.
        let next = temporary_beside(&path).display().to_string();
        let (stem, number) = next
            .trim_end_matches(".tmp")
            .rsplit_once('-')
            .expect("a number");
        let number: u64 = number.parse().expect("a number");
        for number in number..number + 40 {
            fs::write(format!("{stem}-{number}.tmp"), b"half")?;
        }
        write_atomically(&path, b"whole")?;
        assert_eq!(fs::read(&path)?, b"whole");
        write_folder_atomically(&folder.join("b"), &[("c", b"whole")])?;
        fs::remove_dir_all(&folder)
    }

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        assert_eq!(parent(Path::new("a")), Path::new("."));
        assert_eq!(parent(Path::new("a/b")), Path::new("a"));
    }
}
