//! Chains in plain Rust: the sums of some blocks, and then their multiply-adds, which compilers make vectors of.

use hlx_core::multiversion;

use super::super::format::{BlockFormat, FORMATS, PANEL};
use super::super::packed::factors_of;
use super::lanes::{Lanes, Portable};
use super::sums::{Block, of_block};
use super::{ROWS, Strip};

/// Blocks whose sums are held at a time: of a chunk at most.
const HELD: usize = 2;

/// The sums of blocks: those of q X, upper and lower digits, and those of minima, of [`PANEL`] columns.
type Sums = [[[i32; PANEL]; 3]; HELD];

/// Continues the chains of a strip's rows.
pub(super) fn portable<const F: usize>(strip: &Strip<'_>, chains: &mut [[f32; PANEL]]) {
    let format = &const { FORMATS[F] };
    let of_chunk = format.chunk() / format.block;
    let lines = strip.words.as_chunks::<PANEL>().0;
    let mut first = 0;
    for lines in lines.chunks_exact(format.places().words) {
        let blocks = of_chunk.min(strip.blocks - first);
        let (mut floats, mut sums) = ([[[0.0; PANEL]; 2]; HELD], [[[[0; PANEL]; 3]; HELD]; ROWS]);
        for at in 0..blocks {
            let block = Block {
                first: at,
                of_strip: first + at,
            };
            for (row, sums) in strip.rows.iter().zip(&mut sums) {
                let [of_row] = of_block::<Portable, F, 1>(lines, block, [*row]);
                for (sum, to) in of_row.into_iter().zip(&mut sums[at]) {
                    Portable::store(sum, to);
                }
            }
        }
        floats_of(lines, format, &mut floats[..blocks]);
        continue_chains(&sums, &floats[..blocks], format.has_mins, chains);
        first += of_chunk;
    }
}

multiversion! {
    /// What multiplies the sums of a chunk's blocks: of `d` and `dmin`.
    fn floats_of(lines: &[[u32; PANEL]], format: &BlockFormat, to: &mut [[[f32; PANEL]; 2]]) {
        let words = &lines[format.places().factors..];
        for (at, [d, dmin]) in to.iter_mut().enumerate() {
            for i in 0..PANEL {
                let factors = factors_of(format, at, |word| words[word][i]);
                d[i] = format.factor_of(factors[0]);
                dmin[i] = factors[1];
            }
        }
    }

    /// Continues the chains of rows' columns by blocks: their sums, and their `d` and `dmin`.
    fn continue_chains<A>(
        sums: &[Sums; ROWS],
        floats: &[[[f32; PANEL]; 2]],
        has_mins: bool,
        chains: &mut [[f32; PANEL]],
    ) {
        for (chain, sums) in chains.iter_mut().zip(sums) {
            let mut c = *chain;
            for ([high, low, mins], [d, dmin]) in sums.iter().zip(floats) {
                for i in 0..PANEL {
                    let upper = high[i] + (low[i] >> 8);
                    let lower = ((upper & 0xffff) << 8 | (low[i] & 0xff)) as f32;
                    let sum = A::fma((upper >> 16) as f32, 16_777_216.0, lower);
                    c[i] = A::fma(d[i], sum, c[i]);
                }
                if has_mins {
                    for i in 0..PANEL {
                        c[i] = A::fma(-dmin[i], mins[i] as f32, c[i]);
                    }
                }
            }
            *chain = c;
        }
    }
}
