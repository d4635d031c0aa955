//! What a device's products are computed in: a part of what a result means, unlike tuning.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::CoreError;

/// The arithmetic of products, a value of each handle of a device ([`crate::Device::with_arithmetic`]).
///
/// `Portable` and `Integer` each give the same bits on every device, and the two give different ones. `Fast` repeats its
/// own bits on one model of device with one version of its driver, and promises no more (`docs/numerics.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arithmetic {
    /// Chains of fused multiply-adds in f32, in a written order.
    #[default]
    Portable,
    /// Products over integers of 16 and 8 bits, whose sums are exact; the rest, and recurrent layers' steps, as portable.
    Integer,
    /// Mixed precision: operands of products rounded to 16 bits and summed in f32 by the device's cooperative matrices;
    /// the rest as portable.
    Fast(Half),
}

/// The type of 16 bits to which [`Arithmetic::Fast`] rounds the operands of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// The range of f32 with 8 bits of precision.
    Bf16,
    /// 11 bits of precision, magnitudes up to 65,504: gradients need a loss scale.
    F16,
}

impl Half {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Bf16, Self::F16];

    /// The name of the probe's check of matrices of such numbers.
    pub(crate) const fn check(self) -> &'static str {
        match self {
            Self::Bf16 => "matrices of bf16",
            Self::F16 => "matrices of f16",
        }
    }
}

/// The cooperative matrices of 16-bit floats that a device computes with and that repeat their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HalfMatrices {
    pub bf16: Option<MatrixShape>,
    pub f16: Option<MatrixShape>,
}

impl HalfMatrices {
    pub fn of(self, half: Half) -> Option<MatrixShape> {
        match half {
            Half::Bf16 => self.bf16,
            Half::F16 => self.f16,
        }
    }
}

impl Arithmetic {
    /// Every one.
    pub const ALL: [Self; 4] = [
        Self::Portable,
        Self::Integer,
        Self::Fast(Half::Bf16),
        Self::Fast(Half::F16),
    ];

    /// Those that give the same bits on every device.
    pub const EVERYWHERE: [Self; 2] = [Self::Portable, Self::Integer];

    /// Whether it gives the same bits on every device; otherwise only on devices of one model with one driver.
    pub const fn is_same_everywhere(self) -> bool {
        self.half().is_none()
    }

    /// The type to which `fast` rounds operands; none of the others.
    pub const fn half(self) -> Option<Half> {
        match self {
            Self::Portable | Self::Integer => None,
            Self::Fast(half) => Some(half),
        }
    }

    /// The name that a configuration gives it: `portable`, `integer`, `fast` (bf16) or `fast_f16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Integer => "integer",
            Self::Fast(Half::Bf16) => "fast",
            Self::Fast(Half::F16) => "fast_f16",
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
        let named = |arithmetic: &Self| arithmetic.name() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            let reason = format!("it is `{text}`, expected portable, integer, fast or fast_f16");
            CoreError::invalid("arithmetic", reason)
        })
    }
}

impl TryFrom<String> for Arithmetic {
    type Error = CoreError;

    fn try_from(text: String) -> Result<Self, CoreError> {
        text.parse()
    }
}

impl From<Arithmetic> for String {
    fn from(arithmetic: Arithmetic) -> Self {
        arithmetic.name().to_owned()
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
            let text = serde_json::to_string(&arithmetic).expect("a string");
            assert_eq!(text, format!("\"{arithmetic}\""));
            assert_eq!(
                serde_json::from_str::<Arithmetic>(&text).ok(),
                Some(arithmetic)
            );
        }
        let everywhere = Arithmetic::ALL
            .into_iter()
            .filter(|one| one.is_same_everywhere());
        assert!(everywhere.eq(Arithmetic::EVERYWHERE));
        let error = "bf16".parse::<Arithmetic>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "arithmetic: it is `bf16`, expected portable, integer, fast or fast_f16"
        );
    }
}
