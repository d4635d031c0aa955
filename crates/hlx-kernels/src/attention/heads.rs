//! The quantised rows of heads: one buffer of words, digits first, exponents behind them.

use bytemuck::cast_slice_mut;
use hlx_core::{Binding, Buffer, DType, Device};

use super::pages::{PAGE, Pages};
use super::sizes::{Attention, Strided, WIDEST_HEAD};
use crate::Result;
use crate::elementwise::fill;
use crate::error::check_sizes;
use crate::kernel::Kernel;
use crate::parallel::{self, write};
use crate::product::quantised::{Digits, prepare_row};

shader!(shader, integer::prepare_heads);
shader!(twice_shader, integer::prepare_heads_twice);

const NAME: &str = "integer_heads";
/// Rows of a workgroup.
const ROWS: usize = 8;
/// Digits that a row is a multiple of; zeros fill it up.
const GRANULE: usize = 32;
/// Rows behind the last one that a workgroup's matrices may load, whatever they hold.
pub const ROWS_BEHIND: usize = 128;

/// The sizes of an operand, whose rows become `[batch, heads, positions]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    pub batch: usize,
    pub heads: usize,
    pub positions: usize,
    pub head_width: usize,
    pub n_digits: Digits,
}

/// The quantised rows of heads: queries with two digits, or keys or values with one.
#[derive(Clone, Debug)]
pub struct QuantisedHeads {
    pub(super) words: Buffer,
    pub(super) of: Heads,
}

impl QuantisedHeads {
    /// Room for the keys or values of `sequences`, \[batch, positions\], in `heads`, \[heads, head width\]: all zeros.
    ///
    /// # Errors
    /// If a head has no columns or more than 256, or there is no memory.
    pub fn of_keys(device: &Device, sequences: [usize; 2], heads: [usize; 2]) -> Result<Self> {
        let new = Self::empty(device, Heads::new(sequences, heads, Digits::One))?;
        fill(device, 0.0, &new.words)?;
        Ok(new)
    }

    /// Queries that a kernel writes.
    ///
    /// # Errors
    /// As [`QuantisedHeads::of_keys`].
    pub fn of_queries(device: &Device, sequences: [usize; 2], heads: [usize; 2]) -> Result<Self> {
        Self::empty(device, Heads::new(sequences, heads, Digits::Two))
    }

    /// Memory that a kernel writes.
    pub(super) fn empty(device: &Device, of: Heads) -> Result<Self> {
        let words = of.checked_words()?;
        check_that!(NAME, u32::try_from(words).is_ok() =>
            "{of:?} has {words} words, expected at most {}", u32::MAX)?;
        let words = device.alloc_typed(DType::U32, words)?;
        Ok(Self { words, of })
    }

    /// Heads of as many rows a sequence, of `batch` sequences, from their words.
    ///
    /// # Errors
    /// If there are fewer words than [`QuantisedHeads::words`] says, or they have another type.
    pub fn with_words(&self, batch: usize, words: Buffer) -> Result<Self> {
        let of = Heads { batch, ..self.of };
        let needed = of.checked_words()?;
        let fits = words.dtype() == DType::U32 && words.len() >= needed;
        check_that!(NAME, fits =>
            "{n} words of {dtype}, expected {needed} of u32",
            dtype = words.dtype(), n = words.len())?;
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

    /// The words of a sequence's digits and of its exponents.
    pub fn of_sequence(&self) -> [usize; 2] {
        let one = Heads {
            batch: 1,
            ..self.of
        };
        [one.digit_words(), one.rows()]
    }
}

impl Heads {
    /// Of `[batch, positions]` and `[heads, columns]`.
    pub fn new(
        [batch, positions]: [usize; 2],
        [heads, head_width]: [usize; 2],
        n_digits: Digits,
    ) -> Self {
        Self {
            batch,
            heads,
            positions,
            head_width,
            n_digits,
        }
    }

    pub fn of_queries(of: &Attention, n_digits: Digits) -> Self {
        Self::new([of.batch, of.queries], [of.heads, of.head_width], n_digits)
    }

    pub fn of_keys(of: &Attention) -> Self {
        let sequences = [of.batch, of.keys];
        Self::new(sequences, [of.key_heads, of.head_width], Digits::One)
    }

