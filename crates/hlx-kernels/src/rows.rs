//! The frame of a kernel whose rows are independent: tensors `[rows, cols]`, a reduction per row.
//!
//! [`Rows`] picks one of two shaders, by the device's tuning: one that holds rows in registers
//! (`shaders/include/held_row.glsl`) or one that reads them once for each pass (`reduce.glsl`). The reductions have one order
//! ([`crate::lanes`]), so the bits are equal.

use hlx_core::{Device, Shader, groups_1d};

use crate::error::Result;
use crate::kernel::Kernel;
use crate::lanes::{ROWS_A_GROUP, check_rows};
use crate::tuning::RowCut;

/// A row kernel, without its operands.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    rows: usize,
    cols: usize,
    held: Option<RowCut>,
}

impl Rows {
    /// The rows on a device.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) if a row has no elements.
    pub fn new(device: &Device, name: &'static str, rows: usize, cols: usize) -> Result<Self> {
        check_rows(name, rows, cols)?;
        let held = RowCut::held(device, cols);
        Ok(Self { rows, cols, held })
    }

    /// A kernel over them, of the shader that reads rows several times and the one that holds them; both have the same bindings
    /// and push constants.
    pub fn kernel<'a>(
        &self,
        name: &'static str,
        streamed: &'static Shader,
        held: &'static Shader,
    ) -> Kernel<'a> {
        Kernel::new(name, self.held.map_or(streamed, |_| held))
    }

    /// Launches it. The shaders have the specialization constants from id 4 on, and the push constants `uint rows, cols`, then
    /// the parameters.
    pub fn launch<const R: usize, const W: usize>(
        &self,
        device: &Device,
        kernel: &Kernel<'_>,
        constants: &[(u32, u32)],
        parameters: &[u32],
        body: impl Fn([&[f32]; R], [&mut [f32]; W]) + Send + Sync + 'static,
    ) -> Result<()> {
        let mut push = vec![self.rows as u32, self.cols as u32];
        push.extend_from_slice(parameters);
        let (kernel, groups) = match self.held {
            Some(cut) => {
                let kernel = kernel.constants(cut.specialization(self.cols));
                (kernel, cut.groups(self.rows))
            }
            None => (*kernel, groups_1d(self.rows.div_ceil(ROWS_A_GROUP))),
        };
        kernel
            .constants(constants)
            .launch(device, push, groups, body)
    }
}
