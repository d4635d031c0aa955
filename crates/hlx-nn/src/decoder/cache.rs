//! The keys and values of sequences that are being generated.

use hlx_autograd::{DType, Tensor};
use hlx_core::{Buffer, Device};

use super::cache_step::{CacheStep, Group};
use super::input::shape_of;
use super::pool::{PagePool, refused};
use crate::Result;
use crate::error::NnError;

/// The keys and values of some sequences, in the memory that all their tokens will need. Made by
/// [`CausalModel::cache`](crate::CausalModel::cache).
#[derive(Debug)]
pub struct KvCache {
    /// Those of a sequence lie side by side, those of one sequence behind those of another.
    pool: PagePool,
    table: Buffer,
    /// The tokens of each sequence.
    lengths: Vec<usize>,
    capacity: usize,
}

/// A length of 0 for each sequence.
fn lengths_of(batch: usize) -> Result<Vec<usize>> {
    let mut lengths = Vec::new();
    let reserved = lengths.try_reserve_exact(batch);
    reserved.map_err(|_| NnError::Cache {
        reason: format!("there is no memory for {batch} sequences"),
    })?;
    lengths.resize(batch, 0);
    Ok(lengths)
}

/// The pages of sequences with room for `capacity` tokens each.
fn all_pages(batch: usize, capacity: usize) -> Result<usize> {
    let pages = batch.checked_mul(PagePool::pages_of(capacity));
    pages.ok_or_else(|| {
        refused(format!(
            "{batch} sequences of {capacity} tokens have more than all memory"
        ))
    })
}

/// The numbers of all pages of a pool.
fn in_order(pool: &PagePool) -> Result<Buffer> {
    let device = &pool.device;
    let numbers = Tensor::arange(device, 0, pool.n_pages() as u32, 1)?;
    Ok(numbers.to_dtype(DType::U32)?.buffer()?)
}

impl KvCache {
    /// Allocates the memory: `pool` makes that many pages.
    pub(crate) fn new(
        [batch, capacity]: [usize; 2],
        pool: impl FnOnce(usize) -> Result<PagePool>,
    ) -> Result<Self> {
        let lengths = lengths_of(batch)?;
        let pool = pool(all_pages(batch, capacity)?)?;
        Ok(Self {
            table: in_order(&pool)?,
            pool,
            lengths,
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
    pub fn retain(&mut self, sequences: &[usize]) -> Result<()> {
        let batch = self.lengths.len();
        if let Some(sequence) = sequences.iter().find(|&&sequence| sequence >= batch) {
            return Err(refused(format!(
                "sequence {sequence} is to be retained, and there are {batch}"
            )));
        }
        let per_sequence = PagePool::pages_of(self.capacity);
        let pages = sequences
            .iter()
            .flat_map(|&sequence| sequence * per_sequence..(sequence + 1) * per_sequence);
        let pages: Vec<u32> = pages.map(|page| page as u32).collect();
        let pages = Tensor::from_slice::<u32>(&self.pool.device, &pages, &[pages.len()])?;
        self.pool = self.pool.select(&pages.buffer()?)?;
        self.table = in_order(&self.pool)?;
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

    /// Checks that `new[b]` of the `time` tokens of row b can be appended, counts them, and returns where the
    /// first of each sequence goes.
    pub(crate) fn advance(
        &mut self,
        batch: usize,
        time: usize,
        new: &[usize],
        max_positions: usize,
    ) -> Result<Vec<usize>> {
        let limit = self.capacity.min(max_positions);
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
        Ok(first)
    }

    /// Starts a pass that appends `new[b]` of the tokens of row b of the ids \[B, T\].
    pub(crate) fn step(
        &mut self,
        ids: &Tensor,
        new: &[usize],
        max_positions: usize,
    ) -> Result<CacheStep<'_>> {
        let (batch, time) = shape_of(ids, self.capacity.min(max_positions))?;
        let first = self.advance(batch, time, new, max_positions)?;
        let device = ids.device();
        let words = |numbers: &[usize]| {
            let words: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
            Tensor::from_slice::<u32>(device, &words, &[batch])
        };
        let positions = first
            .iter()
            .flat_map(|&first| (first..first + time).map(|at| at as u32));
        let positions: Vec<u32> = positions.collect();
        let positions = Tensor::from_slice::<u32>(device, &positions, &[batch, time])?;
        let group = self.group(time, words(&first)?, words(&self.lengths)?);
        Ok(CacheStep::new(&self.pool, positions, vec![group]))
    }

    /// A pass that appends one token to each sequence, whose places are read on the device: ids \[B\] of the
    /// tokens held before it and after it.
    pub(crate) fn step_of(
        &self,
        first_positions: Tensor,
        lengths: Tensor,
    ) -> Result<CacheStep<'_>> {
        let positions = first_positions.reshape(&[self.lengths.len(), 1])?;
        let group = self.group(1, first_positions, lengths);
        Ok(CacheStep::new(&self.pool, positions, vec![group]))
    }

    fn group(&self, time: usize, first_positions: Tensor, lengths: Tensor) -> Group {
        Group::new(self.table.clone(), time, first_positions, lengths).in_order()
    }

    /// The device, and the memory of the first layer's keys, by which a recorded pass knows its cache.
    pub(crate) fn memory(&self) -> Option<(Device, Buffer)> {
        self.pool.memory()
    }
}
