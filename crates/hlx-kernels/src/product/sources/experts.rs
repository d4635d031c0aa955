//! The products of experts: the rows that are an expert's with its weight, and its weight's gradient; of floats, of quantised
//! operands by the specification of [`crate::product::quantised`], or of rounded ones by that of [`crate::product::halves`].

use hlx_core::cpu::simd_level;
use hlx_core::{Buffer, DType, Device, as_u32};

use crate::error::{Result, check_indexable, check_len, check_sizes, check_that};
use crate::kernel::Kernel;
use crate::map::MAX_GROUPS;
use crate::parallel;
use crate::product::blocks::{BlockRows, block_product_by};
use crate::product::floats::cpu;
use crate::product::formats::Format;
use crate::product::halves::{BoundedHalves, GroupProduct, Halves, rounded_floats};
use crate::product::operand::Operand;
use crate::product::quantised::{
    Beside, Bounded, Bounds, Groups, IntegerProduct, LONGEST, Preparation, Prepared,
    integer_product_by,
};
use crate::product::role::Role;
use crate::product::shape::MatMul;
use crate::product::tiles::{Form, Grid, Start, Tile, expert_columns_64x64, expert_rows_32x64};

const NAME: &str = "experts_product";
const GRADIENT: &str = "experts_weight_gradient";

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

/// Checks the largest of \[rows, N\], \[rows, K\] and \[N, K\].
fn check_largest(operation: &'static str, [rows, n, k]: [usize; 3]) -> Result<()> {
    let largest = rows.saturating_mul(n.max(k)).max(n.saturating_mul(k));
    check_indexable(operation, "an operand", largest)
}

/// Multiplies each expert's rows of `x` (`[rows, K]`) with its weight and overwrites `y`
/// (`[rows, N]`). The rows of expert e are those from `bounds[e]` to `bounds[e + 1]`
/// ([`experts_bounds`](crate::experts::experts_bounds) with one shard).
///
/// Weights that lie at equal distances in one allocation, as those of a model do, take one launch.
///
/// # Errors
/// If a buffer has another length, `x` other rows, a size is out of range, or a launch fails.
pub fn experts_product(
    device: &Device,
    x: &Operand,
    weights: &[Buffer],
    bounds: &Buffer,
    y: &Buffer,
    product: &ExpertsProduct,
) -> Result<()> {
    let ExpertsProduct { rows, n, k, .. } = *product;
    check_largest(NAME, [rows, n, k])?;
    check_len(NAME, "y", y, [rows, n])?;
    check_len(NAME, "bounds", bounds, weights.len() + 1)?;
    for weight in weights {
        check_len(NAME, "weight", weight, [n, k])?;
    }
    if let Operand::Floats(x, _) = x {
        check_len(NAME, "x", x, [rows, k])?;
    }
    if y.is_empty() {
        return Ok(());
    }
    runs(device, weights).iter().try_for_each(|run| match x {
        Operand::Floats(x, _) => product.of_floats(device, x, run, bounds, y),
        Operand::Quantised(x, _) => product.of_quantised(device, x, run, bounds, y),
        Operand::Halves(x, _) => product.of_halves(device, x, run, bounds, y),
        Operand::Blocks(_) => {
            check_that!(NAME, false => "x is stored in blocks")
        }
    })
}

impl ExpertsProduct {
    /// The products of a run's experts as chains of floats.
    fn of_floats(
        &self,
        device: &Device,
        x: &Buffer,
        run: &Run,
        bounds: &Buffer,
        y: &Buffer,
    ) -> Result<()> {
        let (product, all_experts) = (*self, bounds.len() - 1);
        let ([rows, n, k], trans_b) = ([self.rows, self.n, self.k], self.trans_b);
        let ([first, experts, stride], window) =
            ([run.first, run.experts, run.stride], &run.window);
        // Tiles of 64 rows would be half empty where experts have few.
        let tile_rows = if rows >= 48 * all_experts { 64 } else { 32 };
        let tile = Tile::largest(Form::ExpertRows, [tile_rows, 64]);
        let tiles = rows / tile.size[0] + experts.min(rows);
        let most = n.div_ceil(tile.size[1]).max(tiles);
        check_that!(NAME, most <= MAX_GROUPS =>
            "{rows} rows and {n} columns are more than a launch has tiles for")?;
        // A launch of some experts keeps the rows of the others.
        let start = match experts == all_experts {
            true => Start::Zero,
            false => Start::Stored,
        };
        let vector = |columns: usize| u32::from(columns.is_multiple_of(4));
        let columns_b = if trans_b { k } else { n };
        let constants = constants!(0: trans_b, vector(k), vector(columns_b) & vector(stride),
            vector(n));
        let m = tiles * tile.size[0];
        let grid = Grid {
            kernel: Kernel::new(NAME, tile.shader)
                .constants(constants)
                .reads([x, window, bounds])
                .bind(start.target(y)),
            tile: tile.size,
            extents: [1, m, n],
            cuts_columns: true,
            flops: 2 * (rows * n * k) as u64 * experts as u64 / all_experts as u64,
        };
        let push = |[column_first, _]: [usize; 2]| {
            push!(expert_rows_32x64 =>
                m, n, k, column_first, rows, first_expert: first, experts, stride)
        };
        grid.launch(device, push, move |[x, window, bounds], [y]| {
            let bounds = &as_u32(bounds)[first..=first + experts];
            products(&product, x, window, stride, bounds, y);
        })
    }

