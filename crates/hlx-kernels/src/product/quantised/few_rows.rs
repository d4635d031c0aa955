//! Products of few rows, such as a token's with a weight: shaders that read B from end to end, and that may make the integers of
//! A's rows themselves.

use hlx_core::{Binding, Buffer, DType, Device, IntegerPath, Shader};

use super::launch::{Chosen, push};
use super::prepare::{Preparation, Prepared, Source, prepare_norm};
use super::shape::{Bounded, IntegerProduct};
use super::{Digits, GRANULE, PIECE, integer_product};
use crate::Result;
use crate::activation::Activation;
use crate::error::{check_dtype, check_len};
use crate::kernel::{Kernel, PushConstants};
use crate::norm::Norm;
use crate::product::floats::{Epilogue, Prologue};
use crate::product::shape::MatMul;
use crate::tuning::KernelTuning;

shader!(integer::{
    product_few as few_shader, product_few_dots as few_dots_shader,
    product_few_fresh as fresh_shader, product_few_fresh_dots as fresh_dots_shader,
    product_few_gated as gated_shader, product_few_gated_dots as gated_dots_shader,
    product_few_normed as normed_shader, product_few_normed_dots as normed_dots_shader,
});

/// What computes A's integers: a launch before, or the product from rows, from a gate, or from rows and their norm.
static SHADERS: [[&Shader; 2]; 4] = [
    [&few_shader::SHADER, &few_dots_shader::SHADER],
    [&fresh_shader::SHADER, &fresh_dots_shader::SHADER],
    [&gated_shader::SHADER, &gated_dots_shader::SHADER],
    [&normed_shader::SHADER, &normed_dots_shader::SHADER],
];

/// Rows of A at most for which these shaders are taken.
pub(super) const MOST: usize = 16;
/// Rows of a workgroup at most, and its columns.
const ROWS: usize = 4;
const COLUMNS: usize = 16;
/// Threads of a column, each with units of 16 terms.
const LANES: usize = 32;

const NAME: &str = "few_rows_product";

fn shader(device: &Device, of: usize) -> &'static Shader {
    SHADERS[of][usize::from(takes_dots(device))]
}

/// Whether shaders without matrices sum by dot products of four bytes.
pub(in crate::product) fn takes_dots(device: &Device) -> bool {
    let path = KernelTuning::of(device).products.integers;
    path != IntegerPath::Plain && device.integer_paths().contains(&IntegerPath::Dots)
}

/// Units of a column of k terms that each of its threads has.
pub(in crate::product) const fn held_units(k: usize) -> usize {
    k.div_ceil(LANES * 16)
}

/// The constants of a workgroup's rows, and of the units of a column that a thread holds: all of a row of one piece.
fn constants(s: &IntegerProduct, is_held: bool) -> [(u32, u32); 2] {
    let held = if is_held && s.k <= PIECE {
        held_units(s.k)
    } else {
        0
    };
    [(10, s.m.clamp(1, ROWS) as u32), (11, held as u32)]
}

/// The shader of a product of at most [`MOST`] rows whose operands are prepared.
pub(super) fn chosen(device: &Device, s: &IntegerProduct, bounded: Option<Bounded>) -> Chosen {
    // By terms a sum may have none. Where several workgroups read the same columns, loads all at once make way for fewer of
    // them: 16 rows of Qwen3-0.6B's products took 2.52 ms instead of 2.20 on an H100.
    let is_held = bounded != Some(Bounded::Terms) && s.m <= ROWS;
    Chosen {
        shader: shader(device, 0),
        tile: [s.m.clamp(1, ROWS), COLUMNS],
        constants: constants(s, is_held).to_vec(),
    }
}

/// Whether a workgroup holds the integers of rows \[m, k\], which are pieces of whole units, with other bytes of its memory.
pub(in crate::product) fn rows_are_held(
    device: &Device,
    [m, k]: [usize; 2],
    others: usize,
) -> bool {
    // Of a norm.
    let shared = m * (2 * 16 * LANES * held_units(k) + 4 * (128 + 32 + 8 + 3)) + others;
    !device.is_cpu()
        && (1..=ROWS).contains(&m)
        && (1..=PIECE).contains(&k)
        && k.is_multiple_of(GRANULE)
        && shared <= device.info().shared_memory_bytes as usize
}

/// A product `C = f(x) W^T + bias + r` of few rows x, f32 \[m, k\], with a weight \[n, k\], with the bits of the launches that
/// come before and behind it.
#[derive(Clone, Copy)]
pub(crate) struct FewRows<'a> {
    pub x: &'a Buffer,
    /// f; without one x as it is.
    pub prologue: Option<Prologue<'a>>,
    /// \[n\].
    pub bias: Option<&'a Buffer>,
    /// \[m, n\].
    pub added: Option<&'a Buffer>,
    pub m: usize,
}

