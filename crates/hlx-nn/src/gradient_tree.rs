//! The tree over the shards of a batch, carried out a micro-batch at a time.
//!
//! A batch of B samples is cut into W shards of B / W samples, and its gradient is
//! ((s0 + s1) + (s2 + s3)) + ..: the same bits however many samples a pass holds. A pass of
//! several shards adds the lower levels itself; a pass of a part of a shard continues the shard's
//! chain; [`GradientTree`] adds the sums of the passes, like the carries of a binary counter.

use std::ops::Range;

use hlx_autograd::BackwardPlan;
use hlx_core::Buffer;
use hlx_kernels::elementwise::add_assign;

use crate::error::NnError;
use crate::{Result, ShardPlan, Weights};

/// One pass of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroBatch {
    /// The number of its first sample in the whole batch.
    pub first_sample: usize,
    /// How its backward pass sums.
    pub plan: BackwardPlan,
    /// The level in the tree of the sum that the pass leaves in the gradient buffer. `None` if the shard continues in the next pass.
    pub level: Option<u32>,
}

/// The passes of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroBatchPlan {
    /// The samples of each pass.
    pub micro_batch_size: usize,
    /// The passes in order.
    pub passes: Vec<MicroBatch>,
}

impl MicroBatchPlan {
    /// Cuts a batch, all of whose shards are this process's, into passes: [`MicroBatchPlan::of`] of
    /// [`ShardPlan::new`].
    ///
    /// # Errors
    /// [`NnError::MicroBatches`] with the numbers that do not fit.
    pub fn new(batch_size: usize, micro_batch_size: usize, shards: usize) -> Result<Self> {
        Self::of(&ShardPlan::new(batch_size, shards)?, micro_batch_size)
    }

    /// Cuts the shards of this process into passes. The micro-batch is a power of two of shards, or
    /// divides a shard; one that holds more than this process's shards holds all of these.
    ///
    /// # Errors
    /// [`NnError::MicroBatches`] with the numbers that do not fit.
    pub fn of(shards: &ShardPlan, micro_batch_size: usize) -> Result<Self> {
        let fail = |reason: String| Err(NnError::MicroBatches { reason });
        let (shard_size, samples) = (shards.shard_size(), shards.samples());
        let (is_whole, shards) = (shards.is_whole(), shards.n_shards());
        let held = micro_batch_size / shard_size;
        let whole_shards =
            held.is_power_of_two() && held <= shards && micro_batch_size.is_multiple_of(shard_size);
        let part_of_one = micro_batch_size > 0 && shard_size.is_multiple_of(micro_batch_size);
        if !whole_shards && !part_of_one {
            let expected =
                format!("a divisor of {shard_size} or {shard_size} times a power of two");
            return fail(format!("{micro_batch_size} samples, expected {expected}"));
        }
        let micro_batch_size = micro_batch_size.min(samples.len());
        let held = micro_batch_size / shard_size;
        let whole_batch = is_whole && micro_batch_size == samples.len();
        let pass = |first_sample: usize| {
            let end = first_sample + micro_batch_size;
            let accumulate = !first_sample.is_multiple_of(shard_size);
            let plan = BackwardPlan {
                shards: held.max(1),
                accumulate,
                whole_batch,
            };
            let level = end.is_multiple_of(shard_size).then(|| held.max(1).ilog2());
            MicroBatch {
                first_sample,
                plan,
                level,
            }
        };
        let passes = samples.step_by(micro_batch_size).map(pass).collect();
        Ok(Self {
            micro_batch_size,
            passes,
        })
    }

    /// Whether one pass holds the whole batch, so that the update can follow in the same graph.
    pub fn is_one_pass(&self) -> bool {
        self.passes.iter().all(|pass| pass.plan.whole_batch)
    }
}

/// Adds the gradients of micro-batches in the order of the tree over all shards.
///
/// After each backward pass that ends a shard, [`GradientTree::push`] takes the weights' gradient
/// buffer; [`GradientTree::finish`] leaves the root there. Both can be recorded.
#[derive(Debug)]
pub struct GradientTree {
    /// One buffer a level, made when first needed.
    buffers: Vec<Buffer>,
    /// The levels of the partial sums, oldest first; the i-th is in buffer i.
    waiting: Vec<u32>,
    /// Whether the tree ends here with the batch in several passes, after which the gradients of other
    /// uses of a parameter are yet to be added to its own.
    adds_uses: bool,
}

