//! The parts of a model's flat buffers that several processes (ranks) sum and update.

use std::ops::Range;
use std::sync::atomic::Ordering;

use hlx_core::Buffer;
use hlx_kernels::reduce::FLAT_ROW;

use super::{ParameterSet, Weights};
use crate::Result;
use crate::error::NnError;

/// How the flat buffers are cut among ranks: one part a rank, in the order of the words.
///
/// Sums of gradients are cut at multiples of 4,096 words, the rows of the gradient's norm, so that each
/// row is one rank's. Updates are cut at the same places, moved behind the end of a matrix or a block that must have
/// one owner (Muon's, moments in 8 bits): the rank in whose part it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Where the parts of the sums begin, and the end of the last.
    sums: Vec<usize>,
    /// The same of the updates.
    updates: Vec<usize>,
    /// Of each other use of a parameter: the parameter's words, and where the use's gradients begin.
    uses: Vec<(Range<usize>, usize)>,
}

/// What no cut between two ranks' updates may divide.
#[derive(Clone, Debug, Default)]
pub struct Undivided {
    /// Parameters that have one owner each.
    pub parameters: ParameterSet,
    /// Elements of the blocks of all others, counted from a parameter's first: a multiple of 64, or 0.
    pub block: usize,
}

/// What a rank updates.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its words of the flat buffers.
    pub words: Range<usize>,
    /// The squares' sums of all rows of 4,096 gradients, which the norm is computed of.
    pub norm_rows: Buffer,
}

impl Parts {
    /// Cuts the buffers of a weights into `n_parts`; nothing that is `undivided` has two owners.
    ///
    /// # Errors
    /// As [`Weights::add_uses`](crate::GradientTree::finish): a use of a parameter of another model.
    pub fn new(weights: &Weights, n_parts: usize, undivided: &Undivided) -> Result<Self> {
        let n_words = weights.n_words();
        let rows = n_words.div_ceil(FLAT_ROW);
        let cut = |part: usize| (part * rows / n_parts * FLAT_ROW).min(n_words);
        let mut sums: Vec<usize> = (0..n_parts).map(cut).collect();
        sums.push(n_words);
        let n_parameters = weights.parameters().len();
        let ranges: Vec<_> = (0..n_parameters)
            .map(|index| weights.range(index))
            .collect();
        let moved = |&at: &usize| {
            let cuts = |index: &usize| ranges[*index].start < at && at < ranges[*index].end;
            let Some(index) = (0..n_parameters).find(cuts) else {
                return at;
            };
            let Range { start, end } = ranges[index];
            match undivided.parameters.contains(index) {
                true => end,
                false => end.min(start + (at - start).next_multiple_of(undivided.block.max(1))),
            }
        };
        Ok(Self {
            updates: sums.iter().map(moved).collect(),
            sums,
            uses: weights.use_places()?,
        })
    }

    /// The number of parts.
    pub fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The words whose gradients the owner of a part sums.
    pub fn sums(&self, part: usize) -> Range<usize> {
        self.sums[part]..self.sums[part + 1]
    }

    /// The words that the owner of a part updates.
    pub fn updates(&self, part: usize) -> Range<usize> {
        self.updates[part]..self.updates[part + 1]
    }

    /// The rows of the norm that lie in a part's sums.
    pub fn rows(&self, part: usize) -> Range<usize> {
        let Range { start, end } = self.sums(part);
        start.div_ceil(FLAT_ROW)..end.div_ceil(FLAT_ROW)
    }

    /// Where the gradients of the parts from `parts.start` to `parts.end` lie among all gradients, those
    /// of other uses of their parameters included.
    pub fn gradients(&self, parts: Range<usize>) -> Vec<Range<usize>> {
        let own = self.sums[parts.start]..self.sums[parts.end];
        let in_use = |(parameter, at): &(Range<usize>, usize)| {
            let start = own.start.max(parameter.start);
            let end = own.end.min(parameter.end);
            let place = |word: usize| at + word - parameter.start;
            (start < end).then(|| place(start)..place(end))
        };
        let uses = self.uses.iter().filter_map(in_use);
        let ranges = std::iter::once(own.clone()).chain(uses);
        ranges.filter(|range| !range.is_empty()).collect()
    }

    /// The words of part `to`'s update that part `from` sums: those that move with an undivided matrix.
    pub fn moved(&self, from: usize, to: usize) -> Range<usize> {
        let (sums, updates) = (self.sums(from), self.updates(to));
        let start = sums.start.max(updates.start);
        start..sums.end.min(updates.end).max(start)
    }

    /// The part of a rank: recursive halving pairs neighbours first, so the bits of its number are read
    /// from the lowest. `n_ranks` is a power of two.
    pub fn of_rank(rank: usize, n_ranks: usize) -> usize {
        let bits = n_ranks.ilog2();
        (0..bits).fold(0, |part, bit| part << 1 | (rank >> bit & 1))
    }
}

impl Weights {
    /// States which part of the flat buffers this process updates, before an optimizer is made: its
    /// state and its steps are of this part alone.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] if it was stated before.
    pub fn set_part(&self, part: Part) -> Result<()> {
        let set = self.part.set(part);
        set.map_err(|_| NnError::mismatch("parameters", "their part was stated before"))
    }

    /// The part that this process updates, where others update the rest.
    pub fn part(&self) -> Option<&Part> {
        self.part.get()
    }

    /// Whether this process updates all parameters.
    pub fn updates_all(&self) -> bool {
        self.part.get().is_none()
    }

