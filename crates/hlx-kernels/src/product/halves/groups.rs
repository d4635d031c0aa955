//! Products of rounded operands whose rows or terms the device alone knows, by bounds: those of experts.

use hlx_core::{Binding, Buffer, DType, Device, Half, Shader};

use super::launch::{Tile, matrices_of};
use super::{Halves, UNIT};
use crate::error::{check_dtype, check_indexable};
use crate::kernel::Kernel;
use crate::product::shape::MatMul;
use crate::{Result, check_len};

shader!(fast::{
    product_of_groups_matrices_bf16 as bf16_shader, product_of_groups_matrices_f16 as f16_shader,
});

const NAME: &str = "half_product_of_groups";

/// What bounds tell of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundedHalves {
    /// The rows from one bound to the next are multiplied with that group's matrix of B, \[groups, N, K\] or its transpose.
    Rows,
    /// The products, `[batch, M, N]`, are of the lines of A and of B from one bound to the next: the terms.
    Terms,
}

/// Products of groups, on a GPU.
pub(crate) struct GroupProduct<'a> {
    pub operands: [&'a Halves; 2],
    pub c: &'a Buffer,
    /// `m` and `k` are the rows and the terms of all groups; `batch` the groups.
    pub shape: MatMul,
    pub of: BoundedHalves,
    /// u32; that of the first group is `first_group`.
    pub bounds: &'a Buffer,
    pub first_group: usize,
}

impl GroupProduct<'_> {
    /// Computes it: rows of no group keep what C holds.
    ///
    /// # Errors
    /// If a buffer has another type or length, the device has no matrices of the type, and if a launch fails.
    pub fn run(&self, device: &Device) -> Result<()> {
        let (s, [a, b]) = (self.shape, self.operands);
        let is_rows = self.of == BoundedHalves::Rows;
        let of_c = if is_rows { 1 } else { s.batch };
        check_that!(NAME, a.half == b.half => "a is of {}, b of {}", a.half.dtype(), b.half.dtype())?;
        check_len(NAME, "c", self.c, [of_c, s.m, s.n])?;
        check_dtype(NAME, "c", self.c, DType::F32)?;
        for (name, operand) in [("a", a), ("b", b)] {
            check_indexable(NAME, name, operand.values.len())?;
        }
        let (needed, found) = (self.first_group + s.batch + 1, self.bounds.len());
        check_that!(NAME, found >= needed => "{found} bounds, expected {needed}")?;
        if self.c.is_empty() {
            return Ok(());
        }
        let shape = matrices_of(device, a.half)?;
        let shader: &'static Shader = match a.half {
            Half::Bf16 => &bf16_shader::SHADER,
            Half::F16 => &f16_shader::SHADER,
        };
        // A tile for the rows of a group, if they are equally many.
        let of_group = match is_rows {
            true => MatMul {
                m: s.m.div_ceil(s.batch.max(1)),
                ..s
            },
            false => s,
        };
        let tile = Tile::choose(device, shape, &of_group);
        let own: Vec<_> = tile.constants(shape).collect();
        let [rows, columns] = tile.size;
        let (bounded, row_tiles) = match self.of {
            BoundedHalves::Rows => (1_u32, s.m / rows + s.batch.min(s.m)),
            BoundedHalves::Terms => (2, s.batch * s.m.div_ceil(rows)),
        };
        let whole_steps = is_rows && s.k.is_multiple_of(tile.step);
        let adds = if s.accumulate { 2_u32 } else { 0 };
        let matrix = (if s.trans_b { s.n } else { s.k }) * (b.line / UNIT);
        let kernel = Kernel::new(NAME, shader)
            .constants(constants!(0: false, adds, s.n.is_multiple_of(4), s.trans_a))
            .constants(constants!(8: !s.trans_b, whole_steps))
            .constants(&own)
            .constants(constants!(16: bounded))
            .reads([&a.values, &b.values])
            .reads_if(None)
            .reads_if(None)
            .bind(match s.accumulate || is_rows {
                true => Binding::ReadWrite(self.c),
                false => Binding::Write(self.c),
            })
            .reads([self.bounds])
            .flops((2 * s.m as u64).saturating_mul((s.n * s.k) as u64));
        let [a_line, b_line] = [a.line, b.line].map(|line| line / UNIT);
        let push = push!(bf16_shader =>
            batch: s.batch, m: s.m, n: s.n, k: s.k, groups: s.batch, a_line, b_line, a_matrix: 0_usize, b_matrix: matrix,
            c_first: 0_usize, c_line: s.n, first_group: self.first_group);
        kernel.launch_on_gpu(device, push, row_tiles * s.n.div_ceil(columns))
    }
}
