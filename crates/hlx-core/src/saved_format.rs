//! In what a tape saves activations for the backward pass: a part of what a gradient means, as the arithmetic is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::CoreError;

/// The format of saved activations, a value of each handle of a device ([`crate::Device::with_saved_format`]).
///
/// Either gives the same bits on every device, and the two give different gradients (`docs/numerics.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedFormat {
    /// The numbers themselves.
    #[default]
    F32,
    /// Rounded to bf16, to nearest, ties to even; the backward pass reads the widened values.
    Bf16,
}

impl SavedFormat {
    /// Both.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// The name that a configuration gives it: `f32` or `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for SavedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SavedFormat {
    type Err = CoreError;

    fn from_str(text: &str) -> Result<Self, CoreError> {
        let named = |format: &Self| format.name() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            CoreError::invalid("saved", format!("it is `{text}`, expected f32 or bf16"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for format in SavedFormat::ALL {
            assert_eq!(format.name().parse::<SavedFormat>().ok(), Some(format));
        }
        let error = "f16".parse::<SavedFormat>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "saved: it is `f16`, expected f32 or bf16"
        );
    }
}