    /// The words that this process updates.
    pub fn updated(&self) -> Range<usize> {
        match self.part.get() {
            Some(part) => part.words.clone(),
            None => 0..self.n_words(),
        }
    }

    /// The window of a flat buffer that this process updates.
    ///
    /// # Errors
    /// A buffer of another layout.
    pub fn updated_of(&self, flat: &Buffer) -> Result<Buffer> {
        let Range { start, end } = self.updated();
        Ok(flat.slice(start, end - start)?)
    }

    /// Makes a buffer of zeros for the words that this process updates, such as an optimizer's moments.
    ///
    /// # Errors
    /// What the device reports.
    pub fn state_zeros(&self) -> Result<Buffer> {
        self.zeros(self.updated().len())
    }

    /// Makes a buffer of this many zeros, where optimizers' state lies.
    pub(crate) fn zeros(&self, n_words: usize) -> Result<Buffer> {
        if !self.offloads_state() {
            return Ok(super::gradients::zeros(self.device(), n_words)?);
        }
        let buffer = self.device().alloc_in_host(n_words)?;
        self.device().fill(&buffer, 0)?;
        Ok(buffer)
    }

    /// Has optimizers that are made from here on hold their state in the host's memory
    /// ([`Device::alloc_in_host`](hlx_core::Device::alloc_in_host)): it takes no memory of the device, and a step reads and writes it
    /// over the bus. No bit depends on it.
    pub fn offload_state(&self) {
        self.offloads.store(true, Ordering::Relaxed);
    }

    /// Whether optimizers hold their state in the host's memory.
    pub fn offloads_state(&self) -> bool {
        self.offloads.load(Ordering::Relaxed)
    }

    /// Uploads the values of the words that this process updates into such a buffer: of one vector a
    /// parameter, in the order of declaration, what lies in them.
    ///
    /// # Errors
    /// As [`Weights::upload`].
    pub fn upload_updated<V: AsRef<[f32]>>(&self, state: &Buffer, values: &[V]) -> Result<()> {
        self.check_lengths(values)?;
        let updated = self.updated();
        for (span, values) in self.spans("").iter().zip(values) {
            let values = values.as_ref();
            let end = (span.offset + values.len()).min(updated.end);
            let start = span.offset.max(updated.start);
            if start < end {
                let window = state.slice(start - updated.start, end - start)?;
                let values = &values[start - span.offset..end - span.offset];
                self.device().upload(&window, values)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Init, ParameterBuilder};

    #[test]
    fn halving_leaves_each_part_to_one_rank() {
        for n_ranks in [1, 2, 4, 8, 16] {
            let mut parts: Vec<usize> = (0..n_ranks)
                .map(|rank| Parts::of_rank(rank, n_ranks))
                .collect();
            parts.sort_unstable();
            assert!(parts.into_iter().eq(0..n_ranks));
        }
        let four = [0, 1, 2, 3].map(|rank| Parts::of_rank(rank, 4));
        assert_eq!(four, [0, 2, 1, 3]);
    }

    /// Every word has one owner, sums are cut at rows, and matrices that must be whole are.
    #[test]
    fn parts_cover_all_words_once() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        let table = builder.parameter("table", &[100, 90], Init::Zeros);
        builder.parameter("bias", &[4000], Init::Zeros);
        builder.parameter("matrix", &[70, 130], Init::Zeros);
        builder.another_use(&table);
        let weights = builder.build(&device, 0)?;
        let matrices = weights.select(|parameter| parameter.shape().len() == 2);
        for n_parts in [1, 2, 4, 8, 16] {
            let whole = Undivided {
                parameters: matrices.clone(),
                block: 0,
            };
            let blocks = Undivided {
                block: 256,
                ..Undivided::default()
            };
            for undivided in [Undivided::default(), whole, blocks] {
                let parts = Parts::new(&weights, n_parts, &undivided)?;
                let (mut sums, mut updates, mut rows) = (0, 0, 0);
                let mut use_words = 0;
                for part in 0..n_parts {
                    assert_eq!(parts.sums(part).start, sums);
                    assert_eq!(parts.updates(part).start, updates);
                    assert_eq!(parts.rows(part).start, rows);
                    assert!(sums.is_multiple_of(FLAT_ROW) || sums == weights.n_words());
                    sums = parts.sums(part).end;
                    updates = parts.updates(part).end;
                    rows = parts.rows(part).end;
                    for range in parts.gradients(part..part + 1).iter().skip(1) {
                        assert!(range.start >= weights.n_words());
                        use_words += range.len();
                    }
                    let within = |range: &Range<usize>| {
                        let updated = parts.updates(part);
                        range.start >= updated.start && range.end <= updated.end
                            || range.end <= updated.start
                            || range.start >= updated.end
                    };
                    let owned = undivided.parameters.indices().iter();
                    let mut whole = owned.map(|&index| weights.range(index));
                    assert!(whole.all(|range| within(&range)), "{part}");
                    let cut = parts.updates(part).start;
                    let ranges = (0..3).map(|index| weights.range(index));
                    let mut cut_ranges =
                        ranges.filter(|range| range.start < cut && cut < range.end);
                    let block = undivided.block.max(64);
                    assert!(cut_ranges.all(|range| (cut - range.start).is_multiple_of(block)));
                    let moved = (0..n_parts).map(|from| parts.moved(from, part).len());
                    assert_eq!(moved.sum::<usize>(), parts.updates(part).len());
                }
                assert_eq!((sums, updates), (weights.n_words(), weights.n_words()));
                assert_eq!(rows, weights.n_words().div_ceil(FLAT_ROW));
                assert_eq!(use_words, 9000);
            }
        }
        Ok(())
    }
}
