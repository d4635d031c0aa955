//! Mixtures of experts: each token's row goes through the few weights that were chosen for it.
//!
//! Of `T` tokens each has chosen `J` of `E` experts, in ascending order ([`Choices`]). The `T J` choices
//! are rows, sorted by expert and token; which rows are an expert's is known on the device alone, so that
//! a recorded pass can be replayed with others:
//! - [`experts_table`]: `rows[p]` is the token of row p, `slots[t, j]` the row of a token's choice j;
//! - [`experts_bounds`]: the rows of expert e and shard s, of `S` equal blocks of tokens, are those from
//!   `bounds[e S + s]` to the next bound.
//!
//! With `e(p)` the expert of row p:
//! - [`experts_product`](crate::product::experts_product): `y[p, n]` is the chain of `fma(x[p, k], B_e(p)[k, n], acc)` over k = 0, 1, ...
//!   from +0: the bits of a [product](fn@crate::product::matmul) of the expert's rows alone.
//! - [`ExpertsGradient`](crate::product::ExpertsGradient): `dweight[s, m, n]` of an expert is the chain of
//!   `fma(dy[p, m], x[p, n], acc)` over its rows p of shard s in order, that is over its tokens in order,
//!   from +0 or from what is stored.
//! - [`experts_sum`]: `y[t, c]` is the chain of `acc + weights[t, j] x[slots[t, j], c]` over j = 0, 1, ...,
//!   that is by expert, from +0; the product is rounded before it is added.
//!
//! If operands are quantised ([`crate::product::quantised`]), the rows of x have two digits and the weights one, by rows,
//! or by columns for the gradient of the rows; in the gradient of a weight the columns of dy have two digits and those of x one, with an exponent
//! each for an expert and shard, whose rows are one piece.
//!
//! Every chain ends by replacing -0 by +0. No row is dropped, and an expert without rows has a gradient
//! of zeros. An expert's number past the last counts as the last's.

#[cfg(test)]
mod tests;

use bytemuck::cast_slice_mut;
use hlx_core::arith::pos0;
use hlx_core::{Buffer, DType, Device, as_u32};

use crate::error::{Result, check_len, check_sizes};
use crate::kernel::Kernel;
use crate::layout::{Layout, Operand};
use crate::map::GROUP_THREADS;
use crate::parallel::{for_each, read, write};
use crate::sort::sort;

shader!(experts::{table as table_shader, bounds as bounds_shader, sum as sum_shader});

/// How many tokens choose how many of the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Tokens, `T`.
    pub tokens: usize,
    /// Experts that a token has chosen, `J`.
    pub per_token: usize,
    /// Experts, `E`.
    pub experts: usize,
}

impl Choices {
    /// Rows: the choices of all tokens.
    pub fn rows(&self) -> usize {
        self.tokens * self.per_token
    }

    fn check(&self, operation: &'static str) -> Result<()> {
        let [tokens, per_token, experts] = [self.tokens, self.per_token, self.experts];
        check_that!(operation, (1..=experts).contains(&per_token) =>
            "{per_token} of {experts} experts are chosen, expected 1 to {experts}")?;
        let rows = tokens.checked_mul(per_token);
        let fits = rows.is_some_and(|rows| u32::try_from(rows).is_ok());
        check_that!(operation, fits =>
            "{tokens} x {per_token} choices are more than a kernel can index")
    }
}

/// Where the rows of tokens lie: u32 buffers of `T J` elements.
#[derive(Clone, Debug)]
pub struct ExpertsTable {
    /// The expert of each row, ascending.
    pub experts: Buffer,
    /// The choice t J + j of each row.
    pub order: Buffer,
    /// The token of each row.
    pub rows: Buffer,
    /// The row of each token's choices, \[T, J\].
    pub slots: Buffer,
}

/// Sorts the choices `chosen` (u32, \[T, J\], ascending for each token) by expert.
///
/// # Errors
/// If the buffer has another length, or the launch fails.
pub fn experts_table(device: &Device, chosen: &Buffer, choices: &Choices) -> Result<ExpertsTable> {
    const NAME: &str = "experts_table";
    choices.check(NAME)?;
    let n = choices.rows();
    check_len(NAME, "chosen", chosen, n)?;
    let words = || device.alloc_typed(DType::U32, n);
    let (experts, order, rows, slots) = (words()?, words()?, words()?, words()?);
    let layout = Layout::contiguous(&[n])?;
    let chosen = Operand::new(chosen, &layout);
    sort(device, chosen, 0, false, &experts, &order)?;
    let kernel = Kernel::new(NAME, &table_shader::SHADER)
        .reads([&order])
        .writes([&rows, &slots]);
    let push = push!(table_shader => n, choices: choices.per_token);
    let (per_token, groups) = (choices.per_token as u32, n.div_ceil(GROUP_THREADS));
    kernel.launch(device, push, groups, move |[order], [rows, slots]| {
        let (rows, slots): (&mut [u32], &mut [u32]) = (cast_slice_mut(rows), cast_slice_mut(slots));
        for (p, (&choice, row)) in as_u32(order).iter().zip(rows).enumerate() {
            *row = choice / per_token;
            if let Some(slot) = slots.get_mut(choice as usize) {
                *slot = p as u32;
            }
        }
    })?;
    Ok(ExpertsTable {
        experts,
        order,
        rows,
        slots,
    })
}

