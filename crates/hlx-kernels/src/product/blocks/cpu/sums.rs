//! The exact sums of blocks, written once for vectors of any width.

use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};

use super::super::format::{BlockFormat, Levels, PANEL};
use super::lanes::{Lanes, Portable};
use super::{ROWS, Row, Sums};

/// The sums of chunks' blocks with rows of A.
type Kernel = unsafe fn(&BlockFormat, &[u32], &[Row<'_>], &mut [Sums; ROWS]);

/// Instructions that sums are computed by.
#[derive(Clone, Copy)]
pub(in super::super) struct Instructions {
    kernel: Kernel,
}

impl Instructions {
    /// Computes the sums of a strip's blocks for at most [`ROWS`] rows.
    pub(super) fn sums(
        &self,
        format: &BlockFormat,
        words: &[u32],
        rows: &[Row<'_>],
        sums: &mut [Sums; ROWS],
    ) {
        // SAFETY: only instructions that the processor has are listed.
        unsafe { (self.kernel)(format, words, rows, sums) }
    }
}

/// What this processor has at the level in use, the slowest first.
pub(in super::super) fn instructions(level: SimdLevel) -> Vec<Instructions> {
    let all = std::iter::once(Instructions::new(portable));
    #[cfg(target_arch = "x86_64")]
    let all = all.chain(super::x86::instructions(level));
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    all.collect()
}

/// The fastest instructions of the processor at the level in use.
pub(super) fn fastest() -> Instructions {
    static FASTEST: OnceLock<Instructions> = OnceLock::new();
    *FASTEST.get_or_init(|| *instructions(simd_level()).last().expect("one at least"))
}

impl Instructions {
    /// Instructions and the kernel that is compiled for them.
    pub(super) const fn new(kernel: Kernel) -> Self {
        Self { kernel }
    }
}

fn portable(format: &BlockFormat, words: &[u32], rows: &[Row<'_>], sums: &mut [Sums; ROWS]) {
    all_rows::<Portable>(format, words, rows, sums);
}

/// Computes the sums with a loop for each number of rows.
#[inline(always)]
pub(super) fn all_rows<L: Lanes>(
    format: &BlockFormat,
    words: &[u32],
    rows: &[Row<'_>],
    sums: &mut [Sums; ROWS],
) {
    match rows {
        [a, b, c, d] => of_rows::<L, 4>(format, words, [*a, *b, *c, *d], sums),
        _ => {
            for (row, sums) in rows.iter().zip(sums.iter_mut()) {
                of_rows::<L, 1>(format, words, [*row], std::array::from_mut(sums));
            }
        }
    }
}

#[inline(always)]
fn of_rows<L: Lanes, const R: usize>(
    format: &BlockFormat,
    words: &[u32],
    rows: [Row<'_>; R],
    sums: &mut [Sums],
) {
    let (places, chunk) = (format.places(), format.chunk());
    let group_words = format.group / 4;
    let lines = words.as_chunks::<PANEL>().0;
    for (at, lines) in lines.chunks_exact(places.words).enumerate() {
        for block in 0..chunk / format.block {
            let mut of_block = [[L::splat(0); 3]; R];
            for group in 0..format.groups() {
                let first = block * format.block + group * format.group;
                let mut integers = [L::splat(0); 8];
                let (largest, offset) = unpack::<L>(format, lines, first, &mut integers);
                let integers = &integers[..group_words];
                let place = at * chunk + first;
                let [scale, min] = match format.has_scales {
                    true => [
                        L::signed_byte(L::load(&lines[places.scales + group / 4]), group % 4),
                        match format.has_mins {
                            true => L::byte(L::load(&lines[places.mins + group / 4]), group % 4),
                            false => L::splat(0),
                        },
                    ],
                    false => [L::splat(1); 2],
                };
                for (row, of_block) in rows.iter().zip(&mut of_block) {
                    let of_group = row.groups[place / format.group];
                    for plane in 0..2 {
                        let x = &row.digits[plane][place / 4..][..group_words];
                        let begin = L::splat(-offset * of_group[plane]);
                        let mut sum = L::dots(begin, integers, x, largest);
                        if format.has_scales {
                            sum = L::mul(sum, scale);
                        }
                        of_block[plane] = L::add(of_block[plane], sum);
                    }
                    if format.has_mins {
                        let sum = L::splat(256 * of_group[0] + of_group[1]);
                        of_block[2] = L::add(of_block[2], L::mul(min, sum));
                    }
                }
            }
            let at = at * (chunk / format.block) + block;
            for (sums, of_block) in sums.iter_mut().zip(of_block) {
                for (to, lanes) in sums[at].iter_mut().zip(of_block) {
                    L::store(lanes, to);
                }
            }
        }
    }
}

/// The integers of a group, from a term of the chunk on, without signs: four of each column in a vector. Returns the largest
/// that there may be, and what is to be taken off each.
#[inline(always)]
fn unpack<L: Lanes>(
    format: &BlockFormat,
    lines: &[[u32; PANEL]],
    first: usize,
    to: &mut [L::Ints; 8],
) -> (i32, i32) {
    let (unit, [low, high], high_at) = (first / 32, format.bits, format.places().high);
    for (i, to) in to[..format.group / 4].iter_mut().enumerate() {
        // A word of four integers of the unit.
        let word = first % 32 / 4 + i;
        let of_low = &lines[unit * low..];
        let lower = match low {
            8 => L::xor(L::load(&of_low[word]), 0x8080_8080_u32 as i32),
            4 => L::masked::<0x0f0f_0f0f>(L::load(&of_low[word % 4]), 4 * (word / 4)),
            _ => L::masked::<0x0303_0303>(L::load(&of_low[word / 4]), 2 * (word % 4)),
        };
        let of_high = &lines[high_at + unit * high..];
        let upper = match high {
            0 => {
                *to = lower;
                continue;
            }
            1 => L::masked::<0x0101_0101>(L::load(&of_high[0]), word),
            _ => L::masked::<0x0303_0303>(L::load(&of_high[word / 4]), 2 * (word % 4)),
        };
        *to = L::or(lower, L::left(upper, low));
    }
    if format.levels == Levels::E2M1 {
        for to in to {
            *to = L::levels(*to);
        }
        return (24, i32::from(format.offset));
    }
    match low {
        8 => (255, 128),
        _ => ((1 << (low + high)) - 1, i32::from(format.offset)),
    }
}
