//! Products of prepared operands.

mod bounded;
mod shape;

use bytemuck::cast_slice;
use hlx_core::{Binding, Buffer, DType, Device, IntegerPath, MatrixShape, Shader, as_u32};

use super::check_dtype;
use super::cpu;
use super::law::Width;
use super::prepare::{Preparation, Prepared};
use crate::KernelError;
use crate::elementwise::{add_assign, fill};
use crate::error::{check_len, check_that};
use crate::kernel::{Kernel, PushConstants};
use crate::product::floats::Epilogue;
use crate::product::formats::Format;
use crate::tuning::KernelTuning;

shader!(plain_shader, integer::product);
shader!(few_shader, integer::product_few);
shader!(few_dots_shader, integer::product_few_dots);
shader!(dots_shader, integer::product_dots);
shader!(matrices_shader, integer::product_matrices);
shader!(narrow_shader, integer::product_matrices_words);

pub(crate) use bounded::{Bounded, Bounds, integer_product_by};
pub use shape::IntegerProduct;

const NAME: &str = "integer_product";
/// Rows of A at most for which a shader of its own reads B from end to end, four of them a workgroup.
const FEW_ROWS: usize = 16;
/// Of a workgroup that multiplies matrices.
const SUBGROUPS: u32 = 4;

/// What follows a result on its way to C.
#[derive(Clone, Copy)]
pub(crate) enum End<'a> {
    Nothing,
    /// The result is added to this.
    Add(&'a Buffer),
    /// It is added to what C holds.
    Stored,
}

impl End<'_> {
    /// The shaders' constant ADDS.
    fn adds(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Add(_) => 1,
            Self::Stored => 2,
        }
    }
}

