//! The exact sums of blocks, written once for vectors of any width.

use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};

use super::super::format::{BlockFormat, FORMATS, Levels, N_FORMATS, PANEL};
use super::lanes::{Chains, E2M1_BYTES, Lanes, NF4_BYTES};
use super::plain::portable;
use super::{Row, Strip};

/// The largest minimum of a group.
const MOST_MIN: i32 = 63;

/// How many lines of 64 bytes ahead of the sums a weight is asked for. (A row and 12,288 x 2,048 in Q4_K on one core of a Xeon with
/// AVX-512 VNNI: 0.57 to 0.71 ms, without 0.90 to 3.1 ms; with 32 or 256 lines no faster.)
const AHEAD: usize = 96;

/// Continues the chains of a strip's rows, in one format.
pub(super) type Kernel = unsafe fn(&Strip<'_>, &mut [[f32; PANEL]]);

/// Instructions that sums are computed by: a kernel for each format.
#[derive(Clone, Copy)]
pub(in super::super) struct Instructions([Kernel; N_FORMATS]);

impl Instructions {
    /// Instructions with their kernels.
    pub(super) const fn new(kernels: [Kernel; N_FORMATS]) -> Self {
        Self(kernels)
    }

    /// What computes the chains of a format's blocks.
    pub(super) fn of(&self, format: &BlockFormat) -> OfFormat {
        let place = FORMATS.iter().position(|one| one == format);
        OfFormat(self.0[place.expect("a format of the list")])
    }
}

/// What computes the chains of a format's blocks.
#[derive(Clone, Copy)]
pub(super) struct OfFormat(Kernel);

impl OfFormat {
    /// Continues the chains of a strip's rows.
    pub fn chains(&self, strip: &Strip<'_>, chains: &mut [[f32; PANEL]]) {
        assert!(strip.rows.len() <= chains.len());
        // SAFETY: only instructions that the processor has are listed.
        unsafe { (self.0)(strip, chains) }
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

/// Continues the chains of a strip with a loop for each number of rows.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "x86.rs alone has vectors with chains")
)]
#[inline(always)]
pub(super) fn of_strip<L: Chains, const F: usize>(strip: &Strip<'_>, chains: &mut [[f32; PANEL]]) {
    match (strip.rows, chains) {
        ([a, b, c, d], [e, f, g, h]) => {
            of_rows::<L, F, 4>(strip, [*a, *b, *c, *d], [e, f, g, h]);
        }
        (rows, chains) => {
            for (row, chain) in rows.iter().zip(chains) {
                of_rows::<L, F, 1>(strip, [*row], [chain]);
            }
        }
    }
}

#[inline(always)]
fn of_rows<L: Chains, const F: usize, const R: usize>(
    strip: &Strip<'_>,
    rows: [Row<'_>; R],
    to: [&mut [f32; PANEL]; R],
) {
    let format = &const { FORMATS[F] };
    let (places, of_chunk) = (
        format.places(),
        const { FORMATS[F].chunk() / FORMATS[F].block },
    );
    let lines = strip.words.as_chunks::<PANEL>().0;
    let mut chains = [L::load_floats(to[0]); R];
    for r in 1..R {
        chains[r] = L::load_floats(to[r]);
    }
    for (chunk, lines) in lines.chunks_exact(places.words).enumerate() {
        for at in 0..of_chunk {
            let block = Block {
                first: at,
                of_strip: chunk * of_chunk + at,
            };
            if of_chunk > 1 && block.of_strip >= strip.blocks {
                break;
            }
            let sums = of_block::<L, F, R>(lines, block, rows);
            let word = L::load(&lines[places.factors + if format.has_mins { at } else { 0 }]);
            let d = L::wide(format, word, !format.has_mins && at > 0);
            for r in 0..R {
                let [high, low, _] = sums[r];
                chains[r] = L::fma(d, L::joined(high, low), chains[r]);
            }
            if format.has_mins {
                let dmin = L::wide(format, word, true);
                for r in 0..R {
                    chains[r] = L::fnma(dmin, L::nearest(sums[r][2]), chains[r]);
                }
            }
        }
    }
    for (to, chain) in to.into_iter().zip(chains) {
        L::store_floats(chain, to);
    }
}

/// Which block of a chunk is meant.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Its number in the chunk.
    pub first: usize,
    /// Its number in the strip.
    pub of_strip: usize,
}

/// A block's sums with rows of A: those of q X, upper and lower digits, and that of minima.
#[inline(always)]
pub(super) fn of_block<L: Lanes, const F: usize, const R: usize>(
    lines: &[[u32; PANEL]],
    block: Block,
    rows: [Row<'_>; R],
) -> [[L::Ints; 3]; R] {
    let format = &const { FORMATS[F] };
    let (places, group_words) = (format.places(), format.group / 4);
    let mut sums = [[L::splat(0); 3]; R];
    // (By places, so that all of a row's sums stay in registers.)
    for group in 0..format.groups() {
        let first = block.first * format.block + group * format.group;
        let of_strip = block.of_strip * format.groups() + group;
        // The lines of a chunk, in equal parts by groups.
        let of_group = const {
            FORMATS[F]
                .places()
                .words
                .div_ceil(FORMATS[F].chunk() / FORMATS[F].group)
        };
        let of_chunk = block.first * format.groups() + group;
        L::prefetch(lines, AHEAD + of_chunk * of_group, of_group);
        let mut integers = [L::splat(0); 8];
        let largest = unpack::<L>(format, lines, first, &mut integers);
        let integers = &integers[..group_words];
        let scale = match format.has_scales {
            true => L::signed_byte(L::load(&lines[places.scales + group / 4]), group % 4),
            false => L::splat(1),
        };
        for r in 0..R {
            for (plane, total) in sums[r].iter_mut().take(2).enumerate() {
                let x = &rows[r].digits[plane][of_strip * group_words..][..group_words];
                let begin = match format.stored_offset() {
                    0 => L::splat(0),
                    _ => L::splat(rows[r].begins[of_strip][plane]),
                };
                let mut sum = L::dots(begin, integers, x, largest);
                if format.has_scales {
                    sum = L::mul(sum, scale);
                }
                *total = match group {
                    0 => sum,
                    _ => L::add(*total, sum),
                };
            }
        }
        if format.has_mins && format.has_scales && group % 4 == 0 {
            let bytes = [L::load(&lines[places.mins + group / 4])];
            for r in 0..R {
                let digits = &rows[r].mins[3 * (of_strip / 4)..][..3];
                let upper = L::dots(L::splat(0), &bytes, &digits[..1], MOST_MIN);
                let middle = L::dots(L::splat(0), &bytes, &digits[1..2], MOST_MIN);
                let lower = L::dots(L::splat(0), &bytes, &digits[2..], MOST_MIN);
                let sum = L::add(L::left(upper, 16), L::add(L::left(middle, 8), lower));
                sums[r][2] = L::add(sums[r][2], sum);
            }
        }
    }
    if format.has_mins && !format.has_scales {
        for r in 0..R {
            sums[r][2] = L::splat(rows[r].mins[block.of_strip]);
        }
    }
    sums
}

/// The integers of a group, from a term of the chunk on, without signs: four of each column in a vector. Returns the largest
/// that there may be.
#[inline(always)]
fn unpack<L: Lanes>(
    format: &BlockFormat,
    lines: &[[u32; PANEL]],
    first: usize,
    to: &mut [L::Ints; 8],
) -> i32 {
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
        return largest;
    }
    match low {
        8 => 255,
        _ => (1 << (low + high)) - 1,
    }
}
