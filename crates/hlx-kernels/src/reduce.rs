//! Reductions: of rows, of columns within shards, of shards, of a whole buffer.
//!
//! | function | order |
//! |---|---|
//! | `row_sum` | 128 lanes and a tree by halves ([`crate::lanes`]) |
//! | `column_sum` | one chain over the rows of a shard, from +0 or the stored value; -0 ends as +0 |
//! | `shard_sum` | neighbours pairwise: `((s0 + s1) + (s2 + s3)) + ...`; an odd one out passes to the next level; the stored value, if kept, comes first |
//! | `sum` | rows of 4,096 (the last may be shorter) as `row_sum`, repeated until one value is left |
//! | `global_norm` | as `sum`, of the rounded squares; then the square root |
//! | `norm_rows`, `norm_of_rows` | the first level of `global_norm`, and the levels above it |

use hlx_core::{Binding, Buffer, Device};

use crate::columns::Columns;
use crate::error::{Result, check_len, check_sizes};
use crate::kernel::{Groups, Kernel};
use crate::lanes::{self, ROWS_A_GROUP};
use crate::map::{CHUNK, GROUP_THREADS, windows};
use crate::parallel::{self, write};
use crate::tuning::RowCut;

shader!(reduce::{rows, rows_held, columns, shards});

/// The row length of a whole buffer's sum: where a norm that several processes share may be cut.
pub const FLAT_ROW: usize = 4096;

/// What becomes of a row; the number is the shader's constant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Sum = 0,
    SumOfSquares = 1,
}

/// Computes `out[row] = sum of x[row, :]`; x `[rows, cols]`, out `[rows]`.
///
/// # Errors
/// A shape error if a length is not as above, or the device's error; so for all functions here.
pub fn row_sum(device: &Device, x: &Buffer, out: &Buffer, rows: usize, cols: usize) -> Result<()> {
    check_len("row_sum", "x", x, [rows, cols])?;
    check_len("row_sum", "out", out, rows)?;
    launch_rows(device, "row_sum", x, out, cols, Operation::Sum, false)
}

/// Reduces `out.len()` rows; `x` may end within the last one. With `root`, the square root.
fn launch_rows(
    device: &Device,
    name: &'static str,
    x: &Buffer,
    out: &Buffer,
    cols: usize,
    operation: Operation,
    root: bool,
) -> Result<()> {
    let (rows, count) = (out.len(), x.len());
    let (kernel, groups) = match RowCut::held(device, cols) {
        Some(group) => {
            let kernel = Kernel::new(name, &rows_held::SHADER)
                .constants(group.specialization(cols))
                .constants(constants!(4: operation as u32, root));
            (kernel, group.groups(rows))
        }
        None => {
            let constants = constants!(0: operation as u32, root);
            let kernel = Kernel::new(name, &rows::SHADER).constants(constants);
            (kernel, rows.div_ceil(ROWS_A_GROUP).groups())
        }
    };
    let kernel = kernel.reads([x]).writes([out]);
    let push = push!(rows => rows, cols, count);
    kernel.launch(device, push, groups, move |[x], [out]| {
        let rows_a_task = (CHUNK / cols.max(1)).max(1);
        parallel::for_each(write(out, rows_a_task), |task, out| {
            for (row, total) in (task * rows_a_task..).zip(out) {
                let begin = row * cols;
                *total = reduce_row(operation, &x[begin..(begin + cols).min(count)]);
                if root {
                    *total = hlx_core::arith::sqrt(*total);
                }
            }
        });
    })
}

multiversion! {
    fn reduce_row<A>(operation: Operation, row: &[f32]) -> f32 {
        match operation {
            Operation::Sum => lanes::sum([row], |[x]| x),
            Operation::SumOfSquares => lanes::sum([row], |[x]| A::mul(x, x)),
        }
    }
}

/// Computes `out[0] = sum of x`.
pub fn sum(device: &Device, x: &Buffer, out: &Buffer) -> Result<()> {
    check_len("sum", "out", out, 1)?;
    reduce_flat(device, "sum", x, out, Operation::Sum, false)
}

/// Computes `out[0] = sqrt(sum of x^2)`, the norm of a gradient or of parameters.
pub fn global_norm(device: &Device, x: &Buffer, out: &Buffer) -> Result<()> {
    check_len("global_norm", "out", out, 1)?;
    reduce_flat(device, "global_norm", x, out, Operation::SumOfSquares, true)
}

/// Computes the first level of [`global_norm`]: `out[row]` is the sum of the squares of x's row of
/// [`FLAT_ROW`] elements; the last row may be shorter. The rows of the parts of a buffer, cut at
/// multiples of a row, are those of the whole.
pub fn norm_rows(device: &Device, x: &Buffer, out: &Buffer) -> Result<()> {
    check_len("norm_rows", "out", out, x.len().div_ceil(FLAT_ROW))?;
    flat_rows(device, "global_norm", x, out, Operation::SumOfSquares)
}

/// Computes the levels of [`global_norm`] above the first: `out[0]` is the norm of a buffer whose
/// [`norm_rows`] are `rows`.
pub fn norm_of_rows(device: &Device, rows: &Buffer, out: &Buffer) -> Result<()> {
    check_len("norm_of_rows", "out", out, 1)?;
    reduce_flat(device, "global_norm", rows, out, Operation::Sum, true)
}

