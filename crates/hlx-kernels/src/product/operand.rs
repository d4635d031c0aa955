//! Operands: what products multiply, made ready by what it is to a step.
//!
//! How an operand is stored follows from the device's arithmetic ([`Format`]). In `portable` an operand is its floats. In
//! `integer` it is quantised by the specification of [`quantised`](super::quantised): with two digits a number where it
//! carries the signal of a step, with one otherwise, and with an exponent for each piece of what a product sums. In `fast` it is
//! rounded to 16 bits by that of [`halves`](super::halves).

use std::cell::OnceCell;

use hlx_core::{Arithmetic, Buffer, Device};

use super::blocks::{BlockRows, block_product, block_product_of_few};
use super::floats::{Epilogue, FloatProduct, Prologue, widened};
use super::formats::Format;
use super::halves::{HalfProduct, Halves};
use super::quantised::{
    Beside, Digits, FewRows, IntegerProduct, Preparation, Prepared, Source, integer_product,
    prepare_norm,
};
use super::role::Role;
use super::shape::MatMul;
use crate::norm::{Norm, NormForward, norm_forward};
use crate::{KernelError, KernelTuning, Result};

const NAME: &str = "multiply";

/// The matrices of an operand: a product sums along each of their `vectors`, of `terms` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    outer: usize,
    vectors: usize,
    terms: usize,
    /// They are stored \[terms, vectors\].
    transposed: bool,
    whole: bool,
}

impl Matrices {
    /// The rows of matrices \[outer, rows, terms\].
    pub const fn rows(outer: usize, rows: usize, terms: usize) -> Self {
        Self {
            outer,
            vectors: rows,
            terms,
            transposed: false,
            whole: false,
        }
    }

    /// The columns of matrices \[outer, terms, columns\].
    pub const fn columns(outer: usize, terms: usize, columns: usize) -> Self {
        Self {
            outer,
            vectors: columns,
            terms,
            transposed: true,
            whole: false,
        }
    }

    /// The columns of the matrices of shards, \[shards, rows of a shard, columns\]. Quantised, a column of a shard has one
    /// exponent, so that where a row is among those of its shard changes nothing.
    pub const fn shards([shards, per_shard]: [usize; 2], columns: usize) -> Self {
        Self {
            whole: true,
            ..Self::columns(shards, per_shard, columns)
        }
    }

    /// Their lines in memory: how many, and the numbers of one.
    pub(super) fn lines(self) -> [usize; 2] {
        match self.transposed {
            false => [self.outer.saturating_mul(self.vectors), self.terms],
            true => [self.outer.saturating_mul(self.terms), self.vectors],
        }
    }

    pub(super) fn preparation(self, device: &Device, format: &Format, role: Role) -> Preparation {
        let n_digits = (format.digits)(role);
        let rows = self.outer.saturating_mul(self.vectors);
        let of = match self.transposed {
            false => Preparation::of_rows(rows, self.terms, n_digits),
            true => Preparation::of_columns(self.outer, self.terms, self.vectors, n_digits),
        };
        let of = if self.whole { of.whole() } else { of };
        // Rows are written row by row, which takes longer in pieces than a product gains, and read so for few rows of results.
        if self.transposed {
            of.laid_for(device)
        } else {
            of
        }
    }
}

/// An operand that is ready for products.
#[derive(Clone, Debug)]
pub enum Operand {
    /// Its numbers.
    Floats(Buffer, Matrices),
    /// Its numbers as digits and exponents.
    Quantised(Prepared, Matrices),
    /// Its numbers rounded to 16 bits.
    Halves(Halves, Matrices),
    /// The rows of a weight in blocks, as a quantised file has them.
    Blocks(BlockRows),
}

