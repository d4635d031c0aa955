//! The exchange of gradients and values between ranks.
//!
//! Sums go by recursive halving, neighbours first, which is the upper part of the tree over the shards:
//! at each level a rank sends the half of its words that the other rank of the pair continues with, and
//! adds what it receives, on its device, to the half that it continues with itself. Values go back by
//! recursive doubling. Gradients go in buckets, each as soon as the backward pass has left its words.

mod buckets;
#[cfg(target_os = "linux")]
mod device;
mod host;
mod link;
#[cfg(target_os = "linux")]
mod nccl;
#[cfg(target_os = "linux")]
mod peers;
mod times;
mod worker;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hlx_core::{Buffer, Device, align_words};
use hlx_kernels::elementwise::{add_assign, copy_strided};
use hlx_kernels::{Layout, Operand};
use hlx_nn::{Exchange, NnError, Parts, Result, Undivided, Weights};
use hlx_ranks::{Group, RankError};

use self::buckets::{Buckets, Swap, pieces};
use self::host::HostLink;
use self::link::{Cut, Link};
#[cfg(target_os = "linux")]
use self::nccl::NcclCarrier;
#[cfg(target_os = "linux")]
use self::peers::PeerCarrier;
pub use self::times::{ExchangeTimes, Span, Traffic};
use crate::ranks::Medium;

/// An exchange over the ranks of a group, each with its part of the flat buffers.
pub(crate) struct TreeExchange {
    group: Group,
    parts: Parts,
    cut: Cut,
    buckets: Buckets,
    /// For each bucket: level by level.
    swaps: Vec<Vec<Swap>>,
    state: Mutex<State>,
}

struct State {
    link: Box<dyn Link>,
    /// Buckets of this step whose exchange has begun.
    begun: usize,
    /// For each swap since the times were taken: whether it carries gradients.
    kinds: Vec<bool>,
}

impl State {
    fn begin(
        &mut self,
        gradients: bool,
        peer: usize,
        n_into: usize,
        out: Option<&Buffer>,
    ) -> Result<()> {
        self.kinds.push(gradients);
        self.link.begin(peer, out, n_into)
    }
}

