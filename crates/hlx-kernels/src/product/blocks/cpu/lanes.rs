//! Vectors of 16 integers of 32 bits, and what the sums do with them.

use super::super::format::{E2M1, NF4, PANEL};

/// Operations on 16 integers of 32 bits, of which some are four bytes each.
///
/// # Safety
/// The methods are called by code that is compiled for the instructions that they use.
pub(super) trait Lanes {
    type Ints: Copy;

    fn splat(x: i32) -> Self::Ints;
    fn load(words: &[u32; PANEL]) -> Self::Ints;
    fn store(x: Self::Ints, to: &mut [i32; PANEL]);
    fn add(x: Self::Ints, y: Self::Ints) -> Self::Ints;
    fn mul(x: Self::Ints, y: Self::Ints) -> Self::Ints;
    fn or(x: Self::Ints, y: Self::Ints) -> Self::Ints;
    fn xor(x: Self::Ints, mask: i32) -> Self::Ints;
    /// The bits of a mask, behind a shift to the right.
    fn masked<const MASK: i32>(x: Self::Ints, shift: usize) -> Self::Ints;
    fn left(x: Self::Ints, shift: usize) -> Self::Ints;
    /// Byte i with its sign.
    fn signed_byte(x: Self::Ints, i: usize) -> Self::Ints;
    /// Byte i without a sign.
    fn byte(x: Self::Ints, i: usize) -> Self::Ints;
    /// Four integers of a table by their places.
    fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints;
    /// `sum + sum over the words of the dot products of four bytes`, of which the first have no sign and are at most `largest`.
    fn dots(sum: Self::Ints, bytes: &[Self::Ints], x: &[i32], largest: i32) -> Self::Ints;
}

/// The integers of a format without signs, by their bits, for each 16 bytes of a vector.
pub(super) type Table = [[u8; 16]; 4];

/// The table of E2M1: the doubled values plus 12.
pub(super) static E2M1_BYTES: Table = without_signs(&E2M1, 12);
/// The table of NF4: the levels plus 127.
pub(super) static NF4_BYTES: Table = without_signs(&NF4, 127);

const fn without_signs(levels: &[i8; 16], offset: i16) -> Table {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = (levels[i] as i16 + offset) as u8;
        i += 1;
    }
    [bytes; 4]
}

/// Plain Rust, for compilers to make vectors of.
pub(super) struct Portable;

impl Lanes for Portable {
    type Ints = [i32; PANEL];

    #[inline(always)]
    fn splat(x: i32) -> Self::Ints {
        [x; PANEL]
    }

    #[inline(always)]
    fn load(words: &[u32; PANEL]) -> Self::Ints {
        words.map(|word| word as i32)
    }

    #[inline(always)]
    fn store(x: Self::Ints, to: &mut [i32; PANEL]) {
        *to = x;
    }

    #[inline(always)]
    fn add(x: Self::Ints, y: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| x[i].wrapping_add(y[i]))
    }

    #[inline(always)]
    fn mul(x: Self::Ints, y: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| x[i].wrapping_mul(y[i]))
    }

    #[inline(always)]
    fn or(x: Self::Ints, y: Self::Ints) -> Self::Ints {
        std::array::from_fn(|i| x[i] | y[i])
    }

    #[inline(always)]
    fn xor(x: Self::Ints, mask: i32) -> Self::Ints {
        x.map(|x| x ^ mask)
    }

    #[inline(always)]
    fn masked<const MASK: i32>(x: Self::Ints, shift: usize) -> Self::Ints {
        x.map(|x| (x >> shift) & MASK)
    }

    #[inline(always)]
    fn left(x: Self::Ints, shift: usize) -> Self::Ints {
        x.map(|x| x << shift)
    }

    #[inline(always)]
    fn signed_byte(x: Self::Ints, i: usize) -> Self::Ints {
        x.map(|x| x << (24 - 8 * i) >> 24)
    }

    #[inline(always)]
    fn byte(x: Self::Ints, i: usize) -> Self::Ints {
        x.map(|x| (x >> (8 * i)) & 0xff)
    }

    #[inline(always)]
    fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints {
        let of = |byte: u8| table[0][usize::from(byte & 15)];
        x.map(|x| i32::from_le_bytes(x.to_le_bytes().map(of)))
    }

    #[inline(always)]
    fn dots(sum: Self::Ints, bytes: &[Self::Ints], x: &[i32], _largest: i32) -> Self::Ints {
        let mut sum = sum;
        for (bytes, x) in bytes.iter().zip(x) {
            let x = x.to_le_bytes().map(|x| i32::from(x as i8));
            for (sum, bytes) in sum.iter_mut().zip(bytes) {
                for (i, x) in x.into_iter().enumerate() {
                    *sum += ((bytes >> (8 * i)) & 0xff) * x;
                }
            }
        }
        sum
    }
}