/// Writes to `bounds` (u32, `E S + 1` elements) where the rows of each expert and shard begin.
///
/// # Errors
/// If a buffer has another length, the shards do not divide the tokens, or the launch fails.
pub fn experts_bounds(
    device: &Device,
    table: &ExpertsTable,
    bounds: &Buffer,
    shards: usize,
    choices: &Choices,
) -> Result<()> {
    const NAME: &str = "experts_bounds";
    choices.check(NAME)?;
    check_sizes(NAME, &[choices.experts, shards])?;
    let (n, groups) = (choices.rows(), choices.experts * shards);
    let tokens = choices.tokens;
    check_that!(NAME, shards > 0 && tokens.is_multiple_of(shards) =>
        "{shards} shards, expected a number that divides {tokens} tokens")?;
    let shard_tokens = tokens / shards;
    let kernel = Kernel::new(NAME, &bounds_shader::SHADER)
        .read("experts", &table.experts, n)?
        .read("rows", &table.rows, n)?
        .write("bounds", bounds, groups + 1)?;
    let push = push!(bounds_shader => n, groups, shards, shard_tokens);
    let workgroups = (groups + 1).div_ceil(GROUP_THREADS);
    kernel.launch(device, push, workgroups, move |read, [bounds]| {
        let [experts, rows] = read.map(as_u32);
        let bounds: &mut [u32] = cast_slice_mut(bounds);
        let place = |(&expert, &row): (&u32, &u32)| (expert as usize, row as usize);
        let places: Vec<(usize, usize)> = experts.iter().zip(rows).map(place).collect();
        for (group, bound) in (0..).zip(bounds.iter_mut()) {
            let first = (group / shards, group % shards * shard_tokens);
            let before = match group == groups {
                true => n,
                false => places.partition_point(|&place| place < first),
            };
            *bound = before as u32;
        }
    })
}

/// Adds up the rows of each token: `x` is \[T J, C\], `weights` \[T, J\] or left out, `y` \[T, C\].
///
/// # Errors
/// If a buffer has another length, or the launch fails.
pub fn experts_sum(
    device: &Device,
    x: &Buffer,
    weights: Option<&Buffer>,
    slots: &Buffer,
    y: &Buffer,
    choices: &Choices,
    width: usize,
) -> Result<()> {
    const NAME: &str = "experts_sum";
    choices.check(NAME)?;
    let n = choices.rows();
    let kernel = Kernel::new(NAME, &sum_shader::SHADER)
        .constants(constants!(0: weights.is_some()))
        .read("x", x, [n, width])?
        .read("slots", slots, n)?
        .read_if("weights", weights, n)?
        .write("y", y, [choices.tokens, width])?
        .flops((2 * n * width) as u64);
    check_that!(NAME, u32::try_from(n * width).is_ok() =>
        "{n} x {width} elements are more than a kernel can index")?;
    if y.is_empty() {
        return Ok(());
    }
    let tokens = choices.tokens;
    let push = push!(sum_shader => tokens, choices: choices.per_token, width, rows: n);
    let groups = (tokens * width).div_ceil(GROUP_THREADS);
    let (per_token, weighted) = (choices.per_token, weights.is_some());
    kernel.launch(device, push, groups, move |[x, slots, weights], [y]| {
        /// Tokens of a task.
        const TOKENS: usize = 16;
        let slots = read(as_u32(slots), TOKENS * per_token);
        for_each((write(y, TOKENS * width), slots), |task, (y, slots)| {
            let rows = y.chunks_mut(width).zip(slots.chunks(per_token));
            for (token, (y, slots)) in (task * TOKENS..).zip(rows) {
                y.fill(0.0);
                for (j, &slot) in slots.iter().enumerate() {
                    let Some(x) = x.get(slot as usize * width..(slot as usize + 1) * width) else {
                        continue;
                    };
                    match weighted {
                        true => add_weighted(x, weights[token * per_token + j], y),
                        false => y.iter_mut().zip(x).for_each(|(y, x)| *y += x),
                    }
                }
                // -0 becomes +0.
                y.iter_mut().for_each(|y| *y = pos0(*y));
            }
        });
    })
}

multiversion! {
    fn add_weighted<A>(x: &[f32], weight: f32, y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += A::mul(weight, *x);
        }
    }
}
