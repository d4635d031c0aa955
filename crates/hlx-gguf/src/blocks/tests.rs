//! Every block's bytes and integers are each other's, and its values are those of the formula.

use super::*;

/// Blocks of any bytes, with finite scales.
pub(crate) fn blocks(kind: BlockKind, n: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32 ^ kind.id();
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 11) as u8
    };
    let mut bytes: Vec<u8> = (0..n * kind.block_bytes()).map(|_| byte()).collect();
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        for &place in kind.halves() {
            // Infinities and NaN have all bits of the exponent.
            block[place + 1] &= 0xbf;
        }
    }
    bytes
}

fn of_integers() -> impl Iterator<Item = BlockKind> {
    BlockKind::ALL.into_iter().filter(|kind| !kind.is_float())
}

#[test]
fn a_block_packs_to_the_bytes_that_it_was_unpacked_from() {
    for kind in of_integers() {
        for bytes in blocks(kind, 50).chunks_exact(kind.block_bytes()) {
            let block = Block::unpack(kind, bytes).expect("a block");
            let (least, largest) = kind.range();
            let q = &block.q[..kind.block_values()];
            assert!(q.iter().all(|q| (least..=largest).contains(q)), "{kind:?}");
            let mut packed = vec![0xaa; bytes.len()];
            block.pack(kind, &mut packed).expect("a block");
            let mut bytes = bytes.to_vec();
            if kind == BlockKind::MXFP4 {
                // The zero with a sign is written as the other.
                for byte in &mut bytes[1..] {
                    *byte &= if *byte & 0x0f == 0x08 { 0xf0 } else { 0xff };
                    *byte &= if *byte & 0xf0 == 0x80 { 0x0f } else { 0xff };
                }
            }
            assert_eq!(packed, bytes, "{kind:?}");
        }
    }
}

#[test]
fn every_power_of_mxfp4_is_its_byte() {
    for e in 0..=255 {
        let d = floats::half_power(e);
        assert_eq!(floats::power_byte(d), e);
        assert_eq!(floats::wide(d).log2(), f64::from(e) - 128.0);
    }
}

#[test]
fn subnormals_are_zeros_of_their_sign() {
    let words = [0x8000_0001_u32, 0x007f_ffff, 0x0080_0000, 0xff80_0000];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bits = |kind, bytes: &[u8]| -> Vec<u32> {
        let values = widen(kind, bytes).expect("whole blocks");
        values.into_iter().map(f32::to_bits).collect()
    };
    let flushed = [0x8000_0000, 0, 0x0080_0000, 0xff80_0000];
    assert_eq!(bits(BlockKind::F32, &bytes), flushed);
    let halves = [0x01, 0x80, 0x7f, 0x00, 0x80, 0x00];
    let flushed = [0x8000_0000, 0, 0x0080_0000];
    assert_eq!(bits(BlockKind::BF16, &halves), flushed);
    // Those of f16 are normal in f32.
    assert_eq!(bits(BlockKind::F16, &[1, 0]), [0x3380_0000]);
    // 2^-128 times 1 and 4, the latter of which is normal.
    let mut block = [0; 17];
    (block[1], block[2]) = (0x01, 0x04);
    assert_eq!(bits(BlockKind::MXFP4, &block)[..2], [0, 0x0080_0000]);
}

#[test]
fn blocks_of_mxfp4_whose_scale_is_a_subnormal_have_the_values_that_are_none() {
    let e2m1 = [0, 1, 2, 3, 4, 6, 8, 12];
    for exponent in [0_u8, 1, 2] {
        let mut bytes = [0; 17];
        bytes[0] = exponent;
        for (at, byte) in bytes[1..9].iter_mut().enumerate() {
            // Both signs of each value.
            *byte = (at as u8) | ((at as u8 | 8) << 4);
        }
        let block = Block::unpack(BlockKind::MXFP4, &bytes).expect("a block");
        assert_eq!(block.d.is_subnormal(), exponent < 2);
        let power = 2_f64.powi(i32::from(exponent) - 128);
        assert_eq!(f64::from(block.d), power);
        let values = widen(BlockKind::MXFP4, &bytes).expect("values");
        for (at, &q) in e2m1.iter().enumerate() {
            let exact = f64::from(q) * power;
            let expected = if exact < f64::from(f32::MIN_POSITIVE) {
                0.0
            } else {
                exact
            };
            assert_eq!(f64::from(values[at]), expected, "{exponent} {q}");
            assert_eq!(f64::from(values[at + 16]), -expected, "{exponent} {q}");
        }
    }
}

#[test]
fn bytes_that_are_no_whole_blocks_are_refused() {
    let refused = widen(BlockKind::Q4K, &[0; 143]).expect_err("one byte less");
    let expected = "widen: 143 bytes, expected a multiple of 144, a block of Q4_K";
    assert_eq!(refused.to_string(), expected);
    let refused = Block::unpack(BlockKind::F16, &[0; 2]).expect_err("floats");
    let expected = "Block::unpack: F16 has no blocks of integers";
    assert_eq!(refused.to_string(), expected);
}
