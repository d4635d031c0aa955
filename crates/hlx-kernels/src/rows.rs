//! The frame of a kernel whose rows are independent: tensors `[rows, cols]`, a reduction a row.
//!
//! [`Rows::launch`] checks the lengths and runs one of two shaders, by the device's tuning: one that
//! holds rows in registers (`shaders/include/held_row.glsl`) or one that reads them once for each
//! pass (`reduce.glsl`). The reductions have one order ([`crate::lanes`]), so the bits are equal.

use hlx_core::{Binding, Buffer, CpuBindings, Device, Shader, groups_1d};
use rayon::prelude::*;

use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::lanes::{ROWS_A_GROUP, RowGroup, check_rows, rows_a_task};

/// The constant of the norms' backward shaders that says whether there is a gradient to add to.
const RESIDUAL_ID: u32 = 4;

/// An argument of a row kernel, with its name for errors.
#[derive(Clone, Copy)]
pub(crate) enum RowArg<'a> {
    /// `[rows, cols]`.
    Rows(&'static str, Binding<'a>),
    /// `[rows, cols]`, only read, if it is there.
    RowsIf(&'static str, Option<&'a Buffer>),
    /// `[rows, n]`: so many values a row.
    PerRow(&'static str, Binding<'a>, usize),
    /// `[cols]`, read by every row.
    Columns(&'static str, &'a Buffer),
}

/// A row kernel, without its operands.
pub(crate) struct Rows<'a> {
    /// The operation's name in errors and timing reports.
    pub name: &'static str,
    /// The shader that reads rows several times; its push constants are `uint rows, cols`, then
    /// [`Rows::parameters`].
    pub streamed: &'static Shader,
    /// The shader that holds rows, with the same bindings and push constants.
    pub held: &'static Shader,
    pub rows: usize,
    pub cols: usize,
    /// Specialization constants of both shaders, from id 4 on.
    pub constants: &'a [(u32, u32)],
    /// The push constants after rows and columns.
    pub parameters: &'a [u32],
}

impl Rows<'_> {
    /// Launches the kernel over `args`, in binding order; `body` computes all rows on the CPU.
    ///
    /// # Errors
    /// A shape error if an argument has another length or a row no elements, or the device's error.
    pub fn launch(
        &self,
        device: &Device,
        args: &[RowArg<'_>],
        body: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        let (rows, cols) = (self.rows, self.cols);
        check_rows(self.name, rows, cols)?;
        let held = RowGroup::held(device, cols);
        let shader = held.map_or(self.streamed, |_| self.held);
        let mut kernel = Kernel::new(self.name, shader);
        for arg in args {
            kernel = match *arg {
                RowArg::Rows(name, binding) => kernel.checked(name, binding, [rows, cols]),
                RowArg::RowsIf(name, buffer) => kernel.read_if(name, buffer, [rows, cols]),
                RowArg::PerRow(name, binding, n) => kernel.checked(name, binding, [rows, n]),
                RowArg::Columns(name, buffer) => kernel.read(name, buffer, cols),
            }?;
        }
        let mut push = vec![rows as u32, cols as u32];
        push.extend_from_slice(self.parameters);
        let mut constants = held.map_or(Vec::new(), |cut| cut.specialization(cols).to_vec());
        constants.extend_from_slice(self.constants);
        let streamed_groups = groups_1d(rows.div_ceil(ROWS_A_GROUP));
        let groups = held.map_or(streamed_groups, |cut| cut.groups(rows));
        let kernel = kernel.constants(&constants);
        kernel.launch_bound(device, push, groups, body)
    }
}

/// The gradient of a norm's input: `dx`, or `dx` plus another gradient of x.
pub(crate) struct NormBackwardInput<'a> {
    /// As [`Rows::name`].
    pub name: &'static str,
    /// As [`Rows::streamed`].
    pub streamed: &'static Shader,
    /// As [`Rows::held`].
    pub held: &'static Shader,
    /// `[rows, cols]`, as `dy`, `residual` and `dx`.
    pub x: &'a Buffer,
    /// `[cols]`.
    pub weight: &'a Buffer,
    /// `[rows, n_stats]`, from the forward.
    pub stats: &'a Buffer,
    pub n_stats: usize,
    pub dy: &'a Buffer,
    /// What is added to the gradient.
    pub residual: Option<&'a Buffer>,
    /// Overwritten.
    pub dx: &'a Buffer,
    pub rows: usize,
    pub cols: usize,
}

impl NormBackwardInput<'_> {
    /// Launches the kernel; `compute` gets x, weight, stats, dy and dx of some rows on the CPU.
    ///
    /// # Errors
    /// As [`Rows::launch`].
    pub fn launch(
        &self,
        device: &Device,
        compute: impl Fn(&[f32], &[f32], &[f32], &[f32], &mut [f32]) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        let (cols, n_stats, adds) = (self.cols, self.n_stats, self.residual.is_some());
        let kernel = Rows {
            name: self.name,
            streamed: self.streamed,
            held: self.held,
            rows: self.rows,
            cols,
            constants: &[(RESIDUAL_ID, u32::from(adds))],
            parameters: &[],
        };
        let args = [
            RowArg::Rows("x", Binding::Read(self.x)),
            RowArg::Columns("weight", self.weight),
            RowArg::PerRow("stats", Binding::Read(self.stats), n_stats),
            RowArg::Rows("dy", Binding::Read(self.dy)),
            RowArg::RowsIf("residual", self.residual),
            RowArg::Rows("dx", Binding::Write(self.dx)),
        ];
        kernel.launch(device, &args, move |b| {
            let ([x, weight, stats, dy, residual], [dx]) = b.split();
            let rows = rows_a_task(cols);
            (
                x.par_chunks(rows * cols),
                stats.par_chunks(rows * n_stats),
                dy.par_chunks(rows * cols),
                residual.par_chunks(rows * cols),
                dx.par_chunks_mut(rows * cols),
            )
                .into_par_iter()
                .for_each(|(x, stats, dy, residual, dx)| {
                    compute(x, weight, stats, dy, dx);
                    if adds {
                        add_residual(residual, dx);
                    }
                });
        })
    }
}

multiversion! {
    /// `dx = residual + dx`, while a task's rows are still in the cache.
    fn add_residual(residual: &[f32], dx: &mut [f32]) {
        for (dx, residual) in dx.iter_mut().zip(residual) {
            *dx += residual;
        }
    }
}
