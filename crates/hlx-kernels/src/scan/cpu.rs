//! The CPU twin of a scan's pass: chains along rows, or over rows of neighbouring lines.

use hlx_core::{DType, arith};
use rayon::prelude::*;

use super::Pass;
use crate::element::gather;

/// Neighbouring lines of a task.
const TILE: usize = 4096;

/// How elements are joined; the number is the shader's constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    SumFloat = 0,
    ProdFloat = 1,
    Sum = 2,
    Prod = 3,
}

impl Step {
    fn nothing(self) -> u32 {
        match self {
            Self::ProdFloat => 1.0_f32.to_bits(),
            Self::Prod => 1,
            Self::SumFloat | Self::Sum => 0,
        }
    }
}

/// Runs `$body` with a step's `$join` and `$stored`, both known when compiled.
macro_rules! with_join {
    ($step:expr, $ops:ident, |$join:ident, $stored:ident| $body:expr) => {
        match $step {
            Step::SumFloat => {
                let $join = |a: u32, b: u32| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
                let $stored = |a: u32| arith::pos0(f32::from_bits(a)).to_bits();
                $body
            }
            Step::ProdFloat => {
                let $join = |a, b| $ops::mul(f32::from_bits(a), f32::from_bits(b)).to_bits();
                let $stored = |a: u32| a;
                $body
            }
            Step::Sum => {
                let $join = u32::wrapping_add;
                let $stored = |a: u32| a;
                $body
            }
            Step::Prod => {
                let $join = u32::wrapping_mul;
                let $stored = |a: u32| a;
                $body
            }
        }
    };
}

/// Computes a pass; `before` has the running totals of the items.
pub(super) fn scan(pass: &Pass, x: &[u32], before: Option<&[u32]>, out: &mut [u32]) {
    match (pass.inner == 1, pass.totals) {
        (true, true) => totals_along(pass, x, out),
        (true, false) => along(pass, x, before, out),
        (false, true) => totals_across(pass, x, out),
        (false, false) => across(pass, x, before, out),
    }
}

/// The words of a piece of a line, in place where they lie side by side.
fn piece<'a>(
    pass: &Pass,
    x: &'a [u32],
    (line, piece): (usize, usize),
    scratch: &'a mut Vec<u32>,
) -> &'a [u32] {
    let begin = piece * pass.piece;
    let count = pass.piece.min(pass.terms.n - begin);
    let start = pass.terms.place(line, begin);
    let (_, stride) = pass.terms.reduced.innermost();
    if stride == 1 || count == 1 {
        return &x[start..start + count];
    }
    scratch.resize(count, 0);
    gather(DType::U32, x, start, stride, scratch);
    scratch
}

fn totals_along(pass: &Pass, x: &[u32], out: &mut [u32]) {
    let pieces = pass.pieces();
    let items = out.par_iter_mut().enumerate();
    items.for_each_init(Vec::new, |scratch, (item, total)| {
        let words = piece(pass, x, (item / pieces, item % pieces), scratch);
        *total = chain_total(pass.step, words);
    });
}

fn along(pass: &Pass, x: &[u32], before: Option<&[u32]>, out: &mut [u32]) {
    let pieces = pass.pieces();
    let items = out.par_chunks_mut(pass.terms.n).enumerate();
    let items = items.flat_map(|(line, out)| {
        let pieces = out.par_chunks_mut(pass.piece).enumerate();
        pieces.map(move |(piece, out)| (line, piece, out))
    });
    items.for_each_init(Vec::new, |scratch, (line, number, out)| {
        let words = piece(pass, x, (line, number), scratch);
        let offset = match before {
            Some(before) if number > 0 => before[line * pieces + number - 1],
            _ => pass.step.nothing(),
        };
        chain(pass.step, words, offset, out);
    });
}

/// Calls `body` with each row of a piece, of the lines `line..line + width`.
fn rows(
    pass: &Pass,
    x: &[u32],
    (line, width): (usize, usize),
    piece: usize,
    mut body: impl FnMut(&[u32]),
) {
    let begin = piece * pass.piece;
    let (extent, stride) = pass.terms.kept.innermost();
    let in_place = stride == 1 && line % extent + width <= extent;
    let mut scratch = vec![0; if in_place { 0 } else { width }];
    for row in begin..pass.terms.n.min(begin + pass.piece) {
        if in_place {
            body(&x[pass.terms.place(line, row)..][..width]);
            continue;
        }
        let base = pass
            .terms
            .first
            .wrapping_add_signed(pass.terms.reduced.place(row));
        let mut rest = &mut scratch[..];
        pass.terms.kept.runs(line, width, |place, count| {
            let (run, after) = std::mem::take(&mut rest).split_at_mut(count);
            gather(DType::U32, x, base.wrapping_add_signed(place), stride, run);
            rest = after;
        });
        body(&scratch);
    }
}