impl Operand {
    /// Makes an operand of the numbers of a buffer, of f32, f16 or bf16, or of what a kernel computes them from, where
    /// [`takes_sources`] says so.
    ///
    /// # Errors
    /// For buffers of other types or lengths than the matrices have, for a source that is not stored where a product reads
    /// floats, and if a launch fails.
    pub fn new<'a>(
        device: &Device,
        role: Role,
        source: impl Into<Source<'a>>,
        of: Matrices,
    ) -> Result<Self> {
        let source = source.into();
        // Without terms there is nothing to round or to quantise.
        if let Some(half) = role.half(device).filter(|_| of.terms > 0) {
            return Ok(Self::Halves(
                Halves::new(device, half, source, of.lines())?,
                of,
            ));
        }
        let Some(format) = role.format(device).filter(|_| of.terms > 0) else {
            return Self::floats(source, of);
        };
        let preparation = of.preparation(device, format, role);
        let prepared = match source {
            Source::Stored(x) => Prepared::new(device, &widened(device, x)?, preparation)?,
            _ => Prepared::new(device, source, preparation)?,
        };
        Ok(Self::Quantised(prepared, of))
    }

    /// Makes an operand of the rows of an RMS [norm](crate::norm) of `x`, \[rows, columns\], with a gain, \[columns\]: signal of a
    /// step, which is nowhere stored as floats where a row of digits has one exponent.
    ///
    /// # Errors
    /// As [`norm_forward`], and as [`Operand::new`].
    pub fn of_norm(device: &Device, norm: &Norm, x: &Buffer, gain: &Buffer) -> Result<Self> {
        let of = Matrices::rows(1, norm.rows, norm.cols);
        let stats = device.alloc_shape(&[norm.rows, norm.n_stats()])?;
        if makes_operands(device, [norm.rows, norm.cols]) {
            let prepared = prepare_norm(device, norm, x, gain, None, &stats)?;
            return Ok(Self::Quantised(prepared, of));
        }
        let y = device.alloc_shape(&[norm.rows, norm.cols])?;
        let buffers = NormForward {
            x,
            weight: gain,
            bias: None,
            y: &y,
            stats: &stats,
        };
        norm_forward(device, norm, &buffers)?;
        Self::new(device, Role::Signal, &y, of)
    }

    fn floats(source: Source<'_>, of: Matrices) -> Result<Self> {
        match source {
            Source::Stored(x) => Ok(Self::Floats(x.clone(), of)),
            _ if of.terms == 0 => Ok(Self::Floats(source.first().clone(), of)),
            _ => {
                let reason = "an operand is nowhere stored".to_owned();
                Err(KernelError::argument(NAME)(reason))
            }
        }
    }

    /// The vectors of all its matrices.
    pub fn vectors(&self) -> usize {
        self.of().outer * self.of().vectors
    }

    fn of(&self) -> Matrices {
        match self {
            Self::Floats(_, of) | Self::Quantised(_, of) | Self::Halves(_, of) => *of,
            Self::Blocks(blocks) => Matrices::rows(1, blocks.sizes[0], blocks.sizes[1]),
        }
    }
}

/// Whether attention reads digits in the place of floats; in `fast` that of a cache and of wide heads.
pub(crate) fn quantises(device: &Device) -> bool {
    Format::of_sources(device).is_some()
}

/// Whether operands are made of what an activation or a gate is computed from, in the place of its stored result: in
/// graphs of a Vulkan device where products read digits or halves. A graph leaves out the launch whose result nobody reads then.
pub fn takes_sources(device: &Device) -> bool {
    let are_made = Format::of(device).is_some() || device.product_arithmetic().half().is_some();
    are_made && device.plans_memory() && device.tuning().skips_unread
}

/// Whether a norm of rows \[rows, columns\] also makes an operand of its result.
pub fn takes_norm(device: &Device, sizes: [usize; 2]) -> bool {
    takes_sources(device) && makes_operands(device, sizes)
}

/// Whether operands are made of what a norm was computed from, once more, in the place of its result.
pub fn takes_norm_again(device: &Device) -> bool {
    takes_sources(device) && device.product_arithmetic().half().is_some()
}

