//! From values to blocks: for each block the integers and scales of the least weighted squared error that a search
//! finds.
//!
//! Every step is an addition, a product, a quotient or a comparison of f64 in a written order, and blocks do not depend
//! on each other. So the bytes are the same on every machine and for every number of threads.

mod group;
mod mxfp4;
mod offset;
mod single;
mod sweep;
mod with_mins;
mod without_mins;

use half::f16;
use rayon::prelude::*;

use crate::Result;
use crate::blocks::{Block, narrow};
use crate::error::GgufError;
use crate::kind::BlockKind;

/// Values that one task quantises.
const TASK_VALUES: usize = 1 << 14;
/// What a column of importance 0 counts for, as a part of the largest importance.
const LEAST_IMPORTANCE: f64 = 1e-6;

/// Quantises the rows of a matrix, or rounds them to floats ([`narrow`]).
///
/// `values` are rows of `columns` values. `importance` has one number for each column, such as the mean square of the
/// activations that it is multiplied by: the squared error of a value counts so much. Without it every error counts
/// the same.
///
/// # Errors
/// [`GgufError::Argument`]: rows that are no whole blocks; an importance of another length, negative or not finite; a
/// value that is not finite; values that a float kind does not reach.
pub fn quantise(
    kind: BlockKind,
    values: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
) -> Result<Vec<u8>> {
    let weights = check(kind, values, columns, importance)?;
    if kind.is_float() {
        return narrow(kind, values);
    }
    let (per_block, n_bytes) = (kind.block_values(), kind.block_bytes());
    let mut bytes = vec![0; values.len() / per_block * n_bytes];
    let per_row = columns / per_block;
    let per_task = TASK_VALUES / per_block;
    let tasks = bytes
        .par_chunks_mut(per_task * n_bytes)
        .zip(values.par_chunks(per_task * per_block));
    let done = tasks.enumerate().map(|(task, (bytes, values))| {
        let blocks = bytes.chunks_exact_mut(n_bytes);
        let both = blocks.zip(values.chunks_exact(per_block));
        for (at, (bytes, values)) in both.enumerate() {
            let column = (task * per_task + at) % per_row * per_block;
            let weights = &weights[column..column + per_block];
            block_of(kind, values, weights).pack(kind, bytes)?;
        }
        Ok(())
    });
    done.collect::<Result<()>>()?;
    Ok(bytes)
}

/// Checks the arguments; returns what an error counts for in each column.
fn check(
    kind: BlockKind,
    values: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
) -> Result<Vec<f64>> {
    const OP: &str = "quantise";
    let wrong = |reason: String| Err(GgufError::argument(OP, reason));
    if columns == 0 || !columns.is_multiple_of(kind.block_values()) {
        return wrong(format!(
            "rows of {columns} values, expected a multiple of {}, the block of {}",
            kind.block_values(),
            kind.name()
        ));
    }
    if !values.len().is_multiple_of(columns) {
        let n = values.len();
        return wrong(format!("{n} values, expected rows of {columns}"));
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return wrong(format!("value {at} is {}", values[at]));
    }
    let Some(importance) = importance else {
        return Ok(vec![1.0; columns]);
    };
    if importance.len() != columns {
        let n = importance.len();
        return wrong(format!("an importance for {n} columns, expected {columns}"));
    }
    if let Some(at) = importance
        .iter()
        .position(|one| !(one.is_finite() && *one >= 0.0))
    {
        return wrong(format!(
            "the importance of column {at} is {}",
            importance[at]
        ));
    }
    let largest = importance.iter().fold(0.0, |most: f32, &one| most.max(one));
    if largest == 0.0 {
        return Ok(vec![1.0; columns]);
    }
    let weight = |&one: &f32| (f64::from(one) / f64::from(largest)).max(LEAST_IMPORTANCE);
    Ok(importance.iter().map(weight).collect())
}

/// The block of values, whose errors count as `weights` say.
///
/// With 2 or 3 bits an error counts by sqrt(2 s + x x) as well, where s is the mean square of the block. Many values
/// are rounded to 0 there, and large ones would pay for it: on a trained model (`docs/quantised.md`) the divergence of
/// logits is 12 % less for Q2_K and 3 % for Q3_K. With more bits it makes no difference.
fn block_of(kind: BlockKind, values: &[f32], weights: &[f64]) -> Block {
    if values.iter().all(|&value| value == 0.0) {
        return zeros(kind);
    }
    let by_size;
    let weights = match kind {
        BlockKind::Q2K | BlockKind::Q3K => {
            by_size = weights_by_size(values, weights);
            &by_size
        }
        _ => weights,
    };
    match kind {
        BlockKind::Q8_0 | BlockKind::Q4_0 | BlockKind::Q5_0 => {
            single::block_of(kind, values, weights)
        }
        BlockKind::Q4_1 | BlockKind::Q5_1 => offset::block_of(kind, values, weights),
        BlockKind::Q3K | BlockKind::Q6K => without_mins::block_of(kind, values, weights),
        BlockKind::Q2K => with_mins::block_of::<16>(kind, values, weights),
        BlockKind::Q4K | BlockKind::Q5K => with_mins::block_of::<32>(kind, values, weights),
        _ => mxfp4::block_of(values, weights),
    }
}

fn weights_by_size(values: &[f32], weights: &[f64]) -> Vec<f64> {
    let square = |value: &f32| f64::from(*value) * f64::from(*value);
    let sum = values.iter().fold(0.0, |sum, value| sum + square(value));
    let twice = 2.0 * sum / values.len() as f64;
    let both = weights.iter().zip(values);
    both.map(|(weight, value)| weight * (twice + square(value)).sqrt())
        .collect()
}

/// A block of zeros; its scales are 0 where the kind has such.
fn zeros(kind: BlockKind) -> Block {
    let mut block = Block::default();
    if kind.scale_range().0 < 1 {
        block.scales = [0; 16];
    }
    block
}

/// The f16 that is nearest to a scale, among those that are finite.
fn rounded16(scale: f64) -> f64 {
    let most = f64::from(f16::MAX);
    let rounded = f16::from_f32(scale.clamp(-most, most) as f32);
    f64::from(rounded.to_f32())
}

/// The f16 whose magnitude is the next one above or below; 0 stays below the least.
fn neighbour16(scale: f64, step: i32) -> f64 {
    let bits = f16::from_f32(scale as f32).to_bits();
    let magnitude = i32::from(bits & 0x7fff) + step;
    let magnitude = magnitude.clamp(0, i32::from(f16::MAX.to_bits())) as u16;
    f64::from(f16::from_bits(bits & 0x8000 | magnitude).to_f32())
}

#[cfg(test)]
mod tests;
