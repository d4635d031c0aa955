//! Blocks of quantised weights: their layouts, their values, and the integers that an exact product needs.

mod floats;
mod formats;
mod planes;

use rayon::prelude::*;

pub(crate) use floats::half_power;
pub use floats::narrow;

use crate::Result;
use crate::error::GgufError;
use crate::kind::BlockKind;

/// The most values of a block.
pub const MOST_VALUES: usize = 256;
/// The most groups of a block.
pub const MOST_GROUPS: usize = 16;

/// Blocks that one task widens.
const TASK_BYTES: usize = 1 << 20;

/// One block as integers.
///
/// With `g = i / kind.group()` the value at i is `d * scales[g] * q[i] - dmin * mins[g]`, computed in f32 in this
/// order: two products, the product of `dmin`, the difference. The first and the third product are exact. Kinds
/// without scales or minima have 1 and 0 there. So `d` and `dmin` times exact integers is what a block adds to a
/// product: `sum_g scales[g] * (sum_i q[i] x[i])` and `sum_g mins[g] * (sum_i x[i])`.
///
/// Of Q4_1 and Q5_1, whose offset is added, `dmin` is the offset's negative and `mins[0]` 1. Of MXFP4, q has the
/// doubled E2M1 values, 0 to 12 with a sign, and `d` half of the power of two. There `d` may be 2^-128 or 2^-127, a
/// subnormal of f32 that arithmetic without subnormals takes for zero; the values need not be, as 4 times 2^-128. Such a
/// block is computed in f64, as [`widen`] does, or by the exponent apart from q.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The integers, of which the first [`BlockKind::block_values`] count.
    pub q: [i8; MOST_VALUES],
    /// The scales of the groups.
    pub scales: [i8; MOST_GROUPS],
    /// The minima of the groups.
    pub mins: [u8; MOST_GROUPS],
    /// The scale of the block: an f16, or a power of two, which may be a subnormal of f32.
    pub d: f32,
    /// The scale of the minima: an f16.
    pub dmin: f32,
}

impl BlockKind {
    /// Values that share a scale.
    pub fn group(self) -> usize {
        match self {
            Self::Q2K | Self::Q3K | Self::Q6K => 16,
            other => other.block_values().min(32),
        }
    }

    /// Groups per block.
    pub fn groups(self) -> usize {
        self.block_values() / self.group()
    }

    /// Where a block has floats of f16, its scales and an offset: the first of two bytes each. Of F16 and BF16 it is the
    /// value itself, of F32 its upper half. MXFP4 has none.
    pub fn halves(self) -> &'static [usize] {
        match self {
            Self::F32 => &[2],
            Self::Q2K => &[80, 82],
            Self::Q3K => &[108],
            Self::Q6K => &[208],
            Self::Q4_1 | Self::Q5_1 | Self::Q4K | Self::Q5K => &[0, 2],
            Self::F16 | Self::BF16 | Self::Q8_0 | Self::Q4_0 | Self::Q5_0 => &[0],
            Self::MXFP4 => &[],
        }
    }

    /// The least and the largest integer q.
    pub fn range(self) -> (i8, i8) {
        match self {
            Self::Q8_0 => (-128, 127),
            Self::Q4_0 => (-8, 7),
            Self::Q5_0 => (-16, 15),
            Self::Q4_1 | Self::Q4K => (0, 15),
            Self::Q5_1 | Self::Q5K => (0, 31),
            Self::Q2K => (0, 3),
            Self::Q3K => (-4, 3),
            Self::Q6K => (-32, 31),
            Self::MXFP4 => (-12, 12),
            Self::F32 | Self::F16 | Self::BF16 => (0, 0),
        }
    }

    /// The least and the largest scale of a group.
    pub fn scale_range(self) -> (i8, i8) {
        match self {
            Self::Q2K => (0, 15),
            Self::Q3K => (-32, 31),
            Self::Q4K | Self::Q5K => (0, 63),
            Self::Q6K => (-128, 127),
            _ => (1, 1),
        }
    }

    /// Whether values have a minimum or an offset, and the largest minimum of a group.
    pub fn largest_min(self) -> Option<u8> {
        match self {
            Self::Q2K => Some(15),
            Self::Q4K | Self::Q5K => Some(63),
            Self::Q4_1 | Self::Q5_1 => Some(1),
            _ => None,
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self {
            q: [0; MOST_VALUES],
            scales: [1; MOST_GROUPS],
            mins: [0; MOST_GROUPS],
            d: 0.0,
            dmin: 0.0,
        }
    }
}

