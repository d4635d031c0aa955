//! How a column reduction is cut into workgroups: the launch side of `shaders/include/columns.glsl`.
//!
//! The cut never shows in the bits: a column of a shard is one chain over its rows.

use hlx_core::groups_1d;

/// The columns that a workgroup carries, and how often four rows each of its threads
/// loads of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnGroup {
    width: u32,
    quads: u32,
}

impl ColumnGroup {
    /// 16 columns are runs of 64 bytes, and cut eight shards of 768 columns into 384 workgroups.
    pub fn new() -> Self {
        Self {
            width: 16,
            quads: 1,
        }
    }

    /// The shader's constants; with `accumulate` the chains go on from the stored values.
    pub fn specialization(self, accumulate: bool) -> [(u32, u32); 3] {
        [(0, u32::from(accumulate)), (1, self.width), (2, self.quads)]
    }

    /// The launch's workgroups.
    pub fn groups(self, shards: usize, cols: usize) -> [u32; 3] {
        groups_1d(shards * cols.div_ceil(self.width as usize))
    }
}
