//! Words as the bytes that files hold: little-endian.

use std::borrow::Cow;

use bytemuck::Pod;

/// Returns the words' bytes; on a little-endian machine the words themselves.
pub fn little_endian<T: Pod>(words: &[T]) -> Cow<'_, [u8]> {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytes);
    }
    let words = bytes.chunks_exact(size_of::<T>());
    words.flat_map(|word| word.iter().rev().copied()).collect()
}

/// Returns the values of bytes, whose last ones are left out if they are fewer than four.
pub fn f32_from_little_endian(bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0_f32; bytes.len() / 4];
    let place: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
    place.copy_from_slice(&bytes[..place.len()]);
    for value in &mut values {
        *value = f32::from_bits(u32::from_le(value.to_bits()));
    }
    values
}

/// Returns bytes as lower-case hexadecimal digits, two per byte.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_values_wherever_they_lie() {
        let values = [1.5_f32, -0.0, f32::from_bits(0x7fc0_1234), 3e-39];
        let expected: Vec<u8> = values.iter().flat_map(|one| one.to_le_bytes()).collect();
        assert_eq!(*little_endian(&values), expected);
        assert_eq!(*little_endian(&[0x0102_u16]), [2, 1]);
        let bits = |values: &[f32]| values.iter().map(|one| one.to_bits()).collect::<Vec<_>>();
        for before in 0..4 {
            let moved = [&vec![0; before], &expected[..], &[7]].concat();
            assert_eq!(
                bits(&f32_from_little_endian(&moved[before..])),
                bits(&values)
            );
        }
        assert!(f32_from_little_endian(&[1, 2, 3]).is_empty());
    }
}
