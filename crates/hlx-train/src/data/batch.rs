//! Batches: which samples one step sees, as rows of ids, positions and targets.

use hlx_autograd::IGNORE_INDEX;

use super::Dataset;
use crate::random::{Purpose, permutation};

/// Time lengths are rounded up to a multiple of this, so that few shapes are recorded. No bit
/// depends on it: padding follows every real token, so causal attention never reads it.
const TIME_STEP: usize = 8;

/// The batches of a set of samples: an epoch visits each sample once, in an order drawn by seed
/// and epoch.
#[derive(Clone, Debug)]
pub struct Batches {
    samples: Vec<usize>,
    batch_size: usize,
    micro_batch_size: usize,
    seed: u64,
}

/// The samples of one step, cut into micro-batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The parts, in order.
    pub micro_batches: Vec<TokenRows>,
    /// Bytes predicted in the whole batch: what the loss is divided by.
    pub n_targets: usize,
    /// Bytes read, padding left out.
    pub n_tokens: usize,
}

/// Rows of equal length, `[batch, time]` each; a missing sample is a row without a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRows {
    /// Rows.
    pub batch: usize,
    /// Columns: the longest sample, rounded up to a multiple of 8 within the model's positions.
    pub time: usize,
    /// Bytes read.
    pub ids: Vec<u32>,
    /// Bytes predicted, or [`IGNORE_INDEX`].
    pub targets: Vec<u32>,
}

impl Batches {
    /// Cuts `samples` (numbers in a corpus) into batches.
    pub fn new(samples: Vec<usize>, batch_size: usize, micro_batch_size: usize, seed: u64) -> Self {
        Self {
            samples,
            batch_size,
            micro_batch_size,
            seed,
        }
    }

    /// Batches of an epoch; the last may be short of samples.
    pub fn per_epoch(&self) -> usize {
        self.samples.len().div_ceil(self.batch_size)
    }

    /// The order of an epoch.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        let order = permutation(
            self.seed,
            Purpose::EpochOrder,
            epoch as u32,
            self.samples.len(),
        );
        order.into_iter().map(|place| self.samples[place]).collect()
    }

    /// Puts batch `batch_idx` of an epoch's `order` together, its samples by length: micro-batches
    /// of samples of similar length have little padding. A last, short batch begins with empty samples, so
    /// that shapes and shards stay what they are.
    pub fn batch(
        &self,
        data: &Dataset,
        order: &[usize],
        batch_idx: usize,
        positions: usize,
    ) -> Batch {
        let start = (batch_idx * self.batch_size).min(order.len());
        let end = (start + self.batch_size).min(order.len());
        let mut samples = vec![None; self.batch_size - (end - start)];
        samples.extend(order[start..end].iter().copied().map(Some));
        // Stable: samples of one length stay in the epoch's order.
        samples.sort_by_key(|sample| sample.map_or(0, |index| data.sample(index).time()));
        let micro_batches: Vec<TokenRows> = samples
            .chunks(self.micro_batch_size)
            .map(|part| TokenRows::new(data, part, positions))
            .collect();
        let chosen = || order[start..end].iter().map(|&index| data.sample(index));
        Batch {
            micro_batches,
            n_targets: chosen().map(|sample| sample.n_targets()).sum(),
            n_tokens: chosen().map(|sample| sample.time()).sum(),
        }
    }
}

impl TokenRows {
    /// Lays samples out as rows, padded on the right.
    pub fn new(data: &Dataset, samples: &[Option<usize>], positions: usize) -> Self {
        let longest = samples
            .iter()
            .flatten()
            .map(|&index| data.sample(index).time())
            .max();
        let time = longest
            .unwrap_or(1)
            .next_multiple_of(TIME_STEP)
            .min(positions);
        let batch = samples.len();
        let mut ids = vec![0; batch * time];
        let mut targets = vec![IGNORE_INDEX; batch * time];
        for (row, &index) in samples.iter().enumerate() {
            let Some(index) = index else { continue };
            let sample = data.sample(index);
            for position in 0..sample.time() {
                ids[row * time + position] = u32::from(sample.tokens[position]);
                if position + 1 >= sample.n_given {
                    targets[row * time + position] = u32::from(sample.tokens[position + 1]);
                }
            }
        }
        Self {
            batch,
            time,
            ids,
            targets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Format;

    fn corpus() -> Dataset {
        let lines: String = (0..10)
            .map(|n| {
                format!(
                    "{{\"input\": \"{}\", \"output\": \"{n}\"}}\n",
                    "i".repeat(n + 1)
                )
            })
            .collect();
        Dataset::from_bytes(lines.as_bytes(), "d", Format::Pairs, 20).expect("loads")
    }

    #[test]
    fn an_epoch_holds_every_sample_once() {
        let data = corpus();
        let batches = Batches::new((0..10).collect(), 4, 2, 5);
        assert_eq!(batches.per_epoch(), 3);
        let order = batches.order(2);
        let parts: Vec<Batch> = (0..3)
            .map(|at| batches.batch(&data, &order, at, 20))
            .collect();
        assert_eq!(parts.iter().map(|batch| batch.n_targets).sum::<usize>(), 20);
        assert!(parts.iter().all(|batch| batch.micro_batches.len() == 2));
        let empty = &parts[2].micro_batches[0];
        assert!(empty.targets.iter().all(|&target| target == IGNORE_INDEX));
        assert_eq!(empty.batch, 2);
    }

    #[test]
    fn targets_follow_the_separator() {
        let micro = TokenRows::new(&corpus(), &[Some(0), None], 20);
        assert_eq!((micro.batch, micro.time), (2, 8));
        assert_eq!(micro.ids[..4], [u32::from(b'i'), 0x1e, u32::from(b'0'), 0]);
        assert_eq!(
            micro.targets[..4],
            [IGNORE_INDEX, u32::from(b'0'), 4, IGNORE_INDEX]
        );
        let long = TokenRows::new(&corpus(), &[Some(9)], 13);
        assert_eq!(long.time, 13);
    }
}
