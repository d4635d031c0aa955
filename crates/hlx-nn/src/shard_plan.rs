//! The shards of a batch, and which of them are this process's.

use std::ops::Range;

use crate::Result;
use crate::error::NnError;

/// The shards that a step's gradient is a tree over: all of them, and those of this process.
///
/// A batch of B samples is cut into W shards of B / W samples. Of R processes (ranks) each takes W / R
/// neighbouring shards, so that a rank's shards are a whole subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlan {
    batch_size: usize,
    n_shards: usize,
    mine: Range<usize>,
}

impl ShardPlan {
    /// The shards of a batch, all of them this process's. `n_shards` is a power of two that divides the
    /// batch.
    ///
    /// # Errors
    /// [`NnError::MicroBatches`] with the numbers that do not fit.
    pub fn new(batch_size: usize, n_shards: usize) -> Result<Self> {
        let divides = n_shards.is_power_of_two() && batch_size.is_multiple_of(n_shards);
        if !divides || batch_size == 0 {
            let expected = format!("a power of two that divides the batch of {batch_size}");
            let reason = format!("{n_shards} shards, expected {expected}");
            return Err(NnError::MicroBatches { reason });
        }
        Ok(Self {
            batch_size,
            n_shards,
            mine: 0..n_shards,
        })
    }

    /// The same shards, of which rank `rank` of `n_ranks` has its own.
    ///
    /// # Errors
    /// [`NnError::MicroBatches`] for a number of ranks that does not divide the shards.
    pub fn of_rank(self, rank: usize, n_ranks: usize) -> Result<Self> {
        let n_shards = self.n_shards;
        if n_ranks == 0 || !n_shards.is_multiple_of(n_ranks) || rank >= n_ranks {
            let reason = format!(
                "{n_ranks} ranks, expected a divisor of the {n_shards} shards (train.shards)"
            );
            return Err(NnError::MicroBatches { reason });
        }
        let each = n_shards / n_ranks;
        Ok(Self {
            mine: rank * each..(rank + 1) * each,
            ..self
        })
    }

    /// The samples of the whole batch.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The shards of the whole batch.
    pub fn n_shards(&self) -> usize {
        self.n_shards
    }

    /// The samples of a shard.
    pub fn shard_size(&self) -> usize {
        self.batch_size / self.n_shards
    }

    /// The shards of this process.
    pub fn mine(&self) -> Range<usize> {
        self.mine.clone()
    }

    /// Whether all shards are this process's.
    pub fn is_whole(&self) -> bool {
        self.mine.len() == self.n_shards
    }

    /// The samples of this process, by their number in the whole batch.
    pub fn samples(&self) -> Range<usize> {
        let size = self.shard_size();
        self.mine.start * size..self.mine.end * size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MicroBatchPlan;

    #[test]
    fn ranks_have_neighbouring_shards() -> Result<()> {
        let plan = ShardPlan::new(24, 8)?;
        assert!(plan.is_whole());
        assert_eq!(plan.samples(), 0..24);
        let second = plan.clone().of_rank(1, 4)?;
        assert_eq!((second.mine(), second.samples()), (2..4, 6..12));
        assert!(!second.is_whole());
        for n_ranks in [0, 3, 16] {
            let error = plan.clone().of_rank(0, n_ranks).expect_err("refused");
            let expected = format!(
                "micro-batches: {n_ranks} ranks, expected a divisor of the 8 shards (train.shards)"
            );
            assert_eq!(error.to_string(), expected);
        }
        Ok(())
    }

    /// The passes of all ranks together are those of one process with micro-batches of that size.
    #[test]
    fn the_passes_of_ranks_are_those_of_one_process() -> Result<()> {
        for micro in [1, 2, 4, 8, 16] {
            for n_ranks in [2, 4, 8] {
                let each = micro.min(16 / n_ranks);
                let whole = MicroBatchPlan::new(16, each, 8)?;
                let mut passes = Vec::new();
                for rank in 0..n_ranks {
                    let plan = ShardPlan::new(16, 8)?.of_rank(rank, n_ranks)?;
                    let plan = MicroBatchPlan::of(&plan, micro)?;
                    assert!(!plan.is_one_pass());
                    assert_eq!(plan.micro_batch_size, each);
                    passes.extend(plan.passes);
                }
                assert_eq!(passes, whole.passes);
            }
        }
        Ok(())
    }
}
