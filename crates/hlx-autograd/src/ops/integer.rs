//! The three products of an affine map in the integer arithmetic (`docs/numerics.md`): what is wide and what is
//! narrow, and over which axis each operand has its exponents.

use hlx_core::{Buffer, Context};
use hlx_kernels::KernelError;
use hlx_kernels::integer::{IntegerProduct, Preparation, Prepared, Width, integer_product};
use hlx_kernels::matmul::{Epilogue, widened};

/// The sizes of y = x Wᵀ: rows of x, columns of x, rows of W.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub rows: usize,
    pub k: usize,
    pub n: usize,
}

/// Computes y = x Wᵀ + bias: x is wide, with an exponent a row; W narrow, with one a row.
pub(super) fn forward(
    ctx: &Context,
    x: &Buffer,
    (weight, bias): (&Buffer, Option<&Buffer>),
    y: &Buffer,
    Sizes { rows, k, n }: Sizes,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    let weight = widened(ctx, weight)?;
    let a = Prepared::new(ctx, x, Preparation::of_rows(rows, k, Width::Wide))?;
    let b = Prepared::new(ctx, &weight, Preparation::of_rows(n, k, Width::Narrow))?;
    integer_product(
        ctx,
        [&a, &b],
        bias,
        y,
        &IntegerProduct::new(rows, n, k),
        epilogue,
    )
}

/// Computes dx = dy W: dy is wide, with an exponent a row; W narrow, with one a column.
pub(super) fn input_gradient(
    ctx: &Context,
    dy: &Buffer,
    weight: &Buffer,
    dx: &Buffer,
    Sizes { rows, k, n }: Sizes,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    let weight = widened(ctx, weight)?;
    let a = Prepared::new(ctx, dy, Preparation::of_rows(rows, n, Width::Wide))?;
    let b = Preparation::of_columns(1, n, k, Width::Narrow);
    let b = Prepared::new(ctx, &weight, b)?;
    integer_product(
        ctx,
        [&a, &b],
        None,
        dx,
        &IntegerProduct::new(rows, k, n),
        epilogue,
    )
}

/// Computes dW = dyᵀ x of each shard, \[shards, M, N\]: dy is wide and x narrow, both with an exponent a column and
/// shard. The operands come with their widths.
pub(super) fn weight_gradient(
    ctx: &Context,
    (dy, m): (&Buffer, usize),
    (x, n): (&Buffer, usize),
    [shards, per_shard]: [usize; 2],
    out: &Buffer,
    accumulate: bool,
) -> Result<(), KernelError> {
    let a = Preparation::of_columns(shards, per_shard, m, Width::Wide);
    let b = Preparation::of_columns(shards, per_shard, n, Width::Narrow);
    let [a, b] = [Prepared::new(ctx, dy, a)?, Prepared::new(ctx, x, b)?];
    let product = IntegerProduct {
        batch: shards,
        accumulate,
        ..IntegerProduct::new(m, n, per_shard)
    };
    integer_product(ctx, [&a, &b], None, out, &product, Epilogue::None)
}
