//! Products of prepared operands.

use bytemuck::cast_slice;
use hlx_core::{
    Binding, Buffer, Context, DType, IntegerPath, Launch, MatrixShape, Shader, Work, groups_1d,
    push_bytes,
};

use super::cpu;
use super::law::Width;
use super::prepare::{Preparation, Prepared};
use super::{LONGEST, check_dtype};
use crate::KernelError;
use crate::elementwise::add_assign;
use crate::error::{check_len, check_that};
use crate::matmul::Epilogue;

shader!(plain_shader, "integer/product");
shader!(few_shader, "integer/product_few");
shader!(few_dots_shader, "integer/product_few_dots");
shader!(dots_shader, "integer/product_dots");
shader!(matrices_shader, "integer/product_matrices");
shader!(narrow_shader, "integer/product_matrices_words");

use plain_shader::Push;

const NAME: &str = "integer_product";
/// Rows of A at most for which a shader of its own reads B from end to end, four of them a workgroup.
const FEW_ROWS: usize = 16;
/// Of a workgroup that multiplies matrices.
const SUBGROUPS: u32 = 4;

/// Products `C[i, m, n] = sum over k of A[i, m, k] B[i, n, k]` of prepared operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerProduct {
    /// Products side by side.
    pub batch: usize,
    /// Rows of an A and of a C.
    pub m: usize,
    /// Rows of a B, columns of a C.
    pub n: usize,
    /// Terms of a sum.
    pub k: usize,
    /// C is added to what it holds.
    pub accumulate: bool,
}

impl IntegerProduct {
    /// One product, which overwrites C.
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            batch: 1,
            m,
            n,
            k,
            accumulate: false,
        }
    }
}

/// What follows a result on its way to C.
#[derive(Clone, Copy)]
enum End<'a> {
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

/// Computes products of prepared operands, A wide with `batch * m` rows and B narrow with `batch * n`, and what
/// follows: `bias`, `[n]`, or nothing; then an epilogue over C, `[batch, m, n]`, with the bits of its own launch.
///
/// # Errors
/// If a buffer has another type or length, an operand other rows, `accumulate`
/// comes with an epilogue, or a launch fails.
pub fn integer_product(
    ctx: &Context,
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
    let into = |c: &Buffer, end: End<'_>| launch(ctx, [a, b], bias, c, shape, end);
    let one_piece = a.of.pieces() == 1;
    match epilogue {
        Epilogue::None if shape.accumulate && !one_piece => {
            // C cannot hold both the pieces so far and what they are added to.
            let sums = ctx.alloc(c.len())?;
            into(&sums, End::Nothing)?;
            add_assign(ctx, c, &sums)
        }
        Epilogue::None if shape.accumulate => into(c, End::Stored),
        Epilogue::None => into(c, End::Nothing),
        Epilogue::Add(r) => {
            check_len(NAME, "r", r, c.len())?;
            into(c, End::Add(r))
        }
        // Within the launch activations take longer than in one of their own.
        other => other.separately(ctx, c, false, |c| into(c, End::Nothing)),
    }
}

fn check(
    a: &Prepared,
    b: &Prepared,
    bias: Option<&Buffer>,
    c: &Buffer,
    s: &IntegerProduct,
) -> Result<(), KernelError> {
    let of = |rows: usize, width, operand: &Prepared| {
        let of_rows = Preparation::of_rows(rows, s.k, width);
        if operand.of.piece() == LONGEST {
            of_rows.whole()
        } else {
            of_rows
        }
    };
    let of_a = of(s.batch * s.m, Width::Wide, a);
    let of_b = of(s.batch * s.n, Width::Narrow, b);
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
    check_len(NAME, "c", c, s.batch * s.m * s.n)?;
    if let Some(bias) = bias {
        check_dtype(NAME, "bias", bias, DType::F32)?;
        check_len(NAME, "bias", bias, s.n)?;
    }
    check_that(NAME, a.of.piece() == b.of.piece(), || {
        "the operands' rows have pieces of another length".to_owned()
    })?;
    let units = of_a.digits_len().max(of_b.digits_len()) / 16;
    let largest = units.max(s.batch * s.m * s.n);
    check_that(NAME, u32::try_from(largest).is_ok(), || {
        format!("an operand is past {} elements", u32::MAX)
    })
}

/// The shader of products with so many rows of A, the results of its workgroups, and the matrices that it takes.
fn shader_of(ctx: &Context, m: usize) -> (&'static Shader, [usize; 2], Option<MatrixShape>) {
    let path = ctx.tuning().products.integers;
    if m <= FEW_ROWS {
        // Matrices would be empty but for these rows.
        let dots = path != IntegerPath::Plain && ctx.integer_paths().contains(&IntegerPath::Dots);
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

fn launch(
    ctx: &Context,
    [a, b]: [&Prepared; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &IntegerProduct,
    end: End<'_>,
) -> Result<(), KernelError> {
    let s = *shape;
    let padded = Preparation::of_rows(s.m, s.k, Width::Narrow).padded();
    let push = Push {
        batch: s.batch as u32,
        m: s.m as u32,
        n: s.n as u32,
        units: (padded / 16) as u32,
    };
    let (shader, [rows, columns], matrices) = shader_of(ctx, s.m);
    // What is not read is bound to a buffer that is read anyway.
    let unread = &a.exponents;
    let extra = match end {
        End::Add(r) => Binding::Read(r),
        _ => Binding::Read(unread),
    };
    let to = match end {
        End::Stored => Binding::ReadWrite(c),
        _ if a.of.pieces() > 1 => Binding::ReadWrite(c),
        _ => Binding::Write(c),
    };
    let constants = [
        (0, u32::from(bias.is_some())),
        (1, end.adds()),
        (2, u32::from(s.n.is_multiple_of(4))),
        (3, a.of.piece() as u32),
    ];
    let shape = matrices.map(|shape| shape.specialization(SUBGROUPS));
    let constants: Vec<_> = constants
        .into_iter()
        .chain(shape.into_iter().flatten())
        .collect();
    let launch = Launch {
        name: NAME,
        shader,
        specialization: &constants,
        bindings: &[
            Binding::Read(&a.digits),
            Binding::Read(&a.exponents),
            Binding::Read(&b.digits),
            Binding::Read(&b.exponents),
            Binding::Read(bias.unwrap_or(unread)),
            extra,
            to,
        ],
        push: push_bytes(&push),
        groups: groups_1d(s.batch * s.m.div_ceil(rows) * s.n.div_ceil(columns)),
    };
    let work = Work {
        flops: 2 * (s.batch * s.m * s.n * s.k) as u64,
        ..launch.work()
    };
    let (has_bias, piece) = (bias.is_some(), a.of.piece());
    let (adds_extra, adds_stored) = (matches!(end, End::Add(_)), matches!(end, End::Stored));
    ctx.launch_counted(launch, work, move |bindings| {
        let ([a, a_exponents, b, b_exponents, bias, extra], [c]) = bindings.split::<6, 1>();
        let operands = cpu::Operands {
            digits: [cast_slice(a), cast_slice(b)],
            exponents: [cast_slice(a_exponents), cast_slice(b_exponents)],
            bias: has_bias.then_some(bias),
            padded,
            piece,
        };
        let added = match (adds_extra, adds_stored) {
            (true, _) => cpu::Added::Extra(extra),
            (_, true) => cpu::Added::Stored,
            _ => cpu::Added::Nothing,
        };
        cpu::product(&s, operands, added, c);
    })?;
    Ok(())
}
