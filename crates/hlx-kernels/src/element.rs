//! An element of any type as a 32-bit word, and its key in the order of numbers: the CPU twin of
//! `shaders/include/element.glsl` and `order_key.glsl`.
//!
//! f32, i32 and u32 are as they lie, f16 and bf16 the f32 of the same value (f16's subnormals are
//! normal numbers there, bf16's count as zeros), i8 sign-extended, u8 and bool zero-extended.

use bytemuck::cast_slice;
use hlx_core::DType;

/// The key of every NaN, above all others.
pub(crate) const NAN_KEY: u32 = u32::MAX;

/// The type that values of a type are computed in, that of widened elements: f32 for floats, else 32
/// bits of the same sign.
pub(crate) fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        DType::I32 | DType::I8 => DType::I32,
        DType::U32 | DType::U8 | DType::Bool => DType::U32,
    }
}

/// Copies `out.len()` elements from place `start` on, `stride` apart, as words.
pub(crate) fn gather(dtype: DType, words: &[u32], start: usize, stride: isize, out: &mut [u32]) {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => each(words, start, stride, out, |word| word),
        DType::F16 => each(cast_slice(words), start, stride, out, |half: u16| {
            from_f16(half.into())
        }),
        DType::BF16 => each(cast_slice(words), start, stride, out, |half: u16| {
            from_bf16(half.into())
        }),
        DType::I8 => each(cast_slice(words), start, stride, out, |byte: i8| {
            i32::from(byte) as u32
        }),
        DType::U8 | DType::Bool => each(cast_slice(words), start, stride, out, |byte: u8| {
            u32::from(byte)
        }),
    }
}

fn each<T: Copy>(x: &[T], start: usize, stride: isize, out: &mut [u32], widen: impl Fn(T) -> u32) {
    if stride == 1 {
        for (slot, value) in out.iter_mut().zip(&x[start..]) {
            *slot = widen(*value);
        }
        return;
    }
    let mut place = start;
    for slot in out {
        *slot = widen(x[place]);
        place = place.wrapping_add_signed(stride);
    }
}

/// The bits of the f32 with the value of an f16, without a branch, so that compilers make vectors of
/// it.
#[inline(always)]
pub(crate) fn from_f16(bits: u32) -> u32 {
    let magnitude = bits & 0x7fff;
    // A subnormal is a count of 2^-24.
    let tiny = (magnitude as f32 * f32::from_bits(0x3380_0000)).to_bits();
    let normal = (magnitude << 13) + 0x3800_0000;
    let value = if magnitude < 0x0400 { tiny } else { normal };
    let special = (magnitude << 13) | 0x7f80_0000;
    let value = if magnitude >= 0x7c00 { special } else { value };
    value | ((bits & 0x8000) << 16)
}

/// The bits of the f32 with the value of a bf16; a subnormal is a zero of its sign.
#[inline(always)]
pub(crate) fn from_bf16(bits: u32) -> u32 {
    let mask = if bits & 0x7f80 == 0 { 0x8000 } else { 0xffff };
    (bits & mask) << 16
}

/// An unsigned integer that orders widened elements as their numbers: one key for both zeros, and
/// [`NAN_KEY`] for NaN.
#[inline(always)]
pub(crate) fn order_key(dtype: DType, bits: u32) -> u32 {
    match dtype {
        DType::I32 | DType::I8 => bits ^ 0x8000_0000,
        DType::F32 | DType::F16 | DType::BF16 => flipped_key_of_float(bits, 0),
        DType::U32 | DType::U8 | DType::Bool => bits,
    }
}

/// [`order_key`] of a float's bits with the bits of `flip` inverted, but NaN above all; without a branch, so
/// that compilers make vectors of it.
#[inline(always)]
pub(crate) fn flipped_key_of_float(bits: u32, flip: u32) -> u32 {
    let sign = (bits as i32 >> 31) as u32;
    // -0 would be one below +0.
    let ordered = (bits ^ (sign | 0x8000_0000)).wrapping_add(u32::from(bits == 0x8000_0000));
    let nan = 0_u32.wrapping_sub(u32::from(bits & 0x7fff_ffff > 0x7f80_0000));
    (ordered ^ flip) | nan
}

/// The word with this key: +0 for zeros, the quiet NaN `0x7fc00000` for NaN.
pub(crate) fn from_order_key(dtype: DType, key: u32) -> u32 {
    match dtype {
        DType::I32 | DType::I8 => key ^ 0x8000_0000,
        DType::U32 | DType::U8 | DType::Bool => key,
        _ if key == NAN_KEY => 0x7fc0_0000,
        _ if key >> 31 == 1 => key & 0x7fff_ffff,
        _ => !key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_and_bf16_widens_to_its_value() {
        for bits in 0..=u16::MAX {
            let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
            let half = f32::from_bits(from_f16(bits.into()));
            let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
            let want = match exponent {
                0 => fraction * 2.0_f64.powi(-24),
                31 if fraction > 0.0 => f64::NAN,
                31 => f64::INFINITY,
                _ => (1024.0 + fraction) * 2.0_f64.powi(i32::from(exponent) - 25),
            };
            let want = (sign * want) as f32;
            assert!(
                half.to_bits() == want.to_bits() || (half.is_nan() && want.is_nan()),
                "f16 {bits:#x}: {half:e}, expected {want:e}"
            );
            let upper = f32::from_bits(u32::from(bits) << 16);
            let want = if upper.is_subnormal() { 0.0 } else { upper };
            let want = want.copysign(sign as f32).to_bits();
            assert_eq!(from_bf16(bits.into()), want, "bf16 {bits:#x}");
        }
    }

    #[test]
    fn keys_have_the_order_of_numbers_and_read_back() {
        let floats = [
            f32::NEG_INFINITY,
            -2.5,
            -f32::MIN_POSITIVE,
            0.0,
            f32::MIN_POSITIVE,
            1.0,
            f32::INFINITY,
        ];
        let keys = floats.map(|x| order_key(DType::F32, x.to_bits()));
        assert!(keys.is_sorted_by(|a, b| a < b));
        for (x, key) in floats.iter().zip(keys) {
            assert_eq!(from_order_key(DType::F32, key), x.to_bits());
        }
        assert_eq!(order_key(DType::F32, (-0.0_f32).to_bits()), keys[3]);
        let negative_nan = (-f32::NAN).to_bits();
        assert_eq!(order_key(DType::F32, negative_nan), NAN_KEY);
        let integers = [i32::MIN, -1, 0, 1, i32::MAX].map(|x| order_key(DType::I32, x as u32));
        assert!(integers.is_sorted_by(|a, b| a < b));
        assert_eq!(from_order_key(DType::I32, integers[1]), u32::MAX);
    }
}
