//! The start-up probe: does this device compute as HLX's arithmetic says?

use std::sync::Arc;

use serde::Serialize;

use crate::context::Context;
use crate::error::CoreError;
use crate::vulkan::{Modes, VulkanDevice};

/// One check of the probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeCheck {
    /// What was checked.
    pub name: String,
    /// What was found: `native`, `emulated`, `equal`, or how it failed.
    pub finding: String,
    /// Whether the device may be used.
    pub passed: bool,
}

/// What the probe found on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
}

pub(crate) fn run_cpu() -> ProbeReport {
    ProbeReport::default()
}

pub(crate) fn run_vulkan(
    _context: &Context,
    device: &Arc<VulkanDevice>,
) -> Result<ProbeReport, CoreError> {
    let _ = device.modes.set(Modes {
        native_fma: 0,
        native_flush: 0,
    });
    Ok(ProbeReport::default())
}
