//! `monitor.bin`: what a run that is watched over has seen: skipped steps and the best evaluation.

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::Checkpoint;

/// The checkpoint's file of the monitor; a run that is not watched over has none.
pub const MONITOR_FILE: &str = "monitor.bin";

/// What a run has seen of its own course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    /// Steps that were skipped.
    pub skipped: u64,
    /// How many of the last steps in a row were.
    pub skipped_in_row: u64,
    /// The lowest held-out loss of an evaluation within the run, and its step.
    pub best: Option<(f64, u64)>,
    /// Evaluations since then.
    pub since_best: u64,
}

impl Monitor {
    /// Takes a step in.
    pub fn step(&mut self, skipped: bool) {
        self.skipped += u64::from(skipped);
        self.skipped_in_row = if skipped { self.skipped_in_row + 1 } else { 0 };
    }

    /// Takes a held-out loss in; returns whether it is lower than the best by more than `min_delta`. One that is
    /// NaN or infinite is not an improvement.
    pub fn evaluation(&mut self, step: u64, loss: f64, min_delta: f64) -> bool {
        let is_lower = self.best.is_none_or(|(best, _)| loss < best - min_delta);
        let improved = loss.is_finite() && is_lower;
        if improved {
            self.best = Some((loss, step));
            self.since_best = 0;
        } else {
            self.since_best += 1;
        }
        improved
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// The encoder's message; it is not expected to fail.
    pub fn to_bytes(self) -> Result<Vec<u8>> {
        let config = bincode::config::standard();
        Ok(bincode::serde::encode_to_vec(self, config)?)
    }

    /// Reads the monitor of a checkpoint; a new one if the checkpoint has none.
    ///
    /// # Errors
    /// Bytes that are none.
    pub(crate) fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Self> {
        if !checkpoint.digests.files.contains_key(MONITOR_FILE) {
            return Ok(Self::default());
        }
        let place = || format!("{}/{MONITOR_FILE}", checkpoint.path().display());
        Self::from_bytes(checkpoint.file(MONITOR_FILE)?).with_context(place)
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// Bytes that are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let decoded = bincode::serde::decode_from_slice(bytes, bincode::config::standard());
        let (monitor, used) = decoded.map_err(|error| anyhow!("is no monitor: {error}"))?;
        ensure!(
            used == bytes.len(),
            "has {} bytes too many",
            bytes.len() - used
        );
        Ok(monitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_come_back_whole_or_not_at_all() {
        let mut monitor = Monitor::default();
        monitor.step(true);
        assert!(monitor.evaluation(4, 1.25, 0.0));
        let bytes = monitor.to_bytes().expect("encodes");
        assert_eq!(Monitor::from_bytes(&bytes).expect("decodes"), monitor);
        for cut in 0..bytes.len() {
            assert!(Monitor::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Monitor::from_bytes(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn skips_in_a_row_end_with_a_step_that_counts() {
        let mut monitor = Monitor::default();
        for skipped in [true, true, false, true] {
            monitor.step(skipped);
        }
        assert_eq!((monitor.skipped, monitor.skipped_in_row), (3, 1));
    }

    #[test]
    fn an_improvement_is_more_than_the_least_change() {
        let mut monitor = Monitor::default();
        for not_finite in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!monitor.evaluation(1, not_finite, 0.1), "{not_finite}");
        }
        let losses = [2.0, 1.95, 1.85, f64::NAN, 1.8, 1.7];
        let improved: Vec<bool> = (2..)
            .zip(losses)
            .map(|(step, loss)| monitor.evaluation(step, loss, 0.1))
            .collect();
        assert_eq!(improved, [true, false, true, false, false, true]);
        assert_eq!((monitor.best, monitor.since_best), (Some((1.7, 7)), 0));
    }
}
