//! Sums by the dot products of bytes that x86 has: VNNI of AVX-512 and of AVX2, and AVX2's products of pairs.

use std::arch::x86_64::*;

use hlx_core::cpu::SimdLevel;

use super::super::format::{BlockFormat, Factor, NF4_STEP, PANEL};
use super::Strip;
use super::lanes::{Chains, Lanes, Table};
use super::sums::{Instructions, kernels_of, of_strip};

/// Those that the processor has at the level, the slowest first.
pub(super) fn instructions(level: SimdLevel) -> impl Iterator<Item = Instructions> {
    let (narrow, wide) = (level == SimdLevel::Avx2, level == SimdLevel::Avx512);
    let has = [
        (narrow || wide) && is_x86_feature_detected!("f16c"),
        (narrow || wide) && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avxvnni"),
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
        unsafe fn $name<const F: usize>(strip: &Strip<'_>, chains: &mut [[f32; PANEL]]) {
            of_strip::<$lanes, F>(strip, chains);
        }
    )+};
}

kernels! {
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    avx2, "avx2,fma,f16c", Pairs;
    /// # Safety
    /// The processor has AVX2, FMA, F16C and AVX-VNNI.
    avx_vnni, "avx2,fma,f16c,avxvnni", Vnni;
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
                unsafe {
                    let mask = _mm256_set1_epi32(mask);
                    [_mm256_xor_si256(x[0], mask), _mm256_xor_si256(x[1], mask)]
                }
            }

            #[inline(always)]
            fn masked<const MASK: i32>(x: Self::Ints, shift: usize) -> Self::Ints {
                unsafe {
                    let shift = _mm_cvtsi32_si128(shift as i32);
                    let mask = _mm256_set1_epi32(MASK);
                    let shifted = [_mm256_srl_epi32(x[0], shift), _mm256_srl_epi32(x[1], shift)];
                    [_mm256_and_si256(shifted[0], mask), _mm256_and_si256(shifted[1], mask)]
                }
            }

            #[inline(always)]
            fn left(x: Self::Ints, shift: usize) -> Self::Ints {
                unsafe {
                    let shift = _mm_cvtsi32_si128(shift as i32);
                    [_mm256_sll_epi32(x[0], shift), _mm256_sll_epi32(x[1], shift)]
                }
            }

            #[inline(always)]
            fn signed_byte(x: Self::Ints, i: usize) -> Self::Ints {
                let x = Self::left(x, 24 - 8 * i);
                unsafe { [_mm256_srai_epi32::<24>(x[0]), _mm256_srai_epi32::<24>(x[1])] }
            }

            #[inline(always)]
            fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints {
                unsafe {
                    let table = _mm256_loadu_si256(table.as_ptr().cast());
                    [_mm256_shuffle_epi8(table, x[0]), _mm256_shuffle_epi8(table, x[1])]
                }
            }

            #[inline(always)]
            fn prefetch(lines: &[[u32; PANEL]], first: usize, n: usize) {
                prefetch(lines, first, n);
            }

            #[inline(always)]
            $dots
        }

        // SAFETY: as above, with FMA and F16C.
        impl Chains for $name {
            type Floats = [__m256; 2];

            #[inline(always)]
            fn load_floats(from: &[f32; PANEL]) -> Self::Floats {
                unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from[8..].as_ptr())] }
            }

            #[inline(always)]
            fn store_floats(x: Self::Floats, to: &mut [f32; PANEL]) {
                unsafe {
                    _mm256_storeu_ps(to.as_mut_ptr(), x[0]);
                    _mm256_storeu_ps(to[8..].as_mut_ptr(), x[1]);
                }
            }

            #[inline(always)]
            fn nearest(x: Self::Ints) -> Self::Floats {
                unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] }
            }

            #[inline(always)]
            fn wide(format: &BlockFormat, x: Self::Ints, upper: bool) -> Self::Floats {
                unsafe {
                    let floats = |x: Self::Ints| [_mm256_castsi256_ps(x[0]), _mm256_castsi256_ps(x[1])];
                    let x = match (format.factor, upper) {
                        (Factor::Float, _) => {
                            let step = _mm256_set1_ps(NF4_STEP);
                            let [low, high] = floats(x);
                            return [_mm256_mul_ps(low, step), _mm256_mul_ps(high, step)];
                        }
                        (Factor::Brain, true) => {
                            return floats(Self::left(Self::masked::<0xffff>(x, 16), 16));
                        }
                        (Factor::Brain, false) => return floats(Self::left(x, 16)),
                        (Factor::Half, true) => Self::masked::<0xffff>(x, 16),
                        (Factor::Half, false) => Self::masked::<0xffff>(x, 0),
                    };
                    // (Packed by halves of vectors, which are put in order.)
                    let halves = _mm256_packus_epi32(x[0], x[1]);
                    let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
                    [
                        _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                        _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)),
                    ]
                }
            }

            #[inline(always)]
            fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
                unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
            }

            #[inline(always)]
            fn fnma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
                unsafe { [_mm256_fnmadd_ps(a[0], b[0], c[0]), _mm256_fnmadd_ps(a[1], b[1], c[1])] }
            }

            #[inline(always)]
            fn splat_float(x: f32) -> Self::Floats {
                unsafe { [_mm256_set1_ps(x); 2] }
            }

            #[inline(always)]
            fn shifted<const N: u32>(x: Self::Ints) -> Self::Ints {
                unsafe {
                    let n = _mm_cvtsi32_si128(N as i32);
                    [_mm256_sra_epi32(x[0], n), _mm256_sra_epi32(x[1], n)]
                }
            }
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
    fn levels(x: Self::Ints, table: &'static Table) -> Self::Ints {
        unsafe {
            let table = _mm512_loadu_si512(table.as_ptr().cast());
            _mm512_shuffle_epi8(table, x)
        }
    }

    #[inline(always)]
    fn prefetch(lines: &[[u32; PANEL]], first: usize, n: usize) {
        prefetch(lines, first, n);
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

/// Asks for lines behind a place of a slice.
#[inline(always)]
fn prefetch(lines: &[[u32; PANEL]], first: usize, n: usize) {
    for i in first..first + n {
        // SAFETY: no address is read, and one outside of the process's memory is left out by the processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(lines.as_ptr().wrapping_add(i).cast()) };
    }
}

// SAFETY: as above.
impl Chains for Wide {
    type Floats = __m512;

    #[inline(always)]
    fn load_floats(from: &[f32; PANEL]) -> Self::Floats {
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store_floats(x: Self::Floats, to: &mut [f32; PANEL]) {
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn nearest(x: Self::Ints) -> Self::Floats {
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn wide(format: &BlockFormat, x: Self::Ints, upper: bool) -> Self::Floats {
        unsafe {
            let part = if upper { _mm512_srli_epi32::<16>(x) } else { x };
            match format.factor {
                Factor::Float => _mm512_mul_ps(_mm512_castsi512_ps(x), _mm512_set1_ps(NF4_STEP)),
                Factor::Brain => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(part)),
                Factor::Half => _mm512_cvtph_ps(_mm512_cvtepi32_epi16(part)),
            }
        }
    }

    #[inline(always)]
    fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn fnma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn splat_float(x: f32) -> Self::Floats {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn shifted<const N: u32>(x: Self::Ints) -> Self::Ints {
        unsafe { _mm512_sra_epi32(x, _mm_cvtsi32_si128(N as i32)) }
    }
}
