//! The vectors that the register tile is written in: AVX-512, AVX2 with FMA, and plain arrays.
//!
//! All three carry out the same IEEE operations lane by lane, so a product has the same bits on
//! each. The methods are `inline(always)` and only make sense inside a function that is compiled
//! for the vector's instruction set (see `tile.rs`).

/// One vector register of `LANES` floats.
pub trait Simd {
    /// The register.
    type V: Copy;
    /// Floats in a register.
    const LANES: usize;

    /// Returns a register of +0.
    ///
    /// # Safety
    /// The processor has the instruction set of `Self`, as for every method below.
    unsafe fn zero() -> Self::V;

    /// Returns `x` in every lane.
    ///
    /// # Safety
    /// As [`Simd::zero`].
    unsafe fn splat(x: f32) -> Self::V;

    /// Reads `LANES` floats.
    ///
    /// # Safety
    /// `from` may be read for `LANES` floats; it needs no alignment.
    unsafe fn load(from: *const f32) -> Self::V;

    /// Writes `LANES` floats.
    ///
    /// # Safety
    /// `to` may be written for `LANES` floats; it needs no alignment.
    unsafe fn store(to: *mut f32, v: Self::V);

    /// Returns `a * b + c` with one rounding.
    ///
    /// # Safety
    /// As [`Simd::zero`].
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// Turns -0 into +0: under round-to-nearest `x + (+0)` changes no other value.
    ///
    /// # Safety
    /// As [`Simd::zero`].
    unsafe fn pos0(v: Self::V) -> Self::V;
}

/// Sixteen lanes of AVX-512.
#[cfg(target_arch = "x86_64")]
pub struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type V = std::arch::x86_64::__m512;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { std::arch::x86_64::_mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { std::arch::x86_64::_mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller vouches for AVX-512F and for the range.
        unsafe { std::arch::x86_64::_mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller vouches for AVX-512F and for the range.
        unsafe { std::arch::x86_64::_mm512_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { std::arch::x86_64::_mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn pos0(v: Self::V) -> Self::V {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { std::arch::x86_64::_mm512_add_ps(v, Self::zero()) }
    }
}

/// Eight lanes of AVX2 with FMA.
#[cfg(target_arch = "x86_64")]
pub struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type V = std::arch::x86_64::__m256;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        // SAFETY: the caller vouches for AVX.
        unsafe { std::arch::x86_64::_mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        // SAFETY: the caller vouches for AVX.
        unsafe { std::arch::x86_64::_mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller vouches for AVX and for the range.
        unsafe { std::arch::x86_64::_mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller vouches for AVX and for the range.
        unsafe { std::arch::x86_64::_mm256_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: the caller vouches for FMA.
        unsafe { std::arch::x86_64::_mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn pos0(v: Self::V) -> Self::V {
        // SAFETY: the caller vouches for AVX.
        unsafe { std::arch::x86_64::_mm256_add_ps(v, Self::zero()) }
    }
}

/// Four lanes in plain Rust: NEON on AArch64, the library's `fmaf` where nothing fuses.
pub struct Portable;

impl Simd for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        [0.0; 4]
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller vouches for the range.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller vouches for the range.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(v) }
    }

    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|lane| a[lane].mul_add(b[lane], c[lane]))
    }

    #[inline(always)]
    unsafe fn pos0(v: Self::V) -> Self::V {
        v.map(|x| x + 0.0)
    }
}