/// Whether the kernel of a norm writes rows of digits.
fn makes_operands(device: &Device, [rows, columns]: [usize; 2]) -> bool {
    let fits = rows > 0 && (1..=super::quantised::PIECE).contains(&columns);
    let format = Format::of(device).filter(|_| fits);
    format.is_some_and(|format| (format.digits)(Role::Signal) == Digits::Two)
}

/// Whether a product of so few rows takes the norm or the gate before it into its launch ([`multiply_few`]).
pub fn can_fuse(device: &Device, rows: usize) -> bool {
    rows <= KernelTuning::of(device).products.prologue_up_to
}

/// A handle of the device whose products are of floats, for values that stay whatever a step is computed in.
pub fn of_floats(device: &Device) -> Device {
    device.with_fixed_arithmetic(Arithmetic::Portable)
}

/// Checks that an argument's device computes in the arithmetic of another, which is expected.
///
/// # Errors
/// [`KernelError::Arithmetic`].
pub fn check_arithmetic(
    operation: &'static str,
    argument: &'static str,
    devices: [&Device; 2],
) -> Result<()> {
    let [found, expected] = devices.map(Device::arithmetic);
    if found == expected {
        return Ok(());
    }
    Err(KernelError::Arithmetic {
        operation,
        argument,
        found,
        expected,
    })
}

/// What follows a product's sums.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// Added to each row of C, \[columns of C\].
    pub bias: Option<&'a Buffer>,
    /// The sums are added to what C holds.
    pub accumulate: bool,
    /// An operation on the results.
    pub epilogue: Epilogue<'a>,
}

impl End<'_> {
    /// Nothing: C is overwritten with the sums.
    pub const NONE: Self = Self {
        bias: None,
        accumulate: false,
        epilogue: Epilogue::None,
    };
}

/// Computes the products C = A B of matrices, \[outer, M, N\], and what follows: the sums along each of A's M vectors and B's
/// N vectors.
///
/// # Errors
/// If the operands have other matrices or terms, or one is stored otherwise than the other; those of [`FloatProduct::run`],
/// [`integer_product`] and [`block_product`], and on a GPU without matrices of halves.
pub fn multiply(device: &Device, [a, b]: [&Operand; 2], end: End<'_>, c: &Buffer) -> Result<()> {
    let [of_a, of_b] = [a.of(), b.of()];
    let (batch, k, accumulate) = (of_a.outer, of_a.terms, end.accumulate);
    check_that!(NAME, [batch, k] == [of_b.outer, of_b.terms] =>
        "{of_a:?} and {of_b:?} have not the same number of matrices and terms")?;
    let [m, n] = [of_a.vectors, of_b.vectors];
    match (a, b) {
        (Operand::Floats(a, _), Operand::Floats(b, _)) => {
            let shape = MatMul {
                batch,
                trans_a: of_a.transposed,
                trans_b: !of_b.transposed,
                accumulate,
                ..MatMul::new(m, n, k)
            };
            FloatProduct {
                bias: end.bias,
                epilogue: end.epilogue,
                ..FloatProduct::new([a, b], c, shape)
            }
            .run(device)
        }
        (Operand::Halves(a, _), Operand::Halves(b, _)) => {
            let shape = MatMul {
                batch,
                trans_a: of_a.transposed,
                trans_b: !of_b.transposed,
                accumulate,
                ..MatMul::new(m, n, k)
            };
            HalfProduct {
                bias: end.bias,
                epilogue: end.epilogue,
                ..HalfProduct::new([a, b], c, shape)
            }
            .run(device)
        }
        (Operand::Quantised(a, _), Operand::Quantised(b, _)) => {
            // The operand with more digits goes first.
            let transposed = b.of.n_digits.planes() > a.of.n_digits.planes();
            let (operands, [m, n]) = match transposed {
                true => ([b, a], [n, m]),
                false => ([a, b], [m, n]),
            };
            let shape = IntegerProduct {
                batch,
                accumulate,
                transposed,
                ..IntegerProduct::new(m, n, k)
            };
            integer_product(device, operands, end.bias, c, &shape, end.epilogue)
        }
        (Operand::Quantised(a, of), Operand::Blocks(b)) => {
            check_that!(NAME, of.outer == 1 && !accumulate =>
                "a weight in blocks is for one product, which overwrites C")?;
            block_product(device, a, b, end.bias, c, end.epilogue)
        }
        _ => {
            let reason = "the operands are stored differently".to_owned();
            Err(KernelError::argument(NAME)(reason))
        }
    }
}

