//! Errors of a rank that nothing reports (a bit of its memory, a processor that computes wrongly): ranks
//! compare what must be equal, and vote.
//!
//! At each record of the chain, before the checkpoint of its step, all ranks compare the record: the digests
//! of parameters, buffers and optimizer state, and the losses. In each log period, before its last step,
//! one shard's gradient is computed by its owner and by another rank (the checker) in a pass of its own,
//! and the digests are compared; shard and checker follow from the period's number. Where they differ, all
//! ranks compute it, and more than half of them are right.

use anyhow::{Result, bail};
use hlx_core::digest::{canonical_bits, sha256_hex};
use hlx_kernels::tree_digest::{DigestKind, tree_digest};
use hlx_nn::{MicroBatchPlan, ShardPlan};

use super::Engine;
use crate::ranks::Group;
use crate::rows::BatchSizes;
use crate::run::ChainRecord;

/// The check of one log period: whose gradient is compared, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShardCheck {
    shard: usize,
    owner: usize,
    checker: usize,
}

impl ShardCheck {
    /// The check of a period: the shards one after another, and after each round of them another checker for each, so that
    /// `n_shards (n_ranks - 1)` periods have each shard with every other rank once.
    fn of_period(period: u64, n_shards: usize, n_ranks: usize) -> Self {
        let shard = (period % n_shards as u64) as usize;
        let owner = shard / (n_shards / n_ranks);
        let others = n_ranks as u64 - 1;
        let round = (period / n_shards as u64) % others;
        let checker = (owner + 1 + round as usize) % n_ranks;
        Self {
            shard,
            owner,
            checker,
        }
    }
}

/// The ranks whose vote is not that of the majority; all of them where there is no majority, none where
/// all votes are equal.
fn odd_ranks(votes: &[Vec<u32>]) -> Vec<usize> {
    let agreeing = |vote: &Vec<u32>| votes.iter().filter(|other| *other == vote).count();
    let majority = votes.iter().find(|&vote| 2 * agreeing(vote) > votes.len());
    let ranks = 0..votes.len();
    ranks
        .filter(|&rank| majority != Some(&votes[rank]))
        .collect()
}

/// Names ranks and their hosts.
fn names(group: &Group, ranks: &[usize]) -> String {
    let names: Vec<String> = ranks.iter().map(|&rank| group.name(rank)).collect();
    names.join(" and ")
}

/// The words of a digest's text.
fn words(digest: &str) -> Vec<u32> {
    digest.bytes().map(u32::from).collect()
}

/// Fails unless all ranks have the same record of a step; all of them call it, before the record or a
/// checkpoint of the step is written.
///
/// # Errors
/// One line, the same on all ranks, that names the rank whose record is another than that of most, or all
/// where no record is that of most; a rank that is lost.
pub(super) fn compare_records(group: &Group, record: &ChainRecord) -> Result<()> {
    if group.is_alone() {
        return Ok(());
    }
    let bytes = serde_json::to_vec(record)?;
    let votes = group.gather(sha256_hex(&bytes).as_bytes())?;
    let votes: Vec<Vec<u32>> = votes
        .iter()
        .map(|vote| vote.iter().map(|&byte| u32::from(byte)).collect())
        .collect();
    let odd = odd_ranks(&votes);
    if odd.is_empty() {
        return Ok(());
    }
    bail!(
        "a silent error: after step {} the state of {} differs{}",
        record.step,
        names(group, &odd),
        from_whom("state", odd.len(), votes.len())
    )
}

/// What stands after the names of odd ranks.
fn from_whom(what: &str, n_odd: usize, n_ranks: usize) -> String {
    match n_ranks - n_odd {
        0 => format!(", and no {what} is that of most ranks"),
        n => format!(" from that of the other {n} ranks"),
    }
}

