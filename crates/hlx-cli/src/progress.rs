//! A progress bar of work over files, and how its speed reads.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar's steps.
const STEPS: u64 = 10_000;

/// A bar for a share that is done, on the standard error if that is a terminal.
pub struct ShareBar {
    bar: ProgressBar,
    start: Instant,
}

impl ShareBar {
    /// Shows an empty bar.
    pub fn new() -> Self {
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {msg} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            start: Instant::now(),
        }
    }

    /// Shows a share from 0 to 1 with a message.
    pub fn set(&self, share: f64, message: String) {
        self.bar.set_position((share * STEPS as f64) as u64);
        self.bar.set_message(message);
    }

    /// Removes the bar, and returns the time since it was shown.
    pub fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.start.elapsed()
    }
}

/// Bytes and their speed, as in `12.3 MB in 0.8 s, 15.4 MB/s`.
pub fn speed(n_bytes: u64, time: Duration) -> String {
    let (megabytes, seconds) = (n_bytes as f64 / 1e6, time.as_secs_f64());
    let rate = megabytes / seconds.max(1e-9);
    format!("{megabytes:.1} MB in {seconds:.1} s, {rate:.1} MB/s")
}
