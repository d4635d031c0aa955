//! Products of few rows, such as a token's with a weight: shaders that read B from end to end, and that may make the integers of
//! A's rows themselves.

use hlx_core::{Binding, Buffer, DType, Device, IntegerPath, Shader};

use super::launch::{Chosen, push};
use super::prepare::{Preparation, Prepared};
use super::shape::{Bounded, IntegerProduct};
use super::{Digits, PIECE, integer_product};
use crate::Result;
use crate::activation::Activation;
use crate::error::{check_dtype, check_len};
use crate::kernel::Kernel;
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
/// Terms of a column that its threads load at a time.
const TERMS: usize = 32 * 16;

const NAME: &str = "few_rows_product";

fn shader(device: &Device, of: usize) -> &'static Shader {
    let path = KernelTuning::of(device).products.integers;
    let dots = path != IntegerPath::Plain && device.integer_paths().contains(&IntegerPath::Dots);
    SHADERS[of][usize::from(dots)]
}

/// The constants of a workgroup's rows, and of the units of a column that a thread holds: all of a row of one piece.
fn constants(s: &IntegerProduct, is_held: bool) -> [(u32, u32); 2] {
    let held = if is_held && s.k <= PIECE {
        s.k.div_ceil(TERMS)
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

/// A product `C = f(x) W^T + bias + r` of few rows x, f32 \[m, k\], with a quantised weight \[n, k\] of one digit, with the bits of
/// the launches that come before and behind it.
#[derive(Clone, Copy)]
pub(crate) struct FewRows<'a> {
    pub x: &'a Buffer,
    /// f; without one x as it is.
    pub prologue: Option<Prologue<'a>>,
    pub weight: &'a Prepared,
    /// \[n\].
    pub bias: Option<&'a Buffer>,
    /// \[m, n\].
    pub added: Option<&'a Buffer>,
    pub m: usize,
}

impl FewRows<'_> {
    /// Computes the product: in one launch where a workgroup holds the rows, else in several.
    ///
    /// # Errors
    /// If a buffer has another type or length, and if a launch fails.
    pub fn run(&self, device: &Device, c: &Buffer) -> Result<()> {
        let (m, of) = (self.m, self.weight.of);
        let s = IntegerProduct::new(m, of.rows, of.k);
        check_dtype(NAME, "x", self.x, DType::F32)?;
        check_len(NAME, "x", self.x, [m, of.k])?;
        check_len(NAME, "c", c, [m, of.rows])?;
        if let Some(prologue) = &self.prologue {
            prologue.check(&MatMul::new(m, of.rows, of.k))?;
        }
        if !self.fits(device) {
            return self.separately(device, &s, c);
        }
        if let Some(bias) = self.bias {
            check_len(NAME, "bias", bias, of.rows)?;
        }
        if let Some(added) = self.added {
            check_len(NAME, "r", added, [m, of.rows])?;
        }
        let (form, constant) = match self.prologue {
            None => (1, None),
            Some(Prologue::Gated { .. }) => (2, Some((19, Activation::SiLU as u32))),
            Some(Prologue::RmsNorm { eps, .. }) => (3, Some((18, eps.to_bits()))),
        };
        let kernel = Kernel::new("integer_product", shader(device, form))
            .constants(constants!(0: self.bias.is_some(), self.added.is_some()))
            .constants([(3, of.piece as u32), (16, of.in_pieces())])
            .constants(constants(&s, true))
            .constants(constant.as_slice())
            .reads([self.x])
            .reads_if(None)
            .reads([&self.weight.digits, &self.weight.exponents])
            .reads_if(self.bias)
            .reads_if(self.added)
            .writes([c])
            .reads_if(None)
            .bind_all(
                self.prologue
                    .map(|prologue| Binding::Read(prologue.operand())),
            )
            .flops(2 * (m * s.n * s.k) as u64);
        kernel.launch_on_gpu(
            device,
            push(&s, 1, [0, 0], self.weight),
            s.n.div_ceil(COLUMNS),
        )
    }

    /// Whether a workgroup holds the integers of all rows, which are pieces of whole units.
    pub(super) fn fits(&self, device: &Device) -> bool {
        let (m, of) = (self.m, self.weight.of);
        let held = m * of.k.div_ceil(TERMS) * TERMS * 2;
        // Of sums, of what adds them up, and of a norm.
        let shared = held + m * 4096 + 1024 + m * 4 * (128 + 32 + 8 + 3);
        !device.is_cpu()
            && (1..=ROWS).contains(&m)
            && of.rows > 0
            && (1..=PIECE).contains(&of.k)
            && of.piece == PIECE
            && of.padded() == of.k
            && shared <= device.info().shared_memory_bytes as usize
    }

    fn separately(&self, device: &Device, s: &IntegerProduct, c: &Buffer) -> Result<()> {
        let floats = MatMul::new(s.m, s.n, s.k);
        let x = match &self.prologue {
            Some(prologue) => prologue.separately(device, self.x, &floats)?,
            None => self.x.clone(),
        };
        let a = Prepared::new(device, &x, Preparation::of_rows(s.m, s.k, Digits::Two))?;
        let epilogue = self.added.map_or(Epilogue::None, Epilogue::Add);
        integer_product(device, [&a, self.weight], self.bias, c, s, epilogue)
    }
}
