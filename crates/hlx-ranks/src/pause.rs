//! Waiting for another rank: by polling at first, then by ever longer sleeps, up to a millisecond.

use std::time::{Duration, Instant};

/// One wait.
#[derive(Default)]
pub(crate) struct Pause {
    n: u32,
    n_checks: u32,
    checked: Option<Instant>,
}

impl Pause {
    /// Whether it has lasted for half a second or more.
    pub fn has_waited(&self) -> bool {
        self.n_checks > 25
    }

    /// Waits a little; `true` when it is time to look whether all ranks are alive.
    pub fn wait(&mut self) -> bool {
        self.n += 1;
        match self.n {
            0..200 => std::hint::spin_loop(),
            200..300 => std::thread::yield_now(),
            _ => {
                let micros = 20 * u64::from((self.n - 300) / 8 + 1).min(50);
                std::thread::sleep(Duration::from_micros(micros));
                let now = Instant::now();
                let since = *self.checked.get_or_insert(now);
                if now - since > Duration::from_millis(20) {
                    self.checked = Some(now);
                    self.n_checks += 1;
                    return true;
                }
            }
        }
        false
    }
}
