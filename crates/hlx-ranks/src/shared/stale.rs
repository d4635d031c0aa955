//! Folders that processes of this user have left which were killed before all ranks were connected.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{MEMORY, PREFIX, RANK, lock_path};
use crate::secret::private;

/// From what age on a folder whose rank 0 is gone was left by a crash.
const STALE: Duration = Duration::from_secs(60);

/// Removes them.
pub(super) fn remove(parent: &Path) {
    remove_older(parent, STALE);
}

/// Removes those of at least this age. Nothing else of the user, and nothing of others, is touched.
pub(super) fn remove_older(parent: &Path, age: Duration) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let folder = entry.path();
        if is_name(&entry.file_name().to_string_lossy()) && is_old(&folder, age) {
            // The folder stays if anything but files of this kind is in it.
            for file in files(&folder).unwrap_or_default() {
                let _ = fs::remove_file(file);
            }
            let _ = fs::remove_dir(&folder);
        }
    }
}

/// Whether a name is one that [`super::SharedMemory::create`] gives, or gave: two numbers.
fn is_name(name: &str) -> bool {
    let numbers = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('-'));
    let is_number =
        |text: &str, radix| !text.is_empty() && text.chars().all(|one| one.is_digit(radix));
    numbers.is_some_and(|(process, word)| is_number(process, 10) && is_number(word, 16))
}

/// Whether this is a folder of this user, of at least this age, whose rank 0 is gone.
fn is_old(folder: &Path, age: Duration) -> bool {
    let Ok(found) = fs::symlink_metadata(folder) else {
        return false;
    };
    let modified = found.modified().ok();
    let is_old = modified
        .and_then(|since| since.elapsed().ok())
        .is_some_and(|found| found >= age);
    if !found.is_dir() || !private::is_own(&found) || !is_old || files(folder).is_none() {
        return false;
    }
    let lock = File::open(lock_path(folder, 0));
    !lock.is_ok_and(|lock| lock.try_lock().is_err())
}

/// The files of a folder of ranks; `None` if there is anything else in it.
fn files(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let name = name.to_str()?;
        let is_rank = |rank: &str| !rank.is_empty() && rank.chars().all(|one| one.is_ascii_digit());
        let is_ours = name == MEMORY || name.strip_prefix(RANK).is_some_and(is_rank);
        if !is_ours || !entry.file_type().ok()?.is_file() {
            return None;
        }
        files.push(entry.path());
    }
    Some(files)
}
