//! Runs a kernel body and says whether the processor flushed a result.
//!
//! AArch64 decides before rounding whether a result is tiny, x86 and HLX after it. The two part
//! only where the exact product or sum, in magnitude, is at least 2^-126 - 2^-151 and below 2^-126:
//! HLX's result is 2^-126, AArch64's is zero. A flush always sets the thread's cumulative underflow
//! flag. So a body that leaves the flag clear has HLX's bits, and any other is run again with
//! [`Exact`](crate::arith::Exact). See docs/numerics.md.

use bytemuck::Pod;

use crate::cpu;

/// Runs `body` and returns its result, and whether a result was flushed meanwhile on this thread.
///
/// `body` must call a function that is not inlined and leaves its results in memory: the compiler
/// may otherwise compute them after the flag is read. Calls may be nested.
pub fn watch<R>(body: impl FnOnce() -> R) -> (R, bool) {
    let before = cpu::take_underflow();
    let result = std::hint::black_box(body());
    let flushed = cpu::take_underflow();
    if before {
        cpu::raise_underflow();
    }
    (result, flushed)
}

/// Copies of outputs, first in, first out.
#[derive(Default)]
pub struct Stored {
    bytes: Vec<u8>,
    read: usize,
}

/// What [`multiversion!`](crate::multiversion) does with an output.
pub trait LendSlice<T> {
    /// Copies the slice.
    fn store(&mut self, stored: &mut Stored);
    /// Puts the copy back.
    fn restore(&mut self, stored: &mut Stored);
    /// Borrows the slice for the first run.
    fn lend(&mut self) -> &mut [T];
}

impl<T: Pod> LendSlice<T> for &mut [T] {
    fn store(&mut self, stored: &mut Stored) {
        stored.bytes.extend_from_slice(bytemuck::cast_slice(self));
    }

    fn restore(&mut self, stored: &mut Stored) {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self);
        bytes.copy_from_slice(&stored.bytes[stored.read..][..bytes.len()]);
        stored.read += bytes.len();
    }

    fn lend(&mut self) -> &mut [T] {
        self
    }
}

/// What [`multiversion!`](crate::multiversion) does with any other argument.
pub trait LendValue {
    /// The argument's type.
    type Value;
    /// Does nothing: the body cannot change it.
    fn store(self, stored: &mut Stored);
    /// Does nothing.
    fn restore(self, stored: &mut Stored);
    /// Copies it for the first run.
    fn lend(self) -> Self::Value;
}

impl<V: Copy> LendValue for &mut V {
    type Value = V;

    fn store(self, _: &mut Stored) {}

    fn restore(self, _: &mut Stored) {}

    fn lend(self) -> V {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::with_flush;
    use crate::multiversion;

    /// Multiplies in place, as a processor that flushes before rounding.
    #[inline(never)]
    fn native(factor: f32, values: &mut [f32], calls: &mut [u32]) {
        calls[0] += 1;
        for value in values {
            let product = f64::from(*value) * f64::from(factor);
            let tiny = product.abs() < f64::from(f32::MIN_POSITIVE);
            // The instruction itself, which raises the flag where it flushes.
            let rounded = std::hint::black_box(*value * factor);
            *value = if tiny { 0.0 } else { rounded };
        }
    }

    fn scale(mut factor: f32, mut values: &mut [f32], mut calls: &mut [u32]) {
        multiversion!(@watched native [factor, values, calls]);
        calls[0] += 10;
        for value in values {
            *value = crate::arith::mul(*value, factor);
        }
    }

    /// The product of the two lies just below 2^-126 and rounds to it.
    const PAIR: [u32; 2] = [0x20200011, 0x1fccccb7];

    #[test]
    fn a_body_that_flushed_runs_again_from_its_old_outputs() {
        let [factor, just_below] = PAIR.map(f32::from_bits);
        with_flush(|| {
            let (mut values, mut calls) = ([1.0, 2.0, -3.0], [0]);
            let expected = values.map(|x| crate::arith::mul(x, factor));
            scale(factor, &mut values, &mut calls);
            assert_eq!((values, calls), (expected, [1]), "nothing was flushed");

            let (mut values, mut calls) = ([1.0, just_below, -2e-38], [0]);
            let expected = values.map(|x| crate::arith::mul(x, factor));
            assert_eq!(expected[1], f32::MIN_POSITIVE);
            scale(factor, &mut values, &mut calls);
            assert_eq!((values, calls), (expected, [10]), "a product was flushed");
        });
    }

    #[test]
    fn an_inner_watch_leaves_the_flag_of_the_outer() {
        let product = |x: f32| std::hint::black_box(x) * std::hint::black_box(x);
        with_flush(|| {
            let (inner, outer) = watch(|| {
                std::hint::black_box(product(1e-30));
                watch(|| product(1.0)).1
            });
            assert_eq!((inner, outer), (false, true));
            let (inner, outer) = watch(|| watch(|| product(1e-30)).1);
            assert_eq!((inner, outer), (true, false), "what an inner run repaired");
        });
    }
}
