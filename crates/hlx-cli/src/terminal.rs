//! The terminal while a view fills it: taken once, given back whatever happens, and messages for it meanwhile.

use std::io::{self, Stdout, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Whether a view fills the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// What was to be printed on standard error meanwhile.
static HELD: Mutex<Held> = Mutex::new(Held {
    text: String::new(),
    shown: 0,
});

struct Held {
    text: String,
    /// Bytes of it that the view has got.
    shown: usize,
}

/// The terminal, filled by a view until it is dropped.
pub struct Filled {
    /// What a view draws into.
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Filled {
    /// Takes the terminal: keys come at once, and the screen that was there comes back afterwards.
    ///
    /// # Errors
    /// The system's message; the terminal is as it was.
    pub fn take() -> Result<Self> {
        IS_TAKEN.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match taken {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error).context("the terminal cannot be filled")
            }
        }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, if a view fills it, and prints what was held back: before the program ends in any way.
pub fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // Nobody is left to be told of a terminal that is gone.
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = stderr().write_all(held.text.as_bytes());
    held.text.clear();
    held.shown = 0;
}

/// Whether a view fills the terminal.
pub fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::SeqCst)
}

/// The messages since the last call, for the view.
pub fn take_messages() -> String {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let news = held.text.get(held.shown..).unwrap_or_default().to_owned();
    held.shown = held.text.len();
    news
}

/// Standard error, unless a view fills the terminal: then what is written is held, and printed when it is given back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !IS_TAKEN.load(Ordering::SeqCst) {
            return stderr().write(bytes);
        }
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.text.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match IS_TAKEN.load(Ordering::SeqCst) {
            true => Ok(()),
            false => stderr().flush(),
        }
    }
}
