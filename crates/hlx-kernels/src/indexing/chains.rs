//! The CPU twin of additions by index: the chains of a target's contributions, in order.

use hlx_core::{DType, arith};

use crate::element::gather;
use crate::layout::Walk;
use crate::parallel;
use crate::terms::PIECE;

/// Contributions and where their additions go; the fields of `segments.glsl`.
#[derive(Clone, Debug)]
pub(super) struct Addition {
    /// Contributions.
    pub count: usize,
    /// Elements of a contribution, each for a target of its own.
    pub lines: usize,
    /// Targets along the axis.
    pub n: usize,
    pub inner: usize,
    pub axis_stride: isize,
    /// The source's places: of lines or, with `by_position`, of contributions.
    pub walk: Walk<1>,
    pub by_position: bool,
    pub float: bool,
}

/// Adds contributions to their targets in order. Every task owns a range of targets and walks over
/// all keys.
pub(super) fn add(addition: &Addition, keys: &[u32], source: &[u32], target: &mut [u32]) {
    let (n, inner) = (addition.n, addition.inner);
    let range = n.div_ceil(rayon::current_num_threads());
    let tasks = parallel::tiles(target, n * inner, range * inner);
    parallel::for_each(tasks, |_, (outer, first, totals)| {
        let first_key = first / inner;
        let mut chains = Chains::new(addition.float, inner, totals);
        if addition.by_position {
            add_singles(addition, keys, source, first_key, &mut chains);
            return chains.finish();
        }
        for (position, key) in keys.iter().enumerate() {
            let at = (*key as usize).wrapping_sub(first_key);
            if at < chains.counts.len() {
                let add = |words: &[u32]| chains.add(at, words);
                with_contribution(addition, source, position, outer, add);
            }
        }
        chains.finish();
    });
}

/// Adds contributions of one element each.
fn add_singles(
    addition: &Addition,
    keys: &[u32],
    source: &[u32],
    first_key: usize,
    chains: &mut Chains<'_>,
) {
    let (walk, [stride]) = (&addition.walk, addition.walk.steps());
    walk.runs(0, keys.len(), |done, [mut from], count| {
        for key in &keys[done..done + count] {
            let at = (*key as usize).wrapping_sub(first_key);
            if at < chains.counts.len() {
                chains.add_one(at, source[from]);
            }
            from = from.wrapping_add_signed(stride);
        }
    });
}

/// Calls `body` with the words of a contribution to the lines of a block, in place where they lie side by side, else copied.
fn with_contribution(
    addition: &Addition,
    source: &[u32],
    position: usize,
    outer: usize,
    body: impl FnOnce(&[u32]),
) {
    let (walk, inner) = (&addition.walk, addition.inner);
    let along = position as isize * addition.axis_stride;
    let (extent, stride) = walk.innermost();
    if stride == 1 && extent.is_multiple_of(inner) {
        let [place] = walk.places(outer * inner);
        return body(&source[place.wrapping_add_signed(along)..][..inner]);
    }
    parallel::scratch(inner, |words| {
        walk.runs(outer * inner, inner, |done, [place], count| {
            let (place, words) = (place.wrapping_add_signed(along), &mut words[done..]);
            gather(DType::U32, source, place, stride, &mut words[..count]);
        });
        body(words);
    });
}

/// The chains of a range of targets, `inner` elements each.
///
/// A target's first piece goes on in its place; turning -0 into +0 after every addition gives the chain
/// that does it at its end.
pub(super) struct Chains<'a> {
    float: bool,
    inner: usize,
    /// The stored values, the first piece under way, then the finished pieces.
    totals: &'a mut [u32],
    /// Every later piece under way; empty as long as there is none.
    pieces: Vec<u32>,
    /// Contributions so far.
    counts: Vec<u32>,
}

impl<'a> Chains<'a> {
    pub(super) fn new(float: bool, inner: usize, totals: &'a mut [u32]) -> Self {
        Self {
            float,
            inner,
            pieces: Vec::new(),
            counts: vec![0; totals.len() / inner],
            totals,
        }
    }

    fn add(&mut self, at: usize, words: &[u32]) {
        let row = at * self.inner..(at + 1) * self.inner;
        let count = self.counts[at];
        self.counts[at] = count + 1;
        if count < ONE_PIECE {
            add_row(self.float, words, &mut self.totals[row]);
            return;
        }
        self.pieces.resize(self.totals.len(), 0);
        if count.is_multiple_of(ONE_PIECE) {
            if count > ONE_PIECE {
                self.end_piece(at);
            }
            self.pieces[row.clone()].fill(0);
        }
        add_row(self.float, words, &mut self.pieces[row]);
    }

    /// [`Chains::add`] for contributions of one element.
    #[inline]
    pub(super) fn add_one(&mut self, at: usize, word: u32) {
        let count = self.counts[at];
        if count >= ONE_PIECE {
            self.add(at, &[word]);
            return;
        }
        self.totals[at] = sum_of(self.float, self.totals[at], word);
        self.counts[at] = count + 1;
    }

    /// Adds a piece that is not the first to the total.
    fn end_piece(&mut self, at: usize) {
        let row = at * self.inner..(at + 1) * self.inner;
        add_row(self.float, &self.pieces[row.clone()], &mut self.totals[row]);
    }

    pub(super) fn finish(mut self) {
        for at in 0..self.counts.len() {
            if self.counts[at] > ONE_PIECE {
                self.end_piece(at);
            }
        }
    }
}

/// Contributions of a target that has one piece.
const ONE_PIECE: u32 = PIECE as u32;

#[inline(always)]
pub(super) fn sum_of(float: bool, a: u32, b: u32) -> u32 {
    match float {
        true => arith::pos0(f32::from_bits(a) + f32::from_bits(b)).to_bits(),
        false => a.wrapping_add(b),
    }
}

multiversion! {
    fn add_row(float: bool, words: &[u32], totals: &mut [u32]) {
        // Two loops, each without a branch.
        if float {
            for (total, word) in totals.iter_mut().zip(words) {
                *total = sum_of(true, *total, *word);
            }
        } else {
            for (total, word) in totals.iter_mut().zip(words) {
                *total = sum_of(false, *total, *word);
            }
        }
    }
}