impl FewRows<'_> {
    /// Computes the product with a quantised weight of one digit: in one launch where a workgroup holds the rows, else in several.
    ///
    /// # Errors
    /// If a buffer has another type or length, and if a launch fails.
    pub fn run(&self, device: &Device, weight: &Prepared, c: &Buffer) -> Result<()> {
        let of = weight.of;
        self.check([of.rows, of.k], c)?;
        let s = IntegerProduct::new(self.m, of.rows, of.k);
        if !self.fits(device, weight) {
            let a = self.prepared(device, [of.rows, of.k])?;
            return integer_product(device, [&a, weight], self.bias, c, &s, self.epilogue());
        }
        let (form, constant) = self.form();
        let kernel = Kernel::new("integer_product", shader(device, 1 + form))
            .constants(constants!(0: self.bias.is_some(), self.added.is_some()))
            .constants([(3, of.piece as u32), (16, of.in_pieces())])
            .constants(constants(&s, true))
            .constants(constant.as_slice())
            .reads([self.x])
            .reads_if(None)
            .reads([&weight.digits, &weight.exponents]);
        self.launch(device, kernel, c, push(&s, 1, [0, 0], weight), [s.n, s.k])
    }

    /// Whether it is one launch.
    pub(super) fn fits(&self, device: &Device, weight: &Prepared) -> bool {
        let of = weight.of;
        // Of sums, and of what adds them up.
        of.piece == PIECE
            && of.rows > 0
            && rows_are_held(device, [self.m, of.k], self.m * 4096 + 1024)
    }

    /// Checks the buffers beside a weight of these rows and columns.
    pub(in crate::product) fn check(&self, [n, k]: [usize; 2], c: &Buffer) -> Result<()> {
        let m = self.m;
        check_dtype(NAME, "x", self.x, DType::F32)?;
        check_len(NAME, "x", self.x, [m, k])?;
        check_len(NAME, "c", c, [m, n])?;
        if let Some(prologue) = &self.prologue {
            prologue.check(&MatMul::new(m, n, k))?;
        }
        if let Some(bias) = self.bias {
            check_len(NAME, "bias", bias, n)?;
        }
        match self.added {
            Some(added) => check_len(NAME, "r", added, [m, n]),
            None => Ok(()),
        }
    }

    /// What a shader makes the integers from, its place among the shaders of fresh rows, and that source's constant.
    pub(in crate::product) fn form(&self) -> (usize, Option<(u32, u32)>) {
        match self.prologue {
            None => (0, None),
            Some(Prologue::Gated { .. }) => (1, Some((19, Activation::SiLU as u32))),
            Some(Prologue::RmsNorm { eps, .. }) => (2, Some((18, eps.to_bits()))),
        }
    }

    /// Launches a kernel that has the rows and the weight, \[n, k\].
    pub(in crate::product) fn launch(
        &self,
        device: &Device,
        kernel: Kernel<'_>,
        c: &Buffer,
        push: PushConstants,
        [n, k]: [usize; 2],
    ) -> Result<()> {
        let operand = self.prologue.as_ref().map(Prologue::operand);
        kernel
            .reads_if(self.bias)
            .reads_if(self.added)
            .writes([c])
            .reads_if(None)
            .bind_all(operand.map(Binding::Read))
            .flops(2 * (self.m * n * k) as u64)
            .launch_on_gpu(device, push, n.div_ceil(COLUMNS))
    }

    /// The rows' integers, by launches of their own.
    pub(in crate::product) fn prepared(
        &self,
        device: &Device,
        [n, k]: [usize; 2],
    ) -> Result<Prepared> {
        let (m, of) = (self.m, Preparation::of_rows(self.m, k, Digits::Two));
        match self.prologue {
            None => Prepared::new(device, self.x, of),
            Some(Prologue::Gated { up }) => {
                let (kind, x) = (Activation::SiLU, self.x);
                Prepared::new(device, Source::Gated { kind, x, up }, of)
            }
            Some(Prologue::RmsNorm { gain, eps }) if (1..=PIECE).contains(&k) && m > 0 => {
                let stats = device.alloc(m)?;
                prepare_norm(device, &Norm::rms(m, k, eps), self.x, gain, None, &stats)
            }
            Some(prologue) => {
                let x = prologue.separately(device, self.x, &MatMul::new(m, n, k))?;
                Prepared::new(device, &x, of)
            }
        }
    }

    /// What follows the product then.
    pub(in crate::product) fn epilogue(&self) -> Epilogue<'_> {
        self.added.map_or(Epilogue::None, Epilogue::Add)
    }
}
