//! The products of experts: the rows that are an expert's with its weight, and its weight's gradient.

mod integers;
mod operands;

pub use integers::{ExpertsColumns, experts_product_integers, experts_weight_gradient_integers};
pub use operands::{ExpertsGradient, experts_multiply};

use hlx_core::cpu::simd_level;
use hlx_core::{Buffer, DType, Device, as_u32};
use rayon::prelude::*;

use crate::error::{KernelError, check_len, check_sizes, check_that};
use crate::kernel::Kernel;
use crate::map::MAX_GROUPS;
use crate::product::floats::{MatMul, cpu};
use crate::product::tiles::{Form, Grid, Start, Tile, expert_columns_64x64, expert_rows_32x64};

const NAME: &str = "experts_product";

/// The sizes of the products of all experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertsProduct {
    /// Rows of all experts.
    pub rows: usize,
    /// Columns of a result.
    pub n: usize,
    /// Terms of each chain.
    pub k: usize,
    /// Weights are stored `[N,K]`.
    pub trans_b: bool,
}

impl ExpertsProduct {
    pub(super) fn check(&self, operation: &'static str) -> Result<(), KernelError> {
        let Self { rows, n, k, .. } = *self;
        let largest = rows.saturating_mul(n.max(k)).max(n.saturating_mul(k));
        check_that(operation, u32::try_from(largest).is_ok(), || {
            format!(
                "an operand has {largest} elements, expected at most {}",
                u32::MAX
            )
        })
    }

    /// Checks the sizes and the buffers of either arithmetic's product, but for x.
    pub(super) fn check_buffers(
        &self,
        weights: &[Buffer],
        bounds: &Buffer,
        y: &Buffer,
    ) -> Result<(), KernelError> {
        let Self { rows, n, k, .. } = *self;
        self.check(NAME)?;
        check_len(NAME, "y", y, [rows, n])?;
        check_len(NAME, "bounds", bounds, weights.len() + 1)?;
        let mut weights = weights.iter();
        weights.try_for_each(|weight| check_len(NAME, "weight", weight, [n, k]))
    }

    /// The product of one expert's rows.
    fn of_rows(&self, rows: usize) -> MatMul {
        MatMul {
            trans_b: self.trans_b,
            ..MatMul::new(rows, self.n, self.k)
        }
    }
}

/// Experts whose weights a launch binds as one window.
pub(super) struct Run {
    pub first: usize,
    pub experts: usize,
    pub window: Buffer,
    /// Elements from one weight to the next.
    pub stride: usize,
}

/// Multiplies each expert's rows of `x` (`[rows, K]`) with its weight and overwrites `y`
/// (`[rows, N]`). The rows of expert e are those from `bounds[e]` to `bounds[e + 1]`
/// ([`experts_bounds`](crate::experts::experts_bounds) with one shard).
///
/// Weights that lie at equal distances in one allocation, as those of a model do, take one launch.
///
/// # Errors
/// If a buffer has another length, a size is out of range, or the launch fails.
pub fn experts_product(
    device: &Device,
    x: &Buffer,
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
    check_len(NAME, "x", x, [rows, k])?;
    if y.is_empty() {
        return Ok(());
    }
    // Tiles of 64 rows would be half empty where experts have few.
    let tile_rows = if rows >= 48 * weights.len() { 64 } else { 32 };
    let tile = Tile::largest(Form::ExpertRows, [tile_rows, 64]);
    let vector = |columns: usize| u32::from(columns.is_multiple_of(4));
    for run in runs(device, weights) {
        let Run {
            first,
            experts,
            ref window,
            stride,
        } = run;
        let tiles = rows / tile.size[0] + experts.min(rows);
        let most = n.div_ceil(tile.size[1]).max(tiles);
        check_that(NAME, most <= MAX_GROUPS, || {
            format!("{rows} rows and {n} columns are more than a launch has tiles for")
        })?;
        let columns_b = if trans_b { k } else { n };
        // A launch of some experts keeps the rows of the others.
        let start = match experts == weights.len() {
            true => Start::Zero,
            false => Start::Stored,
        };
        let constants = [
            (0, u32::from(trans_b)),
            (1, vector(k)),
            (2, vector(columns_b) & vector(stride)),
            (3, vector(n)),
        ];
        let reads = [x, window, bounds];
        let grid = Grid {
            kernel: Kernel::new(NAME, tile.shader)
                .constants(&constants)
                .reads(reads)
                .bind(start.target(y)),
            tile: tile.size,
            extents: [1, tiles * tile.size[0], n],
            cuts_columns: true,
            flops: 2 * (rows * n * k) as u64 * experts as u64 / weights.len() as u64,
        };
        let m = tiles * tile.size[0];
        let push = |[column_first, _]: [usize; 2]| {
            push!(expert_rows_32x64 =>
                m, n, k, column_first, rows, first_expert: first, experts, stride)
        };
        let product = *product;
        grid.launch(device, push, move |[x, window, bounds], [y]| {
            let bounds = &as_u32(bounds)[first..=first + experts];
            products(&product, x, (window, stride), bounds, y);
        })?;
    }
    Ok(())
}

