//! The rows of heads as integers: one buffer of words, digits first, exponents behind them.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, Context, DType, Launch, groups_1d, push_bytes};
use rayon::prelude::*;

use super::super::sizes::{RangedAttention, Strided};
use crate::KernelError;
use crate::integer::Width;
use crate::integer::law::factors;
use crate::integer::prepare_row;

shader!(shader, "integer/prepare_heads");
shader!(twice_shader, "integer/prepare_heads_twice");

/// Rows of a workgroup.
const ROWS: usize = 8;
/// Digits that a row is a multiple of; zeros fill it up.
const GRANULE: usize = 32;
/// Rows behind the last one that a workgroup's matrices may load, whatever they hold.
const ROWS_BEHIND: usize = 128;

/// The sizes of an operand, whose rows become `[batch, heads, positions]`.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    batch: usize,
    heads: usize,
    positions: usize,
    head_width: usize,
    width: Width,
}

/// An operand as integers.
pub struct Prepared {
    /// `[planes, rows, digits of a row / 4]`, then an exponent a row.
    pub words: Buffer,
    pub of: Heads,
}

impl Heads {
    pub fn of_queries(attention: &RangedAttention, width: Width) -> Self {
        Self {
            batch: attention.batch,
            heads: attention.heads,
            positions: attention.queries,
            head_width: attention.head_width,
            width,
        }
    }

    pub fn of_keys(attention: &RangedAttention, width: Width) -> Self {
        Self {
            heads: attention.key_heads,
            positions: attention.keys,
            ..Self::of_queries(attention, width)
        }
    }

    fn rows(&self) -> usize {
        self.batch * self.heads * self.positions
    }

    /// Digits of a row.
    fn padded(&self) -> usize {
        self.head_width.div_ceil(GRANULE) * GRANULE
    }

    /// Words of the digits.
    fn digit_words(&self) -> usize {
        self.width.planes() * self.rows() * self.padded() / 4
    }

    /// Prepares the rows of `x`, which lie at `place`.
    pub fn prepare(
        self,
        ctx: &Context,
        x: &Buffer,
        place: Strided,
    ) -> Result<Prepared, KernelError> {
        let prepared = self.empty(ctx)?;
        self.launch(ctx, x, place, &prepared, None)?;
        Ok(prepared)
    }

    /// Prepares the rows of `x`, of which these are the wide ones, and narrow ones too, from one reading.
    pub fn prepare_twice(
        self,
        ctx: &Context,
        x: &Buffer,
        place: Strided,
    ) -> Result<(Prepared, Option<Prepared>), KernelError> {
        let narrow = Self {
            width: Width::Narrow,
            ..self
        };
        let (prepared, narrow) = (self.empty(ctx)?, narrow.empty(ctx)?);
        self.launch(ctx, x, place, &prepared, Some(&narrow))?;
        Ok((prepared, Some(narrow)))
    }

    fn empty(self, ctx: &Context) -> Result<Prepared, KernelError> {
        let behind = ROWS_BEHIND * self.padded() / 4;
        let words = ctx.alloc_typed(DType::U32, self.digit_words() + self.rows() + behind)?;
        Ok(Prepared { words, of: self })
    }

