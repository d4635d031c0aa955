//! The lines that are said of a folder, each once in a process.

use std::path::Path;

use hlx_core::files::place;
use hlx_core::warn_once_of;

use crate::CONFIG_FILE;

/// Logs the lines about a folder's configuration that have not been logged; one command reads a folder several times.
pub(super) fn say(folder: &Path, lines: &[String]) {
    let path = place(folder, CONFIG_FILE);
    // One file may be named in several ways.
    let file = path.canonicalize().unwrap_or_else(|_| path.clone());
    for line in lines {
        let key = format!("{}: {line}", file.display());
        warn_once_of(&key, &format!("{}: {line}", path.display()));
    }
}