/// Computes `C = f(x) W^T + bias + r` of few rows x, f32 \[m, k\], and a weight of n vectors of k terms, where the prologue says
/// what f is: with the bits of the launches that come before and behind the product.
///
/// # Errors
/// If a buffer has another type or length, the weight other matrices, and if a launch fails.
pub fn multiply_few(
    device: &Device,
    (x, prologue): (&Buffer, Option<Prologue<'_>>),
    weight: &Operand,
    (bias, added): (Option<&Buffer>, Option<&Buffer>),
    c: &Buffer,
) -> Result<()> {
    let of = weight.of();
    check_that!(NAME, of.outer == 1 && !of.transposed && of.terms > 0 =>
        "{of:?}, expected the rows of one matrix")?;
    let m = x.len() / of.terms;
    let rows = FewRows {
        x,
        prologue,
        bias,
        added,
        m,
    };
    match weight {
        Operand::Floats(weight, _) => {
            let shape = MatMul {
                trans_b: true,
                ..MatMul::new(m, of.vectors, of.terms)
            };
            FloatProduct {
                bias,
                prologue,
                epilogue: added.map_or(Epilogue::None, Epilogue::Add),
                ..FloatProduct::new([x, weight], c, shape)
            }
            .run(device)
        }
        Operand::Quantised(weight, _) => rows.run(device, weight, c),
        Operand::Blocks(weight) => block_product_of_few(device, &rows, weight, c),
        Operand::Halves(..) => {
            let x = match prologue {
                Some(prologue) => {
                    prologue.separately(device, x, &MatMul::new(m, of.vectors, of.terms))?
                }
                None => x.clone(),
            };
            let x = Operand::new(device, Role::Signal, &x, Matrices::rows(1, m, of.terms))?;
            let epilogue = added.map_or(Epilogue::None, Epilogue::Add);
            multiply(
                device,
                [&x, weight],
                End {
                    bias,
                    epilogue,
                    ..End::NONE
                },
                c,
            )
        }
    }
}

/// A gradient that comes in, of which one or two products are made: of its columns by shards, and of its rows. If there are
/// two, both are prepared at once where the columns are.
pub struct Incoming<'a> {
    role: Role,
    /// Its numbers.
    pub values: &'a Buffer,
    reads_rows: bool,
    rows: OnceCell<Prepared>,
    /// All of it in 16 bits, which rows and columns are read from.
    halves: OnceCell<Halves>,
}

impl<'a> Incoming<'a> {
    /// A gradient, and whether a product of its rows is made behind that of its columns. Its role is
    /// [`Role::Gradient`], or [`Role::TimeStep`] within a recurrent layer.
    pub fn new(role: Role, values: &'a Buffer, reads_rows: bool) -> Self {
        Self {
            role,
            values,
            reads_rows,
            rows: OnceCell::new(),
            halves: OnceCell::new(),
        }
    }

    /// Its rows, \[rows, columns\].
    ///
    /// # Errors
    /// As [`Operand::new`].
    pub fn rows(&self, device: &Device, rows: usize, columns: usize) -> Result<Operand> {
        let of = Matrices::rows(1, rows, columns);
        if let Some(halves) = self.halves(device, of)? {
            return Ok(Operand::Halves(halves, of));
        }
        match self.rows.get() {
            Some(prepared) => Ok(Operand::Quantised(prepared.clone(), of)),
            None => Operand::new(device, self.role, self.values, of),
        }
    }