fn totals_across(pass: &Pass, x: &[u32], out: &mut [u32]) {
    let pieces = out.par_chunks_mut(pass.terms.n_results).enumerate();
    let tiles = pieces.flat_map(|(piece, out)| {
        let tiles = out.par_chunks_mut(TILE).enumerate();
        tiles.map(move |(tile, out)| (piece, tile * TILE, out))
    });
    tiles.for_each(|(piece, line, out)| {
        out.fill(pass.step.nothing());
        rows(pass, x, (line, out.len()), piece, |row| {
            join_row(pass.step, row, out)
        });
        store_row(pass.step, out);
    });
}

/// The result's rows lie `inner` apart; neighbouring lines share them. A task has the rows of one
/// piece, or of a tile of its columns where they are long.
fn across(pass: &Pass, x: &[u32], before: Option<&[u32]>, out: &mut [u32]) {
    let (n, inner, lines) = (pass.terms.n, pass.inner, pass.terms.n_results);
    let run = |(outer, piece, column): (usize, usize, usize), out: Vec<&mut [u32]>| {
        let width = out.first().map_or(0, |row| row.len());
        let line = outer * inner + column;
        let nothing = vec![pass.step.nothing(); width];
        let offset = match before {
            Some(before) if piece > 0 => &before[(piece - 1) * lines + line..][..width],
            _ => &nothing,
        };
        let mut carry = nothing.clone();
        let mut out = out.into_iter();
        rows(pass, x, (line, width), piece, |row| {
            if let Some(out) = out.next() {
                chain_row(pass.step, row, offset, &mut carry, out);
            }
        });
    };
    let pieces = out.par_chunks_mut(n * inner).enumerate();
    let pieces = pieces.flat_map(|(outer, out)| {
        let pieces = out.par_chunks_mut(pass.piece * inner).enumerate();
        pieces.map(move |(piece, out)| (outer, piece, out))
    });
    pieces.for_each(|(outer, piece, out)| {
        let mut tiles: Vec<Vec<&mut [u32]>> = Vec::new();
        tiles.resize_with(inner.div_ceil(TILE), Vec::new);
        for row in out.chunks_mut(inner) {
            for (tile, part) in tiles.iter_mut().zip(row.chunks_mut(TILE)) {
                tile.push(part);
            }
        }
        let tiles = tiles.into_par_iter().enumerate();
        tiles.for_each(|(tile, out)| run((outer, piece, tile * TILE), out));
    });
}

multiversion! {
    fn chain_total<A>(step: Step, words: &[u32]) -> u32 {
        with_join!(step, A, |join, stored| {
            stored(words.iter().fold(step.nothing(), |carry, word| join(carry, *word)))
        })
    }
}

multiversion! {
    fn chain<A>(step: Step, words: &[u32], offset: u32, out: &mut [u32]) {
        with_join!(step, A, |join, stored| {
            let mut carry = step.nothing();
            for (slot, word) in out.iter_mut().zip(words) {
                carry = join(carry, *word);
                *slot = stored(join(offset, carry));
            }
        });
    }
}

multiversion! {
    fn chain_row<A>(step: Step, row: &[u32], offset: &[u32], carry: &mut [u32], out: &mut [u32]) {
        with_join!(step, A, |join, stored| {
            let chains = carry.iter_mut().zip(offset);
            for ((slot, word), (carry, offset)) in out.iter_mut().zip(row).zip(chains) {
                *carry = join(*carry, *word);
                *slot = stored(join(*offset, *carry));
            }
        });
    }
}

multiversion! {
    fn join_row<A>(step: Step, row: &[u32], totals: &mut [u32]) {
        with_join!(step, A, |join, _stored| {
            for (total, word) in totals.iter_mut().zip(row) {
                *total = join(*total, *word);
            }
        });
    }
}

multiversion! {
    fn store_row<A>(step: Step, totals: &mut [u32]) {
        with_join!(step, A, |_join, stored| {
            for total in totals {
                *total = stored(*total);
            }
        });
    }
}
