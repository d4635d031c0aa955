//! The pieces that gradients are exchanged in, and their swaps.

use std::ops::Range;

use hlx_core::{ALIGNMENT_WORDS, Buffer, align_words};
use hlx_nn::{Parts, Result, Weights};

use super::link::Cut;

/// Pieces of all gradients, in the order in which they are exchanged on every rank: about that in which a
/// backward pass ends them. Gradients of other uses of parameters (a tied output layer) come first, then
/// the parameters from the last to the first. A bucket ends at a parameter, so that none waits for another
/// part of the model than its own.
pub(super) struct Buckets(Vec<Range<usize>>);

/// One swap of the tree: what a rank gives to its peer, and the words that it continues with, to which it adds the peer's.
#[derive(Debug)]
pub(super) struct Swap {
    pub peer: usize,
    pub given: Option<Range<usize>>,
    pub continued: Option<Range<usize>>,
}

impl Buckets {
    /// Cuts the gradients of a weights. Parameters without a gradient are left out: theirs are zeros.
    pub fn new(weights: &Weights, parts: &Parts, cut: Cut) -> Self {
        let all = parts.gradients(0..parts.len());
        let mut own: Vec<Range<usize>> = Vec::new();
        let mut module = String::new();
        for (parameter, span) in weights.parameters().iter().zip(weights.spans("")).rev() {
            if !parameter.requires_grad() {
                continue;
            }
            let (start, end) = (span.offset, span.offset + parameter.n_elements());
            let of = span.name.split('.').next().unwrap_or_default();
            let is_same = std::mem::replace(&mut module, of.to_owned()) == of;
            let bucket = (end / 2).clamp(cut.least, cut.bucket);
            // A small bucket takes the parameters before it, whatever they are of.
            let limit = if is_same { bucket } else { bucket / 4 };
            match own.last_mut() {
                // The padding between two parameters is never read.
                Some(last) if last.len() < limit && last.start < end + ALIGNMENT_WORDS => {
                    last.start = start;
                }
                _ => own.push(start..end),
            }
        }
        let ranges = all[1..].iter().chain(&own);
        Self(ranges.flat_map(|range| pieces(range, cut)).collect())
    }

    /// The words of a bucket.
    pub fn range(&self, bucket: usize) -> Range<usize> {
        self.0[bucket].clone()
    }

    /// The words of the longest bucket.
    pub fn longest(&self) -> usize {
        self.0.iter().map(Range::len).max().unwrap_or(1)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The windows of the buckets.
    pub fn windows(&self, all_gradients: &Buffer) -> Result<Vec<Buffer>> {
        let window = |range: &Range<usize>| Ok(all_gradients.slice(range.start, range.len())?);
        self.0.iter().map(window).collect()
    }

    /// The swaps of each bucket, level by level: recursive halving, neighbours first.
    pub fn swaps(&self, parts: &Parts, rank: usize) -> Vec<Vec<Swap>> {
        let mut held = 0..parts.len();
        let mut levels = Vec::new();
        for level in 0..parts.len().ilog2() {
            let (bit, middle) = (1 << level, held.start + held.len() / 2);
            let halves = [held.start..middle, middle..held.end];
            let [low, high] = halves.clone().map(|half| parts.gradients(half));
            let is_low = rank & bit == 0;
            let (given, continued) = if is_low { (high, low) } else { (low, high) };
            levels.push((rank ^ bit, given, continued));
            let [low, high] = halves;
            held = if is_low { low } else { high };
        }
        let of_bucket = |bucket: &Range<usize>| {
            let swap =
                |(peer, given, continued): &(usize, Vec<Range<usize>>, Vec<Range<usize>>)| Swap {
                    peer: *peer,
                    given: within(bucket, given),
                    continued: within(bucket, continued),
                };
            levels.iter().map(swap).collect()
        };
        self.0.iter().map(of_bucket).collect()
    }
}

/// A range cut into pieces that one swap carries, of about the same length.
pub(super) fn pieces(range: &Range<usize>, cut: Cut) -> Vec<Range<usize>> {
    let n = range.len().div_ceil(cut.capacity).max(1);
    let each = align_words(range.len().div_ceil(n)).max(1);
    let starts = range.clone().step_by(each);
    starts
        .map(|start| start..(start + each).min(range.end))
        .collect()
}

/// The words of a bucket that lie in some ranges: at most one of them has any, as neighbouring parts are
/// neighbouring words and no bucket holds words of two uses.
fn within(bucket: &Range<usize>, ranges: &[Range<usize>]) -> Option<Range<usize>> {
    let common = |range: &Range<usize>| {
        let common = bucket.start.max(range.start)..bucket.end.min(range.end);
        (!common.is_empty()).then_some(common)
    };
    ranges.iter().find_map(common)
}

#[cfg(test)]
mod tests {
    use hlx_nn::{Init, ParameterBuilder, Undivided};

