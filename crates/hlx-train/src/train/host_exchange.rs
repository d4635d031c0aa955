//! The exchange of gradients and values between ranks through the memory of the host.
//!
//! Sums go by recursive halving, neighbours first, which is the upper part of the tree over the shards:
//! at each level a rank sends the half of its words that the other rank of the pair goes on with, and
//! adds what it receives, on its device, to the half that it goes on with itself. Values go back by
//! recursive doubling.

use std::ops::Range;

use hlx_core::{Buffer, Context};
use hlx_kernels::elementwise::add_assign;
use hlx_nn::{Exchange, NnError, ParameterSet, Parts, Result, Weights};
use hlx_ranks::{Group, RankError};

/// Words that travel at a time: what a rank adds is uploaded in pieces of 4 MiB.
const PIECE: usize = 1 << 20;

/// An exchange over the ranks of a group, each with its part of the flat buffers.
pub(crate) struct HostExchange {
    group: Group,
    parts: Parts,
}

impl HostExchange {
    /// Cuts the flat buffers of a weights among the ranks of a group, a power of two of them.
    ///
    /// # Errors
    /// As [`Parts::new`].
    pub fn new(group: &Group, weights: &Weights, undivided: &ParameterSet) -> Result<Self> {
        Ok(Self {
            parts: Parts::new(weights, group.n_ranks(), undivided)?,
            group: group.clone(),
        })
    }

    /// How the buffers are cut.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The part of a rank.
    pub fn part_of(&self, rank: usize) -> usize {
        Parts::of_rank(rank, self.group.n_ranks())
    }

    /// The number of this rank's bits.
    fn levels(&self) -> u32 {
        self.group.n_ranks().ilog2()
    }

    /// Sends words and receives others.
    fn swap(&self, peer: usize, out: &[u32], into: &mut [u32]) -> Result<()> {
        let (out, into) = (bytemuck::cast_slice(out), bytemuck::cast_slice_mut(into));
        self.group.swap(peer, out, into).map_err(lost)
    }

    /// Sends the words of some ranges to a rank, which adds them to its own, and adds its words to the
    /// others.
    fn swap_and_add(
        &self,
        (ctx, flat): (&Context, &Buffer),
        peer: usize,
        (given, kept): (&[Range<usize>], &[Range<usize>]),
    ) -> Result<()> {
        let (given, kept) = (pieces(given), pieces(kept));
        for at in 0..given.len().max(kept.len()) {
            let out = match given.get(at) {
                Some(piece) => ctx.download_u32(&window(flat, piece)?)?,
                None => Vec::new(),
            };
            let mut into = vec![0; kept.get(at).map_or(0, Range::len)];
            self.swap(peer, &out, &mut into)?;
            if let Some(piece) = kept.get(at) {
                let theirs = ctx.alloc(into.len())?;
                ctx.upload_u32(&theirs, &into)?;
                add_assign(ctx, &window(flat, piece)?, &theirs)?;
            }
        }
        Ok(())
    }

    /// Brings the gradients of undivided matrices to their owners, from the ranks that have summed what
    /// lies behind the owner's rows.
    fn move_undivided(&self, ctx: &Context, flat: &Buffer) -> Result<()> {
        let (n, mine) = (self.parts.len(), self.part_of(self.group.rank()));
        let pairs = (0..n).flat_map(|to| (0..n).map(move |from| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            for piece in pieces(&[self.parts.moved(from, to)]) {
                // Reading the bits backwards twice gives the rank of a part.
                if mine == from {
                    let words = ctx.download_u32(&window(flat, &piece)?)?;
                    self.swap(self.part_of(to), &words, &mut [])?;
                } else if mine == to {
                    let mut words = vec![0; piece.len()];
                    self.swap(self.part_of(from), &[], &mut words)?;
                    ctx.upload_u32(&window(flat, &piece)?, &words)?;
                }
            }
        }
        Ok(())
    }
}

impl Exchange for HostExchange {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn n_ranks(&self) -> usize {
        self.group.n_ranks()
    }

    fn reduce(&self, weights: &Weights) -> Result<()> {
        let (ctx, flat) = (weights.context(), weights.all_gradients()?);
        let mut held = 0..self.parts.len();
        for level in 0..self.levels() {
            let bit = 1 << level;
            let middle = held.start + held.len() / 2;
            let halves = [held.start..middle, middle..held.end];
            let [low, high] = halves.clone().map(|half| self.parts.gradients(half));
            let peer = self.rank() ^ bit;
            let is_low = self.rank() & bit == 0;
            let (given, kept) = if is_low { (&high, &low) } else { (&low, &high) };
            self.swap_and_add((ctx, flat), peer, (given, kept))?;
            let [low, high] = halves;
            held = if is_low { low } else { high };
        }
        weights.add_uses()?;
        self.move_undivided(ctx, flat)
    }

    fn gather(&self, weights: &Weights, flat: &Buffer) -> Result<()> {
        let ctx = weights.context();
        let part = self.part_of(self.rank());
        let words = |parts: &Range<usize>| {
            self.parts.updates(parts.start).start..self.parts.updates(parts.end - 1).end
        };
        let mut all = vec![0; flat.len()];
        let own = words(&(part..part + 1));
        if !own.is_empty() {
            all[own.clone()].copy_from_slice(&ctx.download_u32(&window(flat, &own)?)?);
        }
        let mut held = part..part + 1;
        for level in (0..self.levels()).rev() {
            let n = held.len();
            let start = held.start ^ n;
            let theirs = start..start + n;
            let (out, into) = two(&mut all, words(&held), words(&theirs));
            self.swap(self.rank() ^ (1 << level), out, into)?;
            held = held.start.min(start)..held.end.max(start + n);
        }
        for others in [0..own.start, own.end..all.len()] {
            if !others.is_empty() {
                ctx.upload_u32(&window(flat, &others)?, &all[others])?;
            }
        }
        Ok(())
    }

    fn gather_words(&self, words: &[u32]) -> Result<Vec<Vec<u32>>> {
        let all = self
            .group
            .gather(bytemuck::cast_slice(words))
            .map_err(lost)?;
        // The bytes of a message lie at any address.
        let words = |bytes: &Vec<u8>| {
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|&word| u32::from_ne_bytes(word)).collect()
        };
        Ok(all.iter().map(words).collect())
    }
}

/// Two ranges of a slice, the second to be written.
fn two(all: &mut [u32], read: Range<usize>, written: Range<usize>) -> (&[u32], &mut [u32]) {
    if read.start < written.start || read.is_empty() {
        let (low, high) = all.split_at_mut(written.start);
        let read = if read.is_empty() { 0..0 } else { read };
        (&low[read], &mut high[..written.len()])
    } else {
        let (low, high) = all.split_at_mut(read.start);
        let written = if written.is_empty() { 0..0 } else { written };
        (&high[..read.len()], &mut low[written])
    }
}

fn window(flat: &Buffer, range: &Range<usize>) -> Result<Buffer> {
    Ok(flat.slice(range.start, range.len())?)
}

/// Ranges cut into pieces of at most [`PIECE`] words.
fn pieces(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let cut = |range: &Range<usize>| {
        let (start, end) = (range.start, range.end);
        (start..end)
            .step_by(PIECE)
            .map(move |at| at..(at + PIECE).min(end))
    };
    ranges.iter().flat_map(cut).collect()
}

fn lost(error: RankError) -> NnError {
    let reason = error.to_string();
    NnError::Exchange { reason }
}
