//! Folders in shared places, such as `/dev/shm`, that no other user may read, write or have made.

use std::fs::{self, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Creates a folder that its user alone can open from the first moment on. Never follows a link.
///
/// # Errors
/// The system's: also if anything of this name is there.
pub(crate) fn create(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700)
        .create(folder);
    #[cfg(not(unix))]
    return fs::create_dir(folder);
}

/// Fails unless this user owns the folder, no other can open it, and it is not a link.
///
/// # Errors
/// What is wrong, and the system's.
pub(crate) fn check(folder: &Path) -> Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let wrong = |what| Err(Error::new(ErrorKind::PermissionDenied, what));
    match () {
        () if !found.is_dir() => wrong("is no folder, though HLX keeps one under this name"),
        () if !is_own(&found) => wrong("belongs to another user"),
        () if is_open(&found) => wrong("other users can open it"),
        () => Ok(()),
    }
}

/// Whether this user owns it. Elsewhere than on Unix temporary files are the user's own.
pub(crate) fn is_own(found: &Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::uid(found) == user();
    #[cfg(not(unix))]
    return found.is_dir() || found.is_file();
}

/// Whether others can read or write it.
pub(crate) fn is_open(found: &Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::mode(found) & 0o077 != 0;
    #[cfg(not(unix))]
    return found.is_symlink();
}

/// The number of this user; 0 where users have none.
pub(crate) fn user() -> u32 {
    #[cfg(unix)]
    return rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    return 0;
}

/// A word that nobody can guess, for names in folders that all users write to.
///
/// # Errors
/// The system's.
pub(crate) fn random_word() -> Result<String> {
    let word = getrandom::u64().map_err(Error::other)?;
    Ok(format!("{word:016x}"))
}
