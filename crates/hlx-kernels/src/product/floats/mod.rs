//! The matrix product, with transposes, batches, a bias and accumulation.
//!
//! `C[m,n] = start + sum over k of A[m,k] B[k,n]`, for each matrix of the batch:
//! - A is `[M,K]`, or stored `[K,M]` with `trans_a`; B is `[K,N]`, or stored `[N,K]` with
//!   `trans_b`; C is `[M,N]`. All are row-major and contiguous; matrices of a batch lie
//!   `stride_a`, `stride_b`, `stride_c` elements apart, and 0 shares one A or B.
//! - Each element is one chain `acc = fma(A[m,k], B[k,n], acc)` over k = 0, 1, 2, ..., which
//!   starts at +0, at `bias[n]`, or at what C holds (`accumulate`). At its end -0 becomes +0.
//! - B may be of f16 or bf16: each of its elements counts as the f32 of the same value.
//! - With K = 0 the chain has no term: C is 0, the bias, or stays.
//! - An [`Epilogue`] applies one elementwise operation to the results of the chains.
//!
//! The order is the same for every size, tile, thread count, instruction set and device.

pub(crate) mod cpu;
mod epilogue;
mod few_rows;
mod halves;
pub(crate) mod pack;
mod prologue;
pub mod simd;
mod steps;
mod tile;

use hlx_core::cpu::simd_level;
use hlx_core::{Binding, Buffer, DType, Device, sizes};

use crate::elementwise::copy_strided;
use crate::error::{check_sizes, check_that};
use crate::kernel::Kernel;
use crate::product::tiles::{Form, Grid, Start, Tile, dense_32x64};
use crate::transpose::transpose;
use crate::tuning::KernelTuning;
use crate::{KernelError, Layout, Operand, check_len};
pub use epilogue::Epilogue;
use few_rows::Cut;
pub use prologue::Prologue;
pub use steps::step_product;

const NAME: &str = "matmul";

/// The shape of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMul {
    /// Matrices in the batch.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Terms of each chain.
    pub k: usize,
    /// A is stored `[K,M]`.
    pub trans_a: bool,
    /// B is stored `[N,K]`.
    pub trans_b: bool,
    /// Elements from one matrix of A to the next; 0 shares one.
    pub stride_a: usize,
    /// Elements from one matrix of B to the next; 0 shares one.
    pub stride_b: usize,
    /// Elements from one matrix of C to the next; at least M N.
    pub stride_c: usize,
    /// The chains start at what C holds.
    pub accumulate: bool,
}

impl MatMul {
    /// Describes one product `[M,K] x [K,N]` that overwrites C. Sizes that no memory holds are refused where it is
    /// computed.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            batch: 1,
            m,
            n,
            k,
            trans_a: false,
            trans_b: false,
            stride_a: m.saturating_mul(k),
            stride_b: k.saturating_mul(n),
            stride_c: m.saturating_mul(n),
            accumulate: false,
        }
    }

    /// Checks that a buffer has the elements of `batch` matrices of some rows and columns, `stride` apart.
    fn check_extent(
        &self,
        (argument, buffer): (&'static str, &Buffer),
        stride: usize,
        [rows, columns]: [usize; 2],
    ) -> Result<(), KernelError> {
        check_sizes(NAME, &[rows, columns])?;
        let before = sizes::checked_product([self.batch.saturating_sub(1), stride]);
        let len = before.and_then(|before| sizes::checked_sum([before, rows * columns]));
        let len = len.ok_or_else(|| KernelError::Argument {
            operation: NAME,
            reason: format!(
                "{argument} of {} matrices, {stride} apart, has more elements than memory holds",
                self.batch
            ),
        })?;
        check_len(NAME, argument, buffer, len)
    }

    /// Whether there is nothing to compute.
    pub(super) fn is_empty(&self) -> bool {
        self.batch == 0 || self.m == 0 || self.n == 0
    }
}

/// Computes a (batch of) matrix product(s): see the module's specification.
///
/// `a`, `b` and `c` have exactly the elements that the shape reaches; `bias` has N. C is
/// overwritten, or continued with `accumulate`; elements between its matrices stay. PyTorch:
/// `torch.baddbmm`, `torch.nn.functional.linear`.
///
/// `b` holds f32, f16 or bf16; all others f32. A GPU widens a 16-bit B within the product if C has few
/// rows and B is stored `[N,K]`, and by a launch of its own otherwise, for which it allocates the widened B.
///
/// # Errors
/// [`KernelError::Length`] for a buffer of another length; [`KernelError::Argument`] for a `b` of
/// another type, a bias together with `accumulate`, matrices of C that overlap, or sizes past 2^32 - 1 elements.
pub fn matmul(
    device: &Device,
    a: &Buffer,
    b: &Buffer,
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
) -> Result<(), KernelError> {
    matmul_with(device, a, b, bias, c, shape, Epilogue::None)
}

