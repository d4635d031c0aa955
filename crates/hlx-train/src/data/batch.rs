//! Batches: which samples one step sees, as rows of ids, positions and targets.

use anyhow::Result;
use hlx_autograd::IGNORE_INDEX;

use super::{Dataset, Sample};
use crate::random::{Purpose, permutation};

/// Time lengths are rounded up to a multiple of this, so that few shapes are recorded. No bit
/// depends on it: padding follows every real token, so causal attention never reads it.
const TIME_STEP: usize = 8;

/// The batches of an epoch.
#[derive(Clone, Debug)]
pub struct Batches {
    samples: Samples,
    batch_size: usize,
}

/// What an epoch visits.
#[derive(Clone, Debug)]
enum Samples {
    /// These numbers, in an order that the seed and the epoch key.
    Permuted(Vec<usize>, u64),
    /// The numbers below this one.
    Drawn(usize),
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
    /// For each row: the bytes read, without padding.
    pub lengths: Vec<u32>,
    /// Missing samples at the front.
    pub n_empty: usize,
}

impl Batches {
    /// Batches of `samples` (numbers in a corpus): an epoch visits each sample once, in an order drawn
    /// by seed and epoch.
    pub fn new(samples: Vec<usize>, batch_size: usize, seed: u64) -> Self {
        Self {
            samples: Samples::Permuted(samples, seed),
            batch_size,
        }
    }

    /// Batches of samples that are drawn as they are needed, numbered from 0 in each epoch: as many
    /// whole batches as hold `n_samples`.
    pub fn drawn(n_samples: usize, batch_size: usize) -> Self {
        Self {
            samples: Samples::Drawn(n_samples.next_multiple_of(batch_size)),
            batch_size,
        }
    }

    /// The samples of a batch; the last of an epoch may have fewer.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Batches of an epoch; the last may be short of samples.
    pub fn per_epoch(&self) -> usize {
        let n_samples = match &self.samples {
            Samples::Permuted(samples, _) => samples.len(),
            Samples::Drawn(n_samples) => *n_samples,
        };
        n_samples.div_ceil(self.batch_size)
    }

    /// The order of an epoch; empty of samples that are drawn, whose order is that of their numbers.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        let Samples::Permuted(samples, seed) = &self.samples else {
            return Vec::new();
        };
        let order = permutation(*seed, Purpose::EpochOrder, epoch as u32, samples.len());
        order.into_iter().map(|place| samples[place]).collect()
    }

    /// The samples of batch `batch_idx` of an epoch's `order`.
    pub fn samples(&self, order: &[usize], batch_idx: usize) -> Vec<usize> {
        let within = |n: usize| {
            let start = (batch_idx * self.batch_size).min(n);
            start..(start + self.batch_size).min(n)
        };
        match &self.samples {
            Samples::Permuted(..) => order[within(order.len())].to_vec(),
            Samples::Drawn(n_samples) => within(*n_samples).collect(),
        }
    }
}

impl TokenRows {
    /// Lays samples of a corpus out as rows, padded on the right.
    ///
    /// # Errors
    /// As [`Dataset::sample`].
    pub fn new(data: &Dataset, samples: &[Option<usize>], positions: usize) -> Result<Self> {
        let samples = samples.iter();
        let samples = samples.map(|index| index.map(|index| data.sample(index)).transpose());
        Ok(Self::of(&samples.collect::<Result<Vec<_>>>()?, positions))
    }

    /// As [`TokenRows::new`], of the samples themselves.
    pub fn of(samples: &[Option<Sample<'_>>], positions: usize) -> Self {
        let longest = samples.iter().flatten().map(Sample::time).max();
        let time = longest
            .unwrap_or(1)
            .next_multiple_of(TIME_STEP)
            .min(positions);
        let batch = samples.len();
        let mut ids = vec![0; batch * time];
        let mut targets = vec![IGNORE_INDEX; batch * time];
        for (row, sample) in samples.iter().enumerate() {
            let Some(sample) = sample else { continue };
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
            lengths: samples
                .iter()
                .map(|sample| sample.as_ref().map_or(0, |sample| sample.time() as u32))
                .collect(),
            n_empty: samples.iter().take_while(|sample| sample.is_none()).count(),
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
        let batches = Batches::new((0..10).collect(), 4, 5);
        assert_eq!(batches.per_epoch(), 3);
        let order = batches.order(2);
        let parts: Vec<Vec<usize>> = (0..4).map(|at| batches.samples(&order, at)).collect();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2, 0]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..10));
    }

    #[test]
    fn drawn_samples_fill_every_batch() {
        let batches = Batches::drawn(10, 4);
        assert_eq!(batches.per_epoch(), 3);
        let order = batches.order(2);
        assert_eq!(batches.samples(&order, 2), [8, 9, 10, 11]);
        assert_eq!(order, batches.order(0));
    }

    #[test]
    fn targets_follow_the_separator() {
        let rows = |samples: &[Option<usize>], positions| {
            TokenRows::new(&corpus(), samples, positions).expect("in memory")
        };
        let empty = rows(&[None, None], 20);
        assert!(empty.targets.iter().all(|&target| target == IGNORE_INDEX));
        assert_eq!((empty.batch, empty.n_empty), (2, 2));
        let micro = rows(&[Some(0), None], 20);
        assert_eq!((micro.batch, micro.time, micro.n_empty), (2, 8, 0));
        assert_eq!(micro.ids[..4], [u32::from(b'i'), 0x1e, u32::from(b'0'), 0]);
        assert_eq!(
            micro.targets[..4],
            [IGNORE_INDEX, u32::from(b'0'), 4, IGNORE_INDEX]
        );
        let long = rows(&[Some(9)], 13);
        assert_eq!(long.time, 13);
    }
}