    /// Of a cache's keys, in pages or not.
    pub fn of_cache(of: &Attention, pages: Option<&Pages<'_>>) -> Self {
        match pages {
            Some(pages) => Self::new([pages.n, PAGE], [of.key_heads, of.head_width], Digits::One),
            None => Self::of_keys(of),
        }
    }

    pub fn rows(&self) -> usize {
        self.batch * self.heads * self.positions
    }

    /// Digits of a row.
    pub fn padded(&self) -> usize {
        self.head_width.div_ceil(GRANULE) * GRANULE
    }

    /// Words of the digits.
    pub fn digit_words(&self) -> usize {
        self.n_digits.planes() * self.rows() * self.padded() / 4
    }

    /// All words, with those behind the rows, which matrices may load.
    fn checked_words(&self) -> Result<usize> {
        let width = self.head_width;
        check_that!(NAME, (1..=WIDEST_HEAD).contains(&width) =>
            "head_width is {width}, expected 1 to {WIDEST_HEAD}")?;
        check_sizes(NAME, &[self.batch, self.heads, self.positions, width])?;
        Ok(self.digit_words() + self.rows() + ROWS_BEHIND * self.padded() / 4)
    }

    /// The row of a head's position.
    pub fn row(&self, sample: usize, head: usize, position: usize) -> usize {
        (sample * self.heads + head) * self.positions + position
    }

    /// Prepares the rows of `x`, which lie at `place`; with `twice`, from one reading, those with one digit too.
    pub fn prepare(
        self,
        device: &Device,
        x: &Buffer,
        place: Strided,
        twice: bool,
    ) -> Result<(QuantisedHeads, Option<QuantisedHeads>)> {
        let n_digits = Digits::One;
        let to = QuantisedHeads::empty(device, self)?;
        let one_digit = twice.then(|| QuantisedHeads::empty(device, Self { n_digits, ..self }));
        let one_digit = one_digit.transpose()?;
        if self.rows() == 0 {
            return Ok((to, one_digit));
        }
        let push = push!(shader =>
            rows: self.rows(), heads: self.heads, positions: self.positions, k: self.head_width,
            words: self.padded() / 4, first: place.first, batch_stride: place.batch,
            position_stride: place.position, head_stride: place.head
        );
        let vectors = self.head_width.is_multiple_of(4) && place.is_of_vectors();
        let shader = match one_digit {
            Some(_) => &twice_shader::SHADER,
            None => &shader::SHADER,
        };
        let kernel = Kernel::new("prepare_integer_heads", shader)
            .constants(constants!(0: self.n_digits == Digits::Two, vectors))
            .reads([x])
            .writes([&to.words])
            .bind_all(
                one_digit
                    .iter()
                    .map(|one_digit| Binding::Write(&one_digit.words)),
            );
        let groups = self.rows().div_ceil(ROWS);
        let of_one_digit = one_digit.as_ref().map(|one_digit| one_digit.of);
        kernel.launch_bound(device, push, groups, move |bindings| {
            let (read, mut written) = bindings.split_all();
            for (of, words) in [Some(self), of_one_digit]
                .iter()
                .flatten()
                .zip(&mut written)
            {
                of.prepare_on_the_cpu(read[0], &place, words);
            }
        })?;
        Ok((to, one_digit))
    }

    fn prepare_on_the_cpu(&self, x: &[f32], place: &Strided, words: &mut [f32]) {
        let (digits, exponents) = words.split_at_mut(self.digit_words());
        let (digits, padded): (&mut [i8], _) = (cast_slice_mut(digits), self.padded());
        let exponents: &mut [i32] = &mut cast_slice_mut(exponents)[..self.rows()];
        let (upper, lower) =
            digits.split_at_mut((self.n_digits.planes() - 1) * self.rows() * padded);
        let prepare = |row: usize, upper: &mut [i8], lower: &mut [i8], exponent: &mut [i32]| {
            let (head, position) = (row / self.positions, row % self.positions);
            let at = place.at(head / self.heads, position, head % self.heads);
            exponent[0] = prepare_row(&x[at..][..self.head_width], upper, lower);
        };
        let rows = (write(lower, padded), write(exponents, 1));
        match self.n_digits {
            Digits::Two => parallel::for_each(
                (write(upper, padded), rows),
                |row, (upper, (lower, exponent))| prepare(row, upper, lower, exponent),
            ),
            Digits::One => parallel::for_each(rows, |row, (lower, exponent)| {
                prepare(row, &mut [], lower, exponent);
            }),
        }
    }
}
