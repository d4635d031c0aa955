//! Lines that are logged once, however often what they tell of is read.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Lines remembered at most; later ones are logged each time.
const MAX_LINES: usize = 4096;

/// Logs a warning, unless this process has logged the same line before.
pub fn warn_once(line: &str) {
    warn_once_of(line, line);
}

/// As [`warn_once`], of lines that are the same where their keys are: a file may be named in several ways.
pub fn warn_once_of(key: &str, line: &str) {
    static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.contains(key) {
        return;
    }
    if logged.len() < MAX_LINES {
        logged.insert(key.to_owned());
    }
    tracing::warn!("{line}");
}
