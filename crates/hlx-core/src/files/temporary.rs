//! Files and folders under temporary names, which a rename publishes.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{parent, sync_folder};

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

/// A name beside `path` that no other writer uses, hidden: `.NAME.PID-N.tmp`. Of a long name its beginning,
/// as names of files have up to 255 bytes.
pub fn temporary_beside(path: &Path) -> PathBuf {
    const MAX_BYTES: usize = 200;
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut ends = (0..=name.len().min(MAX_BYTES)).rev();
    let end = ends.find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    let name = &name[..end];
    path.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()))
}

/// Whether a name in a folder is one of [`temporary_beside`]; other hidden files that end in `.tmp` are not
/// HLX's.
pub fn is_temporary(path: &Path) -> bool {
    stem(path).is_some()
}

/// Whether a name in a folder is one of [`temporary_beside`] for a file of this name.
pub(super) fn is_temporary_of(path: &Path, name: &str) -> bool {
    stem(path).is_some_and(|stem| stem == name)
}

/// The name that a temporary name was made of.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, numbers) = name
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    let (process, number) = numbers.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(number)).then(|| stem.to_owned())
}

/// Removes temporary files and folders that are at least `age` old: those that a killed process
/// has left. An age of zero is for a folder that nobody else writes to.
///
/// # Errors
/// The system's.
pub fn remove_temporaries(folder: &Path, age: Duration) -> Result<()> {
    remove_entries(folder, |entry| {
        let old = || -> Result<bool> {
            let since = entry.metadata()?.modified()?.elapsed();
            Ok(age.is_zero() || since.is_ok_and(|since| since >= age))
        };
        Ok(is_temporary(&entry.path()) && old()?)
    })
}

/// Removes the entries of a folder that are chosen; links are removed, and not what they name.
pub(super) fn remove_entries(
    folder: &Path,
    is_chosen: impl Fn(&DirEntry) -> Result<bool>,
) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !is_chosen(&entry)? {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
