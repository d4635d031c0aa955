//! Floats of 16 and 32 bits, and powers of two.

use half::{bf16, f16};
use hlx_core::arith::flush;

use crate::Result;
use crate::error::GgufError;
use crate::kind::BlockKind;

/// Computes the values of stored floats; subnormals of f32 become zeros of their sign.
pub(super) fn widen(kind: BlockKind, bytes: &[u8], values: &mut [f32]) {
    let halves = bytes.as_chunks::<2>().0.iter();
    match kind {
        BlockKind::F16 => {
            for (value, &two) in values.iter_mut().zip(halves) {
                *value = f16::from_le_bytes(two).to_f32();
            }
        }
        BlockKind::BF16 => {
            for (value, &two) in values.iter_mut().zip(halves) {
                *value = flush(bf16::from_le_bytes(two).to_f32());
            }
        }
        _ => {
            let words = bytes.as_chunks::<4>().0.iter();
            for (value, &word) in values.iter_mut().zip(words) {
                *value = flush(f32::from_le_bytes(word));
            }
        }
    }
}

/// Rounds values to floats of a kind, to the nearest, ties to even; subnormals of f32 become zeros.
///
/// # Errors
/// [`GgufError::Argument`] for a kind of integers, and for a finite value that f16 does not reach.
pub fn narrow(kind: BlockKind, values: &[f32]) -> Result<Vec<u8>> {
    const OP: &str = "narrow";
    let flushed = values.iter().map(|&value| flush(value));
    Ok(match kind {
        BlockKind::F32 => flushed.flat_map(f32::to_le_bytes).collect(),
        BlockKind::BF16 => {
            let rounded = flushed.map(|value| flush(bf16::from_f32(value).to_f32()));
            let rounded = rounded.map(bf16::from_f32);
            rounded.flat_map(bf16::to_le_bytes).collect()
        }
        BlockKind::F16 => {
            let mut bytes = Vec::with_capacity(values.len().saturating_mul(2));
            for (at, value) in flushed.enumerate() {
                let rounded = f16::from_f32(value);
                if rounded.is_infinite() && value.is_finite() {
                    let reason = format!("value {at} is {value}, which f16 does not reach");
                    return Err(GgufError::argument(OP, reason));
                }
                bytes.extend(rounded.to_le_bytes());
            }
            bytes
        }
        other => {
            let reason = format!(
                "{} has no floats; `quantise` makes its blocks",
                other.name()
            );
            return Err(GgufError::argument(OP, reason));
        }
    })
}

/// Half of the power of two of a byte of MXFP4, 2^(e - 128), by its bits.
pub(crate) fn half_power(e: u8) -> f32 {
    f32::from_bits(match e {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        e => u32::from(e - 1) << 23,
    })
}

/// The reverse of [`half_power`].
pub(super) fn power_byte(d: f32) -> u8 {
    let bits = d.to_bits() & 0x7fff_ffff;
    match bits >> 23 {
        0 => u8::from(bits >= 0x0040_0000),
        exponent => exponent as u8 + 1,
    }
}

/// The value in f64, whatever the thread's mode for subnormals.
pub(super) fn wide(d: f32) -> f64 {
    const LEAST: f64 = f64::from_bits(0x36a0_0000_0000_0000); // 2^-149
    let bits = d.to_bits();
    match bits >> 23 & 0xff {
        0 => f64::from(bits & 0x007f_ffff) * LEAST,
        _ => f64::from(d),
    }
}

/// The f16 at the start of bytes, in f32.
pub(super) fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Writes an f16.
pub(super) fn set_f16(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}
