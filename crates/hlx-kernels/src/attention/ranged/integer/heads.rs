//! The rows of heads as integers: one buffer of words, digits first, exponents behind them.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, DType, Device};
use rayon::prelude::*;

use super::super::sizes::{RangedAttention, Strided, WIDEST_HEAD};
use crate::KernelError;
use crate::elementwise::fill;
use crate::error::{check_sizes, check_that};
use crate::kernel::Kernel;
use crate::product::quantised::Width;
use crate::product::quantised::law::factors;
use crate::product::quantised::prepare_row;

shader!(shader, integer::prepare_heads);
shader!(twice_shader, integer::prepare_heads_twice);

/// Rows of a workgroup.
const ROWS: usize = 8;
/// Digits that a row is a multiple of; zeros fill it up.
const GRANULE: usize = 32;
/// Rows behind the last one that a workgroup's matrices may load, whatever they hold.
const ROWS_BEHIND: usize = 128;

/// The sizes of an operand, whose rows become `[batch, heads, positions]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    batch: usize,
    heads: usize,
    positions: usize,
    head_width: usize,
    width: Width,
}

/// The rows of heads as integers: queries, wide, or keys or values, narrow.
#[derive(Clone, Debug)]
pub struct IntegerHeads {
    pub(in crate::attention) words: Buffer,
    pub(in crate::attention) of: Heads,
}

impl IntegerHeads {
    /// The keys or values of `batch` sequences with so many positions, of `heads` heads: all zeros, and so nothing yet.
    ///
    /// # Errors
    /// If a head has no columns or more than 256, or there is no memory.
    pub fn of_keys(
        device: &Device,
        [batch, positions]: [usize; 2],
        [heads, head_width]: [usize; 2],
    ) -> Result<Self, KernelError> {
        let of = Heads {
            batch,
            heads,
            positions,
            head_width,
            width: Width::Narrow,
        };
        let new = Self::empty(device, of)?;
        fill(device, 0.0, &new.words)?;
        Ok(new)
    }

    /// Queries that a kernel writes.
    ///
    /// # Errors
    /// As [`IntegerHeads::of_keys`].
    pub fn of_queries(
        device: &Device,
        [batch, positions]: [usize; 2],
        [heads, head_width]: [usize; 2],
    ) -> Result<Self, KernelError> {
        let of = Heads {
            batch,
            heads,
            positions,
            head_width,
            width: Width::Wide,
        };
        Self::empty(device, of)
    }

    fn empty(device: &Device, of: Heads) -> Result<Self, KernelError> {
        const NAME: &str = "integer_heads";
        check_that(NAME, (1..=WIDEST_HEAD).contains(&of.head_width), || {
            format!(
                "head_width is {}, expected 1 to {WIDEST_HEAD}",
                of.head_width
            )
        })?;
        check_sizes(NAME, &of.extents())?;
        let words = of.digit_words() + of.rows() + of.words_behind();
        check_that(NAME, u32::try_from(words).is_ok(), || {
            format!("{of:?} has {words} words, expected at most {}", u32::MAX)
        })?;
        let words = device.alloc_typed(DType::U32, words)?;
        Ok(Self { words, of })
    }

    /// Heads of as many rows a sequence, of `batch` sequences, from their words.
    ///
    /// # Errors
    /// If there are fewer words than [`IntegerHeads::words`] says, or they have another type.
    pub fn with_words(&self, batch: usize, words: Buffer) -> Result<Self, KernelError> {
        let of = Heads { batch, ..self.of };
        check_sizes("integer_heads", &of.extents())?;
        let needed = of.digit_words() + of.rows() + of.words_behind();
        let fits = words.dtype() == DType::U32 && words.len() >= needed;
        check_that("integer_heads", fits, || {
            let (dtype, n) = (words.dtype(), words.len());
            format!("{n} words of {dtype}, expected {needed} of u32")
        })?;
        Ok(Self { words, of })
    }

    /// All words: the digits, sequence after sequence, and behind them the exponents, sequence after sequence, and what no
    /// kernel says anything about.
    pub fn words(&self) -> &Buffer {
        &self.words
    }

    /// The positions of a sequence.
    pub fn positions(&self) -> usize {
        self.of.positions
    }

    /// Memory for as many heads and positions of `batch` sequences.
    pub(in crate::attention) fn empty_like(
        &self,
        device: &Device,
        batch: usize,
    ) -> Result<Self, KernelError> {
        Self::empty(device, Heads { batch, ..self.of })
    }

    /// The words of a sequence's digits and of its exponents.
    pub fn of_sequence(&self) -> [usize; 2] {
        let rows = self.of.heads * self.of.positions;
        [rows * self.of.padded() / 4 * self.of.width.planes(), rows]
    }
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

