//! The frame of a column reduction within shards: the launch side of `shaders/include/columns.glsl`.
//!
//! The cut changes no bit: a column of a shard is one chain over its rows.

use hlx_core::{Binding, CpuBindings, Device, Shader};

use crate::Result;
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
    ) -> Result<()> {
        let sizes = [self.shards, self.rows_per_shard, self.cols].map(|size| size as u32);
        let tuning = KernelTuning::of(device);
        let table = match self.pairs {
            true => &tuning.column_pairs,
            false => &tuning.columns,
        };
        // The columns of a workgroup, and the rows that each thread loads ahead where there are no tiles (0: there are).
        let cut = ColumnCut::covering(table, self.shards * self.cols);
        let (width, ahead) = cut.map_or((16, 0), |cut| (cut.width, cut.rows_ahead as u32));
        let threads = if ahead == 0 { 256 } else { width as u32 };
        let groups = self.shards * self.cols.div_ceil(width);
        Kernel::new(self.name, self.shader)
            .constants(constants!(0: self.accumulate, width, 1_u32, threads, ahead))
            .bind_all(bindings.iter().copied())
            .launch_bound(device, sizes.as_slice(), groups, body)
    }
}
