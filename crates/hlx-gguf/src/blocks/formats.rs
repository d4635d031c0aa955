//! The layout of each kind's block in bytes, read and written.

use super::Block;
use super::floats::{f16_at, half_power, power_byte, set_f16};
use super::planes::{pack, pack_scales, unpack, unpack_scales};
use crate::kind::BlockKind;

/// The doubled values of E2M1, by their 4 bits without the sign.
const E2M1: [i8; 8] = [0, 1, 2, 3, 4, 6, 8, 12];

/// The 4 bits of a doubled value of E2M1. The zero with a sign has the bits of the other in [`Block`].
fn e2m1_bits(q: i8) -> u8 {
    let magnitude = E2M1.iter().position(|&value| value == q.abs());
    // Every q of a block is one of the values.
    magnitude.unwrap_or(0) as u8 | u8::from(q < 0) << 3
}

fn e2m1(bits: u8) -> i8 {
    let magnitude = E2M1[usize::from(bits & 7)];
    match bits & 8 {
        0 => magnitude,
        _ => -magnitude,
    }
}

/// Sets q to unsigned numbers minus an offset.
fn set(block: &mut Block, numbers: &[u8], offset: i8) {
    for (q, &number) in block.q.iter_mut().zip(numbers) {
        *q = number as i8 - offset;
    }
}

/// What [`pack`] takes: q plus an offset.
fn numbers<const N: usize>(block: &Block, offset: i8) -> [u8; N] {
    std::array::from_fn(|at| block.q[at].wrapping_add(offset) as u8)
}

fn twelve(bytes: &[u8], at: usize) -> [u8; 12] {
    std::array::from_fn(|place| bytes[at + place])
}

fn eight<T: Copy, U>(values: &[T; 16], convert: impl Fn(T) -> U) -> [U; 8] {
    std::array::from_fn(|at| convert(values[at]))
}

/// Reads the bytes of a block, whose number is the kind's.
pub(super) fn unpack_into(kind: BlockKind, bytes: &[u8], block: &mut Block) {
    match kind {
        BlockKind::Q8_0 => {
            for (q, &byte) in block.q.iter_mut().zip(&bytes[2..]) {
                *q = byte as i8;
            }
        }
        BlockKind::Q4_0 | BlockKind::Q4_1 => {
            let (offset, at) = if kind == BlockKind::Q4_0 {
                (8, 2)
            } else {
                (0, 4)
            };
            let mut numbers = [0; 32];
            unpack::<4, 16>(&bytes[at..], 0, &mut numbers);
            set(block, &numbers, offset);
        }
        BlockKind::Q5_0 | BlockKind::Q5_1 => {
            let (offset, at) = if kind == BlockKind::Q5_0 {
                (16, 2)
            } else {
                (0, 4)
            };
            let mut numbers = [0; 32];
            unpack::<4, 16>(&bytes[at + 4..], 0, &mut numbers);
            unpack::<1, 1>(&bytes[at..at + 4], 4, &mut numbers);
            set(block, &numbers, offset);
        }
        BlockKind::Q2K => {
            let mut numbers = [0; 256];
            unpack::<2, 32>(&bytes[16..80], 0, &mut numbers);
            set(block, &numbers, 0);
            for (at, &both) in bytes[..16].iter().enumerate() {
                (block.scales[at], block.mins[at]) = ((both & 15) as i8, both >> 4);
            }
        }
        BlockKind::Q3K => {
            let mut numbers = [0; 256];
            unpack::<2, 32>(&bytes[32..96], 0, &mut numbers);
            unpack::<1, 32>(&bytes[..32], 2, &mut numbers);
            set(block, &numbers, 4);
            let mut scales = [0; 16];
            unpack::<4, 8>(&bytes[96..104], 0, &mut scales);
            unpack::<2, 4>(&bytes[104..108], 4, &mut scales);
            block.scales = scales.map(|scale| scale as i8 - 32);
        }
        BlockKind::Q4K | BlockKind::Q5K => {
            let low = if kind == BlockKind::Q4K { 16 } else { 48 };
            let mut numbers = [0; 256];
            unpack::<4, 32>(&bytes[low..], 0, &mut numbers);
            unpack::<1, 32>(&bytes[16..low], 4, &mut numbers);
            set(block, &numbers, 0);
            let [scales, mins] = unpack_scales(&twelve(bytes, 4));
            for at in 0..8 {
                (block.scales[at], block.mins[at]) = (scales[at] as i8, mins[at]);
            }
        }
        BlockKind::Q6K => {
            let mut numbers = [0; 256];
            unpack::<4, 64>(&bytes[..128], 0, &mut numbers);
            unpack::<2, 32>(&bytes[128..192], 4, &mut numbers);
            set(block, &numbers, 32);
            for (scale, &byte) in block.scales.iter_mut().zip(&bytes[192..208]) {
                *scale = byte as i8;
            }
        }
        BlockKind::MXFP4 => {
            let mut numbers = [0; 32];
            unpack::<4, 16>(&bytes[1..], 0, &mut numbers);
            for (q, bits) in block.q.iter_mut().zip(numbers) {
                *q = e2m1(bits);
            }
        }
        BlockKind::F32 | BlockKind::F16 | BlockKind::BF16 => {}
    }
    unpack_floats(kind, bytes, block);
}

