//! The exact sums of blocks, written once for vectors of any width.

use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};

use super::super::format::{BlockFormat, FORMATS, Levels, N_FORMATS, PANEL};
use super::lanes::{E2M1_BYTES, Lanes, NF4_BYTES, Portable};
use super::{ROWS, Row, Sums};

/// The sums of chunks' blocks of one format with at most [`ROWS`] rows of A.
pub(super) type Kernel = unsafe fn(&[u32], &[Row<'_>], &mut [Sums; ROWS]);

/// Instructions that sums are computed by: a kernel for each format.
#[derive(Clone, Copy)]
pub(in super::super) struct Instructions([Kernel; N_FORMATS]);

impl Instructions {
    /// Instructions with their kernels.
    pub(super) const fn new(kernels: [Kernel; N_FORMATS]) -> Self {
        Self(kernels)
    }

    /// The sums of a format's blocks.
    pub(super) fn of(&self, format: &BlockFormat) -> OfFormat {
        let place = FORMATS.iter().position(|one| one == format);
        OfFormat(self.0[place.expect("a format of the list")])
    }
}

/// What computes the sums of a format's blocks.
#[derive(Clone, Copy)]
pub(super) struct OfFormat(Kernel);

impl OfFormat {
    /// Computes the sums of a strip's blocks for at most [`ROWS`] rows.
    pub fn sums(&self, words: &[u32], rows: &[Row<'_>], sums: &mut [Sums; ROWS]) {
        // SAFETY: only instructions that the processor has are listed.
        unsafe { (self.0)(words, rows, sums) }
    }
}

/// The kernels of all formats, from a function that is generic in the place of its format.
macro_rules! kernels_of {
    ($kernel:ident) => {
        [
            $kernel::<0>,
            $kernel::<1>,
            $kernel::<2>,
            $kernel::<3>,
            $kernel::<4>,
            $kernel::<5>,
            $kernel::<6>,
            $kernel::<7>,
            $kernel::<8>,
            $kernel::<9>,
            $kernel::<10>,
            $kernel::<11>,
        ]
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use kernels_of;

/// What this processor has at the level in use, the slowest first.
pub(in super::super) fn instructions(level: SimdLevel) -> Vec<Instructions> {
    let all = std::iter::once(Instructions::new(kernels_of!(portable)));
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

fn portable<const F: usize>(words: &[u32], rows: &[Row<'_>], sums: &mut [Sums; ROWS]) {
    all_rows::<Portable, F>(words, rows, sums);
}

/// Computes the sums with a loop for each number of rows.
#[inline(always)]
pub(super) fn all_rows<L: Lanes, const F: usize>(
    words: &[u32],
    rows: &[Row<'_>],
    sums: &mut [Sums; ROWS],
) {
    match rows {
        [a, b, c, d] => of_rows::<L, F, 4>(words, [*a, *b, *c, *d], sums),
        _ => {
            for (row, sums) in rows.iter().zip(sums.iter_mut()) {
                of_rows::<L, F, 1>(words, [*row], std::array::from_mut(sums));
            }
        }
    }
}

#[inline(always)]
fn of_rows<L: Lanes, const F: usize, const R: usize>(
    words: &[u32],
    rows: [Row<'_>; R],
    sums: &mut [Sums],
) {
    let format = &const { FORMATS[F] };
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
                // (By places, so that all of a row's sums stay in registers.)
                for r in 0..R {
                    let of_group = rows[r].groups[place / format.group];
                    for plane in 0..2 {
                        let x = &rows[r].digits[plane][place / 4..][..group_words];
                        let begin = L::splat(-offset * of_group[plane]);
                        let mut sum = L::dots(begin, integers, x, largest);
                        if format.has_scales {
                            sum = L::mul(sum, scale);
                        }
                        of_block[r][plane] = match group {
                            0 => sum,
                            _ => L::add(of_block[r][plane], sum),
                        };
                    }
                    if format.has_mins {
                        let sum = L::splat(256 * of_group[0] + of_group[1]);
                        let sum = if format.has_scales {
                            L::mul(min, sum)
                        } else {
                            sum
                        };
                        of_block[r][2] = L::add(of_block[r][2], sum);
                    }
                }
            }
            let at = at * (chunk / format.block) + block;
            for r in 0..R {
                let to = &mut sums[r][at];
                L::store(of_block[r][0], &mut to[0]);
                L::store(of_block[r][1], &mut to[1]);
                if format.has_mins {
                    L::store(of_block[r][2], &mut to[2]);
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
    let table = match format.levels {
        Levels::Integer => None,
        Levels::E2M1 => Some((&E2M1_BYTES, 24)),
        Levels::Nf4 => Some((&NF4_BYTES, 254)),
    };
    if let Some((table, largest)) = table {
        for to in to {
            *to = L::levels(*to, table);
        }
        return (largest, i32::from(format.offset));
    }
    match low {
        8 => (255, 128),
        _ => ((1 << (low + high)) - 1, i32::from(format.offset)),
    }
}
