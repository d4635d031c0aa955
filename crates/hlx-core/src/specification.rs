//! The number of the specification that every kernel and function of this build follows.

/// The version of HLX's arithmetic: every written order of summation, formula and constant.
///
/// Runs, checkpoints and chains store it, and results of two numbers are not compared. It is
/// raised in the same change that alters any bit of a kernel's or function's result
/// (`docs/numerics.md`, "The specification's number"). Files from before the number have none,
/// which means 1.
pub const SPECIFICATION: u32 = 2;

/// The oldest number whose runs this build continues and checks: from it to [`SPECIFICATION`] bits have
/// changed only where a value is not finite.
pub const FINITE_SINCE: u32 = 1;
