//! The mark of a folder that a verb of HLX has made: a small file that names the verb. Nothing else than such
//! a folder, an empty one or a new one is written to.

use std::fs;
use std::io::{ErrorKind, Result};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::output::wrong;
use super::{folder_behind_links, is_temporary, place};

/// The file of the mark.
pub const MARK_FILE: &str = "hlx.json";

#[derive(Serialize, Deserialize)]
struct Mark {
    /// Such as `hlx export`.
    made_by: String,
}

/// The bytes of the mark of a verb.
///
/// # Errors
/// The serialiser's message; it is not expected to fail.
pub fn mark(verb: &str) -> Result<Vec<u8>> {
    let made_by = verb.to_owned();
    let mut bytes = serde_json::to_vec(&Mark { made_by })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Fails unless a verb may write its files into a folder: one that is not there, is empty except for temporary
/// files that a kill has left, or that the same verb has made. `is_older` tells of a folder without a mark
/// whether the verb has made it before there were marks. Nothing is touched.
///
/// # Errors
/// A file, a folder that holds something else; the system's.
pub fn check_free(path: &Path, verb: &str, is_older: impl FnOnce(&Path) -> bool) -> Result<()> {
    let folder = folder_behind_links(path)?;
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let entries = entries.collect::<Result<Vec<_>>>()?;
    if entries.iter().all(|entry| is_temporary(&entry.path())) {
        return Ok(());
    }
    let found = fs::read(place(&folder, MARK_FILE)).ok();
    let found: Option<Mark> = found.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let reason = match found {
        Some(mark) if mark.made_by == verb => return Ok(()),
        Some(mark) => format!("was made by `{}`", mark.made_by),
        None if is_older(&folder) => return Ok(()),
        None => format!("holds files that `{verb}` has not made"),
    };
    let reason = format!("{reason}; name an empty or a new folder");
    Err(wrong(ErrorKind::AlreadyExists, &reason))
}