fn unpack_floats(kind: BlockKind, bytes: &[u8], block: &mut Block) {
    (block.d, block.dmin) = match kind {
        BlockKind::Q8_0 | BlockKind::Q4_0 | BlockKind::Q5_0 => (f16_at(bytes, 0), 0.0),
        BlockKind::Q4_1 | BlockKind::Q5_1 => {
            block.mins[0] = 1;
            (f16_at(bytes, 0), -f16_at(bytes, 2))
        }
        BlockKind::Q2K => (f16_at(bytes, 80), f16_at(bytes, 82)),
        BlockKind::Q3K => (f16_at(bytes, 108), 0.0),
        BlockKind::Q4K | BlockKind::Q5K => (f16_at(bytes, 0), f16_at(bytes, 2)),
        BlockKind::Q6K => (f16_at(bytes, 208), 0.0),
        BlockKind::MXFP4 => (half_power(bytes[0]), 0.0),
        BlockKind::F32 | BlockKind::F16 | BlockKind::BF16 => (0.0, 0.0),
    };
}

/// The reverse of [`unpack_into`].
pub(super) fn pack_into(kind: BlockKind, block: &Block, bytes: &mut [u8]) {
    match kind {
        BlockKind::Q8_0 => {
            for (byte, &q) in bytes[2..].iter_mut().zip(&block.q) {
                *byte = q as u8;
            }
        }
        BlockKind::Q4_0 => pack::<4, 16>(&numbers::<32>(block, 8), 0, &mut bytes[2..]),
        BlockKind::Q4_1 => pack::<4, 16>(&numbers::<32>(block, 0), 0, &mut bytes[4..]),
        BlockKind::Q5_0 | BlockKind::Q5_1 => {
            let (offset, at) = if kind == BlockKind::Q5_0 {
                (16, 2)
            } else {
                (0, 4)
            };
            let numbers = numbers::<32>(block, offset);
            pack::<1, 1>(&numbers, 4, &mut bytes[at..at + 4]);
            pack::<4, 16>(&numbers, 0, &mut bytes[at + 4..]);
        }
        BlockKind::Q2K => {
            pack::<2, 32>(&numbers::<256>(block, 0), 0, &mut bytes[16..80]);
            for (at, both) in bytes[..16].iter_mut().enumerate() {
                *both = block.scales[at] as u8 & 15 | block.mins[at] << 4;
            }
        }
        BlockKind::Q3K => {
            let numbers = numbers::<256>(block, 4);
            pack::<1, 32>(&numbers, 2, &mut bytes[..32]);
            pack::<2, 32>(&numbers, 0, &mut bytes[32..96]);
            let scales = block.scales.map(|scale| scale.wrapping_add(32) as u8);
            pack::<4, 8>(&scales, 0, &mut bytes[96..104]);
            pack::<2, 4>(&scales, 4, &mut bytes[104..108]);
        }
        BlockKind::Q4K | BlockKind::Q5K => {
            let low = if kind == BlockKind::Q4K { 16 } else { 48 };
            let numbers = numbers::<256>(block, 0);
            pack::<1, 32>(&numbers, 4, &mut bytes[16..low]);
            pack::<4, 32>(&numbers, 0, &mut bytes[low..]);
            let scales = eight(&block.scales, |scale| scale as u8);
            let both = [scales, eight(&block.mins, |min| min)];
            bytes[4..16].copy_from_slice(&pack_scales(both));
        }
        BlockKind::Q6K => {
            let numbers = numbers::<256>(block, 32);
            pack::<4, 64>(&numbers, 0, &mut bytes[..128]);
            pack::<2, 32>(&numbers, 4, &mut bytes[128..192]);
            for (byte, &scale) in bytes[192..208].iter_mut().zip(&block.scales) {
                *byte = scale as u8;
            }
        }
        BlockKind::MXFP4 => {
            let bits: [u8; 32] = std::array::from_fn(|at| e2m1_bits(block.q[at]));
            pack::<4, 16>(&bits, 0, &mut bytes[1..]);
        }
        BlockKind::F32 | BlockKind::F16 | BlockKind::BF16 => {}
    }
    pack_floats(kind, block, bytes);
}

fn pack_floats(kind: BlockKind, block: &Block, bytes: &mut [u8]) {
    match kind {
        BlockKind::Q8_0 | BlockKind::Q4_0 | BlockKind::Q5_0 => set_f16(bytes, 0, block.d),
        BlockKind::Q4_1 | BlockKind::Q5_1 => {
            set_f16(bytes, 0, block.d);
            set_f16(bytes, 2, -block.dmin);
        }
        BlockKind::Q2K => {
            set_f16(bytes, 80, block.d);
            set_f16(bytes, 82, block.dmin);
        }
        BlockKind::Q3K => set_f16(bytes, 108, block.d),
        BlockKind::Q4K | BlockKind::Q5K => {
            set_f16(bytes, 0, block.d);
            set_f16(bytes, 2, block.dmin);
        }
        BlockKind::Q6K => set_f16(bytes, 208, block.d),
        BlockKind::MXFP4 => bytes[0] = power_byte(block.d),
        BlockKind::F32 | BlockKind::F16 | BlockKind::BF16 => {}
    }
}
