//! The CPU twin of a scan's sweep: chains along rows, or over rows of neighbouring lines.

use hlx_core::DType;

use super::Sweep;
use crate::join::Join;
use crate::parallel::{self, write};

/// Neighbouring lines of a task.
const TILE: usize = 4096;

/// Runs `$body` with a sweep's `$join` and its `$kind`, both known when compiled.
macro_rules! with_join {
    ($sweep:expr, $ops:ident, |$join:ident, $kind:ident| $body:expr) => {
        match $sweep {
            Join::AddFloat => {
                let $join = |a: u32, b: u32| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
                let $kind = Join::AddFloat;
                $body
            }
            Join::MulFloat => {
                let $join = |a, b| $ops::mul(f32::from_bits(a), f32::from_bits(b)).to_bits();
                let $kind = Join::MulFloat;
                $body
            }
            Join::Add => {
                let ($join, $kind) = (u32::wrapping_add, Join::Add);
                $body
            }
            _ => {
                let ($join, $kind) = (u32::wrapping_mul, Join::Mul);
                $body
            }
        }
    };
}

/// Computes a sweep; `before` has the running totals of the items.
pub(super) fn scan(sweep: &Sweep, x: &[u32], before: Option<&[u32]>, out: &mut [u32]) {
    match (sweep.inner == 1, sweep.totals) {
        (true, true) => totals_along(sweep, x, out),
        (true, false) => along(sweep, x, before, out),
        (false, true) => totals_across(sweep, x, out),
        (false, false) => across(sweep, x, before, out),
    }
}

fn totals_along(sweep: &Sweep, x: &[u32], out: &mut [u32]) {
    let pieces = sweep.pieces();
    parallel::for_each(write(out, 1), |item, total| {
        let (line, terms) = (item / pieces, sweep.elements(item % pieces));
        let of_words = |words: &[u32]| chain_total(sweep.join, words);
        total[0] = sweep
            .terms
            .with_result(DType::U32, x, line, terms, of_words);
    });
}

fn along(sweep: &Sweep, x: &[u32], before: Option<&[u32]>, out: &mut [u32]) {
    let pieces = sweep.pieces();
    let items = parallel::tiles(out, sweep.terms.n, sweep.piece);
    parallel::for_each(items, |item, (line, first, out)| {
        let terms = first..first + out.len();
        let offset = match before {
            Some(before) if item % pieces > 0 => before[item - 1],
            _ => sweep.join.nothing(),
        };
        let of_words = |words: &[u32]| chain(sweep.join, words, offset, out);
        sweep
            .terms
            .with_result(DType::U32, x, line, terms, of_words);
    });
}

/// Calls `body` with each row of a piece, of the lines `line..line + width`.
fn rows(
    sweep: &Sweep,
    x: &[u32],
    line: usize,
    width: usize,
    piece: usize,
    mut body: impl FnMut(&[u32]),
) {
    let in_place = sweep.terms.side_by_side(DType::U32, line, width);
    let mut scratch = vec![0; if in_place { 0 } else { width }];
    for row in sweep.elements(piece) {
        if in_place {
            body(&x[sweep.terms.place(line, row)..][..width]);
        } else {
            sweep.terms.of_term(DType::U32, x, row, line, &mut scratch);
            body(&scratch);
        }
    }
}

fn totals_across(sweep: &Sweep, x: &[u32], out: &mut [u32]) {
    let tiles = parallel::tiles(out, sweep.terms.n_results, TILE);
    parallel::for_each(tiles, |_, (piece, line, out)| {
        out.fill(sweep.join.nothing());
        rows(sweep, x, line, out.len(), piece, |row| {
            join_row(sweep.join, row, out)
        });
        store_row(sweep.join, out);
    });
}

/// The result's rows lie `inner` apart; neighbouring lines share them. A task has the rows of one
/// piece, or of a tile of its columns where they are long.
fn across(sweep: &Sweep, x: &[u32], before: Option<&[u32]>, out: &mut [u32]) {
    let (n, inner, lines) = (sweep.terms.n, sweep.inner, sweep.terms.n_results);
    let run = |(outer, piece, column): (usize, usize, usize), out: Vec<&mut [u32]>| {
        let width = out.first().map_or(0, |row| row.len());
        let line = outer * inner + column;
        let nothing = vec![sweep.join.nothing(); width];
        let offset = match before {
            Some(before) if piece > 0 => &before[(piece - 1) * lines + line..][..width],
            _ => &nothing,
        };
        let mut carry = nothing.clone();
        let mut out = out.into_iter();
        rows(sweep, x, line, width, piece, |row| {
            if let Some(out) = out.next() {
                chain_row(sweep.join, row, offset, &mut carry, out);
            }
        });
    };
    let pieces = parallel::tiles(out, n * inner, sweep.piece * inner);
    parallel::for_each(pieces, |_, (outer, first, out)| {
        let mut tiles: Vec<Vec<&mut [u32]>> = Vec::new();
        tiles.resize_with(inner.div_ceil(TILE), Vec::new);
        for row in out.chunks_mut(inner) {
            for (tile, part) in tiles.iter_mut().zip(row.chunks_mut(TILE)) {
                tile.push(part);
            }
        }
        let piece = first / (sweep.piece * inner);
        parallel::for_each(write(&mut tiles, 1), |tile, out| {
            run((outer, piece, tile * TILE), std::mem::take(&mut out[0]));
        });
    });
}

multiversion! {
    fn chain_total<A>(kind: Join, words: &[u32]) -> u32 {
        with_join!(kind, A, |join, kind| {
            kind.stored(words.iter().fold(kind.nothing(), |carry, word| join(carry, *word)))
        })
    }

    fn chain<A>(kind: Join, words: &[u32], offset: u32, out: &mut [u32]) {
        with_join!(kind, A, |join, kind| {
            let mut carry = kind.nothing();
            for (slot, word) in out.iter_mut().zip(words) {
                carry = join(carry, *word);
                *slot = kind.stored(join(offset, carry));
            }
        });
    }

    fn chain_row<A>(kind: Join, row: &[u32], offset: &[u32], carry: &mut [u32], out: &mut [u32]) {
        with_join!(kind, A, |join, kind| {
            let chains = carry.iter_mut().zip(offset);
            for ((slot, word), (carry, offset)) in out.iter_mut().zip(row).zip(chains) {
                *carry = join(*carry, *word);
                *slot = kind.stored(join(*offset, *carry));
            }
        });
    }

    fn join_row<A>(kind: Join, row: &[u32], totals: &mut [u32]) {
        with_join!(kind, A, |join, _kind| {
            for (total, word) in totals.iter_mut().zip(row) {
                *total = join(*total, *word);
            }
        });
    }

    fn store_row<A>(kind: Join, totals: &mut [u32]) {
        with_join!(kind, A, |_join, kind| {
            for total in totals {
                *total = kind.stored(*total);
            }
        });
    }
}
