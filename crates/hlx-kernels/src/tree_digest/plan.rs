//! Which launch hashes which chunks: the leaves of all tensors, then one level after another.

use std::ops::Range;

use hlx_core::{ALIGNMENT_WORDS, align_words, sizes};

use super::{DIGEST_WORDS, TensorSpan, Tree};
use crate::error::Result;

/// One launch: `n` chunks of `source` give the digests from `first` on of `target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedLaunch {
    /// Whether the source is the tensors' buffer, else that of the digests.
    pub is_leaves: bool,
    /// The words that are bound.
    pub source: Range<usize>,
    /// Where the launch's part of [`Plan::chunks`] begins.
    pub chunks_at: usize,
    pub n: usize,
    /// Words of the longest chunk.
    pub longest: usize,
    pub first: usize,
    /// The words of the level among the digests.
    pub target: Range<usize>,
}

/// The launches of a digest and their tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub launches: Vec<PlannedLaunch>,
    /// Start (a word of the launch's source) and length in words of each chunk.
    pub chunks: Vec<u32>,
    /// The word after each tensor's last.
    pub ends: Vec<usize>,
    /// The word at which each tensor's top lies among the digests; none without words.
    pub tops: Vec<Option<usize>>,
    /// Words of all digests.
    pub digest_words: usize,
}

impl Plan {
    pub fn new(tensors: &[TensorSpan], tree: Tree, window: usize) -> Result<Self> {
        let mut plan = Self::default();
        // Chunks of the level, and each tensor's among them: (word, words).
        let mut chunks = Vec::new();
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for tensor in tensors {
            let end = end_of(tensor)?;
            plan.ends.push(end);
            let begin = chunks.len();
            chunks.extend(cut(tensor.offset..end, tree.leaf_words));
            pieces.push(begin..chunks.len());
        }
        plan.tops = vec![None; tensors.len()];
        let mut source = None;
        while !chunks.is_empty() {
            let target = plan.add_level(&chunks, source.clone(), window)?;
            let level = std::mem::take(&mut chunks);
            debug_assert_eq!(target.len(), level.len() * DIGEST_WORDS);
            for (piece, top) in pieces.iter_mut().zip(&mut plan.tops) {
                if piece.len() == 1 {
                    *top = Some(target.start + piece.start * DIGEST_WORDS);
                    *piece = 0..0;
                } else {
                    let begin = chunks.len();
                    let words = piece.start * DIGEST_WORDS..piece.end * DIGEST_WORDS;
                    chunks.extend(cut(words, tree.fan_out * DIGEST_WORDS));
                    *piece = begin..chunks.len();
                }
            }
            source = Some(target);
        }
        Ok(plan)
    }

    /// Adds the launches of a level and returns where its digests lie. Leaves have no `source`
    /// yet: they are cut into windows that a launch can bind.
    fn add_level(
        &mut self,
        chunks: &[(usize, usize)],
        source: Option<Range<usize>>,
        window: usize,
    ) -> Result<Range<usize>> {
        let begin = self.digest_words;
        let target = begin..begin + chunks.len() * DIGEST_WORDS;
        self.digest_words = begin + align_words(target.len());
        let mut first = 0;
        while first < chunks.len() {
            let (bound, n) = match &source {
                Some(source) => (source.clone(), chunks.len()),
                None => next_window(&chunks[first..], window)?,
            };
            let base = if source.is_some() { 0 } else { bound.start };
            let chunks_at = self.chunks.len();
            for &(start, words) in &chunks[first..first + n] {
                self.chunks.extend([(start - base) as u32, words as u32]);
            }
            let longest = chunks[first..first + n].iter().map(|chunk| chunk.1).max();
            self.chunks.resize(align_words(self.chunks.len()), 0);
            self.launches.push(PlannedLaunch {
                is_leaves: source.is_none(),
                source: bound,
                chunks_at,
                n,
                longest: longest.unwrap_or(0),
                first,
                target: target.clone(),
            });
            first += n;
        }
        Ok(target)
    }
}

/// Checks a tensor's offset and returns the word after its last.
pub(super) fn end_of(tensor: &TensorSpan) -> Result<usize> {
    let (name, shape, offset) = (&tensor.name, &tensor.shape, tensor.offset);
    let words = sizes::checked_elements(shape);
    let end = words.and_then(|words| sizes::checked_sum([offset, words]));
    check_that!("tree_digest", end.is_some() =>
        "`{name}` {shape:?} at word {offset} is larger than any memory")?;
    check_that!("tree_digest", offset.is_multiple_of(4) =>
        "`{name}` begins at word {offset}, expected a multiple of 4")?;
    Ok(end.unwrap_or(offset))
}

/// Cuts a range into chunks (start, words), of which the last may be shorter.
fn cut(range: Range<usize>, words: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = range.end;
    range
        .step_by(words)
        .map(move |start| (start, words.min(end - start)))
}

/// Returns the words that a launch binds for the first chunks, and how many of them it covers.
fn next_window(chunks: &[(usize, usize)], window: usize) -> Result<(Range<usize>, usize)> {
    let (start, words) = chunks[0];
    let base = start / ALIGNMENT_WORDS * ALIGNMENT_WORDS;
    check_that!("tree_digest", start + words - base <= window =>
        "a leaf of {words} words, expected to bind at most {window}")?;
    // Shader words are counted in 32 bits.
    let limit = window.min(1 << 31);
    let fits = |&&(start, words): &&(usize, usize)| start >= base && start + words - base <= limit;
    let n = chunks.iter().take_while(fits).count();
    let end = chunks[..n].iter().map(|(start, words)| start + words).max();
    Ok((base..end.unwrap_or(base), n))
}
