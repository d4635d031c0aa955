//! A matrix of a folder in NF4 that stays in its blocks.

use hlx_kernels::product::blocks::{Block, BlockFormat, NF4_NUMBERS};

/// Values of a block of [`Nf4Matrix`].
pub(super) const BLOCK: usize = 64;

/// A matrix in blocks of 64 values of NF4's table, each with a scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Nf4Matrix {
    /// Rows and values of a row, a multiple of 64.
    pub shape: [usize; 2],
    /// Two places of the table per byte, the first in the upper half.
    pub bytes: Vec<u8>,
    /// The scale of each block.
    pub scales: Vec<f32>,
}

impl Nf4Matrix {
    /// The format of its blocks, as products read them.
    pub fn format() -> Option<&'static BlockFormat> {
        BlockFormat::named("NF4")
    }

    fn place(&self, at: usize) -> u8 {
        place_of(&self.bytes, at)
    }

    /// Writes block `at` of a row.
    pub fn block(&self, row: usize, at: usize, to: &mut Block) {
        let block = row * (self.shape[1] / BLOCK) + at;
        for (i, q) in to.q[..BLOCK].iter_mut().enumerate() {
            // The nearest integer of 127 times the number.
            let number = NF4_NUMBERS[usize::from(self.place(block * BLOCK + i))];
            *q = (127.0 * number).round() as i8;
        }
        to.d = self.scales[block];
    }

    /// All values, \[rows, columns\].
    pub fn values(&self) -> Vec<f32> {
        let value = |at| {
            product(
                NF4_NUMBERS[usize::from(self.place(at))],
                self.scales[at / BLOCK],
            )
        };
        (0..2 * self.bytes.len()).map(value).collect()
    }

    /// One of `parts` equal parts of its rows.
    pub fn rows(self, part: usize, parts: usize) -> Self {
        let [rows, columns] = self.shape;
        let (n_bytes, n_scales) = (self.bytes.len() / parts, self.scales.len() / parts);
        Self {
            shape: [rows / parts, columns],
            bytes: self.bytes[part * n_bytes..(part + 1) * n_bytes].to_vec(),
            scales: self.scales[part * n_scales..(part + 1) * n_scales].to_vec(),
        }
    }
}

/// The place in the table of a value.
pub(super) fn place_of(bytes: &[u8], at: usize) -> u8 {
    match at.is_multiple_of(2) {
        true => bytes[at / 2] >> 4,
        false => bytes[at / 2] & 15,
    }
}

/// A product that is zero where it would be a subnormal.
pub(super) fn product(a: f32, b: f32) -> f32 {
    flushed(a * b)
}

pub(super) fn flushed(value: f32) -> f32 {
    match value.is_subnormal() {
        true => 0.0_f32.copysign(value),
        false => value,
    }
}
