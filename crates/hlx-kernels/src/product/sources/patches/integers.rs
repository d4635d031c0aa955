//! Convolutions over integers, by the law of [`crate::product::quantised`]: products of patches that are stored as integers, so many at
//! a time as fit in bounded memory. How many changes no bit.

mod columns;
mod cpu;
mod part;
mod rows;

use crate::tuning::KernelTuning;
use hlx_core::Device;

#[cfg(test)]
pub(crate) use part::Cut;

/// Bytes of digits that a launch's operand may take.
fn most_bytes(device: &Device) -> usize {
    let most = KernelTuning::of(device).integer_patch_bytes;
    most.min(device.max_binding_words().saturating_mul(4))
}

/// So many of `all` at a time as have at most `most` bytes, a multiple of `of`, if not all of them.
fn at_once(all: usize, bytes: usize, most: usize, of: usize) -> usize {
    match all * bytes <= most {
        true => all,
        false => (most / bytes.max(1) / of * of).clamp(of.min(all), all),
    }
}
