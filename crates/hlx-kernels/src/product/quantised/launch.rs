//! A product's launch, on either kind of device.

use bytemuck::cast_slice;
use hlx_core::{Binding, Buffer, Device, IntegerPath, MatrixShape, Shader, as_u32};

use super::prepare::Prepared;
use super::shape::{Bounded, Bounds, IntegerProduct};
use super::{cpu, few_rows};
use crate::Result;
use crate::kernel::{Kernel, PushConstants};
use crate::product::tiles::time_of_fullest;
use crate::tuning::KernelTuning;

shader!(integer::{
    product as plain_shader, product_dots as dots_shader, product_matrices as matrices_shader,
    product_matrices_words as narrow_shader,
});

/// How a workgroup's tile is cut among its subgroups, and its steps.
#[derive(Clone, Copy)]
struct MatrixTile {
    /// Rows and columns of a workgroup.
    size: [usize; 2],
    /// Of a subgroup, multiples of 16.
    own: [usize; 2],
    /// Units of 16 terms that pass through shared memory at a time.
    step: usize,
}

impl MatrixTile {
    const fn new(size: [usize; 2], own: [usize; 2], step: usize) -> Self {
        Self { size, own, step }
    }
}

/// The tiles of matrices, the first for any product.
const MATRIX_TILES: [MatrixTile; 4] = [
    MatrixTile::new([64, 128], [32, 64], 4),
    MatrixTile::new([96, 96], [48, 48], 4),
    MatrixTile::new([64, 64], [32, 32], 4),
    MatrixTile::new([32, 64], [32, 32], 8),
];
/// That of matrices of less depth.
const NARROW_TILE: MatrixTile = MatrixTile::new([32, 64], [16, 32], 4);

impl MatrixTile {
    /// The tile whose fullest processor ends first, by the device's tuning. Where the device alone knows the rows or terms,
    /// the first.
    fn choose(device: &Device, s: &IntegerProduct, is_bounded: bool) -> Self {
        let processors = device.tuning().processors;
        let rated = KernelTuning::of(device).products.integer_tiles.iter();
        let tiles = rated.filter_map(|rated| {
            let mut tiles = MATRIX_TILES.into_iter();
            let tile = tiles.find(|tile| tile.size == [rated.rows, rated.columns])?;
            let time = time_of_fullest([s.batch, s.m, s.n], rated, processors);
            Some((tile, time))
        });
        let best = tiles
            .filter(|(tile, _)| !is_bounded && s.padded().is_multiple_of(16 * tile.step))
            .min_by(|(_, x), (_, y)| x.total_cmp(y));
        best.map_or(MATRIX_TILES[0], |(tile, _)| tile)
    }

    fn subgroups(self) -> u32 {
        (self.size[0] / self.own[0] * (self.size[1] / self.own[1])) as u32
    }

    /// The shader's constants.
    fn constants(self, shape: MatrixShape) -> impl Iterator<Item = (u32, u32)> {
        let sizes = self.size.into_iter().chain(self.own).chain([self.step]);
        let sizes = (10..).zip(sizes.map(|n| n as u32));
        shape
            .specialization(self.subgroups())
            .into_iter()
            .chain(sizes)
    }
}

/// The shader of a product.
pub(super) struct Chosen {
    pub shader: &'static Shader,
    /// Rows and columns of C of a workgroup.
    pub tile: [usize; 2],
    /// Constants of its own.
    pub constants: Vec<(u32, u32)>,
}

impl Chosen {
    fn of(device: &Device, s: &IntegerProduct, bounded: Option<Bounded>) -> Self {
        let plain = |shader, tile| Self {
            shader,
            tile,
            constants: Vec::new(),
        };
        if s.m <= few_rows::MOST {
            // Matrices would be mostly empty.
            return few_rows::chosen(device, s, bounded);
        }
        let (shape, tile) = match KernelTuning::of(device).products.integers {
            IntegerPath::Plain => return plain(&plain_shader::SHADER, [16, 64]),
            IntegerPath::Dots => return plain(&dots_shader::SHADER, [64, 64]),
            IntegerPath::Matrices(shape) if shape.is_narrow() => (shape, NARROW_TILE),
            IntegerPath::Matrices(shape) => {
                (shape, MatrixTile::choose(device, s, bounded.is_some()))
            }
        };
        let shader = match shape.is_narrow() {
            true => &narrow_shader::SHADER,
            false => &matrices_shader::SHADER,
        };
        Self {
            constants: tile.constants(shape).collect(),
            ..plain(shader, tile.size)
        }
    }
}

/// The push constants of a product with this B, of so many different Bs and a range of groups.
pub(super) fn push(
    s: &IntegerProduct,
    groups: usize,
    [first_group, n_groups]: [usize; 2],
    b: &Prepared,
) -> PushConstants {
    let [c_first, c_row] = s.place();
    push!(plain_shader =>
        batch: s.batch, m: s.m, n: s.n, units: s.padded() / 16, groups, c_first, c_row, first_group, n_groups,
        b_rows: b.of.rows)
}

