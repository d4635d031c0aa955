//! A corpus as samples: what is read, what is predicted, and in which order and batches.
//!
//! The tokenizer is the byte: 256 ids. A pair becomes `input 0x1e output 0x04`: ASCII's record
//! separator between, its end-of-transmission at the end, neither of which a pair may hold
//! itself. The model is trained on the output's bytes and on the end byte, as it must learn to
//! stop; the mean that runs report counts the output's bytes alone (see
//! [`evaluate`](crate::evaluate)).

mod batch;
mod load;
mod utf8;
mod windows;

use std::borrow::Cow;
use std::collections::HashMap;

use anyhow::{Context as _, Result};
pub use batch::{Batches, TokenRows};
use hlx_core::files::Source;
pub use windows::RandomWindows;

use crate::config::Format;
use crate::random::{Purpose, permutation};

/// Number of token ids: a token is a byte.
pub const VOCABULARY: usize = 256;
/// Separates the input from the output of a pair.
pub const SEPARATOR: u8 = 0x1e;
/// Ends the output of a pair.
pub const END: u8 = 0x04;

/// A corpus, cut into samples: pairs in memory, a text in its file, of which samples are read.
#[derive(Clone, Debug)]
pub struct Dataset {
    format: Format,
    /// The file's name in messages.
    name: String,
    bytes: Source,
    spans: Vec<Span>,
    digest: String,
}

/// Where a sample lies in the corpus's bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    /// Bytes given rather than predicted.
    n_given: usize,
}

/// One sample: the model reads `tokens` but the last, and predicts each from `n_given` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The bytes.
    pub tokens: Cow<'a, [u8]>,
    /// How many of them are given: the input and the separator, or the first byte of a window.
    pub n_given: usize,
}

impl Sample<'_> {
    /// Positions the model computes.
    pub fn time(&self) -> usize {
        self.tokens.len() - 1
    }

    /// Bytes predicted.
    pub fn n_targets(&self) -> usize {
        self.tokens.len() - self.n_given
    }
}

impl Dataset {
    /// How the corpus was read.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no sample; a loaded corpus has one at least.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// SHA-256 of the file.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Positions that the model computes of a sample.
    pub fn time(&self, index: usize) -> usize {
        let Span { start, end, .. } = self.spans[index];
        end - start - 1
    }

    /// How many bytes of a sample are given rather than predicted.
    pub fn n_given(&self, index: usize) -> usize {
        self.spans[index].n_given
    }

    /// The sample of this number.
    ///
    /// # Errors
    /// One line with the file: one that was cut short since it was opened.
    pub fn sample(&self, index: usize) -> Result<Sample<'_>> {
        self.sample_of(self.spans[index])
    }

    fn sample_of(&self, span: Span) -> Result<Sample<'_>> {
        let Span {
            start,
            end,
            n_given,
        } = span;
        let tokens = match self.bytes.memory() {
            Some(bytes) => Cow::Borrowed(&bytes[start..end]),
            None => {
                let read = self.bytes.read(start as u64..end as u64);
                Cow::Owned(read.with_context(|| self.name.clone())?)
            }
        };
        Ok(Sample { tokens, n_given })
    }

    /// The input and the output of a pair, without separator and end; both are empty of a text, which has no pairs.
    pub fn pair(&self, index: usize) -> (&[u8], &[u8]) {
        let Span {
            start,
            end,
            n_given,
        } = self.spans[index];
        match self.bytes.memory() {
            Some(bytes) if self.format.is_of_pairs() => (
                &bytes[start..start + n_given - 1],
                &bytes[start + n_given..end - 1],
            ),
            _ => (&[], &[]),
        }
    }

    /// Splits the samples into those to train on and those held out: `fraction` of them, one at
    /// least if it is above 0. Pairs are drawn by the seed; the end of a text is held out. Of drawn
    /// pairs no output is on both sides.
    pub fn split(&self, fraction: f64, seed: u64) -> Split {
        match self.format {
            Format::Pairs => {
                let order = permutation(seed, Purpose::EvalSplit, 0, self.len());
                Split::of(order, fraction)
            }
            Format::AsciiPairs => self.split_by_output(fraction, seed),
            _ => Split::at_end(self.len(), fraction),
        }
    }

    /// Holds out all pairs of outputs that are drawn by the seed, until they are a `fraction`. An output
    /// of more than one pair in a thousand is one of few of its kind (`TRUE`), and is trained on.
    fn split_by_output(&self, fraction: f64, seed: u64) -> Split {
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for index in 0..self.len() {
            let place = *places.entry(self.pair(index).1).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(index);
        }
        let wanted = (self.len() as f64 * fraction) as usize;
        let most = (self.len() / 1000).max(1);
        let (mut train, mut eval) = (Vec::new(), Vec::new());
        for place in permutation(seed, Purpose::EvalSplit, 0, groups.len()) {
            let group = &groups[place];
            let held_out = group.len() <= most && eval.len() + group.len() <= wanted;
            let side = if held_out { &mut eval } else { &mut train };
            side.extend_from_slice(group);
        }
        train.sort_unstable();
        eval.sort_unstable();
        Split { train, eval }
    }
}

/// Which samples are for what, each in the corpus's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Trained on.
    pub train: Vec<usize>,
    /// Held out.
    pub eval: Vec<usize>,
}

impl Split {
    /// Holds out the last samples of `n`: a `fraction` of them, one at least if it is above 0, and never
    /// all.
    pub fn at_end(n: usize, fraction: f64) -> Self {
        Self::of((0..n).collect(), fraction)
    }

    /// Holds out the last samples of an order.
    fn of(order: Vec<usize>, fraction: f64) -> Self {
        let n = order.len();
        let wanted = ((n as f64 * fraction) as usize).max(usize::from(fraction > 0.0));
        let n_eval = wanted.min(n.saturating_sub(1));
        let (train, eval) = order.split_at(n - n_eval);
        let (mut train, mut eval) = (train.to_vec(), eval.to_vec());
        train.sort_unstable();
        eval.sort_unstable();
        Self { train, eval }
    }
}