/// Computes [`matmul`] and then the epilogue, with the bits of separate launches.
///
/// With an epilogue, matrices of C lie side by side (`stride_c` is M N).
///
/// # Errors
/// As [`matmul`], and [`KernelError::Length`] for an epilogue's buffer of another length than C.
pub fn matmul_with(
    device: &Device,
    a: &Buffer,
    b: &Buffer,
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    product(device, None, (a, b, bias), c, shape, epilogue)
}

/// Computes [`matmul_with`] of what a prologue makes of A, with the bits of separate launches: `c = prologue(a) b + bias`,
/// and then the epilogue. On a GPU it is one launch for few rows and a B stored `[N,K]`
/// ([`ProductTuning::prologue_up_to`](crate::ProductTuning)). The product has one matrix, and A is not transposed.
///
/// # Errors
/// As [`matmul_with`], and [`KernelError::Length`] for a prologue's buffer of another length.
pub fn matmul_after(
    device: &Device,
    prologue: Prologue<'_>,
    operands: (&Buffer, &Buffer, Option<&Buffer>),
    c: &Buffer,
    shape: &MatMul,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    product(device, Some(prologue), operands, c, shape, epilogue)
}

/// Checks a product, and computes it by the shaders of few rows or by tiles.
fn product(
    device: &Device,
    prologue: Option<Prologue<'_>>,
    (a, b, bias): (&Buffer, &Buffer, Option<&Buffer>),
    c: &Buffer,
    shape: &MatMul,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    if shape.is_empty() {
        return Ok(());
    }
    check(a, b, bias, c, shape)?;
    prologue.map_or(Ok(()), |prologue| prologue.check(shape))?;
    let dtype = b.dtype();
    check_that(NAME, dtype.is_float(), || {
        format!("b has dtype {dtype}, expected f32, f16 or bf16")
    })?;
    epilogue.check(NAME, c, shape)?;
    let cut = Cut::choose(device, shape, dtype);
    let fuses = |cut: Cut| prologue.is_none() || cut.takes_prologue(device, shape, dtype);
    match (cut, prologue) {
        (Some(cut), _) if fuses(cut) => {
            let operands = few_rows::Operands {
                a,
                b,
                bias,
                prologue,
            };
            few_rows::few_rows(device, operands, c, shape, cut, epilogue)
        }
        (_, Some(prologue)) => {
            let a = prologue.separately(device, a, shape)?;
            product(device, None, (&a, b, bias), c, shape, epilogue)
        }
        _ => by_tiles(device, (a, b, bias), c, shape, epilogue),
    }
}

/// Computes a checked product by tiles, of a B that a GPU widens first, and transposes where that is faster.
fn by_tiles(
    device: &Device,
    (a, b, bias): (&Buffer, &Buffer, Option<&Buffer>),
    c: &Buffer,
    shape: &MatMul,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    let b = &match device.is_cpu() {
        true => b.clone(),
        false => widened(device, b)?,
    };
    if b.dtype() == DType::F32 && gains_by_transposing(device, shape) {
        let (b, shape) = transposed_b(device, b, shape)?;
        return by_tile(device, [a, &b], bias, c, &shape, epilogue);
    }
    by_tile(device, [a, b], bias, c, shape, epilogue)
}

/// The same elements as f32; f32 itself as it is. A product of many rows reads each element of B many times, so that
/// the tiles are better off with a widened copy: 6 bytes an element, once.
///
/// # Errors
/// [`KernelError::Argument`] for another type than f32, f16 and bf16.
pub fn widened(device: &Device, b: &Buffer) -> Result<Buffer, KernelError> {
    if b.dtype() == DType::F32 {
        return Ok(b.clone());
    }
    let widened = device.alloc(b.len())?;
    let layout = Layout::contiguous(&[b.len()])?;
    let operand = Operand {
        buffer: b,
        layout: &layout,
    };
    copy_strided(device, operand, &widened)?;
    Ok(widened)
}

/// Transposes a single B that is stored `[N,K]`: the same product with a plain one.
fn transposed_b(
    device: &Device,
    b: &Buffer,
    shape: &MatMul,
) -> Result<(Buffer, MatMul), KernelError> {
    let transposed = device.alloc(b.len())?;
    transpose(device, b, shape.n, shape.k, &transposed)?;
    let plain = MatMul {
        trans_b: false,
        ..*shape
    };
    Ok((transposed, plain))
}

/// Whether B is better transposed once, by a launch of its own, than by each row of workgroups
/// when it loads B into shared memory.
fn gains_by_transposing(device: &Device, shape: &MatMul) -> bool {
    let tuning = &KernelTuning::of(device).products;
    shape.trans_b
        && shape.batch == 1
        && shape.m >= tuning.transpose_b_from_rows
        && shape.m * shape.n * shape.k >= tuning.transpose_b_from_terms
        && shape.n.is_multiple_of(4)
}

