//! What follows the passes of a step whose batch several ranks share: the sum of all gradients, the
//! decisions that need all shards, the update of this rank's part, and the values of the others'.

use std::ops::Range;

use anyhow::{Result, ensure};
use hlx_core::{Buffer, Device, Graph};
use hlx_kernels::reduce::norm_rows;
use hlx_nn::{
    Exchange, GradientTree, MicroBatchPlan, Optimizer, Part, ShardPlan, Watched, Weights,
};
use hlx_ranks::Group;

use super::exchange::{ExchangeTimes, TreeExchange};
use super::losses::LossRing;
use crate::config::Config;
use crate::ranks::find_medium;

/// The exchange of a rank, and what a step needs for it on the device.
pub(crate) struct SharedStep {
    exchange: TreeExchange,
    /// The words of the gradient that this rank sums.
    sums: Range<usize>,
    /// The squares' sums of their rows.
    rows: Buffer,
    measure: Option<Graph>,
    /// The times of the exchanges since they were last taken.
    times: ExchangeTimes,
}

/// The words that a rank adds to the counts of a step.
const COUNT_WORDS: usize = 4;

impl SharedStep {
    /// Cuts the weights among the ranks of a group and states this rank's part, before the optimizer is
    /// made.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(group: &Group, config: &Config, weights: &Weights) -> Result<Self> {
        let undivided = config.undivided(weights)?;
        let medium = find_medium(group, weights.device())?;
        let exchange = TreeExchange::new(group, medium, weights, &undivided)?;
        let (parts, mine) = (exchange.parts(), exchange.part_of(group.rank()));
        let (device, sums) = (weights.device(), parts.sums(mine));
        let all_rows = (0..parts.len()).map(|part| parts.rows(part).len()).sum();
        weights.set_part(Part {
            words: parts.updates(mine),
            norm_rows: device.alloc(all_rows)?,
        })?;
        Ok(Self {
            rows: device.alloc(parts.rows(mine).len())?,
            exchange,
            sums,
            measure: None,
            times: ExchangeTimes::default(),
        })
    }

    /// The exchange between the ranks.
    pub fn exchange(&self) -> &TreeExchange {
        &self.exchange
    }

    /// Begins the exchange of a bucket of gradients that this rank's last pass, of this level in the tree, has
    /// written.
    ///
    /// # Errors
    /// A rank that is lost, and what the device reports.
    pub fn begin_bucket(
        &self,
        weights: &Weights,
        tree: &GradientTree,
        level: Option<u32>,
        bucket: usize,
    ) -> Result<()> {
        if let Some(level) = level {
            tree.close_window(weights, level, self.exchange.window(bucket))?;
        }
        Ok(self.exchange.bucket_is_final(weights)?)
    }

    /// When the exchanges of the steps since the last call ran.
    pub fn take_times(&mut self) -> ExchangeTimes {
        std::mem::take(&mut self.times)
    }

    /// The sums over all ranks of two counts of a batch.
    ///
    /// # Errors
    /// A rank that is lost.
    pub fn sum_counts(&self, counts: [usize; 2]) -> Result<[usize; 2]> {
        let words = counts.map(|count| [count as u32, (count as u64 >> 32) as u32]);
        let mut sums = [0; 2];
        let all = self.exchange.gather_words(words.as_flattened())?;
        for (rank, words) in all.iter().enumerate() {
            let found = words.len();
            ensure!(
                found == COUNT_WORDS,
                "rank {rank}: gave {found} words, expected {COUNT_WORDS}"
            );
            for (sum, words) in sums.iter_mut().zip(words.as_chunks::<2>().0) {
                *sum += (u64::from(words[0]) | u64::from(words[1]) << 32) as usize;
            }
        }
        Ok(sums)
    }

    /// Sums the gradients and gathers what the update needs of all shards: the rows of the norm, the
    /// losses, and whether any rank wants to stop, which is returned.
    ///
    /// # Errors
    /// A rank that is lost, and what the device reports.
    pub fn reduce(
        &mut self,
        device: &Device,
        weights: &Weights,
        ring: &LossRing,
        watched: Option<&Watched>,
        shards: &ShardPlan,
        plan: &MicroBatchPlan,
        stop: bool,
    ) -> Result<bool> {
        self.exchange.reduce(weights)?;
        self.measure(device, weights)?;
        let (step, rows) = (
            ring.download_step(device)?,
            device.download_later(&self.rows)?,
        );
        // For each rank: whether it stops, its shards' losses, its rows of the norm.
        let mut words = vec![u32::from(stop)];
        words.extend(ring.of_shards(&step.wait()?, shards, plan));
        let n_before = words.len();
        words.extend(rows.wait()?);
        // The device has done all swaps, as it has what came after them.
        self.times.add(self.exchange.take_times()?);
        let all = self.exchange.gather_words(&words)?;
        let (mut losses, mut rows) = (Vec::with_capacity(all.len()), Vec::new());
        let parts = self.exchange.parts();
        for (rank, words) in all.iter().enumerate() {
            let expected = n_before + parts.rows(self.exchange.part_of(rank)).len();
            let found = words.len();
            ensure!(
                found == expected,
                "rank {rank}: gave {found} words, expected {expected}"
            );
            losses.push(&words[1..n_before]);
        }
        for part in 0..parts.len() {
            rows.extend_from_slice(&all[self.exchange.part_of(part)][n_before..]);
        }
        if let Some(part) = weights.part() {
            device.upload_words(&part.norm_rows, &rows)?;
        }
        ring.fill(device, &losses, watched)?;
        Ok(all.iter().any(|words| words[0] != 0))
    }

    /// Launches the first level of the norm over this rank's words.
    fn measure(&mut self, device: &Device, weights: &Weights) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        if self.measure.is_none() {
            let Range { start, end } = self.sums;
            let mine = weights.gradients()?.slice(start, end - start)?;
            let (graph, ()) = device.record(|| norm_rows(device, &mine, &self.rows))?;
            self.measure = Some(graph);
        }
        match &self.measure {
            Some(graph) => Ok(graph.replay()?),
            None => Ok(()),
        }
    }

    /// Brings the values that the ranks have updated to all of them.
    ///
    /// # Errors
    /// A rank that is lost, and what the device reports.
    pub fn gather_values(&self, weights: &Weights) -> Result<()> {
        Ok(self.exchange.gather(weights, weights.values())?)
    }
}

/// The whole state of an optimizer, by buffers ([`hlx_nn::gather_state`]), as those take it who read it.
pub(crate) fn as_slices<'a>(
    buffers: &'a [(&'static str, Buffer)],
) -> Vec<(&'static str, &'a Buffer)> {
    buffers
        .iter()
        .map(|(name, buffer)| (*name, buffer))
        .collect()
}

/// The buffers of an optimizer, whole on every rank.
///
/// # Errors
/// A rank that is lost, and what the device reports.
pub(crate) fn whole_state(
    exchange: &dyn Exchange,
    weights: &Weights,
    optimizer: &dyn Optimizer,
) -> Result<Vec<(&'static str, Buffer)>> {
    Ok(hlx_nn::gather_state(exchange, weights, optimizer)?)
}
