//! What the numbers of the command line may be: far above what a verb needs, and far below what overflows.

use std::ops::RangeInclusive;

/// The most tokens of a text, a vocabulary or a window.
pub const MAX_TOKENS: u64 = 1 << 24;

/// The most texts that are written at a time.
pub const MAX_TEXTS: usize = 1 << 20;

/// The most threads.
pub const MAX_THREADS: u64 = hlx_core::environment::MAX_THREADS as u64;

/// Reads a whole number of a range.
pub fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
    }
}

/// Reads a number that an f32 holds; what a verb makes of NaN and infinity is its own to say.
pub fn real(text: &str) -> Result<f32, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| !number.is_finite() || (*number as f32).is_finite());
    // Rounded once, from the text.
    let number = number.and_then(|_| text.parse().ok());
    number.ok_or_else(|| format!("expected a number of at most {:e}", f32::MAX))
}
