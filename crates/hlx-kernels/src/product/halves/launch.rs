//! A product of rounded operands, on either kind of device.

use hlx_core::{Arithmetic, Binding, Buffer, DType, Device, Half, MatrixShape, Shader};

use super::{Halves, UNIT};
use crate::error::{check_dtype, check_indexable, check_sizes};
use crate::kernel::Kernel;
use crate::product::floats::{Epilogue, FloatProduct, widened};
use crate::product::shape::MatMul;
use crate::product::tiles::time_of_fullest;
use crate::tuning::KernelTuning;
use crate::{KernelError, Result, check_len};

shader!(fast::{product_matrices_bf16 as bf16_shader, product_matrices_f16 as f16_shader});

const NAME: &str = "half_product";

/// How a workgroup's tile is cut among its subgroups, and its steps.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Rows and columns of a workgroup.
    pub size: [usize; 2],
    /// Of a subgroup.
    own: [usize; 2],
    /// Terms of a step, and the steps that shared memory holds.
    pub step: usize,
    buffers: usize,
}

/// The tiles, the last for any device. (On an H100, of 6,144 x 6,144 x 6,144 and 16,384 x 3,072 x 768 in f16: 128 x 128 by subgroups of
/// 64 x 64 297 and 198 TFLOP/s with one step of 32 terms, 283 and 176 with one of 64, 190 and 154 with two of 32; subgroups of 64 x 32
/// 234 and 164; 128 x 256 262 and 175; 128 x 64 243 and 197; 64 x 128 by subgroups of 32 x 64 221 and 173.)
const TILES: [Tile; 4] = [
    Tile::new([128, 128], [64, 64], 32, 1),
    Tile::new([128, 64], [64, 64], 32, 1),
    Tile::new([64, 64], [32, 32], 128, 1),
    Tile::new([16, 64], [16, 32], 32, 2),
];

impl Tile {
    const fn new(size: [usize; 2], own: [usize; 2], step: usize, buffers: usize) -> Self {
        Self {
            size,
            own,
            step,
            buffers,
        }
    }

    fn subgroups(&self) -> usize {
        self.size[0] / self.own[0] * (self.size[1] / self.own[1])
    }

    /// Bytes of shared memory, with each operand's lines in the order that takes more.
    fn shared_bytes(&self) -> usize {
        let operand = |vectors: usize| {
            let by_rows = vectors * (self.step / UNIT + 1);
            by_rows.max(self.step * (vectors / UNIT + 1))
        };
        self.buffers * 16 * (operand(self.size[0]) + operand(self.size[1]))
    }

    fn fits(&self, device: &Device, shape: MatrixShape) -> bool {
        let threads = self.subgroups() * shape.subgroup as usize;
        let info = device.info();
        self.shared_bytes() <= info.shared_memory_bytes as usize
            && threads <= info.max_workgroup_invocations as usize
            && threads <= info.max_workgroup_size[0] as usize
    }

    /// The tile whose fullest processor ends first, by the device's tuning. No choice changes a bit.
    pub fn choose(device: &Device, shape: MatrixShape, s: &MatMul) -> Self {
        let last = TILES[TILES.len() - 1];
        if s.m <= last.size[0] {
            return last;
        }
        let processors = device.tuning().processors;
        let rated = KernelTuning::of(device).products.half_tiles.iter();
        let tiles = rated.filter_map(|rated| {
            let mut tiles = TILES.into_iter();
            let tile = tiles.find(|tile| tile.size == [rated.rows, rated.columns])?;
            let time = time_of_fullest([s.batch, s.m, s.n], rated, processors);
            tile.fits(device, shape).then_some((tile, time))
        });
        let best = tiles.min_by(|(_, x), (_, y)| x.total_cmp(y));
        best.map_or(last, |(tile, _)| tile)
    }

    /// The shader's constants.
    pub fn constants(self, shape: MatrixShape) -> impl Iterator<Item = (u32, u32)> {
        let sizes = self
            .size
            .into_iter()
            .chain(self.own)
            .chain([self.step, self.buffers]);
        let sizes = (10..).zip(sizes.map(|n| n as u32));
        shape
            .specialization(self.subgroups() as u32)
            .into_iter()
            .chain(sizes)
    }
}

/// The matrices of a type that products of a GPU are made of.
pub(super) fn matrices_of(device: &Device, half: Half) -> Result<MatrixShape> {
    // Within `Autocast` no one has asked the device before.
    device.check_arithmetic(Arithmetic::Fast(half))?;
    let missing =
        || KernelError::argument(NAME)(format!("the device has no matrices of {}", half.dtype()));
    device.half_matrices(half).ok_or_else(missing)
}

/// A product `C[i, m, n] = sum over k of A[i, m, k] B[i, k, n]` of rounded operands, and what follows.
#[derive(Clone, Copy)]
pub(crate) struct HalfProduct<'a> {
    pub operands: [&'a Halves; 2],
    /// `[N]`.
    pub bias: Option<&'a Buffer>,
    pub epilogue: Epilogue<'a>,
    /// \[batch, M, N\]: overwritten, or with `shape.accumulate` added to.
    pub c: &'a Buffer,
    /// Matrices lie side by side.
    pub shape: MatMul,
    /// The matrices of A, if they are fewer than those of B: they are used in turn.
    pub groups: Option<usize>,
    /// Where the first result is in C, and the elements from row to row, if C is more than the results.
    pub place: Option<[usize; 2]>,
}

