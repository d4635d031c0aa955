//! Sums by the dot products of bytes that x86 has: VNNI of AVX-512 and of AVX2, and AVX2's products of pairs.

use std::arch::x86_64::*;

use hlx_core::cpu::SimdLevel;

use super::super::format::PANEL;
use super::lanes::{Lanes, Table};
use super::sums::{Instructions, all_rows, kernels_of};
use super::{ROWS, Row, Sums};

/// Those that the processor has at the level, the slowest first.
pub(super) fn instructions(level: SimdLevel) -> impl Iterator<Item = Instructions> {
    let (narrow, wide) = (level == SimdLevel::Avx2, level == SimdLevel::Avx512);
    let has = [
        narrow || wide,
        (narrow || wide) && is_x86_feature_detected!("avxvnni"),
        wide && is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw"),
    ];
    let all = [
        Instructions::new(kernels_of!(avx2)),
        Instructions::new(kernels_of!(avx_vnni)),
        Instructions::new(kernels_of!(avx512_vnni)),
    ];
    let all = all.into_iter().zip(has);
    all.filter(|(_, has)| *has)
        .map(|(instructions, _)| instructions)
}

macro_rules! kernels {
    ($($(#[$comment:meta])* $name:ident, $features:literal, $lanes:ty;)+) => {$(
        $(#[$comment])*
        #[target_feature(enable = $features)]
        unsafe fn $name<const F: usize>(words: &[u32], rows: &[Row<'_>], sums: &mut [Sums; ROWS]) {
            all_rows::<$lanes, F>(words, rows, sums);
        }
    )+};
}

kernels! {
    /// # Safety
    /// The processor has AVX2.
    avx2, "avx2", Pairs;
    /// # Safety
    /// The processor has AVX2 and AVX-VNNI.
    avx_vnni, "avx2,avxvnni", Vnni;
    /// # Safety
    /// The processor has AVX-512 F, BW and VNNI.
    avx512_vnni, "avx512f,avx512bw,avx512vnni", Wide;
}

/// Two vectors of eight, whose dot products are sums of pairs in 16 bits.
struct Pairs;

/// Two vectors of eight, with dot products of four bytes.
struct Vnni;

/// One vector of sixteen.
struct Wide;

macro_rules! narrow {
    ($name:ident, $dots:item) => {
        // SAFETY: the methods are inlined into kernels that are compiled for AVX2.
        impl Lanes for $name {
            type Ints = [__m256i; 2];

            #[inline(always)]
            fn splat(x: i32) -> Self::Ints {
                unsafe { [_mm256_set1_epi32(x); 2] }
            }

            #[inline(always)]
            fn load(words: &[u32; PANEL]) -> Self::Ints {
                let at: *const __m256i = words.as_ptr().cast();
                unsafe { [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))] }
            }

            #[inline(always)]
            fn store(x: Self::Ints, to: &mut [i32; PANEL]) {
                let to: *mut __m256i = to.as_mut_ptr().cast();
                unsafe {
                    _mm256_storeu_si256(to, x[0]);
                    _mm256_storeu_si256(to.add(1), x[1]);
                }
            }

            #[inline(always)]
            fn add(x: Self::Ints, y: Self::Ints) -> Self::Ints {
                unsafe { [_mm256_add_epi32(x[0], y[0]), _mm256_add_epi32(x[1], y[1])] }
            }

            #[inline(always)]
            fn mul(x: Self::Ints, y: Self::Ints) -> Self::Ints {
                unsafe { [_mm256_mullo_epi32(x[0], y[0]), _mm256_mullo_epi32(x[1], y[1])] }
            }

            #[inline(always)]
            fn or(x: Self::Ints, y: Self::Ints) -> Self::Ints {
                unsafe { [_mm256_or_si256(x[0], y[0]), _mm256_or_si256(x[1], y[1])] }
            }

            #[inline(always)]
            fn xor(x: Self::Ints, mask: i32) -> Self::Ints {
                unsafe { x.map(|x| _mm256_xor_si256(x, _mm256_set1_epi32(mask))) }
            }

            #[inline(always)]
            fn masked<const MASK: i32>(x: Self::Ints, shift: usize) -> Self::Ints {
                unsafe {
                    let shift = _mm_cvtsi32_si128(shift as i32);
                    x.map(|x| _mm256_and_si256(_mm256_srl_epi32(x, shift), _mm256_set1_epi32(MASK)))
                }
            }

            #[inline(always)]
            fn left(x: Self::Ints, shift: usize) -> Self::Ints {
                unsafe {
                    let shift = _mm_cvtsi32_si128(shift as i32);
                    x.map(|x| _mm256_sll_epi32(x, shift))
                }
            }

            #[inline(always)]
            fn signed_byte(x: Self::Ints, i: usize) -> Self::Ints {
                unsafe { Self::left(x, 24 - 8 * i).map(|x| _mm256_srai_epi32::<24>(x)) }
            }

            #[inline(always)]
            fn byte(x: Self::Ints, i: usize) -> Self::Ints {
                Self::masked::<0xff>(x, 8 * i)
            }

            #[inline(always)]
            fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints {
                unsafe {
                    let table = _mm256_loadu_si256(table.as_ptr().cast());
                    x.map(|x| _mm256_shuffle_epi8(table, x))
                }
            }

            #[inline(always)]
            $dots
        }
    };
}

narrow!(
    Vnni,
    fn dots(sum: Self::Ints, bytes: &[Self::Ints], x: &[i32], _largest: i32) -> Self::Ints {
        let mut sum = sum;
        for (bytes, x) in bytes.iter().zip(x) {
            unsafe {
                let x = _mm256_set1_epi32(*x);
                sum[0] = _mm256_dpbusd_avx_epi32(sum[0], bytes[0], x);
                sum[1] = _mm256_dpbusd_avx_epi32(sum[1], bytes[1], x);
            }
        }
        sum
    }
);

narrow!(
    Pairs,
    fn dots(sum: Self::Ints, bytes: &[Self::Ints], x: &[i32], largest: i32) -> Self::Ints {
        // Sums of pairs have 16 bits: of that many words they stay below 2^15. Bytes of 8 bits are two numbers of 4.
        let is_wide = largest > 127;
        let most = match largest {
            ..16 => 8,
            16..32 => 4,
            32..128 => 2,
            _ => 8,
        };
        let mut sum = sum;
        for (bytes, x) in bytes.chunks(most).zip(x.chunks(most)) {
            unsafe {
                let zero = _mm256_setzero_si256();
                let (mut lower, mut upper) = ([zero; 2], [zero; 2]);
                for (bytes, x) in bytes.iter().zip(x) {
                    let x = _mm256_set1_epi32(*x);
                    let mask = _mm256_set1_epi8(15);
                    for i in 0..2 {
                        let own = match is_wide {
                            true => _mm256_and_si256(bytes[i], mask),
                            false => bytes[i],
                        };
                        lower[i] = _mm256_add_epi16(lower[i], _mm256_maddubs_epi16(own, x));
                        if is_wide {
                            let own = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes[i]), mask);
                            upper[i] = _mm256_add_epi16(upper[i], _mm256_maddubs_epi16(own, x));
                        }
                    }
                }
                let ones = _mm256_set1_epi16(1);
                for i in 0..2 {
                    sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(lower[i], ones));
                    if is_wide {
                        let upper = _mm256_madd_epi16(upper[i], _mm256_set1_epi16(16));
                        sum[i] = _mm256_add_epi32(sum[i], upper);
                    }
                }
            }
        }
        sum
    }
);

