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
    /// The cut for `chains` columns of all shards; with `pairs`, two chains a column. Measured on
    /// an H200: few columns want narrow groups, to reach all its cores, and many want runs of 128
    /// bytes where a tile has two arrays (8 shards of 1,024 columns: 6.4 us with 32, 7.9 with 16).
    pub fn new(chains: usize, pairs: bool) -> Self {
        let width = match chains {
            0..1024 => 8,
            4096.. if pairs => 32,
            _ => 16,
        };
        Self { width, quads: 1 }
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
