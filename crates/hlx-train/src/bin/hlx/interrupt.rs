//! Ctrl-C and SIGTERM in `hlx train`: the first ends the run after its step, with a checkpoint;
//! the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};

/// The exit status of an interrupted run, as shells give it for Ctrl-C.
pub const STATUS: u8 = 130;

/// Whether a signal has arrived.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// The system's message.
    pub fn catch() -> Result<Self> {
        let arrived = Arc::new(AtomicBool::new(false));
        catch_into(&arrived).context("signals cannot be caught")?;
        Ok(Self(arrived))
    }

    /// Whether a signal has arrived.
    pub fn has_arrived(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(unix)]
fn catch_into(arrived: &Arc<AtomicBool>) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;

    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset, and sets it.
        flag::register_conditional_shutdown(signal, STATUS.into(), Arc::clone(arrived))?;
        flag::register(signal, Arc::clone(arrived))?;
    }
    Ok(())
}

/// A console's Ctrl-C is an event of its own thread. signal-hook reads the C library's handler with
/// `SIG_GET`, which Wine's library takes for a handler: the first Ctrl-C was a page fault there.
#[cfg(windows)]
fn catch_into(arrived: &Arc<AtomicBool>) -> Result<()> {
    let arrived = Arc::clone(arrived);
    ctrlc::set_handler(move || {
        if arrived.swap(true, Ordering::SeqCst) {
            std::process::exit(STATUS.into());
        }
    })?;
    Ok(())
}

/// A word of a command line as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:,+@%\\".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("train.max_steps=40"), "train.max_steps=40");
        assert_eq!(quoted("my run"), "'my run'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
