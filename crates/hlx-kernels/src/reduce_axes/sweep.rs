//! One sweep of a reduction over any axes: how it is cut for a device, what it does with its terms, and what it stores.

use hlx_core::{DType, Device};

use super::words;
use crate::division::division;
use crate::element::{self, NAN_KEY};
use crate::join::Join;
use crate::kernel::PushConstants;
use crate::lanes::LANES;
use crate::terms::{PIECE, Terms};
use crate::tuning::KernelTuning;

/// Threads of a workgroup.
const GROUP: usize = 256;

impl Terms {
    /// The push constants of both shaders.
    pub(super) fn push(&self) -> PushConstants {
        let (mut extents, mut strides) = ([1; 8], [0; 8]);
        let dims = [&self.remaining, &self.reduced].into_iter();
        let all = dims.flat_map(|dims| dims.shape.iter().zip(&dims.strides[0]));
        for (place, (&extent, &stride)) in all.enumerate() {
            (extents[place], strides[place]) = (extent as u32, stride as u32);
        }
        let n_remaining = self.remaining.shape.len();
        let (magic, shift) = division(self.reduced.innermost().0 as u32);
        push!(words =>
            items: self.items(), kept: self.n_results, pieces: self.pieces(), terms: self.n,
            first: self.first, origin: self.origin, n_kept: n_remaining,
            // One at least that is reduced: the shaders multiply its stride by 0 where none is.
            n_dims: (n_remaining + self.reduced.shape.len().max(1)).min(8),
            magic, shift, extents, strides
        )
    }

    /// How this device cuts the sweep.
    pub(super) fn cut(&self, device: &Device) -> Cut {
        let processors = device.tuning().processors;
        let loads = KernelTuning::of(device).reduction_loads;
        let lanes = self.n.max(1).next_power_of_two().min(128);
        let mut threads = (lanes / if self.along { 4 } else { loads }).max(1);
        if self.along && lanes == 128 && self.items() < 16 * processors {
            threads = 128; // Few pieces: a workgroup has two instead of eight.
        }
        // Runs of 32 columns for outer axes, or as many as there are; a memory sector has 8.
        let few = |columns: usize| columns > 8 && self.items().div_ceil(columns) < 2 * processors;
        let wide = |columns: usize| columns > self.n_results.next_power_of_two();
        while !self.along && 2 * threads <= lanes && (wide(GROUP / threads) || few(GROUP / threads))
        {
            threads *= 2;
        }
        let blocks = self.n.clamp(1, PIECE).div_ceil(lanes).next_power_of_two();
        Cut {
            lanes,
            threads,
            columns: GROUP / threads,
            ahead: (loads * threads / lanes).min(blocks),
        }
    }
}

/// How a sweep is cut into workgroups; the constants of `pieces.glsl`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Lanes that have a term.
    lanes: usize,
    /// Threads of an item.
    threads: usize,
    /// Items of a workgroup.
    columns: usize,
    /// Blocks of all lanes that a thread loads at once.
    ahead: usize,
}

impl Cut {
    /// The constants 0 to 7.
    pub fn specialization(self, terms: &Terms, dtype: u32) -> [(u32, u32); 8] {
        constants!(0: GROUP as u32, self.lanes, self.threads, self.columns, self.ahead,
            terms.along, terms.reduced.shape.len() > 1, dtype)
    }

    pub fn groups(self, items: usize) -> [u32; 3] {
        hlx_core::groups_1d(items.div_ceil(self.columns))
    }
}

/// What is joined of a term; the number is the constant of `words.comp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Word = 0,
    Square = 1,
    Key = 2,
    /// 1 if it is not zero.
    NotZero = 3,
    /// 1 if it is zero.
    Zero = 4,
}

/// What a reduction's result is of the value that all terms are joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Value = 0,
    /// The word of a key.
    OfKey = 1,
    /// 1 for 0, and 0 for 1.
    Not = 2,
}

/// A sweep over words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub join: Join,
    pub term: Term,
    /// Of the words that the sweep loads.
    pub dtype: DType,
    /// All bits for a minimum.
    pub flip: u32,
    pub outcome: Outcome,
    /// The sweep makes results, not totals.
    pub done: bool,
}

impl Fold {
    /// The sweep behind this one.
    pub fn of_totals(self) -> Self {
        Self {
            term: Term::Word,
            dtype: element::compute_type(self.dtype),
            ..self
        }
    }

    /// Lanes whose order shows in the result.
    pub fn lanes(self) -> usize {
        match self.join {
            Join::AddFloat | Join::MulFloat => LANES,
            _ => 1,
        }
    }

    /// The constants 8 to 11 of `words.comp`.
    pub fn specialization(self) -> [(u32, u32); 4] {
        let result = if self.done { self.outcome as u32 } else { 0 };
        let (join, term) = (self.join as u32, self.term as u32);
        constants!(8: join, term, result, self.flip)
    }

    /// The bits that are flipped in a term's word to make it a key, where it is no float.
    pub fn mask(self) -> u32 {
        element::order_key(element::compute_type(self.dtype), 0) ^ self.flip
    }

    /// The bits that a zero has clear.
    pub fn magnitude(self) -> u32 {
        match self.dtype.is_float() {
            true => 0x7fff_ffff,
            false => u32::MAX,
        }
    }

    /// The value that is stored for a piece.
    pub fn stored(self, total: u32) -> u32 {
        let total = self.join.stored(total);
        match self.outcome {
            Outcome::OfKey if self.done => {
                let nan = self.dtype.is_float() && total == NAN_KEY;
                let key = if nan { total } else { total ^ self.flip };
                element::from_order_key(self.dtype, key)
            }
            Outcome::Not if self.done => total ^ 1,
            _ => total,
        }
    }
}
