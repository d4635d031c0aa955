//! `multiversion!`: one kernel body, compiled for each instruction set.

/// Compiles functions for AVX-512, for AVX2 with FMA, for NEON and for the target's baseline, and
/// picks at run time by [`cpu::simd_level`](crate::cpu::simd_level). The bits are the same at every
/// level.
///
/// A body that multiplies names a type parameter, its [`FloatOps`](crate::arith::FloatOps), and
/// computes products and functions by its methods: `A::mul(x, y)`, `A::exp(x)`. It is compiled with
/// [`Native`](crate::arith::Native) where the processor fuses and with
/// [`Exact`](crate::arith::Exact) elsewhere. Additions, subtractions, divisions, comparisons and
/// selections are the bare operators.
///
/// ```
/// hlx_core::multiversion! {
///     fn axpy<A>(a: f32, x: &[f32], y: &mut [f32]) {
///         for (y, x) in y.iter_mut().zip(x) {
///             *y = A::fma(a, *x, *y);
///         }
///     }
/// }
/// let mut y = [1.0, 2.0];
/// axpy(2.0, &[10.0, 20.0], &mut y);
/// assert_eq!(y, [21.0, 42.0]);
/// ```
///
/// On AArch64 the body runs with `Native` first. If the thread's underflow flag says that a result
/// was flushed, which happens there before rounding, the outputs are put back and the body runs
/// again with `Exact`. So outputs are arguments of type `&mut [T]` with `T: Copy`, and nothing else
/// may change.
///
/// Helpers called inside must be `#[inline(always)]`, or they are compiled for the baseline.
#[macro_export]
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            $crate::multiversion!(@x86 [] [$($arg: $ty),*] [$(-> $ret)?]);
            body($($arg),*)
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$ops:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?
        $body:block
    ) => {
        $(#[$meta])*
        #[allow(unused_mut)] // AArch64 lends its arguments to a first run.
        $vis fn $name($(mut $arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body<$ops: $crate::arith::FloatOps>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            $crate::multiversion!(
                @x86 [::<$crate::arith::Native>] [$($arg: $ty),*] [$(-> $ret)?]
            );
            #[cfg(target_arch = "aarch64")]
            if $crate::cpu::simd_level() == $crate::cpu::SimdLevel::Neon {
                // Not inlined, so that its results are in memory when the flag is read.
                #[inline(never)]
                #[allow(clippy::too_many_arguments)]
                fn native($($arg: $ty),*) $(-> $ret)? {
                    body::<$crate::arith::Native>($($arg),*)
                }
                $crate::multiversion!(@watched native [$($arg),*]);
            }
            body::<$crate::arith::Exact>($($arg),*)
        }
    };
    // Returns what the function returns, unless a result was flushed; its outputs are then as
    // before.
    (@watched $run:ident [$($arg:ident),*]) => {
        #[allow(unused_imports)]
        use $crate::underflow::{LendSlice as _, LendValue as _};
        let mut stored = $crate::underflow::Stored::default();
        $((&mut $arg).store(&mut stored);)*
        let (result, flushed) = $crate::underflow::watch(|| $run($((&mut $arg).lend()),*));
        if !flushed {
            return result;
        }
        $((&mut $arg).restore(&mut stored);)*
    };
    (@x86 [$($native:tt)*] [$($arg:ident: $ty:ty),*] [$($ret:tt)*]) => {
        #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
        #[allow(clippy::too_many_arguments)]
        fn avx512($($arg: $ty),*) $($ret)* {
            body $($native)* ($($arg),*)
        }
        #[target_feature(enable = "avx2,fma")]
        #[allow(clippy::too_many_arguments)]
        fn avx2($($arg: $ty),*) $($ret)* {
            body $($native)* ($($arg),*)
        }
        match $crate::cpu::simd_level() {
            // SAFETY: `simd_level` only names levels that this processor has.
            $crate::cpu::SimdLevel::Avx512 => return unsafe { avx512($($arg),*) },
            // SAFETY: as above.
            $crate::cpu::SimdLevel::Avx2 => return unsafe { avx2($($arg),*) },
            _ => {}
        }
    };
    // Several functions: the first, and then the others.
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$ops:ident>)? ($($arguments:tt)*) $(-> $ret:ty)? $body:block
        $($others:tt)+
    ) => {
        $crate::multiversion! {
            $(#[$meta])*
            $vis fn $name $(<$ops>)? ($($arguments)*) $(-> $ret)? $body
        }
        $crate::multiversion! { $($others)+ }
    };
}
