//! The product with a weight in blocks: its checks, and its launch on either kind of device.

use std::ops::Range;

use bytemuck::cast_slice;
use hlx_core::{Binding, Buffer, DType, Device, IntegerPath, MatrixShape, Shader, as_u32};

use super::cpu;
use super::format::{BlockFormat, Levels, PANEL};
use super::packed::BlockRows;
use crate::Result;
use crate::error::{check_dtype, check_indexable, check_len, check_sizes};
use crate::kernel::{Kernel, PushConstants};
use crate::product::floats::Epilogue;
use crate::product::quantised::{Bounded, Bounds, Digits, PIECE, Prepared, takes_dots};
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
    check(a, (b, 1), bias, c)?;
    let call = Call {
        a,
        b,
        bias,
        extra: None,
        bounds: None,
    };
    match epilogue {
        Epilogue::None => call.launch(device, c),
        Epilogue::Add(r) => {
            check_len(NAME, "r", r, c.len())?;
            let extra = Some(r);
            Call { extra, ..call }.launch(device, c)
        }
        other => other.separately(device, c, false, |c| call.launch(device, c)),
    }
}

/// Computes the products of groups of A's rows, which the device alone knows, each with its own weight \[n, k\] and the bits of
/// [`block_product`]: `b` has those of all groups, one behind the other; where there are several, n is a multiple of
/// 16. Rows of C, \[m, n\], of no group stay.
///
/// # Errors
/// As [`block_product`], and for too few bounds.
pub(crate) fn block_product_by(
    device: &Device,
    bounds: Bounds<'_>,
    a: &Prepared,
    b: &BlockRows,
    c: &Buffer,
) -> Result<()> {
    let [first, groups] = bounds.groups;
    check_that!(NAME, groups == 1 || b.sizes[0].is_multiple_of(PANEL) =>
        "weights of {} rows side by side, expected multiples of {PANEL}", b.sizes[0])?;
    check_that!(NAME, bounds.of == Bounded::Rows && bounds.buffer.len() > first + groups =>
        "{} bounds, expected more than {} of rows", bounds.buffer.len(), first + groups)?;
    check(a, (b, groups), None, c)?;
    let call = Call {
        a,
        b,
        bias: None,
        extra: None,
        bounds: Some(bounds),
    };
    call.launch(device, c)
}

fn check(
    a: &Prepared,
    (b, weights): (&BlockRows, usize),
    bias: Option<&Buffer>,
    c: &Buffer,
) -> Result<()> {
    let (of, [n, k]) = (a.of, b.sizes);
    check_that!(NAME, of.k == k && of.n_digits == Digits::Two && of.piece == PIECE && of.in_pieces() == 0 =>
        "{of:?}, expected rows of {k} terms in two digits")?;
    check_sizes(NAME, &[of.rows, n])?;
    check_dtype(NAME, "a's digits", &a.digits, DType::I8)?;
    check_dtype(NAME, "a's exponents", &a.exponents, DType::I32)?;
    check_len(NAME, "a's digits", &a.digits, of.digits_len())?;
    check_len(NAME, "a's exponents", &a.exponents, of.exponents_len())?;
    check_len(
        NAME,
        "the weight",
        &b.words,
        [weights, b.format.words(b.sizes)],
    )?;
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
    /// That of m rows and n columns; of groups of rows, of their mean.
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

/// The push constants of all shaders of weights in blocks, with the first group of rows and how many there are.
pub(super) fn push_of(
    m: usize,
    weight: &BlockRows,
    padded: usize,
    [first_group, n_groups]: [usize; 2],
) -> PushConstants {
    let [n, k] = weight.sizes;
    push!(few_shader =>
        batch: 1_u32, m, n, units: padded / 16, groups: 1_u32, c_first: 0_u32, c_row: n, first_group, n_groups,
        blocks: k / weight.format.block)
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

/// A checked product.
#[derive(Clone, Copy)]
struct Call<'a> {
    a: &'a Prepared,
    b: &'a BlockRows,
    bias: Option<&'a Buffer>,
    /// What the results are added to.
    extra: Option<&'a Buffer>,
    /// Of groups of rows, each with a weight of its own.
    bounds: Option<Bounds<'a>>,
}

impl Call<'_> {
    /// The first group, and how many there are.
    fn range(&self) -> [usize; 2] {
        self.bounds.map_or([0, 0], |bounds| bounds.groups)
    }

    /// The groups of all launches.
    fn all_groups(&self) -> usize {
        self.bounds.map_or(1, |bounds| bounds.buffer.len() - 1)
    }

    /// How the launch writes C: it also reads it between pieces, and where it keeps the rows of other groups.
    fn target<'c>(&self, c: &'c Buffer) -> Binding<'c> {
        let is_whole = self.bounds.is_none() || self.range()[1] == self.all_groups();
        match self.a.of.pieces() == 1 && is_whole {
            true => Binding::Write(c),
            false => Binding::ReadWrite(c),
        }
    }

    /// The shader's constants, in the order of their numbers.
    fn constants(&self, of_shader: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let first = [self.bias, self.extra].map(|buffer| u32::from(buffer.is_some()));
        let all = (0..).zip(first).chain(of_shader.iter().copied());
        let bounded = (9, Bounded::Rows as u32 + 1);
        let all = all.chain(self.bounds.map(|_| bounded));
        let mut all: Vec<(u32, u32)> = all.chain(self.b.format.constants()).collect();
        all.sort_unstable();
        all
    }

    fn launch(&self, device: &Device, c: &Buffer) -> Result<()> {
        let Self { a, b, .. } = *self;
        let (of, format, [n, k], range) = (a.of, b.format, b.sizes, self.range());
        let m = of.rows;
        if m * n == 0 {
            return Ok(());
        }
        let all_groups = self.all_groups();
        let chosen = Chosen::of(device, format, [m.div_ceil(all_groups), n]);
        let [rows, columns] = chosen.tile;
        let down = match self.bounds {
            Some(_) => m / rows + range[1].min(m),
            None => m.div_ceil(rows),
        };
        let kernel = Kernel::new(NAME, chosen.shader)
            .constants(self.constants(&chosen.constants))
            .reads([&a.digits, &a.exponents, &b.words])
            .reads_if(None)
            .reads_if(self.bias)
            .reads_if(self.extra)
            .bind(self.target(c))
            .reads_if(self.bounds.map(|bounds| bounds.buffer))
            .flops(2 * (m * n * k * range[1].max(1) / all_groups) as u64);
        let padded = of.padded();
        let push = push_of(m, b, padded, range);
        let (has_bias, has_extra) = (self.bias.is_some(), self.extra.is_some());
        let is_bounded = self.bounds.is_some();
        kernel.launch(
            device,
            push,
            down * n.div_ceil(columns),
            move |read, [c]| {
                let [digits, exponents, words, _, bias, extra, bounds] = read;
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
                let ranges = match is_bounded {
                    true => ranges_of(as_u32(bounds), range, m),
                    false => std::iter::once(0..m).collect(),
                };
                cpu::products(operands, &ranges, c);
            },
        )
    }
}

/// The rows of each group, which follow each other.
fn ranges_of(bounds: &[u32], [first, groups]: [usize; 2], m: usize) -> Vec<Range<usize>> {
    let mut done = 0;
    let range = |bound: &[u32]| {
        let end = (bound[1] as usize).min(m);
        let range = (bound[0] as usize).max(done)..end;
        done = done.max(end);
        range
    };
    bounds[first..=first + groups]
        .windows(2)
        .map(range)
        .collect()
}
