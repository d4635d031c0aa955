//! The probe's inputs, and what a device's outputs show: where they first differ from the
//! Rust twin, and when tiny results become zero.

use super::Twin;
use crate::arith;
use crate::digest::canonical_bits;

/// Inputs of the probe: every triple of awkward values, then random bits.
pub(super) struct Inputs(pub [Vec<u32>; 3]);

/// Bits where arithmetic goes wrong first: zeros, subnormals, the smallest normals and their
/// neighbours, ones, powers whose products are tiny, the largest, infinity and NaN.
const AWKWARD: [u32; 14] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0001,
    0x00ff_ffff,
    0x1f80_0000,
    0x9fff_ffff,
    0x3f80_0000,
    0xbf80_0001,
    0x7f7f_ffff,
    0xff80_0000,
    0x7fc0_0000,
];

impl Inputs {
    pub fn new() -> Self {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        for a in AWKWARD {
            for b in AWKWARD {
                for c in AWKWARD {
                    for (column, bits) in columns.iter_mut().zip([a, b, c]) {
                        column.push(bits);
                    }
                }
            }
        }
        // Products that round to 2^-126 from just below it.
        for word in (0..1 << 23).step_by(0x5678) {
            let a = 1_u64 << 23 | word | 1;
            let b = (1 << 47) / a;
            if (1 << 47) % a < 1 << 22 {
                let bits = |significand: u64, exponent: u32| {
                    exponent << 23 | (significand as u32 & 0x007f_ffff)
                };
                let row = [bits(a, 64), bits(b, 63), (word as u32 & 2) << 30];
                for (column, bits) in columns.iter_mut().zip(row) {
                    column.push(bits);
                }
            }
        }
        let mut counter = 0;
        while columns[0].len() < 4096 {
            let words = arith::philox4x32([counter, 0, 0, 0], [0x0048_4c58, 0]);
            // Half of any size, half near one, where the functions are used.
            let tame = |word: u32| (word & 0x807f_ffff) | (0x3c00_0000 + ((word & 15) << 23));
            let near_one = counter % 2 == 0;
            for (column, word) in columns.iter_mut().zip(words) {
                column.push(if near_one { tame(word) } else { word });
            }
            counter += 1;
        }
        Self(columns)
    }

    pub fn len(&self) -> usize {
        self.0[0].len()
    }

    pub fn triple(&self, index: usize) -> [f32; 3] {
        std::array::from_fn(|column| f32::from_bits(self.0[column][index]))
    }

    /// Returns where outputs first differ from the twin, with inputs and both bits. Without
    /// `edges`, inputs and results near the subnormal range do not count.
    pub fn first_difference(&self, twin: Twin, outputs: &[u32], edges: bool) -> Option<String> {
        let ordinary = |bits: u32| (64 << 23..=0x7f80_0000).contains(&(bits & 0x7fff_ffff));
        crate::cpu::with_flush(|| {
            (0..self.len()).find_map(|index| {
                let [x, y, z] = self.triple(index);
                let expected = canonical_bits(twin(x, y, z));
                let found = canonical_bits(f32::from_bits(outputs[index]));
                let inputs = self.0.each_ref().map(|column| column[index]);
                let counts = edges || (ordinary(expected) && inputs.into_iter().all(ordinary));
                (counts && expected != found).then(|| {
                    let inputs = inputs.map(|bits| format!("{bits:#010x}")).join(", ");
                    format!("of ({inputs}) is {found:#010x}, expected {expected:#010x}")
                })
            })
        })
    }
}

/// When a device flushes a tiny result to zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FlushRule {
    /// As HLX: what rounds to less than 2^-126. x86 and NVIDIA's GPUs.
    AfterRounding,
    /// What is below 2^-126 before it is rounded. AArch64.
    BeforeRounding,
    /// Never: subnormal results appear.
    Preserves,
}

impl FlushRule {
    pub fn name(self) -> &'static str {
        match self {
            Self::AfterRounding => "after rounding",
            Self::BeforeRounding => "before rounding",
            Self::Preserves => "subnormals are kept",
        }
    }
}

impl Inputs {
    /// Finds a device's rule from its products of the first two columns.
    pub fn flush_rule(&self, products: &[u32]) -> FlushRule {
        let tiny = |index: usize| {
            let [x, y, _] = self.triple(index).map(arith::flush);
            let product = f64::from(x) * f64::from(y);
            let is_tiny = product != 0.0 && product.abs() < f64::from(f32::MIN_POSITIVE);
            let is_zero = products[index] & 0x7fff_ffff == 0;
            is_tiny.then(|| (is_zero, arith::wide::mul(x, y) == 0.0))
        };
        let found: Vec<(bool, bool)> = (0..self.len()).filter_map(tiny).collect();
        if found.contains(&(false, true)) {
            FlushRule::Preserves
        } else if found.contains(&(true, false)) {
            FlushRule::BeforeRounding
        } else {
            FlushRule::AfterRounding
        }
    }
}