// SAFETY: the methods are inlined into a kernel that is compiled for AVX-512.
impl Lanes for Wide {
    type Ints = __m512i;

    #[inline(always)]
    fn splat(x: i32) -> Self::Ints {
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    fn load(words: &[u32; PANEL]) -> Self::Ints {
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(x: Self::Ints, to: &mut [i32; PANEL]) {
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }

    #[inline(always)]
    fn add(x: Self::Ints, y: Self::Ints) -> Self::Ints {
        unsafe { _mm512_add_epi32(x, y) }
    }

    #[inline(always)]
    fn mul(x: Self::Ints, y: Self::Ints) -> Self::Ints {
        unsafe { _mm512_mullo_epi32(x, y) }
    }

    #[inline(always)]
    fn or(x: Self::Ints, y: Self::Ints) -> Self::Ints {
        unsafe { _mm512_or_si512(x, y) }
    }

    #[inline(always)]
    fn xor(x: Self::Ints, mask: i32) -> Self::Ints {
        unsafe { _mm512_xor_si512(x, _mm512_set1_epi32(mask)) }
    }

    #[inline(always)]
    fn masked<const MASK: i32>(x: Self::Ints, shift: usize) -> Self::Ints {
        unsafe {
            let shifted = _mm512_srl_epi32(x, _mm_cvtsi32_si128(shift as i32));
            _mm512_and_si512(shifted, _mm512_set1_epi32(MASK))
        }
    }

    #[inline(always)]
    fn left(x: Self::Ints, shift: usize) -> Self::Ints {
        unsafe { _mm512_sll_epi32(x, _mm_cvtsi32_si128(shift as i32)) }
    }

    #[inline(always)]
    fn signed_byte(x: Self::Ints, i: usize) -> Self::Ints {
        unsafe { _mm512_srai_epi32::<24>(Self::left(x, 24 - 8 * i)) }
    }

    #[inline(always)]
    fn byte(x: Self::Ints, i: usize) -> Self::Ints {
        Self::masked::<0xff>(x, 8 * i)
    }

    #[inline(always)]
    fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints {
        unsafe {
            let table = _mm512_loadu_si512(table.as_ptr().cast());
            _mm512_shuffle_epi8(table, x)
        }
    }

    #[inline(always)]
    fn dots(sum: Self::Ints, bytes: &[Self::Ints], x: &[i32], _largest: i32) -> Self::Ints {
        let mut sum = sum;
        for (bytes, x) in bytes.iter().zip(x) {
            sum = unsafe { _mm512_dpbusd_epi32(sum, *bytes, _mm512_set1_epi32(*x)) };
        }
        sum
    }
}
