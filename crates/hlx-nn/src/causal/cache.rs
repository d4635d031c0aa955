//! The keys and values of sequences that are being generated.

use hlx_autograd::{DType, Tensor};
use hlx_core::Context;

use super::pass::shape_of;
use crate::Result;
use crate::error::NnError;

/// The keys and values of some sequences, in the memory that all their tokens will need. Made by
/// [`CausalModel::cache`](crate::CausalModel::cache).
#[derive(Debug)]
pub struct KvCache {
    /// Keys and values of each layer, \[B, capacity, key heads, D\].
    layers: Vec<[Tensor; 2]>,
    /// The tokens of each sequence.
    lengths: Vec<usize>,
    capacity: usize,
}

impl KvCache {
    /// Allocates the memory: `heads` and `width` are those of the keys.
    pub(crate) fn new(
        ctx: &Context,
        n_layers: usize,
        [batch, capacity]: [usize; 2],
        [heads, width]: [usize; 2],
    ) -> Result<Self> {
        let zeros = || Tensor::zeros(ctx, &[batch, capacity, heads, width], DType::F32);
        let layers = (0..n_layers).map(|_| Ok([zeros()?, zeros()?]));
        Ok(Self {
            layers: layers.collect::<Result<_>>()?,
            lengths: vec![0; batch],
            capacity,
        })
    }

    /// The tokens that each sequence has.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The tokens that a sequence can have.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keeps the sequences of these numbers, in this order, and drops the others.
    ///
    /// # Errors
    /// [`NnError::Cache`] for a number that there is not.
    pub fn keep(&mut self, sequences: &[usize]) -> Result<()> {
        let batch = self.lengths.len();
        if let Some(sequence) = sequences.iter().find(|&&sequence| sequence >= batch) {
            return Err(refused(format!(
                "sequence {sequence} is kept, and there are {batch}"
            )));
        }
        let Some([keys, _]) = self.layers.first() else {
            return Ok(());
        };
        let ids: Vec<u32> = sequences.iter().map(|&sequence| sequence as u32).collect();
        let ids = Tensor::ids(keys.context(), &ids, &[ids.len()])?;
        for layer in &mut self.layers {
            for tensor in layer {
                *tensor = tensor.index_select(0, &ids)?;
            }
        }
        self.lengths = sequences
            .iter()
            .map(|&sequence| self.lengths[sequence])
            .collect();
        Ok(())
    }

    /// Forgets the tokens of each sequence from a number on, such as drafts that were not accepted.
    ///
    /// # Errors
    /// [`NnError::Cache`] for more tokens than a sequence has, or another number of sequences.
    pub fn truncate(&mut self, lengths: &[usize]) -> Result<()> {
        let fits = lengths
            .iter()
            .zip(&self.lengths)
            .all(|(new, old)| new <= old);
        if lengths.len() != self.lengths.len() || !fits {
            let held = &self.lengths;
            return Err(refused(format!(
                "lengths {lengths:?}, and the sequences have {held:?}"
            )));
        }
        self.lengths = lengths.to_vec();
        Ok(())
    }

    /// Starts a pass that appends `new[b]` of the tokens of row b of the ids \[B, T\].
    pub(crate) fn step(
        &mut self,
        ids: &Tensor,
        new: &[usize],
        max_positions: usize,
    ) -> Result<CacheStep<'_>> {
        let limit = self.capacity.min(max_positions);
        let (batch, time) = shape_of(ids, limit)?;
        let rows = self.lengths.len();
        if batch != rows || new.len() != rows {
            let found = format!("{batch} rows of ids and {} counts", new.len());
            return Err(refused(format!(
                "{found}, expected {rows} of the sequences"
            )));
        }
        for (sequence, (held, new)) in self.lengths.iter().zip(new).enumerate() {
            if *new == 0 || *new > time {
                let reason = format!("sequence {sequence} takes {new} of {time} tokens");
                return Err(refused(reason));
            }
            if held + new > limit {
                let total = held + new;
                let reason =
                    format!("sequence {sequence} gets {total} tokens, room is for {limit}");
                return Err(refused(reason));
            }
        }
        let first = self.lengths.clone();
        for (held, new) in self.lengths.iter_mut().zip(new) {
            *held += new;
        }
        let ctx = ids.context();
        let words = |numbers: &[usize]| {
            let words: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
            Tensor::ids(ctx, &words, &[rows])
        };
        let positions = first
            .iter()
            .flat_map(|&first| (first..first + time).map(|at| at as u32));
        let positions: Vec<u32> = positions.collect();
        Ok(CacheStep {
            positions: Tensor::ids(ctx, &positions, &[rows, time])?,
            lengths: words(&self.lengths)?,
            first_positions: words(&first)?,
            first,
            new: new.to_vec(),
            layers: &mut self.layers,
        })
    }
}

/// One pass that appends to a cache.
pub(crate) struct CacheStep<'a> {
    /// The position of each token, padding included, ids \[B, T\].
    pub positions: Tensor,
    /// The tokens of each sequence, the new ones included, ids \[B\].
    pub lengths: Tensor,
    /// The position of each row's first token, ids \[B\].
    pub first_positions: Tensor,
    first: Vec<usize>,
    new: Vec<usize>,
    layers: &'a mut [[Tensor; 2]],
}

impl CacheStep<'_> {
    /// Writes the keys and values of the new tokens behind those of a layer, and returns all of them up
    /// to the longest sequence's end.
    pub fn append(&mut self, layer_idx: usize, new: [Tensor; 2]) -> Result<[Tensor; 2]> {
        let end = self
            .first
            .iter()
            .zip(&self.new)
            .map(|(first, new)| first + new)
            .max();
        let end = end.unwrap_or(0);
        let all_alike = |numbers: &[usize]| numbers.windows(2).all(|pair| pair[0] == pair[1]);
        let alike = all_alike(&self.first) && all_alike(&self.new);
        for (cache, new) in self.layers[layer_idx].iter().zip(&new) {
            if alike && !self.new.is_empty() {
                let place = cache.narrow(1, self.first[0], self.new[0])?;
                write(place, &new.narrow(1, 0, self.new[0])?)?;
                continue;
            }
            for (row, (&first, &count)) in self.first.iter().zip(&self.new).enumerate() {
                let place = cache.select(0, row)?.narrow(0, first, count)?;
                write(place, &new.select(0, row)?.narrow(0, 0, count)?)?;
            }
        }
        let [keys, values] = &self.layers[layer_idx];
        Ok([keys.narrow(1, 0, end)?, values.narrow(1, 0, end)?])
    }
}

fn write(mut place: Tensor, values: &Tensor) -> Result<()> {
    place.copy_(&values.detach())?;
    Ok(())
}

fn refused(reason: String) -> NnError {
    NnError::Cache { reason }
}
