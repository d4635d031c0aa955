//! The product with a weight in blocks: its checks, and its launch on either kind of device.

use bytemuck::cast_slice;
use hlx_core::{Binding, Buffer, DType, Device, IntegerPath, MatrixShape, Shader, as_u32};

use super::cpu;
use super::format::{BlockFormat, Levels, PANEL};
use super::packed::BlockRows;
use crate::Result;
use crate::error::{check_dtype, check_indexable, check_len, check_sizes};
use crate::kernel::{Kernel, PushConstants};
use crate::product::floats::Epilogue;
use crate::product::quantised::{Digits, PIECE, Prepared, takes_dots};
use crate::tuning::KernelTuning;

shader!(integer::{
    blocks_few as few_shader, blocks_few_dots as few_dots_shader, blocks_many as many_shader,
    blocks_many_dots as many_dots_shader, blocks_many_matrices as matrices_shader, blocks_many_matrices_words as narrow_shader,
});

const NAME: &str = "block_product";
/// Rows of A at most for which a workgroup has a panel's columns, and those that it has then.
const FEW: usize = 16;
const FEW_ROWS: usize = 4;
/// Rows and columns of a workgroup otherwise.
const SIDE: usize = 64;
/// By matrices those of a workgroup and of a subgroup, of weights with scales and without. (On an H100, of 512 rows and a weight of
/// 14,336 x 4,096: Q4_K 94 TFLOP/s, with 128 x 64 85, with 64 x 128 91; Q4_0 106, with 64 x 64 90.)
const SCALED_TILE: [[usize; 2]; 2] = [[64, 64], [32, 32]];
const PLAIN_TILE: [[usize; 2]; 2] = [[64, 128], [32, 64]];
/// The same of matrices of less depth.
const NARROW_TILE: [[usize; 2]; 2] = [[32, 32], [16, 16]];
/// The shaders' constant of a piece's terms.
const PIECE_CONSTANT: (u32, u32) = (3, PIECE as u32);

impl BlockFormat {
    /// The shaders' constants.
    pub(super) fn constants(&self) -> [(u32, u32); 9] {
        // (Shaders have NF4's integers with their signs.)
        let offset = match self.levels {
            Levels::Nf4 => 0,
            _ => self.offset as u32,
        };
        let [block, group, low, high] =
            [self.block, self.group, self.bits[0], self.bits[1]].map(|n| n as u32);
        [
            (20, block),
            (21, group),
            (22, low),
            (23, high),
            (24, offset),
            (25, self.levels as u32),
            (26, u32::from(self.has_scales)),
            (27, u32::from(self.has_mins)),
            (28, self.factor as u32),
        ]
    }
}

/// Computes `C = A W^T` of a prepared operand of two digits, \[m, k\], and a weight in blocks, \[n, k\], and what follows: `bias`,
/// \[n\], or nothing; then an epilogue over C, \[m, n\], with the bits of its own launch.
///
/// # Errors
/// If a buffer has another type or length, the operands other terms, and if a launch fails.
pub fn block_product(
    device: &Device,
    a: &Prepared,
    b: &BlockRows,
    bias: Option<&Buffer>,
    c: &Buffer,
    epilogue: Epilogue<'_>,
) -> Result<()> {
    check(a, b, bias, c)?;
    match epilogue {
        Epilogue::None => launch(device, a, b, [bias, None], c),
        Epilogue::Add(r) => {
            check_len(NAME, "r", r, c.len())?;
            launch(device, a, b, [bias, Some(r)], c)
        }
        other => other.separately(device, c, false, |c| launch(device, a, b, [bias, None], c)),
    }
}

fn check(a: &Prepared, b: &BlockRows, bias: Option<&Buffer>, c: &Buffer) -> Result<()> {
    let (of, [n, k]) = (a.of, b.sizes);
    check_that!(NAME, of.k == k && of.n_digits == Digits::Two && of.piece == PIECE && of.in_pieces() == 0 =>
        "{of:?}, expected rows of {k} terms in two digits")?;
    check_sizes(NAME, &[of.rows, n])?;
    check_dtype(NAME, "a's digits", &a.digits, DType::I8)?;
    check_dtype(NAME, "a's exponents", &a.exponents, DType::I32)?;
    check_len(NAME, "a's digits", &a.digits, of.digits_len())?;
    check_len(NAME, "a's exponents", &a.exponents, of.exponents_len())?;
    check_len(NAME, "the weight", &b.words, b.format.words(b.sizes))?;
    check_indexable(NAME, "a", of.digits_len())?;
    check_dtype(NAME, "c", c, DType::F32)?;
    check_len(NAME, "c", c, [of.rows, n])?;
    match bias {
        Some(bias) => check_len(NAME, "bias", bias, n),
        None => Ok(()),
    }
}

/// The shader of a product.
struct Chosen {
    shader: &'static Shader,
    /// Rows and columns of a workgroup.
    tile: [usize; 2],
    /// Its constants from 2 to 19.
    constants: Vec<(u32, u32)>,
}

impl Chosen {
    /// That of m rows and n columns.
    fn of(device: &Device, format: &BlockFormat, [m, n]: [usize; 2]) -> Self {
        let path = KernelTuning::of(device).products.integers;
        let dots = takes_dots(device);
        if m <= FEW {
            let rows = m.clamp(1, FEW_ROWS);
            return Self {
                shader: if dots {
                    &few_dots_shader::SHADER
                } else {
                    &few_shader::SHADER
                },
                tile: [rows, PANEL],
                constants: few_constants(format, rows).to_vec(),
            };
        }
        match path {
            IntegerPath::Matrices(shape) if dots => Self::by_matrices(device, format, n, shape),
            _ => None,
        }
        .unwrap_or(Self {
            shader: if dots {
                &many_dots_shader::SHADER
            } else {
                &many_shader::SHADER
            },
            tile: [SIDE; 2],
            constants: vec![PIECE_CONSTANT],
        })
    }