impl GradientTree {
    /// Makes the tree for passes as planned, with the buffers that it needs: none for a batch
    /// in one pass, the logarithm of the number of sums otherwise.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(weights: &Weights, plan: &MicroBatchPlan) -> Result<Self> {
        Ok(Self {
            adds_uses: !plan.is_one_pass(),
            ..Self::of_rank(weights, plan)?
        })
    }

    /// As [`GradientTree::new`], of the shards of one process among several: the gradients of other uses
    /// of parameters are left apart, until an [`Exchange`](crate::Exchange) has summed them all.
    ///
    /// # Errors
    /// What the device reports.
    pub fn of_rank(weights: &Weights, plan: &MicroBatchPlan) -> Result<Self> {
        let sums = plan
            .passes
            .iter()
            .filter(|pass| pass.level.is_some())
            .count();
        // Here rather than in a pass that is being recorded.
        weights.gradients()?;
        let buffers = (0..sums.max(1).ilog2())
            .map(|_| weights.zeros_like_all_gradients())
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            buffers,
            waiting: Vec::new(),
            adds_uses: false,
        })
    }

    /// Adds the gradients in the weights' gradient buffer, the sum of 2^level shards, to the tree: while
    /// the newest partial sum has the same level, the new one is added onto it.
    ///
    /// # Errors
    /// [`NnError::MicroBatches`] for more passes than planned, and what the device reports.
    pub fn push(&mut self, weights: &Weights, level: u32) -> Result<()> {
        let device = weights.device();
        let mut level = level;
        let mut newest = weights.all_gradients()?;
        while self.waiting.last() == Some(&level) {
            let older = &self.buffers[self.waiting.len() - 1];
            add_assign(device, older, newest)?;
            newest = older;
            self.waiting.pop();
            level += 1;
        }
        let place = self.waiting.len();
        match self.buffers.get(place) {
            // The sum already lies in its place if the last carry ended there.
            Some(buffer) if newest.overlaps(buffer) => {}
            Some(buffer) => device.copy(newest, buffer)?,
            // A batch in one pass needs no buffer: its root is where it must end.
            None if place == 0 => {}
            None => {
                let reason = "more gradients than the plan has".to_owned();
                return Err(NnError::MicroBatches { reason });
            }
        }
        self.waiting.push(level);
        Ok(())
    }

    /// As the [`push`](Self::push) of a step's last sum and [`finish`](Self::finish) do, in a window of all
    /// gradients alone: it holds the root's words then. [`GradientTree::close`] follows, when all windows
    /// have been closed.
    ///
    /// # Errors
    /// As [`GradientTree::finish`].
    pub fn close_window(&self, weights: &Weights, level: u32, window: Range<usize>) -> Result<()> {
        let (device, n) = (weights.device(), window.len());
        let all = weights.all_gradients()?.slice(window.start, n)?;
        let mut newest = all.clone();
        let partial = self.waiting.iter().zip(&self.buffers).rev();
        for ((&found, older), level) in partial.zip(level..) {
            if found != level {
                return Err(left_over(self.waiting.len() + 1));
            }
            let older = older.slice(window.start, n)?;
            add_assign(device, &older, &newest)?;
            newest = older;
        }
        match newest.overlaps(&all) {
            true => Ok(()),
            false => Ok(device.copy(&newest, &all)?),
        }
    }

    /// Empties the tree, all of whose windows have been closed.
    pub fn close(&mut self) {
        self.waiting.clear();
    }

    /// Ends a step: the weights' gradient buffer holds the root, and the tree is empty.
    ///
    /// # Errors
    /// [`NnError::MicroBatches`] if the sums that were pushed do not make one tree, and what the
    /// device reports.
    pub fn finish(&mut self, weights: &Weights) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.len() != 1 {
            return Err(left_over(waiting.len()));
        }
        if let Some(root) = self.buffers.first() {
            weights.device().copy(root, weights.all_gradients()?)?;
        }
        match self.adds_uses {
            true => weights.add_uses(),
            false => Ok(()),
        }
    }
}

