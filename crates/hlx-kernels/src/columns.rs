//! How a column reduction is cut into workgroups: the launch side of `shaders/include/columns.glsl`.
//!
//! The cut never shows in the bits: a column of a shard is one chain over its rows.

use hlx_core::{Context, DeviceKind, groups_1d};

/// The columns that a workgroup carries, how often four rows each of its threads loads of a tile,
/// and the rows that it loads ahead where there are no tiles (0: there are).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnGroup {
    width: u32,
    quads: u32,
    ahead: u32,
}

impl ColumnGroup {
    /// From how many chains on each has a thread of its own.
    const DIRECT_FROM: usize = 18_432;

    /// The cut for the columns of all shards; with `pairs`, two chains a column. Measured on an
    /// H200: few columns want narrow groups, to reach all its cores, and many want runs of 128
    /// bytes where a tile has two arrays (8 shards of 1,024 columns: 6.4 us with 32, 7.9 with 16).
    /// Still more need no tiles: 8 shards of 1,024 rows, us of layer norm's parameters with tiles and
    /// without, 57 and 68 at 2,048 columns, 83 and 73 at 3,072, 216 and 127 at 8,384.
    pub fn new(ctx: &Context, shards: usize, cols: usize, pairs: bool) -> Self {
        let chains = shards * cols;
        let gpu = ctx.info().kind == DeviceKind::VulkanGpu;
        // Software drivers would compile the unrolled loads for seconds; the tests have them
        // compile two.
        let ahead = match chains {
            Self::DIRECT_FROM.. if gpu => 32,
            _ if cfg!(test) && cols == 129 => 2,
            _ => 0,
        };
        let width = match chains {
            _ if ahead > 0 => 32,
            0..1024 => 8,
            4096.. if pairs => 32,
            _ => 16,
        };
        Self {
            width,
            quads: 1,
            ahead,
        }
    }

    /// The shader's constants; with `accumulate` the chains go on from the stored values.
    pub fn specialization(self, accumulate: bool) -> [(u32, u32); 5] {
        let threads = if self.ahead == 0 { 256 } else { self.width };
        [
            (0, u32::from(accumulate)),
            (1, self.width),
            (2, self.quads),
            (3, threads),
            (4, self.ahead),
        ]
    }

    /// The launch's workgroups.
    pub fn groups(self, shards: usize, cols: usize) -> [u32; 3] {
        groups_1d(shards * cols.div_ceil(self.width as usize))
    }
}
