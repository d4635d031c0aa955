//! Reading whole files: regular ones, of a size that is bounded before memory is taken.
//!
//! A path may come from a stranger's folder. A named pipe would wait for ever, a device such as `/dev/zero` has no
//! end, and a sparse file of a few bytes is read until the system ends the process for its memory. So a path must
//! name a regular file, unless it names standard input, and no more is read than what its kind may hold.

use std::fs::{self, File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use crate::machine;

/// The most bytes of settings, indexes and tokenizers: files that are parsed as a whole.
pub const MAX_SETTINGS: u64 = 256 << 20;
/// The most bytes of a file of data that is read as a whole: arrays, pairs, images, state.
pub const MAX_DATA: u64 = 64 << 30;
/// What is said of a file in whose place git-lfs has left a pointer.
pub const IS_LFS_POINTER: &str =
    "is a pointer of git-lfs, not the file itself: run `git lfs pull` in its folder";
/// How every version of git-lfs begins a pointer.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// The byte-order mark of UTF-8, which some editors put in front of a text, and which is not part of it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The name that asks for standard input.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Opens a file for reading. Of names of standard input (`/dev/stdin`) everything is opened, else regular files
/// alone, through links.
///
/// # Errors
/// `is a folder`, `is a named pipe`, `is a device`, ..., or the system's.
pub fn open(path: &Path) -> Result<File> {
    // Looked at before it is opened, as opening a pipe waits for a writer; and again behind, as another file may
    // have come into its place.
    look(path)?;
    let file = File::open(path)?;
    if path == Path::new(STANDARD_INPUT) {
        return Ok(file);
    }
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// What the system says of a file that [`open`] would open; nothing is opened.
///
/// # Errors
/// As [`open`].
pub fn look(path: &Path) -> Result<Metadata> {
    let found = fs::metadata(path)?;
    if path != Path::new(STANDARD_INPUT) {
        check_regular(&found)?;
    }
    Ok(found)
}

/// Reads all of a file of data.
///
/// # Errors
/// As [`open`]; more than [`MAX_DATA`] bytes, or than half of the machine's memory; a pointer of git-lfs.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    no_pointer(read_at_most(path, MAX_DATA)?)
}

/// Whether a file that begins with these bytes is a pointer of git-lfs: the few lines that a clone without
/// `git lfs` has in place of a large file.
pub fn is_lfs_pointer(start: &[u8]) -> bool {
    start.starts_with(LFS_POINTER)
}

/// Reads all of a file of settings.
///
/// # Errors
/// As [`open`]; more than [`MAX_SETTINGS`] bytes; a pointer of git-lfs.
pub fn read_settings(path: &Path) -> Result<Vec<u8>> {
    no_pointer(read_at_most(path, MAX_SETTINGS)?)
}

fn no_pointer(bytes: Vec<u8>) -> Result<Vec<u8>> {
    match is_lfs_pointer(&bytes) {
        true => Err(Error::new(ErrorKind::InvalidData, IS_LFS_POINTER)),
        false => Ok(bytes),
    }
}

/// As [`read_settings`], of JSON: the byte-order mark that some editors write first is left out, which a parser
/// of JSON would refuse.
///
/// # Errors
/// As [`read_settings`].
pub fn read_json(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = read_settings(path)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// As [`read_settings`], of text; the byte-order mark of UTF-8 is left out.
///
/// # Errors
/// As [`read_settings`]; bytes that are not UTF-8, with the place of the first, and UTF-16 by its name.
pub fn read_settings_text(path: &Path) -> Result<String> {
    String::from_utf8(read_json(path)?).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let is_utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        let reason = match is_utf16 {
            true => "is UTF-16, expected UTF-8".to_owned(),
            false => format!("not UTF-8 at byte {at}"),
        };
        Error::new(ErrorKind::InvalidData, reason)
    })
}

/// Reads all of a file that may have `limit` bytes.
///
/// # Errors
/// As [`open`]; a longer file, and one that is longer than half of the machine's memory.
pub fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let limit = limit.min(machine::memory() / 2);
    let file = open(path)?;
    let too_long = |found: &str| {
        let reason = format!("has {found} bytes; at most {limit} are read");
        Error::new(ErrorKind::FileTooLarge, reason)
    };
    let stated = file.metadata()?.len();
    if stated > limit {
        return Err(too_long(&stated.to_string()));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(stated as usize)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_long("too many"));
    }
    Ok(bytes)
}

fn check_regular(found: &Metadata) -> Result<()> {
    match kind(found) {
        None => Ok(()),
        Some("folder") => Err(Error::new(ErrorKind::IsADirectory, "is a folder")),
        Some(kind) => {
            let reason = format!("is a {kind}, expected a regular file");
            Err(Error::new(ErrorKind::InvalidInput, reason))
        }
    }
}

/// What stands under a name, unless it is a regular file.
#[cfg(unix)]
fn kind(found: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;

    let found = found.file_type();
    match () {
        () if found.is_file() => None,
        () if found.is_dir() => Some("folder"),
        () if found.is_fifo() => Some("named pipe"),
        () if found.is_socket() => Some("socket"),
        () => Some("device"),
    }
}

#[cfg(not(unix))]
fn kind(found: &Metadata) -> Option<&'static str> {
    match (found.is_file(), found.is_dir()) {
        (true, _) => None,
        (_, true) => Some("folder"),
        _ => Some("device"),
    }
}