/// A checked product. With `shape.accumulate`, which is for operands of one piece, results are added to what C holds.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub operands: [&'a Prepared; 2],
    pub bias: Option<&'a Buffer>,
    /// What the results are added to.
    pub extra: Option<&'a Buffer>,
    pub bounds: Option<Bounds<'a>>,
    pub shape: IntegerProduct,
}

impl Call<'_> {
    /// What the bounds are of.
    fn bounded(&self) -> Option<Bounded> {
        self.bounds.map(|bounds| bounds.of)
    }

    /// The bounds' first group, and how many there are.
    fn range(&self) -> [usize; 2] {
        self.bounds.map_or([0, 0], |bounds| bounds.groups)
    }

    fn push(&self) -> PushConstants {
        // By terms every product has the same rows of B.
        let groups = match self.bounded() {
            Some(Bounded::Terms) => 1,
            _ => self.shape.n_groups(),
        };
        push(&self.shape, groups, self.range(), self.operands[1])
    }

    /// The shaders' constants, in the order of their numbers.
    fn constants(&self, of_shader: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let (s, has_bias) = (&self.shape, self.bias.is_some());
        let [c_first, c_row] = s.place();
        // Transposed, only biases begin at multiples of n.
        let of_n = if s.transposed && !has_bias { 0 } else { s.n };
        let vectors = [c_first, c_row, of_n].iter().all(|n| n.is_multiple_of(4));
        let bounded = self.bounded().map_or(0, |bounded| bounded as u32 + 1);
        let first = [
            u32::from(has_bias),
            if s.accumulate {
                2
            } else {
                u32::from(self.extra.is_some())
            },
            u32::from(vectors),
            self.operands[0].of.piece as u32,
        ];
        let [a, b] = self.operands.map(|operand| operand.of.in_pieces());
        (0..)
            .zip(first)
            .chain(of_shader.iter().copied())
            .chain(constants!(8: s.transposed, bounded))
            .chain([(15, a), (16, b)])
            .collect()
    }

    /// How the launch writes C: it also reads what is added to, between pieces, and between the parts of a buffer.
    fn target<'c>(&self, c: &'c Buffer) -> Binding<'c> {
        let one_piece = self.operands[0].of.pieces() == 1 || self.bounded() == Some(Bounded::Terms);
        // Whether every row of C is of a group.
        let all_rows = self.bounds.is_none_or(|bounds| {
            bounds.of == Bounded::Terms || bounds.buffer.len() == bounds.groups[1] + 1
        });
        match one_piece && all_rows && self.shape.within.is_none() && !self.shape.accumulate {
            true => Binding::Write(c),
            false => Binding::ReadWrite(c),
        }
    }

    /// Launches the product into C.
    pub fn launch(&self, device: &Device, c: &Buffer) -> Result<()> {
        let (s, [a, b]) = (self.shape, self.operands);
        let (bounded, range) = (self.bounded(), self.range());
        let chosen = Chosen::of(device, &s, bounded);
        let [rows, columns] = chosen.tile;
        // How many terms are a group's is not known here: an equal share.
        let (tiles, shares) = match bounded {
            Some(Bounded::Rows) => (s.m / rows + range[1].min(s.m), 1),
            Some(Bounded::Terms) => (s.m.div_ceil(rows), range[1].max(1)),
            None => (s.m.div_ceil(rows), 1),
        };
        let constants = self.constants(&chosen.constants);
        let kernel = Kernel::new("integer_product", chosen.shader)
            .constants(&constants)
            .reads([&a.digits, &a.exponents, &b.digits, &b.exponents])
            .reads_if(self.bias)
            .reads_if(self.extra)
            .bind(self.target(c))
            .reads_if(self.bounds.map(|bounds| bounds.buffer))
            .flops(2 * (s.batch * s.m * s.n * s.k / shares) as u64);
        let groups = s.batch * tiles * s.n.div_ceil(columns);
        let (has_bias, has_extra) = (self.bias.is_some(), self.extra.is_some());
        let (piece, a_rows) = (a.of.piece, a.of.rows);
        kernel.launch(device, self.push(), groups, move |read, [c]| {
            let [a, a_exponents, b, b_exponents, bias, extra, bounds] = read;
            let operands = cpu::Operands {
                digits: [cast_slice(a), cast_slice(b)],
                exponents: [cast_slice(a_exponents), cast_slice(b_exponents)],
                bias: has_bias.then_some(bias),
                extra: has_extra.then_some(extra),
                padded: s.padded(),
                a_rows,
                first: [0; 2],
                pieces: cpu::Pieces::All(piece),
            };
            match bounded {
                None => cpu::products(&[(s, operands)], c),
                Some(of) => {
                    let groups = cpu::groups(of, (as_u32(bounds), range), &s, operands);
                    cpu::products(&groups, c);
                }
            }
        })
    }
}
