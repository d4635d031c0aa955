//! What the numbers of the command line may be: far above what a verb needs, and far below what overflows.

use std::ops::RangeInclusive;

use clap::builder::RangedU64ValueParser;

/// The most tokens of a text, a vocabulary or a window.
pub const MAX_TOKENS: u64 = 1 << 24;

/// The most texts that are written at a time.
pub const MAX_TEXTS: usize = 1 << 20;

/// The most threads.
pub const MAX_THREADS: u64 = hlx_core::environment::MAX_THREADS as u64;

/// Reads a whole number of a range.
pub fn within(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}
