//! Secrets in files: that of the user's choice, and one of this user on this machine.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::{Secret, private};

/// Reads a user's file, which others must not be able to read, of at most this many bytes.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let file = open(path).map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("is no file".to_owned());
    }
    if cfg!(unix) && private::is_open(&found) {
        return Err("other users can read it: `chmod 600` it".to_owned());
    }
    let mut bytes = Vec::new();
    let n = file.take(most as u64 + 1).read_to_end(&mut bytes);
    let n = n.map_err(|error| error.to_string())?;
    match n > most {
        true => Err(format!("more than {most} bytes")),
        false => Ok(bytes),
    }
}

/// Opens a file; a pipe without a writer is opened, too, and not waited for.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty()).map(File::from)?)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The folder of the secret of this user on this machine, and the secret. It is made by the first rank that needs it, and goes
/// with the machine's memory.
pub(super) fn of_user() -> (PathBuf, Result<Secret, String>) {
    let shm = Path::new("/dev/shm");
    let parent = match shm.is_dir() {
        true => shm.to_owned(),
        false => std::env::temp_dir(),
    };
    let folder = parent.join(format!("hlx-user-{}", private::user()));
    let secret = in_folder(&folder);
    (folder, secret)
}

/// Reads the secret of a folder, which is made if it is not there.
pub(super) fn in_folder(folder: &Path) -> Result<Secret, String> {
    let made = match private::create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    let text = |error: io::Error| error.to_string();
    made.and_then(|()| private::check(folder)).map_err(text)?;
    let path = folder.join("secret");
    if fs::symlink_metadata(&path).is_err() {
        put(folder, &path)?;
    }
    let found = String::from_utf8(read(&path, 64)?).unwrap_or_default();
    Secret::from_text(&found).ok_or_else(|| "holds no secret: remove it".to_owned())
}

/// Writes a new secret, unless another process has been faster.
fn put(folder: &Path, path: &Path) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let secret = Secret::random().map_err(|error| error.to_string())?;
    let part = folder.join(private::random_word().map_err(text)?);
    let written = create(&part).and_then(|mut file| file.write_all(secret.to_text().as_bytes()));
    // A link appears whole, and not in the place of one that is there.
    let linked = written.and_then(|()| match fs::hard_link(&part, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let _ = fs::remove_file(&part);
    linked.map_err(text)
}

/// Creates a file that its user alone can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}
