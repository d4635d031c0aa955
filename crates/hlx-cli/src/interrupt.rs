//! Ctrl-C and SIGTERM in `hlx train`: the first ends the run after its step, with a checkpoint;
//! the second ends the program at once.
//!
//! `timeout`, and launchers, send a signal to the program and again to its group: what comes within 100 ms is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The exit status of an interrupted run, as shells give it for Ctrl-C.
pub const STATUS: u8 = 130;

/// Signals that come no later than this after the first are the same wish.
const ONE_WISH: Duration = Duration::from_millis(100);

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

    /// Does what a signal does: the first call ends the run after its step, a later one the program at once.
    pub fn request(&self) {
        if self.0.swap(true, Ordering::SeqCst) {
            exit_now(STATUS.into());
        }
    }

    /// Whether a signal has arrived.
    pub fn has_arrived(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a signal does.
fn on_signal(arrived: &Arc<AtomicBool>) -> impl FnMut() + Send + 'static {
    let (arrived, mut first) = (Arc::clone(arrived), None);
    move || {
        arrived.store(true, Ordering::SeqCst);
        if first.get_or_insert_with(Instant::now).elapsed() >= ONE_WISH {
            exit_now(STATUS.into());
        }
    }
}

#[cfg(unix)]
fn catch_into(arrived: &Arc<AtomicBool>) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut note = on_signal(arrived);
    std::thread::spawn(move || signals.forever().for_each(|_| note()));
    Ok(())
}

/// A console's Ctrl-C is an event of its own thread. signal-hook reads the C library's handler with
/// `SIG_GET`, which Wine's library takes for a handler: the first Ctrl-C was a page fault there.
#[cfg(windows)]
fn catch_into(arrived: &Arc<AtomicBool>) -> Result<()> {
    ctrlc::set_handler(on_signal(arrived))?;
    Ok(())
}

/// Ends the process without exit handlers, and without what is still to be written.
pub fn exit_now(status: i32) -> ! {
    crate::terminal::give_back();
    #[cfg(unix)]
    signal_hook::low_level::exit(status);
    #[cfg(not(unix))]
    std::process::exit(status);
}