/// Cuts the experts into runs that a launch can bind: windows of one allocation at equal distances.
pub(super) fn runs(device: &Device, weights: &[Buffer]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (expert, weight) in weights.iter().enumerate() {
        if let Some(run) = runs.last_mut()
            && let Some(window) = run.window_from(weights, expert)
            && window.words() <= device.max_binding_words()
        {
            run.stride = (window.len() - weight.len()) / run.experts;
            run.experts += 1;
            run.window = window;
            continue;
        }
        runs.push(Run {
            first: expert,
            experts: 1,
            window: weight.clone(),
            stride: 0,
        });
    }
    runs
}

impl Run {
    /// The window up to the weight of `expert`, if it lies where the run's next would.
    fn window_from(&self, weights: &[Buffer], expert: usize) -> Option<Buffer> {
        let window = weights[self.first].through(&weights[expert])?;
        let distance = window.len() - weights[expert].len();
        let is_next = self.experts == 1 || distance == self.experts * self.stride;
        (is_next && u32::try_from(window.len()).is_ok()).then_some(window)
    }
}

/// The products of a run's experts on the CPU; `bounds` are theirs.
fn products(
    product: &ExpertsProduct,
    x: &[f32],
    (window, stride): (&[f32], usize),
    bounds: &[u32],
    mut y: &mut [f32],
) {
    let ExpertsProduct { rows, n, k, .. } = *product;
    let mut done = 0;
    let mut parts = Vec::with_capacity(bounds.len());
    for (expert, bound) in bounds.windows(2).enumerate() {
        let (first, end) = (bound[0] as usize, (bound[1] as usize).min(rows));
        if first < done || first >= end {
            continue;
        }
        let (_, rest) = y.split_at_mut((first - done) * n);
        let (own, rest) = rest.split_at_mut((end - first) * n);
        parts.push((expert, first..end, own));
        (y, done) = (rest, end);
    }
    let level = simd_level();
    parts.into_par_iter().for_each(|(expert, rows, y)| {
        let shape = product.of_rows(rows.len());
        let (x, weight) = (
            &x[rows.start * k..rows.end * k],
            &window[expert * stride..][..n * k],
        );
        cpu::matmul(level, &shape, x, (weight, DType::F32), None, y);
    });
}

/// Computes the gradient of the weight of one expert, a partial sum a shard: `dy` is `[rows, M]`, `x`
/// `[rows, N]`, `dweight` `[S, M, N]`, overwritten or continued with `accumulate`. `bounds` are those of
/// `S` shards.
///
/// # Errors
/// As [`experts_product`].
pub fn experts_weight_gradient(
    device: &Device,
    (dy, m): (&Buffer, usize),
    (x, n): (&Buffer, usize),
    (bounds, expert, shards): (&Buffer, usize, usize),
    (dweight, accumulate): (&Buffer, bool),
) -> Result<(), KernelError> {
    const NAME: &str = "experts_weight_gradient";
    let rows = dy.len() / m.max(1);
    let product = ExpertsProduct {
        rows,
        n: m,
        k: n,
        trans_b: false,
    };
    product.check(NAME)?;
    let tile = Tile::largest(Form::ExpertColumns, [64, 64]);
    let kernel = Kernel::new(NAME, tile.shader)
        .read("dy", dy, [rows, m])?
        .read("x", x, [rows, n])?
        .reads([bounds])
        .accumulate("dweight", dweight, [shards, m, n], accumulate)?;
    let groups = [n.div_ceil(tile.size[1]), m.div_ceil(tile.size[0]), shards];
    check_that(
        NAME,
        groups.iter().all(|&groups| groups <= MAX_GROUPS),
        || format!("{shards} weights of {m} x {n} are more than a launch has tiles for"),
    )?;
    check_sizes(NAME, &[expert.saturating_add(1), shards])?;
    check_that(NAME, bounds.len() > (expert + 1) * shards, || {
        format!(
            "{} bounds, expected more than {} for expert {expert}",
            bounds.len(),
            (expert + 1) * shards
        )
    })?;
    if dweight.is_empty() {
        return Ok(());
    }
    let first = expert * shards;
    let start = Start::of(accumulate, None);
    let vector = |columns: usize| u32::from(columns.is_multiple_of(4));
    // How many rows are this expert's is not known here: an equal share.
    let experts = ((bounds.len() - 1) / shards).max(1);
    let constants = [(0, start as u32), (1, vector(m)), (2, vector(n))];
    let grid = Grid {
        kernel: kernel.constants(&constants),
        tile: tile.size,
        extents: [shards, m, n],
        cuts_columns: true,
        flops: 2 * (rows * m * n / experts) as u64,
    };
    let push = |[column_first, _]: [usize; 2]| push!(expert_columns_64x64 => m, n, column_first, rows, first);
    grid.launch(device, push, move |[dy, x, bounds], [dweight]| {
        let bounds = &as_u32(bounds)[first..=first + shards];
        for (bound, dweight) in bounds.windows(2).zip(dweight.chunks_mut(m * n)) {
            let end = (bound[1] as usize).min(rows);
            let first = (bound[0] as usize).min(end);
            let shape = MatMul {
                trans_a: true,
                accumulate,
                ..MatMul::new(m, n, end - first)
            };
            let (dy, x) = (&dy[first * m..end * m], &x[first * n..end * n]);
            cpu::matmul(simd_level(), &shape, dy, (x, DType::F32), None, dweight);
        }
    })
}