    /// The same for quantised operands: `x` has two digits, weights have one, by rows of what is summed.
    fn of_quantised(
        &self,
        device: &Device,
        x: &Prepared,
        run: &Run,
        bounds: &Buffer,
        y: &Buffer,
    ) -> Result<()> {
        let (n, k, experts) = (self.n, self.k, run.experts);
        let n_digits = (Format::of_quantised(device).digits)(Role::Weight);
        let of = match self.trans_b {
            true => Preparation::of_rows(experts * n, k, n_digits),
            false => Preparation::of_columns(experts, k, n, n_digits),
        };
        let of = Preparation {
            outer: experts,
            stride: run.stride,
            ..of
        };
        let weights = Prepared::new(device, &run.window, of)?;
        let bounds = Bounds {
            buffer: bounds,
            of: Bounded::Rows,
            groups: [run.first, experts],
        };
        let shape = IntegerProduct::new(self.rows, n, k);
        integer_product_by(device, bounds, [x, &weights], y, &shape)
    }

    /// The same for operands rounded to 16 bits.
    fn of_halves(
        &self,
        device: &Device,
        x: &Halves,
        run: &Run,
        bounds: &Buffer,
        y: &Buffer,
    ) -> Result<()> {
        let Self {
            rows,
            n,
            k,
            trans_b,
        } = *self;
        let (half, experts) = (x.half(), run.experts);
        if device.is_cpu() {
            let [x, window] = rounded_floats(device, half, [x.values(), &run.window])?;
            let run = Run { window, ..*run };
            return self.of_floats(device, &x, &run, bounds, y);
        }
        let of_weight = if trans_b { [n, k] } else { [k, n] };
        let [lines, columns] = of_weight;
        let sizes = [experts, lines, columns];
        let weights = Halves::of_matrices(device, half, &run.window, sizes, run.stride)?;
        let shape = MatMul {
            batch: experts,
            trans_b,
            ..MatMul::new(rows, n, k)
        };
        GroupProduct {
            operands: [x, &weights],
            c: y,
            shape,
            of: BoundedHalves::Rows,
            bounds,
            first_group: run.first,
        }
        .run(device)
    }
}

/// As [`experts_product`], of weights in blocks, \[N, K\] each, and rows of two digits: `y[p, n]` has the bits of a
/// [`block_product`](crate::product::blocks::block_product) of the row with its expert's weight.
///
/// Weights of one format, of whole panels of 16 rows, that lie one behind the other in memory take one launch
/// ([`BlockRows::side_by_side`]).
///
/// # Errors
/// If a buffer has another length, `x` is stored otherwise or has other rows, weights have several sizes, a size is out of range, or
/// a launch fails.
pub fn experts_block_product(
    device: &Device,
    x: &Operand,
    weights: &[BlockRows],
    bounds: &Buffer,
    y: &Buffer,
) -> Result<()> {
    let (Operand::Quantised(x, _), Some(first)) = (x, weights.first()) else {
        return check_that(NAME, false, || {
            "weights in blocks are for rows of two digits and one expert at least".to_owned()
        });
    };
    let sizes = first.sizes;
    check_largest(NAME, [x.of.rows, sizes[0], sizes[1]])?;
    check_len(NAME, "bounds", bounds, weights.len() + 1)?;
    for weight in weights {
        check_that!(NAME, weight.sizes == sizes =>
            "a weight of {:?}, expected {sizes:?} as the first", weight.sizes)?;
    }
    let mut expert = 0;
    for alike in weights.chunk_by(|a, b| a.format == b.format) {
        let words: Vec<Buffer> = alike.iter().map(|weight| weight.words.clone()).collect();
        for run in runs(device, &words) {
            // Words of several weights are those of one where nothing lies between them.
            let is_one = run.stride == first_len(&words) && sizes[0].is_multiple_of(16);
            let each = if is_one { run.experts } else { 1 };
            for first in (run.first..run.first + run.experts).step_by(each) {
                let weight = BlockRows {
                    words: match each {
                        1 => words[first].clone(),
                        _ => run.window.clone(),
                    },
                    ..alike[first].clone()
                };
                let bounds = Bounds {
                    buffer: bounds,
                    of: Bounded::Rows,
                    groups: [expert + first, each],
                };
                block_product_by(device, bounds, x, &weight, y)?;
            }
        }
        expert += alike.len();
    }
    Ok(())
}

