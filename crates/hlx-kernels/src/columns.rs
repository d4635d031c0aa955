//! The frame of a column reduction within shards: the launch side of `shaders/include/columns.glsl`.
//!
//! The cut changes no bit: a column of a shard is one chain over its rows.

use hlx_core::{Binding, CpuBindings, Device, Shader, groups_1d};

use crate::KernelError;
use crate::kernel::Kernel;
use crate::tuning::{ColumnCut, KernelTuning};

/// A column reduction over `[shards, rows_per_shard, cols]`, without its operands.
pub(crate) struct Columns {
    /// The operation's name in errors and timing reports.
    pub name: &'static str,
    /// A shader over `columns.glsl`.
    pub shader: &'static Shader,
    pub shards: usize,
    pub rows_per_shard: usize,
    pub cols: usize,
    /// Two chains a column.
    pub pairs: bool,
    /// The chains go on from the stored values.
    pub accumulate: bool,
}

impl Columns {
    /// Launches the kernel over checked bindings; `body` computes it on the CPU.
    ///
    /// # Errors
    /// The device's error.
    pub fn launch(
        &self,
        device: &Device,
        bindings: &[Binding<'_>],
        body: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        let sizes = [self.shards, self.rows_per_shard, self.cols].map(|size| size as u32);
        let group = ColumnGroup::new(device, self.shards, self.cols, self.pairs);
        let groups = group.groups(self.shards, self.cols);
        Kernel::new(self.name, self.shader)
            .constants(&group.specialization(self.accumulate))
            .bind_all(bindings.iter().copied())
            .launch_bound(device, sizes.as_slice(), groups, body)
    }
}

/// The columns that a workgroup computes, and the rows that each thread loads ahead where there are no
/// tiles (0: there are).
#[derive(Clone, Copy, Debug)]
struct ColumnGroup {
    width: u32,
    ahead: u32,
}

impl ColumnGroup {
    /// The cut for the columns of all shards by the device's tuning; with `pairs`, two chains a
    /// column.
    fn new(device: &Device, shards: usize, cols: usize, pairs: bool) -> Self {
        let tuning = KernelTuning::of(device);
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
    fn specialization(self, accumulate: bool) -> [(u32, u32); 5] {
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
    fn groups(self, shards: usize, cols: usize) -> [u32; 3] {
        groups_1d(shards * cols.div_ceil(self.width as usize))
    }
}