impl Engine {
    /// Compares the gradient of a shard of the coming step between two ranks, in the last step of each log
    /// period of a run of several ranks; all of them call it, before the step's own passes. Nothing of the
    /// pass is left that the step reads.
    ///
    /// # Errors
    /// One line, the same on all ranks, that names the rank whose gradient is another than that of most, or
    /// all where there is no majority; what the device reports, and a rank that is lost.
    pub(super) fn check_shard(&mut self, samples: &[usize], epoch: u64, step: u64) -> Result<()> {
        let (every, n_ranks) = (self.config.train.log_every, self.group.n_ranks());
        let is_due = every > 0 && (step + 1).is_multiple_of(every);
        if n_ranks < 2 || !is_due || !self.config.train.checks_ranks() {
            return Ok(());
        }
        let check = ShardCheck::of_period((step + 1) / every - 1, self.shards.n_shards(), n_ranks);
        let rank = self.group.rank();
        let mut mine = Vec::new();
        if [check.owner, check.checker].contains(&rank) {
            mine = self.shard_digest(check.shard, samples, epoch, step)?;
        }
        let mut votes = self.exchange().gather_words(&mine)?;
        if votes[check.owner] == votes[check.checker] {
            return Ok(());
        }
        if mine.is_empty() {
            mine = self.shard_digest(check.shard, samples, epoch, step)?;
        }
        votes = self.exchange().gather_words(&mine)?;
        let odd = odd_ranks(&votes);
        bail!(
            "a silent error: before step {} the gradient of shard {}, computed by {}, differs{}",
            step + 1,
            check.shard,
            names(&self.group, &odd),
            from_whom("gradient", odd.len(), votes.len())
        )
    }

    /// The digest of the gradient and the losses of one shard, computed in passes of their own.
    fn shard_digest(
        &mut self,
        shard: usize,
        samples: &[usize],
        epoch: u64,
        step: u64,
    ) -> Result<Vec<u32>> {
        let (batch_size, n_shards) = (self.shards.batch_size(), self.shards.n_shards());
        let alone = ShardPlan::new(batch_size, n_shards)?.of_rank(shard, n_shards)?;
        let plan = MicroBatchPlan::of(&alone, self.plan.micro_batch_size)?;
        let sizes = BatchSizes {
            batch_size,
            micro_batch_size: plan.micro_batch_size,
            first_sample: alone.samples().start,
            n_samples: alone.samples().len(),
        };
        let batch = self.task.batch_apart(samples, epoch, sizes)?;
        let weights = self.task.weights();
        // What no pass writes, such as a frozen parameter's place, is of an earlier step.
        let gradients = weights.all_gradients()?;
        self.device.fill(gradients, 0)?;
        self.passes.begin_step(&self.plan)?;
        for (rows, pass) in batch.micro_batches.iter().zip(&plan.passes) {
            let (task, optimizer) = (&self.task, self.optimizer.as_ref());
            self.passes
                .replay(task, optimizer, rows, pass, step, None)?;
        }
        // The running values of batch norms follow the step's own passes alone.
        self.passes.take_norms();
        let digest = tree_digest(&self.device, gradients, DigestKind::F32)?;
        let mut found = words(&digest.to_string());
        let losses = [Some(self.passes.losses()), self.passes.balance_losses()];
        for losses in losses.into_iter().flatten() {
            let loss = self.device.download_words(&losses.slice(0, 1)?)?;
            found.extend(
                loss.iter()
                    .map(|&bits| canonical_bits(f32::from_bits(bits))),
            );
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_shard_is_checked_by_every_other_rank() {
        for (n_shards, n_ranks) in [(2, 2), (4, 4), (8, 2), (8, 4), (8, 8)] {
            let n_periods = n_shards * (n_ranks - 1);
            let check = |period: usize| ShardCheck::of_period(period as u64, n_shards, n_ranks);
            let pairs: BTreeSet<_> = (0..n_periods)
                .map(check)
                .map(|one| {
                    assert_ne!(one.owner, one.checker);
                    assert_eq!(one.owner, one.shard * n_ranks / n_shards);
                    assert!(one.checker < n_ranks);
                    (one.shard, one.checker)
                })
                .collect();
            assert_eq!(pairs.len(), n_periods);
            assert_eq!(check(n_periods), check(0));
        }
    }

    #[test]
    fn the_odd_ranks_are_those_outside_of_the_majority() {
        let odd = |votes: &[u32]| {
            let votes: Vec<Vec<u32>> = votes.iter().map(|&vote| vec![vote]).collect();
            odd_ranks(&votes)
        };
        assert!(odd(&[5, 5, 5, 5]).is_empty());
        assert_eq!(odd(&[5, 5, 6, 5]), [2]);
        assert_eq!(odd(&[5, 6, 7, 5, 5]), [1, 2]);
        assert_eq!(odd(&[5, 6]), [0, 1]);
        assert_eq!(odd(&[5, 5, 6, 6]), [0, 1, 2, 3]);
        assert_eq!(odd(&[5, 6, 7]), [0, 1, 2]);
    }
}
