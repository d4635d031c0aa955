//! Checks of the numbers in optimizers' configurations.

use crate::Result;
use crate::error::NnError;

/// An error of an optimizer's configuration.
pub(super) fn refused(reason: String) -> NnError {
    NnError::Config {
        what: "optimizer",
        reason,
    }
}

/// Fails unless a number is finite, at least `low` and below `high`.
pub(super) fn within(what: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if value >= low && value < high {
        return Ok(());
    }
    let limit = match high.is_infinite() {
        true => " and finite".to_owned(),
        false => format!(" and below {high}"),
    };
    Err(refused(format!(
        "{what} is {value}, expected at least {low}{limit}"
    )))
}

/// Fails for an epsilon that is zero as an f32 (subnormals are): an element whose gradient has
/// always been 0 would be divided by zero.
pub(super) fn check_epsilon(what: &str, eps: f64) -> Result<()> {
    let normal = (eps as f32) >= f32::MIN_POSITIVE && (eps as f32).is_finite();
    if normal {
        return Ok(());
    }
    Err(refused(format!(
        "{what} is {eps:e}, expected at least 2^-126 (1.18e-38) and finite"
    )))
}
