//! Vectors of 16 integers of 32 bits, and what the sums do with them.

use super::super::format::{BlockFormat, E2M1, NF4, PANEL};

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
    /// Four integers of a table by their places.
    fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints;
    /// `sum + sum over the words of the dot products of four bytes`, of which the first have no sign and are at most `largest`.
    fn dots(sum: Self::Ints, bytes: &[Self::Ints], x: &[i32], largest: i32) -> Self::Ints;
    /// Has lines brought into the cache, from a place on, which may be behind the last one.
    #[inline(always)]
    fn prefetch(_lines: &[[u32; PANEL]], _first: usize, _n: usize) {}
}

/// What the chains of blocks do with vectors of 16 floats, by instructions that round and flush as the law says.
///
/// # Safety
/// As [`Lanes`].
pub(super) trait Chains: Lanes {
    type Floats: Copy;

    fn load_floats(from: &[f32; PANEL]) -> Self::Floats;
    fn store_floats(x: Self::Floats, to: &mut [f32; PANEL]);
    /// The floats that are nearest to integers.
    fn nearest(x: Self::Ints) -> Self::Floats;
    /// What multiplies sums, of the lower 16 bits, of the upper ones, or of all 32, as the format has them.
    fn wide(format: &BlockFormat, x: Self::Ints, upper: bool) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `c - a * b`, rounded once.
    fn fnma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    fn splat_float(x: f32) -> Self::Floats;
    /// Shifted to the right with the sign.
    fn shifted<const N: u32>(x: Self::Ints) -> Self::Ints;

    /// The float that is nearest to `256 high + low`.
    #[inline(always)]
    fn joined(high: Self::Ints, low: Self::Ints) -> Self::Floats {
        let upper = Self::add(high, Self::shifted::<8>(low));
        // Both halves are exact, and the multiply-add rounds once.
        let lower = Self::left(Self::masked::<0xffff>(upper, 0), 8);
        let lower = Self::nearest(Self::or(lower, Self::masked::<0xff>(low, 0)));
        let upper = Self::nearest(Self::shifted::<16>(upper));
        Self::fma(upper, Self::splat_float(16_777_216.0), lower)
    }
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
