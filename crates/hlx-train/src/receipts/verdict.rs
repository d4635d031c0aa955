//! What was checked of a receipt, and what was found.

use serde::Serialize;

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// Whether it is as the receipt says.
    pub ok: bool,
    /// One line.
    pub detail: String,
}

impl Check {
    /// A check that was passed.
    pub fn passed(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            ok: true,
            detail: detail.into(),
        }
    }

    /// A check that was not.
    pub fn failed(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            ok: false,
            ..Self::passed(name, detail)
        }
    }

    /// A check that was passed unless there is a reason against it.
    pub fn of<E: std::fmt::Display>(name: &'static str, found: Result<String, E>) -> Self {
        match found {
            Ok(detail) => Self::passed(name, detail),
            Err(reason) => Self::failed(name, format!("{reason:#}")),
        }
    }
}

/// All checks of a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether all were passed.
    pub valid: bool,
    /// The checks in their order.
    pub checks: Vec<Check>,
    /// One line: the first check that was not passed, or what the receipt proves.
    pub message: String,
}

impl Verdict {
    /// The verdict over checks; `proves` says what they prove if all were passed.
    pub fn new(checks: Vec<Check>, proves: impl FnOnce() -> String) -> Self {
        let failed = checks.iter().find(|check| !check.ok);
        Self {
            valid: failed.is_none(),
            message: failed.map_or_else(proves, |check| check.detail.clone()),
            checks,
        }
    }

    /// The verdict over what is no receipt.
    pub fn of_damage(reason: impl std::fmt::Display) -> Self {
        let check = Check::failed("form", reason.to_string());
        Self::new(vec![check], String::new)
    }
}
