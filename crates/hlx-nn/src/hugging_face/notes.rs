//! The lines that are said of a folder, each once in a process.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use hlx_core::files::place;

use crate::CONFIG_FILE;

/// Lines that have been logged; a folder is read several times by one command.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// More lines than any command has; a process that reads folders for ever does not remember them all.
const MOST: usize = 4096;

/// Logs the lines about a folder's configuration that have not been logged.
pub(super) fn say(folder: &Path, lines: &[String]) {
    let path = place(folder, CONFIG_FILE);
    // One file may be named in several ways.
    let file = path.canonicalize().unwrap_or_else(|_| path.clone());
    let mut said = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for line in lines {
        if said.len() >= MOST {
            said.clear();
        }
        if said.insert(format!("{}: {line}", file.display())) {
            tracing::warn!("{}: {line}", path.display());
        }
    }
}
