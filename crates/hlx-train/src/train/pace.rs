//! How long a step takes, measured over the first steps of a process.

use std::time::{Duration, Instant};

use hlx_core::{CoreError, Device};

/// Steps that are measured after the first, whose passes are recorded in it.
const STEPS: u32 = 8;
/// Fewer are enough when they have taken this long.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

/// The first steps of a process, each waited for.
#[derive(Debug, Default)]
pub(super) struct FirstSteps {
    n_steps: u32,
    time: Duration,
    is_done: bool,
    found: Option<f64>,
}

impl FirstSteps {
    /// Waits for a step that has been launched since `began`, and adds its time; does nothing once enough are
    /// measured.
    pub fn step(&mut self, device: &Device, began: Instant) -> Result<(), CoreError> {
        if self.is_done {
            return Ok(());
        }
        device.sync()?;
        self.n_steps += 1;
        if self.n_steps == 1 {
            return Ok(());
        }
        self.time += began.elapsed();
        let n = self.n_steps - 1;
        if n >= STEPS || self.time >= LONG_ENOUGH {
            self.is_done = true;
            self.found = Some(self.time.as_secs_f64() * 1e3 / f64::from(n));
        }
        Ok(())
    }

    /// Takes the milliseconds of a step, once, when they are found.
    pub fn take(&mut self) -> Option<f64> {
        self.found.take()
    }
}
