//! Weights' gradients: products of what comes in with what went through, summed over all rows of a batch.

use hlx_core::{ALIGNMENT_WORDS, Buffer, Device};
use hlx_kernels::elementwise::add_assign;
use hlx_kernels::product::halves::Halves;
use hlx_kernels::product::{End, Incoming, Source, multiply};
use hlx_kernels::{KernelError, KernelTuning};

use crate::{Backward, Batch, Input, Result};

/// What went through a layer, as its weight's gradient reads it.
#[derive(Clone, Copy)]
pub(super) enum Through<'a> {
    /// Numbers that are rounded or quantised first, if the products of a device read such.
    Source(Source<'a>),
    /// The rounded operand that the forward pass has read.
    Halves(&'a Halves),
}

impl<'a> From<Source<'a>> for Through<'a> {
    fn from(source: Source<'a>) -> Self {
        Self::Source(source)
    }
}

impl<'a> From<&'a Buffer> for Through<'a> {
    fn from(values: &'a Buffer) -> Self {
        Self::Source(values.into())
    }
}

/// A weight's gradient dyᵀ x, summed over `rows` rows.
pub(super) struct WeightGradient<'a> {
    /// The gradient that comes in.
    pub dy: &'a Incoming<'a>,
    /// What was saved of the forward pass.
    pub x: Through<'a>,
    /// The columns of both.
    pub widths: [usize; 2],
    pub rows: usize,
    /// The weight is \[columns of x, columns of dy\], and its gradient xᵀ dy.
    pub transposed: bool,
}

impl WeightGradient<'_> {
    /// Adds the sum over all shards up: each is a product of its own, and they are added pairwise.
    pub fn add_to(&self, pass: &mut Backward<'_>, weight: &Input, batch: Batch) -> Result<()> {
        let shards = pass.shards();
        let per_shard = self.rows / shards;
        // Windows of single shards are bound by themselves.
        let are_windows = self
            .widths
            .map(|width| (per_shard * width).is_multiple_of(ALIGNMENT_WORDS));
        if are_windows == [true; 2]
            && shards.is_power_of_two()
            && shards > 1
            && self.widths[0] * self.widths[1]
                >= KernelTuning::of(pass.device()).shards_in_turn_from
            && let Through::Source(Source::Stored(x)) = self.x
            && let Some(out) = pass.open_sum(weight, batch)?
        {
            let in_turn = ShardsInTurn {
                device: pass.device(),
                gradient: self,
                x,
                per_shard,
            };
            let waiting = (0..shards.ilog2()).map(|_| in_turn.device.alloc_shape(&self.widths));
            return in_turn.sum(0, shards, &out, &waiting.collect::<Result<Vec<_>, _>>()?);
        }
        pass.parameter(weight, batch, |device, target, shards| {
            let of = [shards, self.rows / shards];
            self.of_shards(device, None, of, &target.buffer, target.accumulate)
        })
    }

    /// The partial sums of shards: of all rows, or of windows of dy and x.
    fn of_shards(
        &self,
        device: &Device,
        windows: Option<[&Buffer; 2]>,
        shards: [usize; 2],
        out: &Buffer,
        accumulate: bool,
    ) -> Result<(), KernelError> {
        let [of_dy, of_x] = self.widths;
        let dy = self
            .dy
            .columns(device, windows.map(|[dy, _]| dy), shards, of_dy)?;
        let x = match windows.map_or(self.x, |[_, x]| x.into()) {
            Through::Source(x) => dy.beside(device, x, of_x)?,
            Through::Halves(x) => dy.beside_halves(x, of_x),
        };
        let operands = match self.transposed {
            true => [&x, &dy.operand],
            false => [&dy.operand, &x],
        };
        let end = End {
            accumulate,
            ..End::NONE
        };
        multiply(device, operands, end, out)
    }
}

/// A weight's gradient whose shards are computed one after the other.
struct ShardsInTurn<'a> {
    device: &'a Device,
    gradient: &'a WeightGradient<'a>,
    x: &'a Buffer,
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
        let window = |values: &Buffer, width: usize| {
            let len = self.per_shard * width;
            values.slice(shard * len, len)
        };
        let (gradient, [of_dy, of_x]) = (self.gradient, self.gradient.widths);
        let dy = window(gradient.dy.values, of_dy)?;
        let x = window(self.x, of_x)?;
        let (windows, shards) = (Some([&dy, &x]), [1, self.per_shard]);
        Ok(gradient.of_shards(self.device, windows, shards, out, false)?)
    }
}