/// Elements of the first of some buffers.
fn first_len(buffers: &[Buffer]) -> usize {
    buffers.first().map_or(0, Buffer::len)
}

/// Experts whose weights a launch binds as one window.
struct Run {
    first: usize,
    experts: usize,
    window: Buffer,
    /// Elements from one weight to the next.
    stride: usize,
}

/// Cuts the experts into runs that a launch can bind: windows of one allocation at equal distances.
fn runs(device: &Device, weights: &[Buffer]) -> Vec<Run> {
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
    window: &[f32],
    stride: usize,
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
    parallel::each(&mut parts, |(expert, rows, y)| {
        let shape = MatMul {
            trans_b: product.trans_b,
            ..MatMul::new(rows.len(), n, k)
        };
        let x = &x[rows.start * k..rows.end * k];
        let weight = &window[*expert * stride..][..n * k];
        cpu::matmul(level, &shape, x, (weight, DType::F32), None, y);
    });
}

/// What the gradients of the experts' weights are made of: dy, \[rows, M\], and x, \[rows, N\], of all experts.
#[derive(Debug)]
pub struct ExpertsGradient<'a> {
    operands: [&'a Buffer; 2],
    /// M and N.
    widths: [usize; 2],
    bounds: &'a Buffer,
    /// The columns of both by experts and shards, where products are of quantised operands.
    columns: Option<[Prepared; 2]>,
    /// Both rounded to 16 bits, where products are of such.
    halves: Option<[Halves; 2]>,
}