    /// All of it in 16 bits, if products read that, in the lines of these matrices.
    fn halves(&self, device: &Device, of: Matrices) -> Result<Option<Halves>> {
        let Some(half) = self.role.half(device).filter(|_| of.terms > 0) else {
            return Ok(None);
        };
        let [lines, columns] = of.lines();
        if let Some(halves) = self.halves.get().filter(|one| one.is_of(half, columns)) {
            return Ok(Some(halves.clone()));
        }
        let halves = Halves::new(device, half, self.values.into(), [lines, columns])?;
        let _ = self.halves.set(halves.clone());
        Ok(Some(halves))
    }

    /// Its columns by shards, \[shards, rows of a shard, columns\]: of all, or of those that are all of a `window` of it.
    ///
    /// # Errors
    /// As [`Operand::new`].
    pub fn columns<'w>(
        &'w self,
        device: &Device,
        window: Option<&'w Buffer>,
        shards: [usize; 2],
        columns: usize,
    ) -> Result<GradientColumns<'w>> {
        let of = Matrices::shards(shards, columns);
        let values = window.unwrap_or(self.values);
        let halves = match window {
            Some(_) => None,
            None => self.halves(device, of)?,
        };
        if let Some(halves) = halves {
            return Ok(GradientColumns {
                operand: Operand::Halves(halves, of),
                values,
                rows: None,
            });
        }
        let reads_rows = self.reads_rows && window.is_none() && of.terms > 0;
        let Some(format) = self.role.format(device).filter(|_| reads_rows) else {
            return Ok(GradientColumns {
                operand: Operand::new(device, self.role, values, of)?,
                values,
                rows: None,
            });
        };
        let of_rows = Matrices::rows(shards[0], shards[1], columns);
        let [of_rows, of_columns] =
            [of_rows, of].map(|of| of.preparation(device, format, self.role));
        let [rows, prepared] = Prepared::rows_and_columns(device, values, of_rows, of_columns)?;
        // A second pass over the same gradient finds equal rows.
        let _ = self.rows.set(rows.clone());
        Ok(GradientColumns {
            operand: Operand::Quantised(prepared, of),
            values,
            rows: Some(rows),
        })
    }
}

/// The columns of an incoming gradient by shards, and its rows where they have been prepared, too.
pub struct GradientColumns<'a> {
    /// The columns.
    pub operand: Operand,
    values: &'a Buffer,
    rows: Option<Prepared>,
}

impl GradientColumns<'_> {
    /// The columns of what was saved in 16 bits, \[shards, rows of a shard, columns\], likewise.
    pub fn beside_halves(&self, saved: &Halves, columns: usize) -> Operand {
        let own = self.operand.of();
        let of = Matrices::shards([own.outer, own.terms], columns);
        Operand::Halves(saved.clone(), of)
    }

    /// The columns of what was saved, \[shards, rows of a shard, columns\], for a product with these. Quantised, rows without
    /// a gradient, such as padding, count in no exponent.
    ///
    /// # Errors
    /// As [`Operand::new`].
    pub fn beside(&self, device: &Device, saved: Source<'_>, columns: usize) -> Result<Operand> {
        let own = self.operand.of();
        let of = Matrices::shards([own.outer, own.terms], columns);
        match self.operand {
            Operand::Floats(..) => return Operand::floats(saved, of),
            Operand::Halves(..) => return Operand::new(device, Role::Saved, saved, of),
            Operand::Quantised(..) | Operand::Blocks(_) => {}
        }
        let beside = match &self.rows {
            Some(rows) => Beside::Prepared(rows),
            None => Beside::Values(self.values, own.vectors),
        };
        let of_saved = of.preparation(device, Format::of_quantised(device), Role::Saved);
        let prepared = Prepared::columns_beside(device, saved, of_saved, beside)?;
        Ok(Operand::Quantised(prepared, of))
    }
}