/// The error of sums that do not make one tree.
fn left_over(n: usize) -> NnError {
    let reason = format!("{n} sums are left, expected one root");
    NnError::MicroBatches { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Init, ParameterBuilder};

    fn passes(batch: usize, micro: usize, shards: usize) -> Vec<(usize, usize, bool, Option<u32>)> {
        let plan = MicroBatchPlan::new(batch, micro, shards).expect("fits");
        let row = |pass: &MicroBatch| {
            (
                pass.first_sample,
                pass.plan.shards,
                pass.plan.accumulate,
                pass.level,
            )
        };
        plan.passes.iter().map(row).collect()
    }

    #[test]
    fn passes_follow_the_shards() {
        assert_eq!(passes(8, 8, 4), [(0, 4, false, Some(2))]);
        assert_eq!(
            passes(8, 4, 4),
            [(0, 2, false, Some(1)), (4, 2, false, Some(1))]
        );
        let parts = [
            (0, 1, false, None),
            (1, 1, true, Some(0)),
            (2, 1, false, None),
            (3, 1, true, Some(0)),
        ];
        assert_eq!(passes(4, 1, 2), parts);
    }

    #[test]
    fn cuts_across_shards_are_refused() {
        let message = |numbers: [usize; 3]| {
            let [batch, micro, shards] = numbers;
            MicroBatchPlan::new(batch, micro, shards)
                .expect_err("refused")
                .to_string()
        };
        let text = message([12, 8, 4]);
        let expected =
            "micro-batches: 8 samples, expected a divisor of 3 or 3 times a power of two";
        assert_eq!(text, expected);
        let text = message([12, 3, 8]);
        let expected =
            "micro-batches: 8 shards, expected a power of two that divides the batch of 12";
        assert_eq!(text, expected);
    }

    #[test]
    fn eight_sums_are_added_as_a_tree() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.parameter("w", &[1], Init::Zeros);
        let weights = builder.build(&device, 0)?;
        let mut tree = GradientTree::new(&weights, &MicroBatchPlan::new(8, 1, 8)?)?;
        // Values whose sum depends on the order: 1 is lost beside 2^24, but 2 is not.
        let shards = [
            16_777_216.0,
            1.0,
            1.0,
            1.0,
            -16_777_216.0,
            1.0,
            1.0,
            1.0_f32,
        ];
        for _ in 0..2 {
            for &shard in &shards {
                device.fill(weights.gradients()?, shard.to_bits())?;
                tree.push(&weights, 0)?;
            }
            tree.finish(&weights)?;
            let s = shards;
            let left = (s[0] + s[1]) + (s[2] + s[3]);
            let root = left + ((s[4] + s[5]) + (s[6] + s[7]));
            assert_eq!(
                device.download::<f32>(weights.gradients()?)?[0].to_bits(),
                root.to_bits()
            );
            assert_ne!(root, shards.iter().sum::<f32>());
        }
        Ok(())
    }

    /// Windows closed one by one, in any order, hold what the whole tree would.
    #[test]
    fn a_tree_is_closed_by_windows() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.parameter("w", &[192], Init::Zeros);
        let weights = builder.build(&device, 0)?;
        for sums in [1, 2, 4, 8] {
            let plan = MicroBatchPlan::new(8, 8 / sums, 8)?;
            let level = (8 / sums).ilog2();
            let mut roots = Vec::new();
            for by_windows in [false, true] {
                let mut tree = GradientTree::new(&weights, &plan)?;
                for sum in 0..sums {
                    let word = |idx: usize| (1.0 + sum as f32).powi(9) * (0.3 + idx as f32);
                    let words: Vec<f32> = (0..192).map(word).collect();
                    device.upload(weights.gradients()?, &words)?;
                    if !by_windows || sum + 1 < sums {
                        tree.push(&weights, level)?;
                    }
                }
                if by_windows {
                    for window in [128..192, 0..64, 64..128] {
                        tree.close_window(&weights, level, window)?;
                    }
                    tree.close();
                } else {
                    tree.finish(&weights)?;
                }
                roots.push(device.download_words(weights.gradients()?)?);
            }
            assert_eq!(roots[0], roots[1], "{sums}");
        }
        Ok(())
    }

    #[test]
    fn a_window_of_a_tree_that_lacks_sums_is_refused() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.parameter("w", &[64], Init::Zeros);
        let weights = builder.build(&device, 0)?;
        let mut tree = GradientTree::new(&weights, &MicroBatchPlan::new(4, 1, 4)?)?;
        tree.push(&weights, 0)?;
        tree.push(&weights, 0)?;
        let error = tree.close_window(&weights, 0, 0..64).expect_err("refused");
        let expected = "micro-batches: 2 sums are left, expected one root";
        assert_eq!(error.to_string(), expected);
        Ok(())
    }
}
