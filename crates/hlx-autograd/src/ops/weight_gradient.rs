//! Weights' gradients: products of what comes in with what went through, summed over all rows of a batch.

use hlx_core::{ALIGNMENT_WORDS, Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::KernelTuning;
use hlx_kernels::elementwise::add_assign;
use hlx_kernels::product::quantised::Source;
use hlx_kernels::product::{MatMul, matmul};

use super::integer::{self, Columns, Incoming, Wide};
use super::matmul::strided;
use crate::{Backward, Batch, Input, Result};

/// Computes a weight's gradient leftᵀ right, \[M, N\], summed over `rows` rows: one chain a
/// shard over its rows in order, the shards pairwise, in every arithmetic. The operands come with their widths.
pub(super) fn weight_gradient(
    pass: &mut Backward<'_>,
    weight: &Input,
    left: (&Buffer, usize),
    right: (&Buffer, usize),
    rows: usize,
    batch: Batch,
) -> Result<()> {
    let gradient = WeightGradient {
        incoming: None,
        left,
        right: (Source::Stored(right.0), right.1),
        rows,
    };
    gradient.add_to(pass, weight, batch)
}

/// A weight's gradient leftᵀ right, \[M, N\], of operands with their widths.
pub(super) struct WeightGradient<'a> {
    /// In the integer arithmetic the gradient that comes in, the wide operand, and which one it is.
    pub incoming: Option<(&'a Incoming<'a>, Wide)>,
    pub left: (&'a Buffer, usize),
    /// What is not stored is for the integer arithmetic, with all shards at once.
    pub right: (Source<'a>, usize),
    pub rows: usize,
}

impl WeightGradient<'_> {
    /// Adds the sum over all shards up: each is a product of its own, and they are added pairwise.
    pub fn add_to(&self, pass: &mut Backward<'_>, weight: &Input, batch: Batch) -> Result<()> {
        let shards = pass.shards();
        let [m, n] = [self.left.1, self.right.1];
        let per_shard = self.rows / shards;
        // Windows of single shards are bound by themselves.
        let are_windows = [m, n].map(|width| (per_shard * width).is_multiple_of(ALIGNMENT_WORDS));
        if are_windows == [true; 2]
            && shards.is_power_of_two()
            && shards > 1
            && m * n >= KernelTuning::of(pass.device()).shards_in_turn_from
            && let Source::Stored(right) = self.right.0
            && let Some(out) = pass.open_sum(weight, batch)?
        {
            let turns = ShardsInTurn {
                device: pass.device(),
                gradient: self,
                right,
                per_shard,
            };
            let waiting = (0..shards.ilog2()).map(|_| turns.device.alloc_shape(&[m, n]));
            return turns.sum(0, shards, &out, &waiting.collect::<Result<Vec<_>, _>>()?);
        }
        pass.parameter(weight, batch, |device, target, shards| {
            let of = [shards, self.rows / shards];
            let (out, accumulate) = (&target.buffer, target.accumulate);
            self.of_shards(device, self.left.0, self.right.0, of, out, accumulate)
        })
    }

    /// The partial sums of shards, \[shards, M, N\], from their rows.
    fn of_shards(
        &self,
        device: &Device,
        left: &Buffer,
        right: Source<'_>,
        [shards, per_shard]: [usize; 2],
        out: &Buffer,
        accumulate: bool,
    ) -> Result<(), KernelError> {
        let [m, n] = [self.left.1, self.right.1];
        if let Some((incoming, wide)) = self.incoming {
            let (dy, x, widths) = match (wide, right) {
                (Wide::Left, x) => (left, x, [m, n]),
                (Wide::Right, Source::Stored(dy)) => (dy, left.into(), [n, m]),
                _ => return Err(not_stored()),
            };
            let dy = &match shards * per_shard == self.rows {
                true => incoming.columns(device, [shards, per_shard, widths[0]])?,
                false => Columns::of_shard(device, dy, [per_shard, widths[0]])?,
            };
            let of = [shards, per_shard];
            return integer::weight_gradient(device, (dy, wide), x, widths, of, out, accumulate);
        }
        let Source::Stored(right) = right else {
            return Err(not_stored());
        };
        let strides = [per_shard * m, per_shard * n, m * n];
        let product = MatMul {
            trans_a: true,
            accumulate,
            ..strided(shards, [m, n, per_shard], strides)
        };
        matmul(device, left, right, None, out, &product)
    }
}

fn not_stored() -> KernelError {
    KernelError::Argument {
        operation: "weight_gradient",
        reason: "the right operand is nowhere stored".to_owned(),
    }
}

/// A weight's gradient whose shards are computed one after the other.
struct ShardsInTurn<'a> {
    device: &'a Device,
    gradient: &'a WeightGradient<'a>,
    /// Its right operand.
    right: &'a Buffer,
    per_shard: usize,
}

impl ShardsInTurn<'_> {
    /// Sums `shards` shards from `first` on pairwise into `out`; `waiting` has a buffer for the right half
    /// of each level.
    fn sum(&self, first: usize, shards: usize, out: &Buffer, waiting: &[Buffer]) -> Result<()> {
        let Some((right, waiting)) = waiting.split_first() else {
            return self.product(first, out);
        };
        self.sum(first, shards / 2, out, waiting)?;
        self.sum(first + shards / 2, shards / 2, right, waiting)?;
        Ok(add_assign(self.device, out, right)?)
    }

    fn product(&self, shard: usize, out: &Buffer) -> Result<()> {
        let window = |(buffer, width): (&Buffer, usize)| {
            let len = self.per_shard * width;
            buffer.slice(shard * len, len)
        };
        let left = window(self.gradient.left)?;
        let right = &window((self.right, self.gradient.right.1))?;
        let of = [1, self.per_shard];
        Ok(self
            .gradient
            .of_shards(self.device, &left, right.into(), of, out, false)?)
    }
}
