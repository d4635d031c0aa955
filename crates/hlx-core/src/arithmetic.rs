//! What a device's products are computed in: a part of what a result means, unlike tuning.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::CoreError;

/// The arithmetic of products, a value of each handle of a device ([`crate::Device::with_arithmetic`]).
///
/// Either gives the same bits on every device, and the two give different ones (`docs/numerics.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// Chains of fused multiply-adds in f32, in a written order.
    #[default]
    Portable,
    /// Products over integers of 16 and 8 bits, whose sums are exact; the rest, and recurrent layers' steps, as portable.
    Integer,
}

impl Arithmetic {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Portable, Self::Integer];

    /// The name that a configuration gives it: `portable` or `integer`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Integer => "integer",
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arithmetic {
    type Err = CoreError;

    fn from_str(text: &str) -> Result<Self, CoreError> {
        match text {
            "portable" => Ok(Self::Portable),
            "integer" => Ok(Self::Integer),
            _ => Err(CoreError::invalid(
                "arithmetic",
                format!("it is `{text}`, expected portable or integer"),
            )),
        }
    }
}

/// The instructions that sum products of integers. All give the same bits; a device takes the fastest that its
/// probe has found right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerPath {
    /// Multiplications and additions of 32 bits, on every device; on the CPU its vector instructions.
    Plain,
    /// Vulkan's dot products of four signed bytes.
    Dots,
    /// Cooperative matrices of 8-bit integers.
    Matrices(MatrixShape),
}

/// A product of cooperative matrices that a device lists: C, \[rows, columns\], += A, \[rows, terms\], times B, by the
/// threads of a subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixShape {
    /// Rows of A and C.
    pub rows: u32,
    /// Columns of B and C.
    pub columns: u32,
    /// Terms of a sum.
    pub terms: u32,
    /// Threads of a subgroup.
    pub subgroup: u32,
}

impl MatrixShape {
    /// The specialization constants of the shaders that take any shape, with this many subgroups per workgroup.
    pub const fn specialization(self, subgroups: u32) -> [(u32, u32); 4] {
        [
            (4, self.rows),
            (5, self.columns),
            (6, self.terms),
            (7, self.subgroup * subgroups),
        ]
    }

    /// Whether the matrices' rows of terms are shorter than the units of 16 bytes in which the shaders load them.
    pub const fn is_narrow(self) -> bool {
        self.terms < 16
    }
}

impl fmt::Display for MatrixShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.rows, self.columns, self.terms)
    }
}

impl fmt::Display for IntegerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain integers"),
            Self::Dots => f.write_str("dot products of four bytes"),
            Self::Matrices(shape) => write!(f, "matrices of 8-bit integers, {shape}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for arithmetic in Arithmetic::ALL {
            assert_eq!(
                arithmetic.name().parse::<Arithmetic>().ok(),
                Some(arithmetic)
            );
        }
        let error = "bf16".parse::<Arithmetic>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "arithmetic: it is `bf16`, expected portable or integer"
        );
    }
}
