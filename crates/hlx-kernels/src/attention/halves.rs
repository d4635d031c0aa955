//! Attention in the `fast` arithmetic: every product of a query, a key, a value, a weight or a gradient is one of operands
//! rounded to 16 bits, with sums of f32 ([`crate::product::halves`]), forward and backward.
//!
//! Rows of q, k, v and of d_o are rounded as they come. What a query sees is as in the parent module; its keys fall into blocks
//! of 32 from the first key of its sample on. Scores are sums over the head's width, and `m`, the correction c, `p_j` and `l`
//! follow them in f32: `l = fma(l, c, L)`, L the sum of the block's `p_j`, and `o = o c`, to which the products of the weights, rounded to
//! 16 bits, with the block's values are added; what is not seen has a weight of 0. At the end `o = o / l`. Backward: `p_ij` and `ds_ij` as in the parent module, rounded to
//! 16 bits, times the rows of k, of q, and of d_o; dq and dk are multiplied by the scale at the end. The order of a sum is that of
//! the blocks, and within one that of the device's matrices: it depends on neither the batch nor the number of queries.
//!
//! A NaN or an infinity among the values of a block reaches the queries that see another key of the block.
//!
//! The CPU device computes the kernels of rows over the same rounded q, k, v and d_o: close to a GPU's results, not equal.

use hlx_core::{Buffer, Device, Half, MatrixShape, Shader};

use super::heads::ROWS_BEHIND;
use super::operands::{AttentionGradients, AttentionOperands, AttentionOutput};
use super::pass::{RangedPass, Saved};
use super::shaders::{HALF_PASSES, SUBGROUPS};
use super::sizes::{Attention, Strided};
use crate::elementwise::copy_strided;
use crate::error::{check_indexable, check_sizes};
use crate::kernel::{Kernel, PushConstants};
use crate::product::halves::UNIT;
use crate::product::widened;
use crate::{Layout, Operand, Result};

shader!(shader, attention::round_heads);

/// The widest head that matrices of halves take: the sums of dK and dV of wider ones do not fit into registers.
pub const WIDEST: usize = 128;
/// Rows of a subgroup, and keys, or queries, of a block. (On an H100, ms of forward, dQ, and dK and dV, of 32 x 12 heads of 512 positions and
/// 64 columns: 0.21, 0.21, 0.28; with 32 rows 0.29, 0.23, 0.42; with 16 rows and blocks of 64 0.31, 0.29, 0.42.)
const OWN_ROWS: usize = 16;
const BLOCK: usize = 32;
/// Numbers that rows are filled up to with zeros: the terms of a matrix.
const GRANULE: usize = 16;
/// Units of a workgroup of the shader that rounds.
const GROUP: usize = 256;

/// The rounded operands of a pass: for a GPU rows of `[batch, heads, positions]`, for the CPU f32 as the operands' shapes.
pub struct HalfOperands {
    half: Half,
    heads: [Buffer; 3],
}

/// The rows of an operand.
#[derive(Clone, Copy)]
struct Rows {
    batch: usize,
    heads: usize,
    positions: usize,
    width: usize,
}

/// Whether a device multiplies matrices of 16-bit floats of a shape by which these kernels are cut.
pub fn takes(device: &Device, of: &Attention) -> bool {
    let Some(half) = device.product_arithmetic().half() else {
        return false;
    };
    let fits = |shape: MatrixShape| {
        let sides = [shape.rows, shape.columns, shape.terms];
        let threads = (SUBGROUPS * shape.subgroup) as usize;
        let info = device.info();
        let divide = sides
            .iter()
            .all(|&side| GRANULE.is_multiple_of(side as usize));
        divide
            && shape.terms as usize >= UNIT
            && threads <= info.max_workgroup_invocations as usize
            && threads <= info.max_workgroup_size[0] as usize
            && shared_bytes(of.head_width, shape) <= info.shared_memory_bytes as usize
    };
    of.head_width <= WIDEST && (device.is_cpu() || device.half_matrices(half).is_some_and(fits))
}