impl<'a> ExpertsGradient<'a> {
    /// Prepares dy and x, of `widths` \[M, N\]: `bounds` are those of experts and their shards, of `shard_tokens` tokens each;
    /// `dy_rows` is dy as the operand of another product, where there is one. If operands are quantised, dy has two digits and x one, and rows
    /// of x whose gradient is zeros alone enter no maximum.
    ///
    /// # Errors
    /// In the integer arithmetic, if a buffer has another length, a shard has more than 131,072 tokens, or a launch fails.
    pub fn new(
        device: &Device,
        operands: [&'a Buffer; 2],
        dy_rows: Option<&Operand>,
        widths: [usize; 2],
        bounds: &'a Buffer,
        shard_tokens: usize,
    ) -> Result<Self> {
        let mut gradient = Self {
            operands,
            widths,
            bounds,
            columns: None,
            halves: None,
        };
        if let Some(half) = Role::Gradient.half(device) {
            let ([dy, x], rows) = (operands, gradient.rows());
            let dy = match dy_rows {
                Some(Operand::Halves(rows, _)) => rows.clone(),
                _ => Halves::new(device, half, dy.into(), [rows, widths[0]])?,
            };
            let x = Halves::new(device, half, x.into(), [rows, widths[1]])?;
            gradient.halves = Some([dy, x]);
            return Ok(gradient);
        }
        let Some(format) = Format::of(device) else {
            return Ok(gradient);
        };
        check_that(GRADIENT, shard_tokens <= LONGEST, || {
            let most = format!("expected at most {LONGEST}; more shards have fewer");
            format!("a shard has {shard_tokens} tokens, {most}")
        })?;
        let ([dy, x], [m, n], rows) = (operands, widths, gradient.rows());
        let groups = Groups {
            bounds,
            count: bounds.len().saturating_sub(1),
        };
        let beside = match dy_rows {
            Some(Operand::Quantised(rows, _)) => Beside::Prepared(rows),
            _ => Beside::Values(dy, m),
        };
        let [of_dy, of_x] = [Role::Gradient, Role::Saved].map(format.digits);
        gradient.columns = Some([
            Prepared::columns_of_groups(device, dy, [rows, m], of_dy, groups, None)?,
            Prepared::columns_of_groups(device, x, [rows, n], of_x, groups, Some(beside))?,
        ]);
        Ok(gradient)
    }

    fn rows(&self) -> usize {
        self.operands[0].len() / self.widths[0].max(1)
    }

    /// Computes the gradient of one expert's weight, a partial sum per shard, \[shards, M, N\], overwritten or, with
    /// `accumulate`, continued; in the integer arithmetic, added to.
    ///
    /// # Errors
    /// If a buffer has another length, there is no such expert, a size is out of range, or the launch fails.
    pub fn of_weight(
        &self,
        device: &Device,
        [expert, shards]: [usize; 2],
        dweight: &Buffer,
        accumulate: bool,
    ) -> Result<()> {
        if let Some(halves) = &self.halves {
            return self.of_halves(device, halves, [expert, shards], dweight, accumulate);
        }
        let Some([dy, x]) = &self.columns else {
            return self.of_floats(device, [expert, shards], dweight, accumulate);
        };
        let shape = IntegerProduct {
            batch: shards,
            accumulate,
            ..IntegerProduct::new(dy.of.rows, x.of.rows, dy.of.k)
        };
        let bounds = Bounds {
            buffer: self.bounds,
            of: Bounded::Terms,
            groups: [expert * shards, self.bounds.len() - 1],
        };
        integer_product_by(device, bounds, [dy, x], dweight, &shape)
    }

    fn of_halves(
        &self,
        device: &Device,
        [dy, x]: &[Halves; 2],
        [expert, shards]: [usize; 2],
        dweight: &Buffer,
        accumulate: bool,
    ) -> Result<()> {
        if device.is_cpu() {
            let rounded = rounded_floats(device, dy.half(), [dy.values(), x.values()])?;
            let of_floats = ExpertsGradient {
                operands: [&rounded[0], &rounded[1]],
                columns: None,
                halves: None,
                ..*self
            };
            return of_floats.of_floats(device, [expert, shards], dweight, accumulate);
        }
        let [m, n] = self.widths;
        let shape = MatMul {
            batch: shards,
            trans_a: true,
            accumulate,
            ..MatMul::new(m, n, self.rows())
        };
        GroupProduct {
            operands: [dy, x],
            c: dweight,
            shape,
            of: BoundedHalves::Terms,
            bounds: self.bounds,
            first_group: expert * shards,
        }
        .run(device)
    }

    fn of_floats(
        &self,
        device: &Device,
        [expert, shards]: [usize; 2],
        dweight: &Buffer,
        accumulate: bool,
    ) -> Result<()> {
        let ([m, n], rows, [dy, x], bounds) =
            (self.widths, self.rows(), self.operands, self.bounds);
        check_largest(GRADIENT, [rows, m, n])?;
        let tile = Tile::largest(Form::ExpertColumns, [64, 64]);
        let kernel = Kernel::new(GRADIENT, tile.shader)
            .read("dy", dy, [rows, m])?
            .read("x", x, [rows, n])?
            .reads([bounds])
            .accumulate("dweight", dweight, [shards, m, n], accumulate)?;
        let groups = [n.div_ceil(tile.size[1]), m.div_ceil(tile.size[0]), shards];
        let fits = groups.iter().all(|&groups| groups <= MAX_GROUPS);
        check_that!(GRADIENT, fits =>
            "{shards} weights of {m} x {n} are more than a launch has tiles for")?;
        check_sizes(GRADIENT, &[expert.saturating_add(1), shards])?;
        let (found, last) = (bounds.len(), (expert + 1) * shards);
        check_that!(GRADIENT, found > last =>
            "{found} bounds, expected more than {last} for expert {expert}")?;
        if dweight.is_empty() {
            return Ok(());
        }
        let first = expert * shards;
        let start = Start::of(accumulate, None);
        let vector = |columns: usize| u32::from(columns.is_multiple_of(4));
        // How many rows are this expert's is not known here: an equal share.
        let experts = ((bounds.len() - 1) / shards).max(1);
        let grid = Grid {
            kernel: kernel.constants(constants!(0: start as u32, vector(m), vector(n))),
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
}
