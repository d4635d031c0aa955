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
pub(crate) mod packed_rows;
mod prologue;
pub mod simd;
mod steps;
mod tile;

use hlx_core::cpu::simd_level;
use hlx_core::{Binding, Buffer, DType, Device};

use super::shape::MatMul;
use super::tiles::{Form, Grid, Start, Tile, dense_32x64};
use crate::elementwise::copy_strided;
use crate::error::{check_indexable, check_sizes};
use crate::kernel::Kernel;
use crate::transpose::transpose;
use crate::tuning::KernelTuning;
use crate::{Layout, Operand, Result, check_len};
pub use epilogue::Epilogue;
use few_rows::Cut;
pub use prologue::Prologue;
pub use steps::step_product;

const NAME: &str = "matmul";

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
/// [`KernelError::Length`](crate::KernelError::Length) for a buffer of another length;
/// [`KernelError::Argument`](crate::KernelError::Argument) for a `b` of another type, a bias together with
/// `accumulate`, matrices of C that overlap, or sizes past 2^32 - 1 elements.
pub fn matmul(
    device: &Device,
    a: &Buffer,
    b: &Buffer,
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
) -> Result<()> {
    FloatProduct {
        bias,
        ..FloatProduct::new([a, b], c, *shape)
    }
    .run(device)
}

/// A product of floats: what it reads and writes, and what comes before and behind its chains.
#[derive(Clone, Copy)]
pub struct FloatProduct<'a> {
    /// f32.
    pub a: &'a Buffer,
    /// f32, f16 or bf16.
    pub b: &'a Buffer,
    /// `[N]`: what the chains start at.
    pub bias: Option<&'a Buffer>,
    /// What A goes through first: the product is of what it makes of A, has one matrix, and A is not transposed. On a GPU it is
    /// one launch for few rows and a B stored `[N,K]` ([`ProductTuning::prologue_up_to`](crate::ProductTuning)).
    pub prologue: Option<Prologue<'a>>,
    /// What follows; with one, matrices of C lie side by side (`stride_c` is M N).
    pub epilogue: Epilogue<'a>,
    /// Overwritten, or continued with `accumulate`.
    pub c: &'a Buffer,
    /// The sizes.
    pub shape: MatMul,
}