impl<'a> HalfProduct<'a> {
    /// Products that overwrite C with sums.
    pub fn new(operands: [&'a Halves; 2], c: &'a Buffer, shape: MatMul) -> Self {
        Self {
            operands,
            bias: None,
            epilogue: Epilogue::None,
            c,
            shape,
            groups: None,
            place: None,
        }
    }

    /// Computes it. Products with `groups` or a `place` are a GPU's.
    ///
    /// # Errors
    /// If a buffer has another type or length, an epilogue or a bias comes with `accumulate`, the device has no matrices of the
    /// type, and if a launch fails.
    pub fn run(&self, device: &Device) -> Result<()> {
        let (s, [a, b]) = (&self.shape, self.operands);
        check_that!(NAME, a.half == b.half => "a is of {}, b of {}", a.half.dtype(), b.half.dtype())?;
        if device.is_cpu() {
            let a = &widened(device, &a.values)?;
            let product = FloatProduct {
                bias: self.bias,
                epilogue: self.epilogue,
                ..FloatProduct::new([a, &b.values], self.c, *s)
            };
            return product.run(device);
        }
        self.check()?;
        if s.batch * s.m * s.n == 0 {
            return Ok(());
        }
        match self.epilogue {
            Epilogue::None => self.launch(device, None, self.c),
            Epilogue::Add(r) => {
                check_len(NAME, "r", r, self.c.len())?;
                self.launch(device, Some(r), self.c)
            }
            other => other.separately(device, self.c, false, |c| self.launch(device, None, c)),
        }
    }

    fn check(&self) -> Result<()> {
        let (s, [a, b]) = (&self.shape, self.operands);
        let ends = self.bias.is_some() || !matches!(self.epilogue, Epilogue::None);
        check_that!(NAME, !(s.accumulate && ends) =>
            "a bias or an epilogue and accumulate exclude each other")?;
        for sizes in [[s.m, s.k], [s.n, s.k], [s.m, s.n]] {
            check_sizes(NAME, &[s.batch, sizes[0], sizes[1]])?;
        }
        let matrices = self.groups.unwrap_or(s.batch);
        for (name, operand, matrices, vectors, are_columns) in [
            ("a", a, matrices, s.m, s.trans_a),
            ("b", b, s.batch, s.n, !s.trans_b),
        ] {
            let [lines, columns] = match are_columns {
                true => [s.k, vectors],
                false => [vectors, s.k],
            };
            check_that!(NAME, operand.columns == columns =>
                "{name} has lines of {}, expected {columns}", operand.columns)?;
            check_dtype(NAME, name, &operand.values, operand.half.dtype())?;
            check_len(NAME, name, &operand.values, [matrices, lines, operand.line])?;
            check_indexable(NAME, name, operand.values.len())?;
        }
        check_dtype(NAME, "c", self.c, DType::F32)?;
        match self.place {
            None => check_len(NAME, "c", self.c, [s.batch, s.m, s.n])?,
            Some([first, line]) => {
                let end = first + ((s.batch * s.m).max(1) - 1) * line + s.n;
                check_that!(NAME, end <= self.c.len() && s.n <= line =>
                    "c has {} elements, expected {end}, in lines of {line}", self.c.len())?;
            }
        }
        check_indexable(NAME, "c", self.c.len())?;
        if let Some(bias) = self.bias {
            check_dtype(NAME, "bias", bias, DType::F32)?;
            check_len(NAME, "bias", bias, s.n)?;
        }
        Ok(())
    }

    fn launch(&self, device: &Device, extra: Option<&Buffer>, c: &Buffer) -> Result<()> {
        let (s, [a, b]) = (self.shape, self.operands);
        let shape = matrices_of(device, a.half)?;
        let shader: &'static Shader = match a.half {
            Half::Bf16 => &bf16_shader::SHADER,
            Half::F16 => &f16_shader::SHADER,
        };
        let tile = Tile::choose(device, shape, &s);
        let adds = match (s.accumulate, extra) {
            (true, _) => 2_u32,
            (false, Some(_)) => 1,
            (false, None) => 0,
        };
        let whole_steps = s.k.is_multiple_of(tile.step);
        let [c_first, c_line] = self.place.unwrap_or([0, s.n]);
        let vectors = c_first.is_multiple_of(4) && c_line.is_multiple_of(4);
        let own: Vec<_> = tile.constants(shape).collect();
        let kernel = Kernel::new(NAME, shader)
            .constants(constants!(0: self.bias.is_some(), adds, vectors, s.trans_a))
            .constants(constants!(8: !s.trans_b, whole_steps))
            .constants(&own)
            .reads([&a.values, &b.values])
            .reads_if(self.bias)
            .reads_if(extra)
            .bind(match s.accumulate || c.len() > s.batch * s.m * s.n {
                true => Binding::ReadWrite(c),
                false => Binding::Write(c),
            })
            .flops((2 * s.batch as u64).saturating_mul((s.m * s.n * s.k) as u64));
        let [a_line, b_line] = [a.line, b.line].map(|line| line / UNIT);
        let lines = |transposed: bool, vectors: usize| if transposed { s.k } else { vectors };
        let (a_matrix, b_matrix) = (
            lines(s.trans_a, s.m) * a_line,
            lines(!s.trans_b, s.n) * b_line,
        );
        let [rows, columns] = tile.size;
        let groups = s.batch * s.m.div_ceil(rows) * s.n.div_ceil(columns);
        let push = push!(bf16_shader =>
            batch: s.batch, m: s.m, n: s.n, k: s.k, groups: self.groups.unwrap_or(s.batch), a_line, b_line, a_matrix,
            b_matrix, c_first, c_line, first_group: 0_usize);
        kernel.launch_on_gpu(device, push, groups)
    }
}