impl Block {
    /// Reads a block of integers.
    ///
    /// # Errors
    /// [`GgufError::Argument`] for a kind of floats, and another number of bytes.
    pub fn unpack(kind: BlockKind, bytes: &[u8]) -> Result<Self> {
        check_block("Block::unpack", kind, bytes.len())?;
        let mut block = Self::default();
        formats::unpack_into(kind, bytes, &mut block);
        Ok(block)
    }

    /// Writes a block of integers, which must lie within the kind's ranges: higher bits are lost.
    ///
    /// # Errors
    /// As [`Block::unpack`].
    pub fn pack(&self, kind: BlockKind, bytes: &mut [u8]) -> Result<()> {
        check_block("Block::pack", kind, bytes.len())?;
        formats::pack_into(kind, self, bytes);
        Ok(())
    }

    /// Computes the values of a block.
    ///
    /// # Panics
    /// `values` has another length than the kind's blocks.
    pub fn values(&self, kind: BlockKind, values: &mut [f32]) {
        assert_eq!(values.len(), kind.block_values(), "the values of a block");
        if kind == BlockKind::MXFP4 {
            let d = floats::wide(self.d);
            for (value, &q) in values.iter_mut().zip(&self.q) {
                *value = hlx_core::arith::flush((d * f64::from(q)) as f32);
            }
            return;
        }
        let group = kind.group();
        for (at, values) in values.chunks_exact_mut(group).enumerate() {
            let scale = self.d * f32::from(self.scales[at]);
            let min = self.dmin * f32::from(self.mins[at]);
            let q = &self.q[at * group..(at + 1) * group];
            for (value, &q) in values.iter_mut().zip(q) {
                *value = scale * f32::from(q) - min;
            }
        }
    }
}

fn check_block(op: &'static str, kind: BlockKind, n_bytes: usize) -> Result<()> {
    let name = kind.name();
    if kind.is_float() {
        let reason = format!("{name} has no blocks of integers");
        return Err(GgufError::argument(op, reason));
    }
    let expected = kind.block_bytes();
    match n_bytes == expected {
        true => Ok(()),
        false => {
            let reason = format!("{n_bytes} bytes, expected {expected}, a block of {name}");
            Err(GgufError::argument(op, reason))
        }
    }
}

/// Computes the values of stored bytes, as the `gguf` package of Python does, bit for bit, with one exception: what
/// would be a subnormal of f32 is a zero of its sign.
///
/// # Errors
/// [`GgufError::Argument`] for bytes that are not whole blocks.
pub fn widen(kind: BlockKind, bytes: &[u8]) -> Result<Vec<f32>> {
    let block = kind.block_bytes();
    if !bytes.len().is_multiple_of(block) {
        let reason = format!(
            "{} bytes, expected a multiple of {block}, a block of {}",
            bytes.len(),
            kind.name()
        );
        return Err(GgufError::argument("widen", reason));
    }
    let n_values = bytes.len() / block * kind.block_values();
    let mut values = vec![0.0; n_values];
    let per_task = (TASK_BYTES / block).max(1);
    let tasks = values
        .par_chunks_mut(per_task * kind.block_values())
        .zip(bytes.par_chunks(per_task * block));
    tasks.for_each(|(values, bytes)| match kind.is_float() {
        true => floats::widen(kind, bytes, values),
        false => widen_blocks(kind, bytes, values),
    });
    Ok(values)
}

fn widen_blocks(kind: BlockKind, bytes: &[u8], values: &mut [f32]) {
    let mut block = Block::default();
    let blocks = bytes.chunks_exact(kind.block_bytes());
    for (bytes, values) in blocks.zip(values.chunks_exact_mut(kind.block_values())) {
        formats::unpack_into(kind, bytes, &mut block);
        block.values(kind, values);
    }
}

#[cfg(test)]
pub(crate) use tests::blocks as testing_blocks;

#[cfg(test)]
mod tests;
