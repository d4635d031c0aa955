//! The products of experts over integers, by the law of [`crate::product::quantised`].

use hlx_core::{Buffer, Device};

use super::{ExpertsProduct, Run, runs};
use crate::error::{KernelError, check_that};
use crate::product::formats::Format;
use crate::product::operand::Role;
use crate::product::quantised::{
    Beside, Bounded, Bounds, Groups, IntegerProduct, LONGEST, Preparation, Prepared,
    integer_product_by,
};

/// Multiplies each expert's rows of `x`, wide \[rows, K\], with its weight, narrow by rows of what is summed, and overwrites `y`,
/// \[rows, N\], as [`experts_product`](super::experts_product) does.
///
/// # Errors
/// As [`experts_product`](super::experts_product), and if x has other rows.
pub fn experts_product_integers(
    device: &Device,
    x: &Prepared,
    weights: &[Buffer],
    bounds: &Buffer,
    y: &Buffer,
    product: &ExpertsProduct,
) -> Result<(), KernelError> {
    let ExpertsProduct {
        rows,
        n,
        k,
        trans_b,
    } = *product;
    product.check_buffers(weights, bounds, y)?;
    if y.is_empty() {
        return Ok(());
    }
    for run in runs(device, weights) {
        let Run {
            first,
            experts,
            window,
            stride,
        } = run;
        let width = (Format::of_quantised(device).width)(Role::Weight);
        let of = match trans_b {
            true => Preparation::of_rows(experts * n, k, width),
            false => Preparation::of_columns(experts, k, n, width),
        };
        let weights = Prepared::new(device, &window, of.apart(experts, stride))?;
        let bounds = Bounds {
            buffer: bounds,
            of: Bounded::Rows,
            groups: [first, experts],
        };
        let shape = IntegerProduct::new(rows, n, k);
        integer_product_by(device, bounds, [x, &weights], y, &shape)?;
    }
    Ok(())
}

/// Both operands of the gradients of the experts' weights, by experts and shards.
#[derive(Debug)]
pub struct ExpertsColumns {
    dy: Prepared,
    x: Prepared,
    bounds: Buffer,
    /// Experts times shards.
    groups: usize,
}

impl ExpertsColumns {
    /// Prepares the columns of `dy`, \[rows, M\], wide, and of `x`, \[rows, N\], narrow; rows of x whose gradient is zeros alone
    /// enter no maximum. `bounds` are those of so many experts and shards, of as many tokens each; `dy_rows` are the rows
    /// of dy as integers, where they have been prepared.
    ///
    /// # Errors
    /// If a buffer has another length, a shard has more than 131,072 tokens, or a launch fails.
    pub fn new(
        device: &Device,
        (dy, m): (&Buffer, usize),
        dy_rows: Option<&Prepared>,
        (x, n): (&Buffer, usize),
        bounds: &Buffer,
        shard_tokens: usize,
    ) -> Result<Self, KernelError> {
        const NAME: &str = "experts_weight_gradient";
        check_that(NAME, shard_tokens <= LONGEST, || {
            format!(
                "a shard has {shard_tokens} tokens, expected at most {LONGEST}; more shards have fewer"
            )
        })?;
        let rows = dy.len() / m.max(1);
        let groups = Groups {
            bounds,
            count: bounds.len().saturating_sub(1),
        };
        let beside = dy_rows.map_or(Beside::Values(dy, m), Beside::Prepared);
        let [dy_width, x_width] =
            [Role::Gradient, Role::Saved].map(Format::of_quantised(device).width);
        let of_dy = Prepared::columns_of_groups(device, dy, [rows, m], dy_width, groups, None)?;
        let sizes = [rows, n];
        let x = Prepared::columns_of_groups(device, x, sizes, x_width, groups, Some(beside))?;
        Ok(Self {
            dy: of_dy,
            x,
            bounds: bounds.clone(),
            groups: groups.count,
        })
    }
}

/// Computes the gradient of the weight of one expert, a partial sum a shard, as
/// [`experts_weight_gradient`](super::experts_weight_gradient): `dweight` is `[S, M, N]`, overwritten or, with `accumulate`,
/// added to.
///
/// # Errors
/// If the buffer has another length, there is no such expert, or the launch fails.
pub fn experts_weight_gradient_integers(
    device: &Device,
    columns: &ExpertsColumns,
    [expert, shards]: [usize; 2],
    (dweight, accumulate): (&Buffer, bool),
) -> Result<(), KernelError> {
    let ExpertsColumns {
        dy,
        x,
        bounds,
        groups,
    } = columns;
    let shape = IntegerProduct {
        batch: shards,
        accumulate,
        ..IntegerProduct::new(dy.of.rows(), x.of.rows(), dy.of.terms())
    };
    let bounds = Bounds {
        buffer: bounds,
        of: Bounded::Terms,
        groups: [expert * shards, *groups],
    };
    integer_product_by(device, bounds, [dy, x], dweight, &shape)
}
