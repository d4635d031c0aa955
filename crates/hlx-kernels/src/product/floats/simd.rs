//! The vectors that the register tile is written in: AVX-512, AVX2 with FMA, NEON, and plain
//! arrays.
//!
//! All carry out the same IEEE operations lane by lane, so a product has the same bits on
//! each. The methods are `inline(always)` and only make sense inside a function that is compiled
//! for the vector's instruction set (see `tile.rs`).

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use hlx_core::arith::wide;

/// One vector register of `LANES` floats.
///
/// # Safety
/// For every method: the processor has the instruction set of `Self`.
#[allow(clippy::missing_safety_doc)] // Said above.
pub trait Simd {
    /// The register.
    type V: Copy;
    /// Floats in a register.
    const LANES: usize;

    /// Returns a register of +0.
    unsafe fn zero() -> Self::V;

    /// Returns `x` in every lane.
    unsafe fn splat(x: f32) -> Self::V;

    /// Reads `LANES` floats, which `from` may be read for; it needs no alignment.
    unsafe fn load(from: *const f32) -> Self::V;

    /// Writes `LANES` floats, which `to` may be written for; it needs no alignment.
    unsafe fn store(to: *mut f32, v: Self::V);

    /// Returns `a * b + c` with one rounding.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// Replaces -0 by +0: under round-to-nearest `x + (+0)` changes no other value.
    unsafe fn pos0(v: Self::V) -> Self::V;
}

/// Implements [`Simd`] by the instructions of a processor: the register, its lanes, and the instructions in the order of the
/// methods; that of a multiply-add takes its arguments as given.
macro_rules! vectors {
    (
        $(#[$documentation:meta])* $name:ident($register:ident, $lanes:literal):
        $zero:expr, $splat:ident, $load:ident, $store:ident, |$a:ident, $b:ident, $c:ident| $fma:expr, $add:ident
    ) => {
        $(#[$documentation])*
        pub struct $name;

        // SAFETY of every block below: the caller guarantees the instruction set, and the ranges.
        #[allow(clippy::undocumented_unsafe_blocks)]
        impl Simd for $name {
            type V = $register;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> Self::V {
                unsafe { $zero }
            }

            #[inline(always)]
            unsafe fn splat(x: f32) -> Self::V {
                unsafe { $splat(x) }
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self::V {
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn store(to: *mut f32, v: Self::V) {
                unsafe { $store(to, v) }
            }

            #[inline(always)]
            unsafe fn fma($a: Self::V, $b: Self::V, $c: Self::V) -> Self::V {
                unsafe { $fma }
            }

            #[inline(always)]
            unsafe fn pos0(v: Self::V) -> Self::V {
                unsafe { $add(v, Self::zero()) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
vectors! {
    /// Sixteen lanes of AVX-512.
    Avx512(__m512, 16): _mm512_setzero_ps(), _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps,
    |a, b, c| _mm512_fmadd_ps(a, b, c), _mm512_add_ps
}

#[cfg(target_arch = "x86_64")]
vectors! {
    /// Eight lanes of AVX2 with FMA.
    Avx2(__m256, 8): _mm256_setzero_ps(), _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
    |a, b, c| _mm256_fmadd_ps(a, b, c), _mm256_add_ps
}

#[cfg(target_arch = "aarch64")]
vectors! {
    /// Four lanes of NEON, which every AArch64 processor that Rust's targets name has.
    Neon(float32x4_t, 4): vdupq_n_f32(0.0), vdupq_n_f32, vld1q_f32, vst1q_f32,
    |a, b, c| vfmaq_f32(c, a, b), vaddq_f32
}

/// Four lanes in plain Rust, for any processor.
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
        // SAFETY: the caller guarantees the range.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller guarantees the range.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(v) }
    }

    /// Four sums in f64, each rounded to f32 where one rounding cannot differ from two; else all
    /// four exactly, which is about one step in 2^27 of random numbers.
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let wide: [f64; 4] = std::array::from_fn(|lane| {
            f64::from(a[lane]) * f64::from(b[lane]) + f64::from(c[lane])
        });
        let mut exact = false;
        for x in wide {
            exact |= wide::is_halfway(x) | wide::is_tiny(x);
        }
        if exact {
            return exact_fma(a, b, c);
        }
        wide.map(|x| x as f32)
    }

    #[inline(always)]
    unsafe fn pos0(v: Self::V) -> Self::V {
        v.map(|x| x + 0.0)
    }
}

#[cold]
#[inline(never)]
fn exact_fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
    std::array::from_fn(|lane| wide::fma(a[lane], b[lane], c[lane]))
}
