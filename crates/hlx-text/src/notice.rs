//! Lines that are logged once, however often what they tell of is read.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Lines remembered at most; later ones are logged each time.
const MAX_LINES: usize = 4096;

/// Logs a warning, unless this process has logged the same line before.
pub fn warn_once(line: &str) {
    static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.contains(line) {
        return;
    }
    if logged.len() < MAX_LINES {
        logged.insert(line.to_owned());
    }
    tracing::warn!("{line}");
}