/// Computes products of prepared operands, A wide with `batch * m` rows and B narrow with `groups * n`, and what
/// follows: `bias`, `[groups, n]`, or nothing; then an epilogue over C, `[batch, m, n]`, with the bits of its own launch.
///
/// # Errors
/// If a buffer has another type or length, an operand other rows, `accumulate` or a C that is transposed or a part of its
/// buffer comes with an epilogue, or a launch fails.
pub fn integer_product(
    device: &Device,
    [a, b]: [&Prepared; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &IntegerProduct,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    check(a, b, bias, c, shape)?;
    if shape.batch * shape.m * shape.n == 0 {
        return Ok(());
    }
    let plain = matches!(epilogue, Epilogue::None);
    check_that(NAME, plain || !shape.accumulate, || {
        "an epilogue and accumulate exclude each other".to_owned()
    })?;
    let in_place = !shape.transposed && shape.within.is_none();
    check_that(NAME, plain || in_place, || {
        "an epilogue is for a C that is its whole buffer".to_owned()
    })?;
    let call = Call {
        operands: [a, b],
        bias,
        bounds: None,
        shape: *shape,
    };
    let format = Format::of_pair([a, b].map(|operand| operand.of.width()));
    let into = |c: &Buffer, end: End<'_>| (format.launch)(&call, device, c, end);
    let one_piece = a.of.pieces() == 1;
    match epilogue {
        Epilogue::None if shape.accumulate && !one_piece => {
            // C cannot hold both the pieces so far and what they are added to.
            let sums = device.alloc(c.len())?;
            if shape.within.is_some() {
                fill(device, 0.0, &sums)?;
            }
            into(&sums, End::Nothing)?;
            add_assign(device, c, &sums)
        }
        Epilogue::None if shape.accumulate => into(c, End::Stored),
        Epilogue::None => into(c, End::Nothing),
        Epilogue::Add(r) => {
            check_len(NAME, "r", r, c.len())?;
            into(c, End::Add(r))
        }
        // Within the launch activations take longer than in one of their own.
        other => other.separately(device, c, false, |c| into(c, End::Nothing)),
    }
}

/// Elements of a row of digits.
fn padded(shape: &IntegerProduct) -> usize {
    Preparation::of_rows(shape.m, shape.k, Width::Narrow).padded()
}

fn check(
    a: &Prepared,
    b: &Prepared,
    bias: Option<&Buffer>,
    c: &Buffer,
    s: &IntegerProduct,
) -> Result<(), KernelError> {
    s.check_sizes(NAME)?;
    for (operand, rows) in [(a, s.batch * s.m), (b, s.n_groups() * s.n)] {
        let (found, expected) = ([operand.of.rows(), operand.of.terms()], [rows, s.k]);
        check_that(NAME, found == expected, || {
            format!(
                "{} rows of {} terms, expected {rows} of {}",
                found[0], found[1], s.k
            )
        })?;
    }
    let of = |operand: &Prepared, width| operand.of.with_width(width);
    let [left, right] = Format::of_pair([a, b].map(|operand| operand.of.width())).pair;
    let (of_a, of_b) = (of(a, left), of(b, right));
    for (names, operand, of) in [
        (["a's digits", "a's exponents"], a, of_a),
        (["b's digits", "b's exponents"], b, of_b),
    ] {
        check_dtype(NAME, names[0], &operand.digits, DType::I8)?;
        check_dtype(NAME, names[1], &operand.exponents, DType::I32)?;
        check_len(NAME, names[0], &operand.digits, of.digits_len())?;
        check_len(NAME, names[1], &operand.exponents, of.exponents_len())?;
    }
    check_dtype(NAME, "c", c, DType::F32)?;
    match s.within {
        Some(_) => check_that(NAME, c.len() >= s.reach(), || {
            format!(
                "c has {} elements, expected at least {}",
                c.len(),
                s.reach()
            )
        })?,
        None => check_len(NAME, "c", c, [s.batch, s.m, s.n])?,
    }
    if let Some(bias) = bias {
        check_dtype(NAME, "bias", bias, DType::F32)?;
        check_len(NAME, "bias", bias, [s.n_groups(), s.n])?;
    }
    check_that(NAME, a.of.piece() == b.of.piece(), || {
        "the operands' rows have pieces of another length".to_owned()
    })?;
    let units = of_a.digits_len().max(of_b.digits_len()) / 16;
    let largest = units.max(s.reach());
    check_that(NAME, u32::try_from(largest).is_ok(), || {
        format!("an operand is past {} elements", u32::MAX)
    })
}

/// The shader of products with `m` rows of A, the rows and columns of its tile, and the matrices that it takes.
fn shader_of(device: &Device, m: usize) -> (&'static Shader, [usize; 2], Option<MatrixShape>) {
    let path = KernelTuning::of(device).products.integers;
    if m <= FEW_ROWS {
        // Matrices would be mostly empty.
        let dots =
            path != IntegerPath::Plain && device.integer_paths().contains(&IntegerPath::Dots);
        let shader = match dots {
            true => &few_dots_shader::SHADER,
            false => &few_shader::SHADER,
        };
        return (shader, [4, 16], None);
    }
    match path {
        IntegerPath::Plain => (&plain_shader::SHADER, [16, 64], None),
        IntegerPath::Dots => (&dots_shader::SHADER, [64, 64], None),
        IntegerPath::Matrices(shape) if shape.is_narrow() => {
            (&narrow_shader::SHADER, [32, 64], Some(shape))
        }
        IntegerPath::Matrices(shape) => (&matrices_shader::SHADER, [64, 128], Some(shape)),
    }
}

/// A product's launch, without its target.
pub(crate) struct Call<'a> {
    pub operands: [&'a Prepared; 2],
    pub bias: Option<&'a Buffer>,
    pub bounds: Option<Bounds<'a>>,
    pub shape: IntegerProduct,
}

impl Call<'_> {
    fn push(&self) -> PushConstants {
        let s = &self.shape;
        let [c_first, c_row] = s.place();
        // By terms every product has the same rows of B.
        let groups = match self.bounded() {
            Some(Bounded::Terms) => 1,
            _ => s.n_groups(),
        };
        let [first_group, n_groups] = self.range();
        push!(plain_shader =>
            batch: s.batch, m: s.m, n: s.n, units: padded(s) / 16, groups, c_first, c_row, first_group, n_groups)
    }

    /// What the bounds are of.
    fn bounded(&self) -> Option<Bounded> {
        self.bounds.map(|bounds| bounds.of)
    }

    /// The bounds' first group, and how many there are.
    fn range(&self) -> [usize; 2] {
        self.bounds.map_or([0, 0], |bounds| bounds.groups)
    }

    /// The shaders' constants, in the order of their numbers.
    fn constants(&self, end: End<'_>, matrices: Option<MatrixShape>) -> Vec<(u32, u32)> {
        let (s, has_bias) = (&self.shape, self.bias.is_some());
        let [c_first, c_row] = s.place();
        // Transposed, only biases begin at multiples of n.
        let of_n = if s.transposed && !has_bias { 0 } else { s.n };
        let vectors = [c_first, c_row, of_n].iter().all(|n| n.is_multiple_of(4));
        let bounded = self.bounded().map_or(0, |bounded| bounded as u32 + 1);
        let piece = self.operands[0].of.piece();
        let first = [
            u32::from(has_bias),
            end.adds(),
            u32::from(vectors),
            piece as u32,
        ];
        let matrices = matrices.map(|shape| shape.specialization(SUBGROUPS));
        (0..)
            .zip(first)
            .chain(matrices.into_iter().flatten())
            .chain([(8, u32::from(s.transposed)), (9, bounded)])
            .collect()
    }

    /// How the launch writes C: it also reads what is added to, between pieces, and between the parts of a buffer.
    fn target<'c>(&self, c: &'c Buffer, end: End<'_>) -> Binding<'c> {
        let one_piece = self.operands[0].of.pieces() == 1 || self.bounded() == Some(Bounded::Terms);
        let all_rows = self.bounds.is_none_or(|bounds| bounds.has_all_rows());
        let whole = one_piece && all_rows && self.shape.within.is_none();
        match end {
            End::Nothing | End::Add(_) if whole => Binding::Write(c),
            _ => Binding::ReadWrite(c),
        }
    }

    pub fn launch(&self, device: &Device, c: &Buffer, end: End<'_>) -> Result<(), KernelError> {
        let (s, [a, b]) = (self.shape, self.operands);
        let (bounded, range, padded) = (self.bounded(), self.range(), padded(&s));
        let (shader, [rows, columns], matrices) = shader_of(device, s.m);
        let extra = match end {
            End::Add(r) => Some(r),
            _ => None,
        };
        let tiles = match bounded {
            Some(Bounded::Rows) => s.m / rows + range[1].min(s.m),
            _ => s.m.div_ceil(rows),
        };
        // How many terms are a group's is not known here: an equal share.
        let shares = match bounded {
            Some(Bounded::Terms) => range[1].max(1),
            _ => 1,
        };
        let constants = self.constants(end, matrices);
        let operands = [&a.digits, &a.exponents, &b.digits, &b.exponents];
        let kernel = Kernel::new(NAME, shader)
            .constants(&constants)
            .reads(operands)
            .reads_if(self.bias)
            .reads_if(extra)
            .bind(self.target(c, end))
            .reads_if(self.bounds.map(|bounds| bounds.buffer))
            .flops(2 * (s.batch * s.m * s.n * s.k / shares) as u64);
        let groups = s.batch * tiles * s.n.div_ceil(columns);
        let (has_bias, piece, a_rows) = (self.bias.is_some(), a.of.piece(), a.of.rows());
        let adds = end.adds();
        kernel.launch(device, self.push(), groups, move |read, [c]| {
            let [a, a_exponents, b, b_exponents, bias, extra, bounds] = read;
            let operands = cpu::Operands {
                digits: [cast_slice(a), cast_slice(b)],
                exponents: [cast_slice(a_exponents), cast_slice(b_exponents)],
                bias: has_bias.then_some(bias),
                padded,
                a_rows,
                first: [0; 2],
                pieces: cpu::Pieces::All(piece),
            };
            let added = match adds {
                0 => cpu::Added::Nothing,
                1 => cpu::Added::Extra(extra),
                _ => cpu::Added::Stored,
            };
            match bounded {
                None => cpu::products(&[(s, operands)], added, c),
                Some(of) => {
                    let groups = cpu::groups(of, (as_u32(bounds), range), &s, operands);
                    cpu::products(&groups, added, c);
                }
            }
        })
    }
}