    /// By matrices, if these have no more terms than the shortest block, and their tile fits a workgroup's memory.
    fn by_matrices(
        device: &Device,
        format: &BlockFormat,
        n: usize,
        shape: MatrixShape,
    ) -> Option<Self> {
        let [tile, own] = match (shape.is_narrow(), format.has_scales) {
            (true, _) => NARROW_TILE,
            (false, true) => SCALED_TILE,
            (false, false) => PLAIN_TILE,
        };
        let subgroups = tile[0] / own[0] * (tile[1] / own[1]);
        let fits = shared_bytes(format, tile) <= device.info().shared_memory_bytes as usize;
        (fits && shape.terms <= 32).then(|| Self {
            shader: match shape.is_narrow() {
                true => &narrow_shader::SHADER,
                false => &matrices_shader::SHADER,
            },
            tile,
            constants: [(2, u32::from(n.is_multiple_of(4))), PIECE_CONSTANT]
                .into_iter()
                .chain(shape.specialization(subgroups as u32))
                .chain((10..).zip(tile.into_iter().chain(own).map(|n| n as u32)))
                .collect(),
        })
    }
}

/// The constants of the shaders of few rows: a thread of a single row has whole blocks of 256 terms.
pub(super) fn few_constants(format: &BlockFormat, rows: usize) -> [(u32, u32); 3] {
    [
        PIECE_CONSTANT,
        (10, rows as u32),
        (12, own_chunks(format, rows) as u32),
    ]
}

/// Chunks of a column that a thread holds: of a single row up to 256 terms, in as much of a workgroup's memory as devices have.
fn own_chunks(format: &BlockFormat, rows: usize) -> usize {
    match (rows, format.has_mins) {
        (1, false) => 256 / format.chunk(),
        (1, true) => (128 / format.chunk()).max(1),
        _ => 1,
    }
}

/// Bytes of a workgroup's memory that the shaders of few rows take beside the integers of A's rows.
pub(super) fn few_shared_bytes(format: &BlockFormat, rows: usize) -> usize {
    let chunks = 16 * own_chunks(format, rows);
    let blocks = chunks * (format.chunk() / format.block) * PANEL;
    let kinds = if format.has_mins { 2 } else { 1 };
    let groups = chunks * (format.chunk() / format.group);
    4 * kinds * blocks * (rows + 1) + 8 * rows * groups
}

/// The push constants of all shaders of weights in blocks.
pub(super) fn push_of(m: usize, weight: &BlockRows, padded: usize) -> PushConstants {
    let [n, k] = weight.sizes;
    push!(few_shader =>
        batch: 1_u32, m, n, units: padded / 16, groups: 1_u32, c_first: 0_u32, c_row: n, first_group: 0_u32,
        n_groups: 0_u32, blocks: k / weight.format.block)
}

/// Bytes of a workgroup's memory that the shader by matrices takes at most (blocks_many_matrices.glsl).
fn shared_bytes(format: &BlockFormat, [rows, columns]: [usize; 2]) -> usize {
    let blocks = format.chunk() / format.block;
    // Integers with scales for groups of 16 are two digits.
    let digits = 1 + usize::from(format.has_scales && format.group == 16);
    let staging = 16 * 5 * (2 * rows + digits * columns) + 8 * columns;
    let of_mins = match format.has_mins {
        true => 4 * format.groups().max(2) * rows + 16 * 3 * columns,
        false => 0,
    };
    staging + 8 * blocks * columns + of_mins
}

fn launch(
    device: &Device,
    a: &Prepared,
    b: &BlockRows,
    [bias, extra]: [Option<&Buffer>; 2],
    c: &Buffer,
) -> Result<()> {
    let (of, format, [n, k]) = (a.of, b.format, b.sizes);
    let m = of.rows;
    if m * n == 0 {
        return Ok(());
    }
    let chosen = Chosen::of(device, format, [m, n]);
    let [rows, columns] = chosen.tile;
    let target = match of.pieces() {
        1 => Binding::Write(c),
        _ => Binding::ReadWrite(c),
    };
    let kernel = Kernel::new(NAME, chosen.shader)
        .constants(constants!(0: bias.is_some(), extra.is_some()))
        .constants(&chosen.constants)
        .constants(format.constants())
        .reads([&a.digits, &a.exponents, &b.words])
        .reads_if(None)
        .reads_if(bias)
        .reads_if(extra)
        .bind(target)
        .reads_if(None)
        .flops(2 * (m * n * k) as u64);
    let push = push_of(m, b, of.padded());
    let groups = m.div_ceil(rows) * n.div_ceil(columns);
    let (has_bias, has_extra) = (bias.is_some(), extra.is_some());
    let padded = of.padded();
    kernel.launch(device, push, groups, move |read, [c]| {
        let [digits, exponents, words, _, bias, extra, _] = read;
        let operands = cpu::Operands {
            format,
            sizes: [m, n, k],
            digits: cast_slice(digits),
            exponents: cast_slice(exponents),
            padded,
            words: as_u32(words),
            bias: has_bias.then_some(bias),
            extra: has_extra.then_some(extra),
        };
        cpu::product(operands, c);
    })
}