impl<'a> FloatProduct<'a> {
    /// The product alone.
    pub fn new([a, b]: [&'a Buffer; 2], c: &'a Buffer, shape: MatMul) -> Self {
        Self {
            a,
            b,
            bias: None,
            prologue: None,
            epilogue: Epilogue::None,
            c,
            shape,
        }
    }

    /// Computes it, with the bits of [`matmul`] and separate launches of what comes before and behind.
    ///
    /// # Errors
    /// As [`matmul`], and [`KernelError::Length`](crate::KernelError::Length) for a buffer of the prologue or
    /// the epilogue of another length.
    pub fn run(&self, device: &Device) -> Result<()> {
        if self.shape.is_empty() {
            return Ok(());
        }
        self.check()?;
        let dtype = self.b.dtype();
        check_that!(NAME, dtype.is_float() => "b has dtype {dtype}, expected f32, f16 or bf16")?;
        self.epilogue.check(NAME, self.c, &self.shape)?;
        let mut cut = Cut::choose(device, &self.shape, dtype);
        if let Some(prologue) = self.prologue {
            prologue.check(&self.shape)?;
            cut = cut.filter(|cut| cut.takes_prologue(device, &self.shape, dtype));
            if cut.is_none() {
                let (a, prologue) = (prologue.separately(device, self.a, &self.shape)?, None);
                let product = FloatProduct {
                    a: &a,
                    prologue,
                    ..*self
                };
                return product.run(device);
            }
        }
        match cut {
            Some(cut) => self.by_few_rows(device, cut),
            None => self.by_tiles(device),
        }
    }

    /// Checks a product that is not empty.
    pub(super) fn check(&self) -> Result<()> {
        let (s, [a, b, c]) = (&self.shape, [self.a, self.b, self.c]);
        check_that!(NAME, !(s.accumulate && self.bias.is_some()) =>
            "bias and accumulate exclude each other: a chain has one start")?;
        check_sizes(NAME, &[s.m, s.n])?;
        check_that!(NAME, s.batch == 1 || s.stride_c >= s.m * s.n =>
            "stride_c is {found}, expected at least {least}",
            found = s.stride_c, least = s.m * s.n)?;
        s.check_extent(NAME, "a", a, s.stride_a, [s.m, s.k])?;
        s.check_extent(NAME, "b", b, s.stride_b, [s.k, s.n])?;
        s.check_extent(NAME, "c", c, s.stride_c, [s.m, s.n])?;
        check_len(NAME, "bias", self.bias, s.n)?;
        let largest = a.len().max(b.len()).max(c.len());
        check_indexable(NAME, "an operand", largest)
    }

    /// Computes a checked product by tiles, of a B that a GPU widens first, and transposes where that is faster.
    fn by_tiles(&self, device: &Device) -> Result<()> {
        let b = &match device.is_cpu() {
            true => self.b.clone(),
            false => widened(device, self.b)?,
        };
        let product = FloatProduct { b, ..*self };
        if b.dtype() == DType::F32 && gains_by_transposing(device, &self.shape) {
            return product.with_b_transposed(device, |product| product.by_tile(device));
        }
        product.by_tile(device)
    }

    /// Calls `then` with the same product of a single B that is stored `[N,K]` and now transposed.
    fn with_b_transposed(
        &self,
        device: &Device,
        then: impl FnOnce(FloatProduct<'_>) -> Result<()>,
    ) -> Result<()> {
        let b = &device.alloc(self.b.len())?;
        transpose(device, self.b, self.shape.n, self.shape.k, b)?;
        let shape = MatMul {
            trans_b: false,
            ..self.shape
        };
        then(FloatProduct { b, shape, ..*self })
    }

    /// Launches a checked product by the tile that the device takes; the epilogue too, where the device's tuning prefers a
    /// launch of its own.
    fn by_tile(&self, device: &Device) -> Result<()> {
        let form = match device.is_cpu() {
            true => Form::Dense,
            false => self.epilogue.form(),
        };
        if form == Form::Dense || KernelTuning::of(device).products.fused_epilogues {
            return self.launch(device, Tile::choose(device, &self.shape, form));
        }
        let tile = Tile::choose(device, &self.shape, Form::Dense);
        self.separately(device, |product| product.launch(device, tile))
    }

    /// Launches a checked product by `launch`, and then the epilogue.
    fn separately(
        &self,
        device: &Device,
        launch: impl Fn(FloatProduct<'_>) -> Result<()>,
    ) -> Result<()> {
        let accumulate = self.shape.accumulate;
        self.epilogue.separately(device, self.c, accumulate, |c| {
            let epilogue = Epilogue::None;
            launch(FloatProduct {
                c,
                epilogue,
                ..*self
            })
        })
    }

    /// Launches a checked product with a tile, on a GPU one of the epilogue's form.
    fn launch(&self, device: &Device, tile: &Tile) -> Result<()> {
        let (a, b, c, s) = (self.a, self.b, self.c, self.shape);
        let (bias, epilogue) = (self.bias, self.epilogue);
        let start = Start::of(s.accumulate, bias);
        let finish = epilogue.finish();
        let target = match epilogue.reads_c() || s.stride_c > s.m * s.n {
            true => Binding::ReadWrite(c),
            false => start.target(c),
        };
        let mut kernel = Kernel::new(NAME, tile.shader)
            .constants(specialization(&s, tile, start))
            .reads([a, b])
            .reads_if(bias)
            .bind(target);
        if !matches!(epilogue, Epilogue::None) {
            kernel = kernel.constants(finish.constants());
            kernel = match epilogue.extra() {
                Some(extra) => kernel.bind(extra),
                None => kernel.reads_if(None),
            };
        }
        let grid = Grid {
            kernel,
            tile: tile.size,
            extents: [s.batch, s.m, s.n],
            cuts_columns: false,
            // Each operand has less than 2^32 elements: the product of the three has less than 2^48.
            flops: (2 * s.batch as u64).saturating_mul((s.m * s.n * s.k) as u64),
        };
        let scalar = finish.scalar();
        let push = |[_, batch_first]: [usize; 2]| {
            push!(dense_32x64 =>
                m: s.m, n: s.n, k: s.k, stride_a: s.stride_a, stride_b: s.stride_b, stride_c: s.stride_c, batch_first, scalar)
        };
        let (has_bias, b_type) = (bias.is_some(), b.dtype());
        grid.launch_bound(device, push, move |bindings| {
            finish.run(bindings, |[a, b, bias], c| {
                let (b, bias) = ((b, b_type), has_bias.then_some(bias));
                cpu::matmul(simd_level(), &s, a, b, bias, c);
            });
        })
    }
}

/// The same elements as f32; f32 itself as it is. A product of many rows reads each element of B many times, so that
/// the tiles are better off with a widened copy: 6 bytes per element, once.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for another type than f32, f16 and bf16.
pub fn widened(device: &Device, b: &Buffer) -> Result<Buffer> {
    if b.dtype() == DType::F32 {
        return Ok(b.clone());
    }
    let widened = device.alloc(b.len())?;
    let layout = Layout::contiguous(&[b.len()])?;
    copy_strided(device, Operand::new(b, &layout), &widened)?;
    Ok(widened)
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

/// The specialization constants of a product without an epilogue.
pub(crate) fn specialization(s: &MatMul, tile: &Tile, start: Start) -> [(u32, u32); 8] {
    let columns_a = if s.trans_a { s.m } else { s.k };
    let columns_b = if s.trans_b { s.k } else { s.n };
    let vectors = |columns: usize, stride: usize| {
        u32::from(columns.is_multiple_of(4) && (s.batch == 1 || stride.is_multiple_of(4)))
    };
    let vector_a = vectors(columns_a, s.stride_a);
    let vector_b = vectors(columns_b, s.stride_b);
    let whole_steps = u32::from(s.k.is_multiple_of(tile.k_step));
    constants!(0: s.trans_a, s.trans_b, vector_a, vector_b, vectors(s.n, s.stride_c), start as u32,
        whole_steps & vector_a & vector_b, s.k.is_multiple_of(2 * tile.k_step))
}

#[cfg(test)]
mod tests;
