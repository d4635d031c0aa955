//! Files of a folder that belong together, such as a model's weights, sizes and tokenizer, replaced as one.
//!
//! They are written to a temporary folder, which one rename makes `pending`: from then on the new ones
//! count, and [`place`] finds them there. Then they are moved to their places. For programs that know nothing
//! of `pending`, the last file of the list is the one without which they read nothing: it is removed first
//! and moved last, so that they never find new files beside old ones. What a kill leaves is completed by the
//! next [`write_set`].

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::output::wrong;
use super::temporary::{TemporaryFolder, is_temporary_of, remove_entries, write_and_sync};
use super::{Output, parent, read_settings, sync_folder, write_atomically};

/// The folder inside of the set's that holds the files until they are moved to their places.
pub(super) const PENDING: &str = "pending";
/// The list of a set's files, in `pending`.
const LIST_FILE: &str = "set.json";
/// What versions of HLX that wrote no list had in `pending`.
const OLDER: [&str; 2] = ["model.safetensors", "config.json"];

/// What a set changes in its folder.
#[derive(Serialize, Deserialize)]
struct List {
    /// The files, in the order in which they are moved.
    files: Vec<String>,
    /// Files of an older set that this one does not have.
    removed: Vec<String>,
}

impl List {
    /// The list of the set that is pending in a folder.
    fn pending(folder: &Path) -> Option<Self> {
        let pending = folder.join(PENDING);
        if let Ok(bytes) = read_settings(&pending.join(LIST_FILE)) {
            let list = serde_json::from_slice(&bytes).ok();
            return list.filter(Self::is_within);
        }
        let mut entries = fs::read_dir(pending).ok()?;
        let is_older = entries.all(|entry| {
            entry.is_ok_and(|entry| OLDER.iter().any(|name| entry.file_name() == *name))
        });
        is_older.then(|| Self {
            files: OLDER.map(str::to_owned).to_vec(),
            removed: Vec::new(),
        })
    }

    /// Whether all names are those of files in the folder. A folder may come from a stranger, whose list must
    /// not move or remove files elsewhere.
    fn is_within(&self) -> bool {
        let mut names = self.files.iter().chain(&self.removed);
        names.all(|name| {
            let mut parts = Path::new(name).components();
            matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            )
        })
    }
}

/// Where a file of a set lies: in `pending` until it is moved. Of a file that the pending set removes the path
/// names nothing.
pub fn place(folder: &Path, name: &str) -> PathBuf {
    let pending = folder.join(PENDING);
    if pending.is_dir()
        && let Some(list) = List::pending(folder)
    {
        let is_in = |names: &[String]| names.iter().any(|one| one == name);
        let staged = pending.join(name);
        if is_in(&list.removed) || (is_in(&list.files) && staged.is_file()) {
            return staged;
        }
    }
    folder.join(name)
}

/// Writes files of a folder together: at any moment [`place`] finds all old ones or all new ones. The folder is
/// made if it is not there, links are followed. `removed` are names that an older set may have; those that are
/// not among the new files are removed. The last file is the one without which other programs read nothing.
///
/// # Errors
/// A name that a folder has, a folder that another process is writing to; the system's, such as a full disk,
/// which leaves the old files as they were.
pub fn write_set(folder: &Path, files: &[(&str, &[u8])], removed: &[&str]) -> Result<()> {
    write_set_with(folder, &mut [], files, removed)
}

/// A file of a set that is written piece by piece: its name, and what writes it to a file of the path that it gets,
/// where nothing lies yet.
pub type WrittenFile<'a> = (&'a str, &'a mut dyn FnMut(&Path) -> Result<()>);

/// As [`write_set`], with files that are too large to be held in memory. They come before the others.
///
/// # Errors
/// As [`write_set`], and those of what writes a file.
pub fn write_set_with(
    folder: &Path,
    written: &mut [WrittenFile<'_>],
    files: &[(&str, &[u8])],
    removed: &[&str],
) -> Result<()> {
    let folder = super::folder_behind_links(folder)?;
    fs::create_dir_all(&folder)?;
    let _lock = lock(&folder)?;
    // Nobody else writes a set here: what is there was left by a kill.
    remove_entries(&folder, |entry| Ok(is_temporary_of(&entry.path(), PENDING)))?;
    complete(&folder)?;
    let names = written.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names.chain(files.iter().map(|(name, _)| *name)).collect();
    let list = List {
        removed: removed
            .iter()
            .filter(|name| !names.contains(name))
            .map(|name| (*name).to_owned())
            .collect(),
        files: names.into_iter().map(str::to_owned).collect(),
    };
    for name in &list.files {
        target(&folder.join(name))?;
    }
    let list = serde_json::to_vec(&list)?;
    let pending = folder.join(PENDING);
    let staged = TemporaryFolder::beside(&pending)?;
    for (name, write) in written {
        let path = staged.path().join(name);
        write(&path)?;
        // Windows flushes files that are open for writing alone.
        File::options().write(true).open(path)?.sync_all()?;
    }
    for (name, bytes) in files.iter().chain(&[(LIST_FILE, &list[..])]) {
        write_and_sync(&staged.path().join(name), bytes)?;
    }
    staged.publish(&pending)?;
    complete(&folder)
}

/// Takes the lock of a folder that sets are written to, where the system has locks of folders.
fn lock(folder: &Path) -> Result<Option<File>> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let file = File::open(folder)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(wrong(
            ErrorKind::ResourceBusy,
            "is being written by another process",
        )),
        // Some network file systems have no locks.
        _ => Ok(Some(file)),
    }
}

/// Moves the files of `pending` to their places, if it is there.
fn complete(folder: &Path) -> Result<()> {
    let pending = folder.join(PENDING);
    if !pending.is_dir() {
        return Ok(());
    }
    let Some(list) = List::pending(folder) else {
        let reason = "its folder `pending` holds other files than HLX's";
        return Err(wrong(ErrorKind::AlreadyExists, reason));
    };
    if let Some(last) = list.files.last()
        && pending.join(last).exists()
    {
        let last = folder.join(last);
        // Behind a link lies a file that is replaced as one, and the link stays.
        if !last.is_symlink() {
            remove(&last)?;
            sync_folder(folder)?;
        }
        for name in &list.removed {
            remove(&folder.join(name))?;
        }
        sync_folder(folder)?;
    }
    for name in &list.files {
        let from = pending.join(name);
        if from.exists() {
            move_file(&from, &folder.join(name))?;
            sync_folder(&pending)?;
        }
    }
    remove(&pending.join(LIST_FILE))?;
    fs::remove_dir(&pending)?;
    sync_folder(folder)
}

/// Moves a file to its place behind links, which may be on another disk.
fn move_file(from: &Path, to: &Path) -> Result<()> {
    let to = target(to)?;
    match fs::rename(from, &to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            write_atomically(&to, &fs::read(from)?)?;
            fs::remove_file(from)
        }
        moved => moved.and_then(|()| sync_folder(parent(&to))),
    }
}

/// The file of a name behind its links.
fn target(path: &Path) -> Result<PathBuf> {
    let named = |error: std::io::Error| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        std::io::Error::new(error.kind(), format!("{name}: {error}"))
    };
    let output = Output::at(path).map_err(named)?;
    let file = output.file().map(Path::to_owned);
    file.ok_or_else(|| named(wrong(ErrorKind::InvalidInput, "is no regular file")))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
