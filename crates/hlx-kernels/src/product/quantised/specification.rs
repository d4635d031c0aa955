//! Exponents and their factors, as `shaders/include/integer.glsl` has them.

use hlx_core::arith::{self, FloatOps};

use crate::product::role::Role;

/// The exponent of a row with a NaN or an infinity.
pub const NO_EXPONENT: i32 = i32::MAX;

/// The exponent of a row of zeros: the factors of 2^-254 are zeros, so that what is weighted by them counts nowhere.
pub const EXPONENT_OF_ZEROS: i32 = 254;

/// How many bits the integers of an operand have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// 16 bits, in two digits of 8: the operand that carries a step's signal.
    Two,
    /// 8 bits, one digit.
    One,
}

impl Digits {
    /// Digits of a number, each a plane of the prepared operand.
    pub const fn planes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::One => 1,
        }
    }

    /// The largest integer.
    pub const fn largest(self) -> i32 {
        match self {
            Self::Two => 32_639,
            Self::One => 127,
        }
    }
}

/// The digits of an operand: two of what carries the signal of a step.
pub fn digits_of(role: Role) -> Digits {
    match role {
        Role::Signal | Role::Gradient => Digits::Two,
        Role::Weight | Role::Saved | Role::TimeStep => Digits::One,
    }
}

/// A number's magnitude, which orders as an unsigned integer; a subnormal counts as zero.
#[inline(always)]
pub fn magnitude(x: f32) -> u32 {
    let bits = x.to_bits() & 0x7fff_ffff;
    if bits < 0x0080_0000 { 0 } else { bits }
}

/// `e` of a row whose largest magnitude has these bits: its numbers times 2^e round to integers of at most
/// [`Digits::largest`]. [`EXPONENT_OF_ZEROS`] of a row of zeros, [`NO_EXPONENT`] of one with a NaN or an infinity.
#[inline(always)]
pub fn row_exponent(top: u32, n_digits: Digits) -> i32 {
    let exponent = (top >> 23) as i32 - 127;
    let significand = (top & 0x007f_ffff) | 0x0080_0000;
    let (largest, full) = match n_digits {
        Digits::Two => (14, 0x00fe_ff00),
        Digits::One => (6, 0x00ff_0000),
    };
    let of_finite = largest - exponent - i32::from(significand >= full);
    // Selections, so that a loop over rows has no branches.
    let finite = if top == 0 {
        EXPONENT_OF_ZEROS
    } else {
        of_finite
    };
    if top >= 0x7f80_0000 {
        NO_EXPONENT
    } else {
        finite
    }
}

/// 2^e as two factors, for an exponent that is one.
#[inline(always)]
pub fn scale(e: i32) -> [f32; 2] {
    let first = e >> 1;
    [first, e - first].map(|e| f32::from_bits(((e + 127) as u32) << 23))
}

/// 2^-e as two factors; NaN where there is no exponent.
#[inline(always)]
pub fn factors(e: i32) -> [f32; 2] {
    let nan = f32::from_bits(0x7fc0_0000);
    scale(-e).map(|factor| if e == NO_EXPONENT { nan } else { factor })
}

/// `x 2^e` to the nearest integer, ties to even. Either product is exact, or so small that zero is the nearest integer;
/// NaN and infinities, which have no exponent, become zeros.
#[inline(always)]
pub fn quantised<A: FloatOps>(x: f32, [first, second]: [f32; 2]) -> i32 {
    /// Added to a number below 2^22, it rounds where the unit is 1.
    const UNIT: f32 = 12_582_912.0;
    let finite = if x.abs() < f32::INFINITY { x } else { 0.0 };
    let scaled = A::mul(A::mul(finite, first), second);
    arith::add(scaled, UNIT).to_bits() as i32 - UNIT.to_bits() as i32
}