/// Bytes of shared memory of the kernel that takes most, that of dK and dV.
fn shared_bytes(width: usize, shape: MatrixShape) -> usize {
    let units = width.next_multiple_of(GRANULE) / UNIT + 1;
    let region = OWN_ROWS * (BLOCK / 4 + 1).max(2 * (BLOCK / UNIT + 1));
    let subgroups = SUBGROUPS as usize;
    let facts = subgroups * (OWN_ROWS + shape.subgroup as usize) + 3 * BLOCK + 2;
    16 * (2 * BLOCK * units + subgroups * region) + 4 * facts
}

impl Rows {
    fn of_queries(of: &Attention) -> Self {
        Self {
            batch: of.batch,
            heads: of.heads,
            positions: of.queries,
            width: of.head_width,
        }
    }

    fn of_keys(of: &Attention) -> Self {
        Self {
            heads: of.key_heads,
            positions: of.keys,
            ..Self::of_queries(of)
        }
    }

    /// The rows of `x`, which lie at `place`, rounded.
    fn round(self, device: &Device, half: Half, x: &Buffer, place: Strided) -> Result<Buffer> {
        const NAME: &str = "round_heads";
        let rows = self.batch * self.heads * self.positions;
        let padded = self.width.next_multiple_of(GRANULE);
        check_sizes(NAME, &[rows + ROWS_BEHIND, padded])?;
        let y = device.alloc_shape_typed(half.dtype(), &[rows + ROWS_BEHIND, padded])?;
        check_indexable(NAME, "y", y.len())?;
        if rows == 0 {
            return Ok(y);
        }
        let units = padded / UNIT;
        let vectors = self.width.is_multiple_of(4) && place.is_of_vectors();
        let push = push!(shader =>
            rows, heads: self.heads, positions: self.positions, k: self.width, units, first: place.first,
            batch_stride: place.batch, position_stride: place.position, head_stride: place.head);
        Kernel::new(NAME, &shader::SHADER)
            .constants(constants!(0: half.dtype().id(), vectors))
            .reads([x])
            .writes([&y])
            .launch_on_gpu(device, push, (rows * units).div_ceil(GROUP))?;
        Ok(y)
    }
}

/// Numbers rounded to 16 bits, as f32: what the CPU device computes with.
fn rounded(device: &Device, half: Half, x: Operand<'_>) -> Result<Buffer> {
    let len = x.layout.n_elements();
    let y = device.alloc_typed(half.dtype(), len)?;
    copy_strided(device, x, &y)?;
    widened(device, &y)
}

impl HalfOperands {
    /// Rounds the operands of a pass.
    pub fn new(pass: &RangedPass<'_>, half: Half) -> Result<Self> {
        let (device, of) = (pass.device, &pass.placed.attention);
        let heads = match device.is_cpu() {
            true => {
                let [q, k, v] = pass.operands.heads;
                [q, k, v].map(|x| rounded(device, half, x))
            }
            false => {
                let rows = [Rows::of_queries(of), Rows::of_keys(of), Rows::of_keys(of)];
                let (words, places) = (pass.words(), pass.placed.places);
                [0, 1, 2].map(|i| rows[i].round(device, half, words[i], places[i]))
            }
        };
        let [q, k, v] = heads;
        Ok(Self {
            half,
            heads: [q?, k?, v?],
        })
    }

    /// Computes `o` and `stats`.
    pub fn forward(&self, pass: &RangedPass<'_>, [o, stats]: [&Buffer; 2]) -> Result<()> {
        if pass.device.is_cpu() {
            return self.on_the_cpu(pass, |pass| pass.forward([o, stats]));
        }
        let of = &pass.placed.attention;
        let kernel = self.kernel("half_attention_forward", pass, HALF_PASSES.forward)?;
        let queries = groups(of.queries, of.all_heads());
        kernel
            .write("o", o, of.output_len())?
            .write("stats", stats, [2, of.all_queries()])?
            .flops(of.flops(2))
            .launch_on_gpu(pass.device, PushConstants::of(&pass.placed.push()), queries)
    }

