//! What a comparison finds: words that differ, and the largest error.

use hlx_core::arith::{flush, reference};
use hlx_core::digest::canonical_bits;

/// Two words that should be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The bits of the arguments; those that the function does not take are 0.
    pub inputs: [u32; 3],
    /// What the device has.
    pub found: u32,
    /// What the CPU has.
    pub expected: u32,
}

/// The largest error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// In units of the last place of the correctly rounded result; infinite where a result that
    /// should be finite, infinite or NaN is not.
    pub ulp: f64,
    /// The bits of the input.
    pub input: u32,
}

/// What was found over some inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Inputs compared.
    pub inputs: u64,
    /// Inputs whose words differ.
    pub differing: u64,
    /// The first of them.
    pub first: Option<Difference>,
    /// The largest error of the CPU's results, where there is a reference.
    pub worst: Option<Worst>,
}

impl Comparison {
    /// Compares one input's two results; all NaNs count as one.
    #[inline]
    pub(super) fn add(&mut self, inputs: [u32; 3], found: u32, expected: u32) {
        self.inputs += 1;
        let same = found == expected
            || canonical_bits(f32::from_bits(found)) == canonical_bits(f32::from_bits(expected));
        if !same {
            self.differing += 1;
            self.first.get_or_insert(Difference {
                inputs,
                found,
                expected,
            });
        }
    }

    /// Measures a result against f64; a subnormal input counts as a zero.
    #[inline]
    pub(super) fn measure(&mut self, input: u32, result: u32, exact: impl Fn(f64) -> f64) {
        let want = exact(f64::from(flush(f32::from_bits(input))));
        let ulp = reference::ulps(f32::from_bits(result), want);
        if self.worst.is_none_or(|worst| ulp > worst.ulp) {
            self.worst = Some(Worst { ulp, input });
        }
    }

    /// What was found here and in the inputs after these.
    #[must_use]
    pub(super) fn join(self, after: Self) -> Self {
        let worst = match (self.worst, after.worst) {
            (Some(before), Some(after)) if after.ulp > before.ulp => Some(after),
            (before, after) => before.or(after),
        };
        Self {
            inputs: self.inputs + after.inputs,
            differing: self.differing + after.differing,
            first: self.first.or(after.first),
            worst,
        }
    }
}
