//! What the start-up probe found on a device.

use serde::{Deserialize, Serialize};

use crate::error::CoreError;

/// One check of the probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeCheck {
    /// What was checked.
    pub name: String,
    /// What was found: `native`, `emulated`, `equal`, or how it failed.
    pub finding: String,
    /// Whether the device may be used.
    pub passed: bool,
}

/// What the probe found on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The checks, in order.
    pub checks: Vec<ProbeCheck>,
}

impl ProbeReport {
    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }

    /// Returns an error that names the first check that failed.
    pub(crate) fn check(&self, device: &str) -> Result<(), CoreError> {
        match self.checks.iter().find(|check| !check.passed) {
            None => Ok(()),
            Some(check) => Err(CoreError::ProbeFailed {
                device: device.to_owned(),
                failure: format!("{}: {}", check.name, check.finding),
            }),
        }
    }

    pub(crate) fn add(&mut self, name: &str, finding: impl Into<String>, passed: bool) {
        self.checks.push(ProbeCheck {
            name: name.to_owned(),
            finding: finding.into(),
            passed,
        });
    }
}