/// Checks a product that is not empty.
pub(super) fn check(
    a: &Buffer,
    b: &Buffer,
    bias: Option<&Buffer>,
    c: &Buffer,
    s: &MatMul,
) -> Result<(), KernelError> {
    check_that(NAME, !(s.accumulate && bias.is_some()), || {
        "bias and accumulate exclude each other: a chain has one start".to_owned()
    })?;
    check_sizes(NAME, &[s.m, s.n])?;
    check_that(NAME, s.batch == 1 || s.stride_c >= s.m * s.n, || {
        format!(
            "stride_c is {}, expected at least {}",
            s.stride_c,
            s.m * s.n
        )
    })?;
    s.check_extent(("a", a), s.stride_a, [s.m, s.k])?;
    s.check_extent(("b", b), s.stride_b, [s.k, s.n])?;
    s.check_extent(("c", c), s.stride_c, [s.m, s.n])?;
    if let Some(bias) = bias {
        check_len(NAME, "bias", bias, s.n)?;
    }
    let largest = a.len().max(b.len()).max(c.len());
    check_that(NAME, u32::try_from(largest).is_ok(), || {
        format!(
            "an operand has {largest} elements, expected at most {}",
            u32::MAX
        )
    })
}

/// The specialization constants of a product without an epilogue.
pub(crate) fn specialization(s: &MatMul, tile: &Tile, start: Start) -> [(u32, u32); 8] {
    let columns_a = if s.trans_a { s.m } else { s.k };
    let columns_b = if s.trans_b { s.k } else { s.n };
    let vectors = |columns: usize, stride: usize| {
        u32::from(columns.is_multiple_of(4) && (s.batch == 1 || stride.is_multiple_of(4)))
    };
    let (vector_a, vector_b) = (
        vectors(columns_a, s.stride_a),
        vectors(columns_b, s.stride_b),
    );
    let whole_steps = u32::from(s.k.is_multiple_of(tile.k_step));
    [
        (0, u32::from(s.trans_a)),
        (1, u32::from(s.trans_b)),
        (2, vector_a),
        (3, vector_b),
        (4, vectors(s.n, s.stride_c)),
        (5, start as u32),
        (6, whole_steps & vector_a & vector_b),
        (7, u32::from(s.k.is_multiple_of(2 * tile.k_step))),
    ]
}

/// Launches a checked product by the tile that the device takes; the epilogue too, where the device's tuning prefers a launch
/// of its own.
fn by_tile(
    device: &Device,
    operands: [&Buffer; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    let form = if device.is_cpu() {
        Form::Dense
    } else {
        epilogue.form()
    };
    if form == Form::Dense || KernelTuning::of(device).products.fused_epilogues {
        let tile = Tile::choose(device, shape, form);
        return launch(device, operands, bias, c, shape, tile, epilogue);
    }
    let tile = Tile::choose(device, shape, Form::Dense);
    epilogue.separately(device, c, shape.accumulate, |c| {
        launch(device, operands, bias, c, shape, tile, Epilogue::None)
    })
}

/// Launches a checked product with a tile, on a GPU one of the epilogue's form.
fn launch(
    device: &Device,
    [a, b]: [&Buffer; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
    tile: &Tile,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    let s = *shape;
    let start = Start::of(s.accumulate, bias);
    let mut constants = specialization(&s, tile, start).to_vec();
    let finish = epilogue.finish();
    let target = match epilogue.reads_c() || s.stride_c > s.m * s.n {
        true => Binding::ReadWrite(c),
        false => start.target(c),
    };
    let mut kernel = Kernel::new(NAME, tile.shader)
        .reads([a, b])
        .reads_if(bias)
        .bind(target);
    if !matches!(epilogue, Epilogue::None) {
        constants.extend(finish.constants());
        kernel = match epilogue.extra() {
            Some(extra) => kernel.bind(extra),
            None => kernel.reads_if(None),
        };
    }
    let grid = Grid {
        kernel: kernel.constants(&constants),
        tile: tile.size,
        extents: [s.batch, s.m, s.n],
        cuts_columns: false,
        // Each operand has less than 2^32 elements: the product of the three has less than 2^48.
        flops: (2 * s.batch as u64).saturating_mul((s.m * s.n * s.k) as u64),
    };
    let MatMul {
        m,
        n,
        k,
        stride_a,
        stride_b,
        stride_c,
        ..
    } = s;
    let scalar = finish.scalar;
    let push = |[_, batch_first]: [usize; 2]| push!(dense_32x64 => m, n, k, stride_a, stride_b, stride_c, batch_first, scalar);
    let (has_bias, b_type) = (bias.is_some(), b.dtype());
    grid.launch_bound(device, push, move |bindings| {
        finish.run(bindings, |[a, b, bias], c| {
            cpu::matmul(
                simd_level(),
                &s,
                a,
                (b, b_type),
                has_bias.then_some(bias),
                c,
            );
        });
    })
}

#[cfg(test)]
mod tests;