    /// Computes the gradients: on a GPU layouts of one buffer, on the CPU contiguous ones.
    pub fn backward(
        &self,
        pass: &RangedPass<'_>,
        saved: &Saved<'_>,
        gradients: &AttentionGradients<'_>,
    ) -> Result<()> {
        const NAME: &str = "half_attention_backward";
        let (device, of) = (pass.device, &pass.placed.attention);
        if device.is_cpu() {
            let layout = &Layout::contiguous(&[saved.output.d_o.len()])?;
            let d_o = &rounded(device, self.half, Operand::new(saved.output.d_o, layout))?;
            let output = &AttentionOutput {
                d_o,
                ..*saved.output
            };
            let saved = Saved { output, ..*saved };
            return self.on_the_cpu(pass, |pass| pass.backward(&saved, gradients));
        }
        let placed = of.placed(NAME, ["dq", "dk", "dv"], gradients.heads)?;
        pass.begin_backward(NAME, saved)?;
        let rows = Rows::of_queries(of);
        let d_o = &rows.round(device, self.half, saved.output.d_o, of.output_place())?;
        let (joint, stats) = (gradients.heads[0].buffer, saved.output.stats);
        let pass = &RangedPass { placed, ..*pass };
        let push = || PushConstants::of(&placed.push());

        let name = "half_attention_backward_query";
        let kernel = self.kernel(name, pass, HALF_PASSES.query)?;
        let queries = groups(of.queries, of.all_heads());
        kernel
            .reads([d_o, stats, saved.delta])
            .writes([joint])
            .flops(of.flops(3))
            .launch_on_gpu(device, push(), queries)?;
        let name = "half_attention_backward_key_value";
        let kernel = self.kernel(name, pass, HALF_PASSES.key_value)?;
        let keys = groups(of.keys, of.all_key_heads());
        kernel
            .reads([d_o, stats, saved.delta, saved.key_ranges])
            .writes([joint])
            .flops(of.flops(4))
            .launch_on_gpu(device, push(), keys)
    }

    /// A kernel with what all read.
    fn kernel<'k>(
        &'k self,
        name: &'static str,
        pass: &RangedPass<'k>,
        [bf16, f16]: [&'static Shader; 2],
    ) -> Result<Kernel<'k>> {
        let shape = pass.device.half_matrices(self.half);
        let Some(shape) = shape.filter(|_| takes(pass.device, &pass.placed.attention)) else {
            let reason = "the device has no matrices that fit the heads".to_owned();
            return Err(crate::KernelError::argument(name)(reason));
        };
        let shader = match self.half {
            Half::Bf16 => bf16,
            Half::F16 => f16,
        };
        let [q, k, v] = &self.heads;
        Ok(Kernel::new(name, shader)
            .constants(pass.placed.constants())
            .constants(shape.specialization(SUBGROUPS))
            .constants(constants!(10: OWN_ROWS, BLOCK))
            .reads([q, k, v, pass.ranges])
            .reads_if(pass.operands.counter))
    }

    /// Runs a pass over the rounded operands.
    fn on_the_cpu(
        &self,
        pass: &RangedPass<'_>,
        run: impl FnOnce(&RangedPass<'_>) -> Result<()>,
    ) -> Result<()> {
        let of = &pass.placed.attention;
        let [of_queries, of_keys] = &of.layouts()?;
        let [q, k, v] = &self.heads;
        let operands = AttentionOperands {
            heads: [
                Operand::new(q, of_queries),
                Operand::new(k, of_keys),
                Operand::new(v, of_keys),
            ],
            packed: None,
            ..*pass.operands
        };
        run(&RangedPass {
            operands: &operands,
            placed: of.contiguous(),
            ..*pass
        })
    }
}

/// Workgroups of a kernel over the positions, of queries or of keys, of all heads.
fn groups(positions: usize, heads: usize) -> usize {
    positions.div_ceil(SUBGROUPS as usize * OWN_ROWS) * heads
}
