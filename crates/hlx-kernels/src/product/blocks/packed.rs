//! A weight in blocks as products read it.

use hlx_core::{Buffer, DType, Device, align_words};

use super::format::{BlockFormat, Factor, Levels, PANEL};
use crate::element::from_f16;
use crate::error::{check_indexable, check_sizes};
use crate::{KernelError, Result, parallel};

const NAME: &str = "block_rows";
/// The largest minimum of a group: of 6 bits.
const MOST_MIN: u8 = 63;

/// A block's integers and floats; those past the format's numbers do not count.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The integers q, with their signs. Of [E2M1](super::Levels::E2M1) the doubled values, of [NF4](super::Levels::Nf4) the
    /// nearest integers of 127 times the numbers.
    pub q: [i8; 256],
    /// The scales of the groups.
    pub scales: [i8; 16],
    /// Their minima.
    pub mins: [u8; 16],
    /// What scales the integers; of NF4 the numbers.
    pub d: f32,
    /// What scales the minima.
    pub dmin: f32,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            q: [0; 256],
            scales: [1; 16],
            mins: [1; 16],
            d: 0.0,
            dmin: 0.0,
        }
    }
}

/// A weight \[n, k\] in blocks.
///
/// Rows lie in panels of 16, whose words of one place are side by side: \[n / 16, chunks, words of a chunk, 16\]. A chunk is a
/// block of 256 or 64 terms or two of 32. It has the integers' lower bits, then their upper bits, four scales per word, four minima
/// per word, and `d` with `dmin`, or the two `d`, each of 16 bits, or one `d` of 32.
#[derive(Clone, Debug)]
pub struct BlockRows {
    /// u32, as above.
    pub words: Buffer,
    /// The format of its blocks.
    pub format: &'static BlockFormat,
    /// Rows and terms.
    pub sizes: [usize; 2],
}

impl BlockRows {
    /// Packs a weight \[n, k\]: `read` writes the block of a row and of a place in it, counted from 0.
    ///
    /// # Errors
    /// Unless k is a multiple of the format's blocks; for a block that the format cannot have, and what the device reports.
    pub fn new(
        device: &Device,
        format: &'static BlockFormat,
        [n, k]: [usize; 2],
        read: impl Fn(usize, usize, &mut Block) + Sync,
    ) -> Result<Self> {
        check_that!(NAME, k.is_multiple_of(format.block) =>
            "rows of {k} values, expected a multiple of {block}, a block of {name}",
            block = format.block, name = format.name)?;
        check_sizes(NAME, &[n, k])?;
        let len = format.words([n, k]);
        check_indexable(NAME, "the weight", len)?;
        if !device.has_memory() {
            return Ok(Self {
                words: device.alloc_typed(DType::U32, len)?,
                format,
                sizes: [n, k],
            });
        }
        let mut words = vec![0_u32; len];
        let of_panel = len.checked_div(n.div_ceil(PANEL)).unwrap_or(0);
        let mut tasks: Vec<_> = words
            .chunks_mut(of_panel.max(1))
            .enumerate()
            .map(|(panel, words)| (panel, words, Ok(())))
            .collect();
        parallel::each(&mut tasks, |(panel, words, done)| {
            *done = pack_panel(format, [n, k], *panel, words, &read);
        });
        tasks.into_iter().try_for_each(|(_, _, done)| done)?;
        let buffer = device.alloc_typed(DType::U32, len)?;
        device.upload_words(&buffer, &words)?;
        Ok(Self {
            words: buffer,
            format,
            sizes: [n, k],
        })
    }

    /// Packs a weight \[n, k\] of integers that are drawn evenly for a seed, with one scale, so that its values are about even
    /// within +-0.035: a standard deviation of 0.02, as many models begin with.
    ///
    /// # Errors
    /// As [`BlockRows::new`].
    pub fn drawn(
        device: &Device,
        format: &'static BlockFormat,
        [n, k]: [usize; 2],
        seed: u64,
    ) -> Result<Self> {
        const MOST: f32 = 0.035;
        let integers: Vec<i8> = (i8::MIN..=i8::MAX)
            .filter(|&q| format.bits_of(q).is_some())
            .collect();
        let [least, most] = [integers[0], integers[integers.len() - 1]].map(f32::from);
        // Of one scale in 8 bits, so that d has bits enough.
        let scale = if format.has_scales { 32.0 } else { 1.0 };
        let stored = |value: f32| match format.factor {
            Factor::Brain => f32::from_bits(value.to_bits() & 0x7f80_0000),
            Factor::Half => half::f16::from_f32(value).to_f32(),
            Factor::Float => value,
        };
        let d = match format.levels {
            Levels::Nf4 => MOST,
            _ => stored(2.0 * MOST / (most - least) / scale),
        };
        let dmin = stored(MOST / scale);
        Self::new(device, format, [n, k], |row, at, block| {
            let first = (row * k + at * format.block) as u64;
            for (term, q) in block.q[..format.block].iter_mut().enumerate() {
                let word = (first + term as u64).wrapping_add(seed.rotate_left(32));
                let word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
                *q = integers[word as usize % integers.len()];
            }
            block.scales = [scale as i8; 16];
            block.mins = [scale as u8; 16];
            (block.d, block.dmin) = (d, if format.has_mins { dmin } else { 0.0 });
        })
    }