    pub fn rows(&self) -> usize {
        self.batch * self.heads * self.positions
    }

    /// `[batch, heads, positions, columns]`.
    pub fn extents(&self) -> [usize; 4] {
        [self.batch, self.heads, self.positions, self.head_width]
    }

    pub fn planes(&self) -> usize {
        self.width.planes()
    }

    /// Digits of a row.
    pub fn padded(&self) -> usize {
        self.head_width.div_ceil(GRANULE) * GRANULE
    }

    /// Words of the digits.
    pub fn digit_words(&self) -> usize {
        self.width.planes() * self.rows() * self.padded() / 4
    }

    /// Words behind those of the rows, which matrices may load.
    fn words_behind(&self) -> usize {
        ROWS_BEHIND * self.padded() / 4
    }

    /// The row of a head's position.
    pub fn row(&self, sample: usize, head: usize, position: usize) -> usize {
        (sample * self.heads + head) * self.positions + position
    }

    /// Prepares the rows of `x`, which lie at `place`.
    pub fn prepare(
        self,
        device: &Device,
        x: &Buffer,
        place: Strided,
    ) -> Result<IntegerHeads, KernelError> {
        let prepared = IntegerHeads::empty(device, self)?;
        self.launch(device, x, place, &prepared, None)?;
        Ok(prepared)
    }

    /// Prepares the rows of `x`, of which these are the wide ones, and narrow ones too, from one reading.
    pub fn prepare_twice(
        self,
        device: &Device,
        x: &Buffer,
        place: Strided,
    ) -> Result<(IntegerHeads, Option<IntegerHeads>), KernelError> {
        let narrow = Self {
            width: Width::Narrow,
            ..self
        };
        let (prepared, narrow) = (
            IntegerHeads::empty(device, self)?,
            IntegerHeads::empty(device, narrow)?,
        );
        self.launch(device, x, place, &prepared, Some(&narrow))?;
        Ok((prepared, Some(narrow)))
    }

    fn launch(
        self,
        device: &Device,
        x: &Buffer,
        place: Strided,
        to: &IntegerHeads,
        narrow: Option<&IntegerHeads>,
    ) -> Result<(), KernelError> {
        if self.rows() == 0 {
            return Ok(());
        }
        let push = push!(shader =>
            rows: self.rows(), heads: self.heads, positions: self.positions, k: self.head_width,
            words: self.padded() / 4, first: place.first, batch_stride: place.batch,
            position_stride: place.position, head_stride: place.head
        );
        let vectors = self.head_width.is_multiple_of(4) && place.is_of_vectors();
        let shader = match narrow {
            Some(_) => &twice_shader::SHADER,
            None => &shader::SHADER,
        };
        let constants = [
            (0, u32::from(self.width == Width::Wide)),
            (1, u32::from(vectors)),
        ];
        let kernel = Kernel::new("prepare_integer_heads", shader)
            .constants(&constants)
            .reads([x])
            .writes([&to.words])
            .bind_all(narrow.map(|narrow| Binding::Write(&narrow.words)));
        let (of_narrow, groups) = (narrow.map(|narrow| narrow.of), self.rows().div_ceil(ROWS));
        kernel.launch_bound(device, push, groups, move |bindings| {
            let (read, mut written) = bindings.split_all();
            for (of, words) in [Some(self), of_narrow].iter().flatten().zip(&mut written) {
                of.prepare_on_the_cpu(read[0], &place, words);
            }
        })
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
    /// Columns of a row.
    pub fn width(&self) -> usize {
        self.of.head_width
    }

    /// Digits of a row, zeros behind its columns.
    pub fn padded(&self) -> usize {
        self.of.padded()
    }

    /// The row of a head of a sample from which its next positions follow.
    pub fn row(&self, sample: usize, head: usize, position: usize) -> usize {
        self.of.row(sample, head, position)
    }

    /// The digits of `n` rows, row after row: the upper ones, if rows are wide, and the lower ones.
    pub fn digits(&self, row: usize, n: usize) -> (Option<&[i8]>, &[i8]) {
        let (padded, rows) = (self.of.padded(), self.of.rows());
        let of_plane = |plane: usize| &self.digits[(plane * rows + row) * padded..][..n * padded];
        match self.of.width {
            Width::Wide => (Some(of_plane(0)), of_plane(1)),
            Width::Narrow => (None, of_plane(0)),
        }
    }

    /// `2^-e` of a row as two factors; NaN of a row with a NaN or an infinity.
    pub fn factors(&self, row: usize) -> [f32; 2] {
        factors(self.exponents[row])
    }
}