/// Reduces rows of 4,096 until one value is left: by `operation` first, by sums above; with `root`
/// the square root is taken last.
fn reduce_flat(
    device: &Device,
    name: &'static str,
    x: &Buffer,
    out: &Buffer,
    mut operation: Operation,
    root: bool,
) -> Result<()> {
    let mut current = x.clone();
    loop {
        let rows = current.len().div_ceil(FLAT_ROW).max(1);
        if rows == 1 {
            return launch_rows(device, name, &current, out, FLAT_ROW, operation, root);
        }
        let sums = device.alloc(rows)?;
        flat_rows(device, name, &current, &sums, operation)?;
        current = sums;
        operation = Operation::Sum;
    }
}

/// Reduces each row of 4,096, in windows that a binding takes.
fn flat_rows(
    device: &Device,
    name: &'static str,
    x: &Buffer,
    sums: &Buffer,
    operation: Operation,
) -> Result<()> {
    // Windows of whole rows, whose sums start where a binding may start.
    let unit = FLAT_ROW * hlx_core::ALIGNMENT_WORDS;
    for (start, count) in windows(x.len(), unit, device.max_binding_words()) {
        let piece = x.slice(start, count)?;
        let target = sums.slice(start / FLAT_ROW, count.div_ceil(FLAT_ROW))?;
        launch_rows(device, name, &piece, &target, FLAT_ROW, operation, false)?;
    }
    Ok(())
}

/// Sums x `[shards, rows_per_shard, cols]` over the rows of each shard into out `[shards, cols]`,
/// which it overwrites, or with `accumulate` continues from.
pub fn column_sum(
    device: &Device,
    x: &Buffer,
    out: &Buffer,
    shards: usize,
    rows_per_shard: usize,
    cols: usize,
    accumulate: bool,
) -> Result<()> {
    /// Columns of one task of the CPU.
    const TASK_COLS: usize = 128;
    check_sizes("column_sum", &[shards, rows_per_shard, cols])?;
    check_len("column_sum", "x", x, [shards, rows_per_shard, cols])?;
    check_len("column_sum", "out", out, [shards, cols])?;
    let kernel = Columns {
        name: "column_sum",
        shader: &columns::SHADER,
        shards,
        rows_per_shard,
        cols,
        pairs: false,
        accumulate,
    };
    let out = match accumulate {
        true => Binding::ReadWrite(out),
        false => Binding::Write(out),
    };
    kernel.launch(device, &[Binding::Read(x), out], move |bindings| {
        let ([x], [out]) = bindings.split::<1, 1>();
        let shard_len = rows_per_shard * cols;
        let tasks = parallel::tiles(out, cols, TASK_COLS);
        parallel::for_each(tasks, |_, (shard, first_col, out)| {
            if !accumulate {
                out.fill(0.0);
            }
            sum_columns(&x[shard * shard_len..][..shard_len], cols, first_col, out);
        });
    })
}

multiversion! {
    /// Adds the rows of x to out, in order, from a column on; -0 ends as +0.
    pub(crate) fn sum_columns(x: &[f32], cols: usize, first_col: usize, out: &mut [f32]) {
        let n = out.len();
        for row in x.chunks_exact(cols) {
            for (total, x) in out.iter_mut().zip(&row[first_col..first_col + n]) {
                *total += *x;
            }
        }
        for total in out {
            *total = hlx_core::arith::pos0(*total);
        }
    }
}

/// Sums partials `[shards, n]` pairwise into out `[n]`, which it overwrites, or with `accumulate`
/// adds to.
pub fn shard_sum(
    device: &Device,
    partials: &Buffer,
    out: &Buffer,
    shards: usize,
    n: usize,
    accumulate: bool,
) -> Result<()> {
    check_that!("shard_sum", (1..=1 << 15).contains(&shards) =>
        "{shards} shards, expected 1 to 32768")?;
    let kernel = Kernel::new("shard_sum", &shards::SHADER)
        .constants(constants!(0: accumulate))
        .read("partials", partials, [shards, n])?
        .accumulate("out", out, n, accumulate)?;
    let (push, groups) = (push!(shards => shards, n), n.div_ceil(4 * GROUP_THREADS));
    kernel.launch(device, push, groups, move |[partials], [out]| {
        parallel::for_each(write(out, CHUNK), |task, out| {
            let window = |shard: usize| &partials[shard * n + task * CHUNK..][..out.len()];
            let windows: Vec<&[f32]> = (0..shards).map(window).collect();
            let mut total = vec![0.0; out.len()];
            sum_pairwise(&windows, &mut total);
            if accumulate {
                add_into(out, &total);
            } else {
                out.copy_from_slice(&total);
            }
        });
    })
}

/// The pairwise sum: the left half is the largest power of two below the number of windows.
fn sum_pairwise(windows: &[&[f32]], total: &mut [f32]) {
    match windows {
        [] => total.fill(0.0),
        [one] => total.copy_from_slice(one),
        _ => {
            let (left, right) = windows.split_at(windows.len().next_power_of_two() / 2);
            sum_pairwise(left, total);
            let mut right_total = vec![0.0; total.len()];
            sum_pairwise(right, &mut right_total);
            add_into(total, &right_total);
        }
    }
}

multiversion! {
    fn add_into(total: &mut [f32], x: &[f32]) {
        for (total, x) in total.iter_mut().zip(x) {
            *total += *x;
        }
    }
}

#[cfg(test)]
mod tests;