    /// Copies weights to memory where they lie one behind the other, for products that read several at once. They stay where they
    /// are if no product could bind them all.
    ///
    /// # Errors
    /// What the device reports.
    pub fn side_by_side(device: &Device, weights: Vec<Self>) -> Result<Vec<Self>> {
        let place = |weight: &Self| align_words(weight.words.len());
        let places = weights.iter().map(place);
        let total = places.fold(0_usize, |sum, words| sum.saturating_add(words));
        let fits = u32::try_from(total).is_ok() && total <= device.max_binding_words();
        if weights.len() < 2 || !fits {
            return Ok(weights);
        }
        let (memory, mut first) = (device.alloc_typed(DType::U32, total)?, 0);
        let moved = weights.into_iter().map(|weight| {
            let words = memory.slice(first, weight.words.len())?;
            first += place(&weight);
            device.copy(&weight.words, &words)?;
            Ok(Self { words, ..weight })
        });
        moved.collect()
    }

    /// Bytes of memory.
    pub fn n_bytes(&self) -> usize {
        4 * self.words.len()
    }
}

fn pack_panel(
    format: &'static BlockFormat,
    [n, k]: [usize; 2],
    panel: usize,
    words: &mut [u32],
    read: &(impl Fn(usize, usize, &mut Block) + Sync),
) -> Result<()> {
    let (mut block, of_chunk) = (Block::default(), format.chunk() / format.block);
    let chunk_words = format.places().words * PANEL;
    for column in 0..PANEL.min(n - panel * PANEL) {
        for at in 0..k / format.block {
            let row = panel * PANEL + column;
            read(row, at, &mut block);
            let chunk = &mut words[at / of_chunk * chunk_words..][..chunk_words];
            pack(format, &block, at % of_chunk, column, chunk).map_err(|reason| {
                KernelError::argument(NAME)(format!("row {row}, block {at}: {reason}"))
            })?;
        }
    }
    Ok(())
}

/// Writes block `at` of a chunk to a column's words.
fn pack(
    format: &BlockFormat,
    block: &Block,
    at: usize,
    column: usize,
    chunk: &mut [u32],
) -> Result<(), String> {
    let places = format.places();
    let mut put = |word: usize, bits: u32| chunk[word * PANEL + column] |= bits;
    let [low, high] = format.bits;
    for (term, &q) in block.q[..format.block].iter().enumerate() {
        let bits = format.bits_of(q);
        let bits = bits.ok_or_else(|| format!("the integer {q} is none of {}", format.name))?;
        let unit = (at * format.block + term) / 32;
        let [[low_at, low_shift], [high_at, high_shift]] = format.place_of(term % 32);
        let (lower, upper) = (bits & ((1 << low) - 1), bits >> low);
        put(unit * low + low_at, lower << low_shift);
        if high > 0 {
            put(places.high + unit * high + high_at, upper << high_shift);
        }
    }
    if format.has_scales {
        for group in 0..format.groups() {
            if format.has_mins && block.mins[group] > MOST_MIN {
                return Err(format!(
                    "the minimum {} is larger than {MOST_MIN}",
                    block.mins[group]
                ));
            }
            let shift = 8 * (group % 4);
            put(
                places.scales + group / 4,
                u32::from(block.scales[group] as u8) << shift,
            );
            if format.has_mins {
                put(
                    places.mins + group / 4,
                    u32::from(block.mins[group]) << shift,
                );
            }
        }
    }
    let [d, dmin] = [("d", block.d), ("dmin", block.dmin)];
    let factor = |(name, value): (&str, f32)| {
        let n = if format.factor == Factor::Float {
            32
        } else {
            16
        };
        factor_bits(format, value)
            .ok_or_else(|| format!("{name} is {value:e}, no finite number of {n} bits"))
    };
    match format.has_mins {
        true => put(places.factors + at, factor(d)? | factor(dmin)? << 16),
        false => put(places.factors, factor(d)? << (16 * at)),
    }
    Ok(())
}

/// The bits of a `d`, if it has that many; what is below 2^-126 is a zero.
fn factor_bits(format: &BlockFormat, value: f32) -> Option<u32> {
    let flushed = hlx_core::arith::flush(value);
    let bits = match format.factor {
        Factor::Brain => flushed.to_bits() >> 16,
        Factor::Half => u32::from(half::f16::from_f32(flushed).to_bits()),
        Factor::Float => flushed.to_bits(),
    };
    let is_exact = wide(format, bits).to_bits() == flushed.to_bits();
    (is_exact && value.is_finite()).then_some(bits)
}

/// The `d` and the `dmin` of a chunk's block, of the chunk's words of factors; `dmin` is 0 in formats without.
#[inline(always)]
pub(super) fn factors_of(
    format: &BlockFormat,
    block: usize,
    word: impl Fn(usize) -> u32,
) -> [f32; 2] {
    match (format.has_mins, format.factor) {
        (true, _) => [word(block) & 0xffff, word(block) >> 16].map(|bits| wide(format, bits)),
        (false, Factor::Float) => [wide(format, word(0)), 0.0],
        (false, _) => [wide(format, word(0) >> (16 * block) & 0xffff), 0.0],
    }
}

/// The value of a `d`'s bits.
#[inline(always)]
fn wide(format: &BlockFormat, bits: u32) -> f32 {
    f32::from_bits(match format.factor {
        Factor::Brain => bits << 16,
        Factor::Half => from_f16(bits),
        Factor::Float => bits,
    })
}