    fn launch(
        self,
        ctx: &Context,
        x: &Buffer,
        place: Strided,
        to: &Prepared,
        narrow: Option<&Prepared>,
    ) -> Result<(), KernelError> {
        if self.rows() == 0 {
            return Ok(());
        }
        let push = shader::Push {
            rows: self.rows() as u32,
            heads: self.heads as u32,
            positions: self.positions as u32,
            k: self.head_width as u32,
            words: (self.padded() / 4) as u32,
            first: place.first as u32,
            batch_stride: place.batch as u32,
            position_stride: place.position as u32,
            head_stride: place.head as u32,
        };
        let vectors = self.head_width.is_multiple_of(4) && place.is_of_vectors();
        let mut bindings = vec![Binding::Read(x), Binding::Write(&to.words)];
        bindings.extend(narrow.map(|narrow| Binding::Write(&narrow.words)));
        let launch = Launch {
            name: "prepare_integer_heads",
            shader: match narrow {
                Some(_) => &twice_shader::SHADER,
                None => &shader::SHADER,
            },
            specialization: &[
                (0, u32::from(self.width == Width::Wide)),
                (1, u32::from(vectors)),
            ],
            bindings: &bindings,
            push: push_bytes(&push),
            groups: groups_1d(self.rows().div_ceil(ROWS)),
        };
        let of_narrow = narrow.map(|narrow| narrow.of);
        ctx.launch(launch, move |bindings| {
            let (read, mut written) = bindings.split_all();
            for (of, words) in [Some(self), of_narrow].iter().flatten().zip(&mut written) {
                of.prepare_on_the_cpu(read[0], &place, words);
            }
        })?;
        Ok(())
    }

    fn prepare_on_the_cpu(&self, x: &[f32], place: &Strided, words: &mut [f32]) {
        let (digits, exponents) = words.split_at_mut(self.digit_words());
        let (digits, padded): (&mut [i8], _) = (cast_slice_mut(digits), self.padded());
        let exponents: &mut [i32] = cast_slice_mut(exponents);
        let (upper, lower) = digits.split_at_mut((self.width.planes() - 1) * self.rows() * padded);
        let rows = lower.par_chunks_mut(padded).zip(exponents).enumerate();
        let prepare = |row: usize, upper: &mut [i8], (lower, exponent): (&mut [i8], &mut i32)| {
            let (head, position) = (row / self.positions, row % self.positions);
            let at = place.at(head / self.heads, position, head % self.heads);
            *exponent = prepare_row(&x[at..][..self.head_width], upper, lower);
        };
        match self.width {
            Width::Wide => rows
                .zip(upper.par_chunks_mut(padded))
                .for_each(|((row, to), upper)| prepare(row, upper, to)),
            Width::Narrow => rows.for_each(|(row, to)| prepare(row, &mut [], to)),
        }
    }
}

/// The integers of an operand on the CPU.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    digits: &'a [i8],
    exponents: &'a [i32],
    of: Heads,
}

/// The integers of operands, from the words of their buffers.
pub fn rows_of<'a, const N: usize>(words: [&'a [f32]; N], of: [Heads; N]) -> [Rows<'a>; N] {
    std::array::from_fn(|at| {
        let of = of[at];
        let (digits, exponents) = words[at].split_at(of.digit_words());
        Rows {
            digits: cast_slice(digits),
            exponents: cast_slice(exponents),
            of,
        }
    })
}

impl Rows<'_> {
    pub fn planes(&self) -> usize {
        self.of.width.planes()
    }

    /// The row of a head of a sample from which its next positions follow.
    pub fn row(&self, sample: usize, head: usize, position: usize) -> usize {
        (sample * self.of.heads + head) * self.of.positions + position
    }

    /// The digits of `n` rows, as numbers, row after row: the upper ones of wide rows, and the lower ones.
    pub fn read(&self, row: usize, n: usize, planes: &mut [Vec<f32>]) {
        let (padded, width) = (self.of.padded(), self.of.head_width);
        for (plane, numbers) in planes.iter_mut().enumerate() {
            let digits = &self.digits[(plane * self.of.rows() + row) * padded..][..n * padded];
            let rows = digits.chunks_exact(padded);
            for (to, digits) in numbers.chunks_exact_mut(width).zip(rows) {
                for (to, digit) in to.iter_mut().zip(digits) {
                    *to = f32::from(*digit);
                }
            }
        }
    }

    /// `2^-e` of a row as two factors; NaN of a row with a NaN or an infinity.
    pub fn factors(&self, row: usize) -> [f32; 2] {
        factors(self.exponents[row])
    }
}
