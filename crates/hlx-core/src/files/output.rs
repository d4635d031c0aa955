//! Where a result is written: the file that a path names behind its links, which is replaced as one, or a
//! device, a pipe or a terminal, which is written straight.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::temporary::TemporaryFile;
use super::{parent, sync_folder};

type Result<T, E = Error> = std::result::Result<T, E>;

/// As many links are followed as Linux follows.
const MAX_LINKS: usize = 40;

/// A path that a result is written to. Making one touches nothing, so that a program can say what is wrong
/// with a path before it begins its work.
#[derive(Debug)]
pub struct Output {
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A regular file, or none yet, behind every link.
    File(PathBuf),
    /// A device, a named pipe or a descriptor of this process: it has no old content to keep.
    Stream(PathBuf),
    /// Standard output under a name such as `/dev/stdout`. Opened anew, a file that it was redirected to
    /// would be written from its beginning, over what was printed.
    Stdout,
}

impl Output {
    /// Finds what a path names: links are followed, to a file that may not be there yet.
    ///
    /// # Errors
    /// A folder, a file whose folder is missing, links without an end; the system's.
    pub fn at(path: &Path) -> Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            if let Some(number) = descriptor(&path) {
                let target = match number {
                    1 => Target::Stdout,
                    _ => Target::Stream(path),
                };
                return Ok(Self { target });
            }
            let found = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs::metadata(parent(&path))?;
                    let target = Target::File(path);
                    return Ok(Self { target });
                }
                found => found?,
            };
            if found.is_symlink() {
                path = parent(&path).join(fs::read_link(&path)?);
                continue;
            }
            let target = match (found.is_dir(), found.is_file()) {
                (true, _) => return Err(wrong(ErrorKind::IsADirectory, "is a folder")),
                (false, true) => Target::File(path),
                (false, false) => Target::Stream(path),
            };
            return Ok(Self { target });
        }
        Err(wrong(ErrorKind::InvalidInput, "its links have no end"))
    }

    /// Fails where the output is one of the files that are read, under whatever names: by a link, a second
    /// name of the file, or another spelling.
    ///
    /// # Errors
    /// `is the file that is read`.
    pub fn apart_from(self, inputs: &[PathBuf]) -> Result<Self> {
        match &self.target {
            Target::File(path) if is_one_of(path, inputs) => {
                Err(wrong(ErrorKind::InvalidInput, "is the file that is read"))
            }
            _ => Ok(self),
        }
    }

    /// Whether it is the standard output, to which a program then prints nothing else.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Whether two outputs are one file.
    pub fn is_same(&self, other: &Self) -> bool {
        let (Target::File(one), Target::File(two)) = (&self.target, &other.target) else {
            return false;
        };
        let is_same_folder = || is_same_file(parent(one), parent(two));
        is_same_file(one, two) || (one.file_name() == two.file_name() && is_same_folder())
    }

    /// Whether it lies in a folder, at any depth.
    pub fn lies_in(&self, folder: &Path) -> bool {
        let Target::File(path) = &self.target else {
            return false;
        };
        let (path, folder) = (fs::canonicalize(parent(path)), fs::canonicalize(folder));
        path.is_ok_and(|path| folder.is_ok_and(|folder| path.starts_with(folder)))
    }

    /// Writes it. A file is replaced as one: a temporary file beside it is written, flushed to the disk and
    /// renamed, and the folder is flushed; it keeps its permissions. Processes and threads may write one
    /// file at the same time; the last rename wins.
    ///
    /// # Errors
    /// The system's, such as a full disk; an old file is left as it was.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.write_with(|file| file.write_all(bytes))
    }

    /// As [`Output::write`], of what `content` writes piece by piece.
    ///
    /// # Errors
    /// Those of `content`, and as [`Output::write`].
    pub fn write_with<T, E: From<Error>>(
        &self,
        content: impl FnOnce(&mut dyn Write) -> Result<T, E>,
    ) -> Result<T, E> {
        match &self.target {
            Target::File(path) => replace(path, content),
            Target::Stream(path) => content(&mut open_stream(path)?),
            Target::Stdout => {
                let mut stdout = io::stdout().lock();
                let written = content(&mut stdout)?;
                stdout.flush()?;
                Ok(written)
            }
        }
    }

    /// The file behind the links; `None` of what is none.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.target {
            Target::File(path) => Some(path),
            _ => None,
        }
    }
}

/// Replaces a file as one, or writes a device or a pipe straight: [`Output::write`] of a path.
///
/// # Errors
/// As [`Output::at`] and [`Output::write`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    Output::at(path)?.write(bytes)
}

/// As [`write_atomically`], and creates the folder that is to hold the file if it is missing.
///
/// # Errors
/// The system's, such as a full disk; the old file is left as it was.
pub fn write_with_folder(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(parent(path))?;
    write_atomically(path, bytes)
}

fn replace<T, E: From<Error>>(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let mut temporary = TemporaryFile::beside(path)?;
    let written = content(temporary.file())?;
    if cfg!(unix)
        && let Ok(old) = fs::metadata(path)
    {
        // Some file systems have no permissions to set.
        let _ = temporary.file().set_permissions(old.permissions());
    }
    temporary.publish(path)?;
    sync_folder(parent(path))?;
    Ok(written)
}

/// A descriptor may be that of a file that a shell has redirected: what is there stays before what is written.
fn open_stream(path: &Path) -> Result<File> {
    let is_descriptor = descriptor(path).is_some();
    OpenOptions::new()
        .write(true)
        .append(is_descriptor)
        .open(path)
}

/// The number of the descriptor of this process that a path names.
fn descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let folder = fs::canonicalize(parent(path)).ok()?;
    let own = fs::canonicalize("/proc/self/fd");
    let is_own = folder == Path::new("/dev/fd") || own.is_ok_and(|own| own == folder);
    is_own.then_some(number)
}

/// Follows the links of a path that is to be a folder, which may not be there yet.
///
/// # Errors
/// A file, links without an end; the system's.
pub fn folder_behind_links(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => path = parent(&path).join(fs::read_link(&path)?),
            Ok(found) if !found.is_dir() => {
                return Err(wrong(ErrorKind::NotADirectory, "is no folder"));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(path),
        }
    }
    Err(wrong(ErrorKind::InvalidInput, "its links have no end"))
}

/// Whether a path names one of several files, by the identity of the files and not by their names.
pub fn is_one_of(path: &Path, others: &[PathBuf]) -> bool {
    others.iter().any(|other| is_same_file(path, other))
}

/// Whether two paths name one file or folder; not if one is not there.
fn is_same_file(one: &Path, two: &Path) -> bool {
    same_file::is_same_file(one, two).unwrap_or(false)
}

pub(super) fn wrong(kind: ErrorKind, reason: &str) -> Error {
    Error::new(kind, reason)
}