impl TreeExchange {
    /// Cuts the flat buffers of a weights among the ranks of a group, a power of two of them, and connects
    /// them by a medium that all have found.
    ///
    /// # Errors
    /// As [`Parts::new`], and what the device and the medium report.
    pub fn new(
        group: &Group,
        medium: Medium,
        weights: &Weights,
        undivided: &Undivided,
    ) -> Result<Self> {
        let (device, n_ranks) = (weights.device(), group.n_ranks());
        let parts = Parts::new(weights, n_ranks, undivided)?;
        let cut = cut_for(&medium);
        let buckets = Buckets::new(weights, &parts, cut);
        let swaps = buckets.swaps(&parts, group.rank());
        // A swap begins before the oldest of each level ends.
        let n_slots = cut.lag * n_ranks.ilog2() as usize + 1;
        // The same on all ranks, as both sides of a swap cut what they send by it.
        let half = align_words(weights.values().len().div_ceil(2));
        let capacity = buckets.longest().max(cut.capacity.min(half));
        let link = connect(device, group, medium, n_slots, capacity)?;
        Ok(Self {
            group: group.clone(),
            cut: Cut { capacity, ..cut },
            parts,
            buckets,
            swaps,
            state: Mutex::new(State {
                link,
                begun: 0,
                kinds: Vec::new(),
            }),
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

    /// What carries the words, for people.
    pub fn carrier(&self) -> String {
        self.state().link.name()
    }

    /// The windows of all gradients that [`TreeExchange::bucket_is_final`] is to be told of, in order.
    pub fn windows(&self, weights: &Weights) -> Result<Vec<Buffer>> {
        self.buckets.windows(weights.all_gradients()?)
    }

    /// The words of a window among all gradients.
    pub fn window(&self, bucket: usize) -> Range<usize> {
        self.buckets.range(bucket)
    }

    /// Begins the exchange of a bucket whose words all launches of this rank's passes have written; those
    /// before it have begun.
    ///
    /// # Errors
    /// As [`Exchange::reduce`].
    pub fn bucket_is_final(&self, weights: &Weights) -> Result<()> {
        let mut state = self.state();
        let tick = state.begun;
        state.begun += 1;
        self.tick(&mut state, weights, tick)
    }

    /// When the swaps of this step's gradients ran, and those of values since the last call; the device must
    /// have done them.
    ///
    /// # Errors
    /// As [`Exchange::reduce`].
    pub fn take_times(&self) -> Result<ExchangeTimes> {
        let mut state = self.state();
        let (spans, passes_end_ms) = state.link.take_spans()?;
        let kinds = std::mem::take(&mut state.kinds);
        let of_kind = |wanted: bool| -> Vec<Span> {
            let spans = spans.iter().zip(&kinds);
            spans
                .filter(|(_, kind)| **kind == wanted)
                .map(|(span, _)| *span)
                .collect()
        };
        Ok(ExchangeTimes::of_step(
            of_kind(true),
            &of_kind(false),
            passes_end_ms,
        ))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels of the tree over ranks.
    fn levels(&self) -> usize {
        self.group.n_ranks().ilog2() as usize
    }

    /// Begins and ends the swaps of one tick: level l of bucket b begins at tick b + l * lag and ends lag
    /// ticks later, on every rank, the newest bucket first: nothing that it waits for is after another swap.
    fn tick(&self, state: &mut State, weights: &Weights, tick: usize) -> Result<()> {
        for level in 0..=self.levels() {
            let bucket = tick.checked_sub(level * self.cut.lag);
            let Some(swaps) = bucket.and_then(|bucket| self.swaps.get(bucket)) else {
                continue;
            };
            if let Some(ended) = level.checked_sub(1) {
                end_and_add(state, weights, &swaps[ended])?;
            }
            if let Some(swap) = swaps.get(level) {
                begin(state, weights, swap)?;
            }
            if level == 0 && tick + 1 == self.swaps.len() {
                state.link.passes_end()?;
            }
        }
        Ok(())
    }

    /// Brings the gradients of undivided matrices to their owners, from the ranks that have summed what
    /// lies after the owner's rows.
    fn move_undivided(&self, state: &mut State, device: &Device, flat: &Buffer) -> Result<()> {
        let (n, mine) = (self.parts.len(), self.part_of(self.group.rank()));
        let pairs = (0..n).flat_map(|to| (0..n).map(move |from| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            for piece in pieces(&self.parts.moved(from, to), self.cut) {
                // Reading the bits backwards twice gives the rank of a part.
                let words = window(flat, &piece)?;
                if mine == from {
                    state.begin(true, self.part_of(to), 0, Some(&words))?;
                    state.link.end()?;
                } else if mine == to {
                    state.begin(true, self.part_of(from), words.len(), None)?;
                    copy(device, &state.link.end()?, &words)?;
                }
            }
        }
        Ok(())
    }

    /// Swaps the words of some ranges of a buffer for others', as many swaps at once as the link carries.
    fn swap_all(
        &self,
        device: &Device,
        flat: &Buffer,
        peer: usize,
        held: &Range<usize>,
        theirs: &Range<usize>,
    ) -> Result<()> {
        let (held, theirs) = (pieces(held, self.cut), pieces(theirs, self.cut));
        let mut state = self.state();
        let mut under_way = VecDeque::new();
        let end = |state: &mut State, piece: Option<Range<usize>>| -> Result<()> {
            let received = state.link.end()?;
            match piece {
                Some(piece) => copy(device, &received, &window(flat, &piece)?),
                None => Ok(()),
            }
        };
        for at in 0..held.len().max(theirs.len()) {
            let out = held.get(at).map(|piece| window(flat, piece)).transpose()?;
            let piece = theirs.get(at).cloned();
            let n = piece.as_ref().map_or(0, Range::len);
            state.begin(false, peer, n, out.as_ref())?;
            under_way.push_back(piece);
            if under_way.len() == self.cut.lag {
                end(&mut state, under_way.pop_front().flatten())?;
            }
        }
        for piece in under_way {
            end(&mut state, piece)?;
        }
        Ok(())
    }
}

/// How gradients are cut for a medium.
fn cut_for(medium: &Medium) -> Cut {
    match medium {
        #[cfg(target_os = "linux")]
        Medium::Peers(..) => peers::CUT,
        #[cfg(target_os = "linux")]
        Medium::Nccl(..) => nccl::CUT,
        Medium::Host => host::CUT,
    }
}

/// The link of this rank, with room for some swaps of some words.
fn connect(
    device: &Device,
    group: &Group,
    medium: Medium,
    n_slots: usize,
    slot_words: usize,
) -> Result<Box<dyn Link>> {
    Ok(match medium {
        #[cfg(target_os = "linux")]
        Medium::Peers(gpu, lines) => Box::new(PeerCarrier::link(
            device, group, gpu, lines, n_slots, slot_words,
        )?),
        #[cfg(target_os = "linux")]
        Medium::Nccl(gpu, library) => Box::new(NcclCarrier::link(
            device, group, gpu, library, n_slots, slot_words,
        )?),
        Medium::Host => Box::new(HostLink::new(device, group, n_slots, slot_words)?),
    })
}

fn begin(state: &mut State, weights: &Weights, swap: &Swap) -> Result<()> {
    let Swap {
        peer,
        given,
        continued,
    } = swap;
    if given.is_none() && continued.is_none() {
        return Ok(());
    }
    let flat = weights.all_gradients()?;
    let out = given
        .as_ref()
        .map(|range| window(flat, range))
        .transpose()?;
    let n_into = continued.as_ref().map_or(0, Range::len);
    state.begin(true, *peer, n_into, out.as_ref())
}

fn end_and_add(state: &mut State, weights: &Weights, swap: &Swap) -> Result<()> {
    let Swap {
        given, continued, ..
    } = swap;
    if given.is_none() && continued.is_none() {
        return Ok(());
    }
    let theirs = state.link.end()?;
    match continued {
        Some(continued) => {
            let mine = window(weights.all_gradients()?, continued)?;
            Ok(add_assign(weights.device(), &mine, &theirs)?)
        }
        None => Ok(()),
    }
}

impl Exchange for TreeExchange {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn n_ranks(&self) -> usize {
        self.group.n_ranks()
    }

    fn reduce(&self, weights: &Weights) -> Result<()> {
        let mut state = self.state();
        let begun = std::mem::take(&mut state.begun);
        for tick in begun..self.buckets.len() + self.levels() * self.cut.lag {
            self.tick(&mut state, weights, tick)?;
        }
        weights.add_uses()?;
        self.move_undivided(&mut state, weights.device(), weights.all_gradients()?)
    }

    fn gather(&self, weights: &Weights, flat: &Buffer) -> Result<()> {
        let device = weights.device();
        let part = self.part_of(self.rank());
        let words = |parts: &Range<usize>| {
            self.parts.updates(parts.start).start..self.parts.updates(parts.end - 1).end
        };
        let mut held = part..part + 1;
        for level in (0..self.levels()).rev() {
            let n = held.len();
            let start = held.start ^ n;
            let theirs = start..start + n;
            let peer = self.rank() ^ (1 << level);
            self.swap_all(device, flat, peer, &words(&held), &words(&theirs))?;
            held = held.start.min(start)..held.end.max(start + n);
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

/// Copies words by a kernel, which is faster than the queue's own copy of a long buffer.
fn copy(device: &Device, from: &Buffer, to: &Buffer) -> Result<()> {
    let layout = Layout::contiguous(&[from.len()])?;
    let from = Operand {
        buffer: from,
        layout: &layout,
    };
    Ok(copy_strided(device, from, to)?)
}

fn window(flat: &Buffer, range: &Range<usize>) -> Result<Buffer> {
    Ok(flat.slice(range.start, range.len())?)
}

/// An error of this process, not of another rank.
fn broken(reason: &str) -> NnError {
    let reason = reason.to_owned();
    NnError::Exchange { reason }
}

fn lost(error: RankError) -> NnError {
    let reason = error.to_string();
    NnError::Exchange { reason }
}
