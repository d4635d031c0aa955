//! The device that bits were computed on, for an arithmetic whose bits depend on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A model of a device and its driver: a part of what the bits of `fast` mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The device's name.
    pub device: String,
    /// Its driver.
    pub driver: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with driver {}", self.device, self.driver)
    }
}
