//! How a column reduction is cut into workgroups: the launch side of `shaders/include/columns.glsl`.
//!
//! The cut never shows in the bits: a column of a shard is one chain over its rows.

use hlx_core::{ColumnCut, Context, groups_1d};

/// The columns that a workgroup carries, and the rows that each thread loads ahead where there are no
/// tiles (0: there are).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnGroup {
    width: u32,
    ahead: u32,
}

impl ColumnGroup {
    /// The cut for the columns of all shards by the device's tuning; with `pairs`, two chains a
    /// column.
    pub fn new(ctx: &Context, shards: usize, cols: usize, pairs: bool) -> Self {
        let tuning = ctx.tuning();
        let table = match pairs {
            true => &tuning.column_pairs,
            false => &tuning.columns,
        };
        let cut = ColumnCut::covering(table, shards * cols);
        Self {
            width: cut.map_or(16, |cut| cut.width as u32),
            ahead: cut.map_or(0, |cut| cut.rows_ahead as u32),
        }
    }

    /// The shader's constants; with `accumulate` the chains go on from the stored values.
    pub fn specialization(self, accumulate: bool) -> [(u32, u32); 5] {
        let threads = if self.ahead == 0 { 256 } else { self.width };
        [
            (0, u32::from(accumulate)),
            (1, self.width),
            (2, 1),
            (3, threads),
            (4, self.ahead),
        ]
    }

    /// The launch's workgroups.
    pub fn groups(self, shards: usize, cols: usize) -> [u32; 3] {
        groups_1d(shards * cols.div_ceil(self.width as usize))
    }
}
