//! A value of a configuration that may not be, and the checks that find one.

/// A value that may not be: its key and why.
pub(super) struct Fault {
    pub key: &'static str,
    pub reason: String,
}

pub(super) type Checked = Result<(), Fault>;

pub(super) fn fault(key: &'static str, reason: impl Into<String>) -> Checked {
    Err(Fault {
        key,
        reason: reason.into(),
    })
}

/// Fails unless the value is finite and inside `[low, high)`.
pub(super) fn within(key: &'static str, value: f64, low: f64, high: f64) -> Checked {
    if value >= low && value < high {
        return Ok(());
    }
    let limit = if high == f64::INFINITY {
        String::new()
    } else {
        format!(" and below {high}")
    };
    fault(key, format!("{value} is not at least {low}{limit}"))
}

pub(super) fn at_least_one(key: &'static str, value: u64) -> Checked {
    if value == 0 {
        fault(key, "0 is not at least 1")
    } else {
        Ok(())
    }
}