    use super::*;

    /// A model with a tied table, blocks and a norm.
    fn weights() -> Result<Weights> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        let table = builder.parameter("embedding.table", &[300, 64], Init::Zeros);
        builder.parameter("positions.table", &[16, 64], Init::Zeros);
        for layer in 0..6 {
            builder.parameter(&format!("blocks.{layer}.matrix"), &[64, 64], Init::Zeros);
            builder.parameter(&format!("blocks.{layer}.bias"), &[60], Init::Zeros);
        }
        builder.parameter("norm.gain", &[64], Init::Zeros);
        builder.another_use(&table);
        builder.build(&device, 0)
    }

    const CUT: Cut = Cut {
        bucket: 10_000,
        least: 10_000,
        capacity: 12_000,
        lag: 1,
    };

    #[test]
    fn buckets_hold_each_word_once_and_end_at_modules() -> Result<()> {
        let weights = weights()?;
        let parts = Parts::new(&weights, 4, &Undivided::default())?;
        let buckets = Buckets::new(&weights, &parts, CUT);
        let mut seen = vec![0; weights.all_gradients()?.len()];
        for bucket in &buckets.0 {
            assert!(bucket.len() <= CUT.capacity, "{bucket:?}");
            seen[bucket.clone()].fill(1);
        }
        let total: usize = buckets.0.iter().map(Range::len).sum();
        assert_eq!(total, seen.iter().sum::<usize>());
        // Only padding is left out: of 6 biases of 60 words, where a bucket ends there.
        assert!(seen.len() - total < 6 * 64);
        // The first are of the tied use, which is ended first; positions and table are last, in two pieces.
        assert!(buckets.0[0].start >= weights.n_words());
        assert_eq!(buckets.0.last().map(|last| last.start), Some(10_112));
        let blocks = weights
            .spans("")
            .iter()
            .position(|s| s.name == "blocks.0.matrix");
        let first_block = weights.spans("")[blocks.unwrap_or(0)].offset;
        let ends_there = |bucket: &Range<usize>| bucket.start == first_block;
        assert!(buckets.0.iter().any(ends_there), "{:?}", buckets.0);
        Ok(())
    }

    /// What one rank gives at a level is what its peer continues with, and in the end each word has one rank.
    #[test]
    fn swaps_of_a_pair_match() -> Result<()> {
        let weights = weights()?;
        for n_ranks in [2, 4, 8] {
            let parts = Parts::new(&weights, n_ranks, &Undivided::default())?;
            let buckets = Buckets::new(&weights, &parts, CUT);
            let swaps: Vec<_> = (0..n_ranks)
                .map(|rank| buckets.swaps(&parts, rank))
                .collect();
            for (rank, mine) in swaps.iter().enumerate() {
                for (bucket, levels) in mine.iter().enumerate() {
                    for (level, swap) in levels.iter().enumerate() {
                        let theirs = &swaps[swap.peer][bucket][level];
                        assert_eq!(theirs.peer, rank);
                        assert_eq!(theirs.given, swap.continued);
                        assert_eq!(theirs.continued, swap.given);
                    }
                }
            }
            let last = |rank: usize| {
                let levels = swaps[rank].iter().filter_map(|levels| levels.last());
                levels
                    .filter_map(|swap| swap.continued.as_ref())
                    .map(Range::len)
                    .sum::<usize>()
            };
            let held: usize = (0..n_ranks).map(last).sum();
            assert_eq!(held, buckets.0.iter().map(Range::len).sum::<usize>());
        }
        Ok(())
    }

    #[test]
    fn parameters_without_a_gradient_are_not_exchanged() -> Result<()> {
        let weights = weights()?;
        for parameter in weights.parameters() {
            if parameter.name().starts_with("blocks") {
                parameter.requires_grad_(false);
            }
        }
        let parts = Parts::new(&weights, 2, &Undivided::default())?;
        let buckets = Buckets::new(&weights, &parts, CUT);
        let total: usize = buckets.0.iter().map(Range::len).sum();
        assert_eq!(total, 2 * 300 * 64 + 16 * 64 + 64);
        Ok(())
    }
}
