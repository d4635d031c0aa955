//! The losses of the last steps, held on the device until they are downloaded.
//!
//! A step's loss is a sum with the gradient's own order: one chain over the rows of each shard,
//! made by the recorded passes, and the shards pairwise, made here. So the printed loss has the
//! same bits for every micro-batch and device.

use anyhow::Result;
use hlx_core::arith::add;
use hlx_core::cpu::with_flush;
use hlx_core::{ALIGNMENT_WORDS, Buffer, Device, PendingDownload};
use hlx_nn::{MicroBatch, MicroBatchPlan, ShardPlan, Watched};

use crate::config::Config;

/// Steps that fit before the ring must be read.
const CAPACITY: usize = 64;

/// Losses and gradient norms of up to [`CAPACITY`] steps.
pub(crate) struct LossRing {
    words: Buffer,
    /// Words a step: an aligned window for each shard, one for the norm, and one more for each shard's
    /// balance loss where there is one.
    stride: usize,
    has_balance: bool,
    shard_size: usize,
    n_shards: usize,
    /// Shards whose sums lie one after another, at the window of the first: those of a pass, and one
    /// where ranks share the batch.
    run: usize,
    /// Whether a step that is not finite is skipped.
    guarded: bool,
    n_targets: Vec<u64>,
}

/// The loss and the gradient norm of one step.
pub(crate) struct StepLoss {
    /// Sum of the losses of the bytes predicted.
    pub loss: f32,
    pub n_targets: u64,
    pub grad_norm: f32,
    /// The mean of the shards' balance losses, where experts are balanced.
    pub balance: Option<f32>,
    /// Whether the device has left the model as it was.
    pub skipped: bool,
}

/// A download of losses.
pub(crate) struct PendingLosses {
    words: PendingDownload,
    n_targets: Vec<u64>,
}

impl PendingLosses {
    /// Whether they have arrived.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.words.is_done()?)
    }
}

impl LossRing {
    /// Makes the ring; `plan` is that of a process with all shards, `None` where ranks share them.
    pub fn new(device: &Device, config: &Config, plan: Option<&MicroBatchPlan>) -> Result<Self> {
        let (train, n_shards) = (&config.train, config.shards());
        let has_balance = train.router_balance.is_some();
        let n_windows = if has_balance { 2 * n_shards } else { n_shards } + 1;
        let stride = n_windows * ALIGNMENT_WORDS;
        let words = device.alloc(CAPACITY * stride)?;
        device.fill(&words, 0)?;
        Ok(Self {
            words,
            stride,
            has_balance,
            shard_size: train.batch_size / n_shards,
            n_shards,
            run: plan
                .and_then(|plan| plan.passes.first())
                .map_or(1, |pass| pass.plan.shards),
            guarded: train.skips_non_finite(),
            n_targets: Vec::new(),
        })
    }

    pub fn is_full(&self) -> bool {
        self.n_targets.len() == CAPACITY
    }

    /// Keeps the sums of the shards that a pass has ended.
    pub fn take(&self, device: &Device, losses: &Buffer, pass: &MicroBatch) -> Result<()> {
        let held = pass.plan.shards;
        let place = self.n_targets.len() * self.stride + self.shard_of(pass) * ALIGNMENT_WORDS;
        device.copy(&losses.slice(0, held)?, &self.words.slice(place, held)?)?;
        Ok(())
    }

    /// Keeps the balance losses of the shards that a pass has ended.
    pub fn take_balance(&self, device: &Device, losses: &Buffer, pass: &MicroBatch) -> Result<()> {
        let (held, step) = (pass.plan.shards, self.n_targets.len() * self.stride);
        let place = step + (self.n_shards + 1 + self.shard_of(pass)) * ALIGNMENT_WORDS;
        Ok(device.copy(&losses.slice(0, held)?, &self.words.slice(place, held)?)?)
    }

    /// Keeps the step's gradient norm and moves to the next step.
    pub fn end_step(&mut self, device: &Device, norm: &Buffer, n_targets: usize) -> Result<()> {
        let place = self.n_targets.len() * self.stride + self.n_shards * ALIGNMENT_WORDS;
        device.copy(norm, &self.words.slice(place, 1)?)?;
        self.n_targets.push(n_targets as u64);
        Ok(())
    }

    /// Starts the download of the losses since the last call and empties the ring; `None` without
    /// steps.
    pub fn take_all(&mut self, device: &Device) -> Result<Option<PendingLosses>> {
        if self.n_targets.is_empty() {
            return Ok(None);
        }
        let used = self.words.slice(0, self.n_targets.len() * self.stride)?;
        Ok(Some(PendingLosses {
            words: device.download_later(&used)?,
            n_targets: std::mem::take(&mut self.n_targets),
        }))
    }

    /// Waits for a download and sums it up, step by step.
    pub fn receive(&self, losses: PendingLosses) -> Result<Vec<StepLoss>> {
        let words: Vec<f32> = losses
            .words
            .wait()?
            .into_iter()
            .map(f32::from_bits)
            .collect();
        let steps = words
            .chunks(self.stride)
            .zip(losses.n_targets)
            .map(|(words, n_targets)| {
                let mut shards = self.shards(words);
                let balance = self.has_balance.then(|| {
                    let behind = &words[(self.n_shards + 1) * ALIGNMENT_WORDS..];
                    let mut balance = self.shards(behind);
                    with_flush(|| pairwise(&mut balance) / self.n_shards as f32)
                });
                let grad_norm = words[self.n_shards * ALIGNMENT_WORDS];
                // As the device decides: see hlx_kernels::optimizer::guarded_factor.
                let finite = grad_norm.is_finite() && shards.iter().all(|loss| loss.is_finite());
                StepLoss {
                    loss: with_flush(|| pairwise(&mut shards)),
                    n_targets,
                    grad_norm,
                    balance,
                    skipped: self.guarded && !finite,
                }
            });
        Ok(steps.collect())
    }

    /// The sums of a step's shards.
    fn shards(&self, words: &[f32]) -> Vec<f32> {
        let runs = words.chunks(self.run * ALIGNMENT_WORDS);
        let runs = runs.take(self.n_shards / self.run);
        runs.flat_map(|run| run[..self.run].to_vec()).collect()
    }

    /// Where the shards of a step of several passes lie until the update has looked at them.
    pub fn watched(&self, device: &Device) -> Result<Watched> {
        let words = device.alloc(self.n_shards * ALIGNMENT_WORDS)?;
        device.fill(&words, 0)?;
        Ok(Watched {
            words,
            runs: self.n_shards / self.run,
            run: self.run,
            stride: self.run * ALIGNMENT_WORDS,
        })
    }

    /// Starts the download of what the passes of a rank have left of the current step, for
    /// [`LossRing::of_shards`].
    pub fn download_step(&self, device: &Device) -> Result<PendingDownload> {
        let place = self.n_targets.len() * self.stride;
        let row = self.words.slice(place, self.stride)?;
        Ok(device.download_later(&row)?)
    }

    /// From the words of a step: the sums of this rank's shards, and their balance losses after them.
    pub fn of_shards(&self, row: &[u32], shards: &ShardPlan, plan: &MicroBatchPlan) -> Vec<u32> {
        let kinds = if self.has_balance { 2 } else { 1 };
        let mut sums = Vec::with_capacity(kinds * shards.mine().len());
        for kind in 0..kinds {
            let first = kind * (self.n_shards + 1) * ALIGNMENT_WORDS;
            for pass in plan.passes.iter().filter(|pass| pass.level.is_some()) {
                let place = first + self.shard_of(pass) * ALIGNMENT_WORDS;
                sums.extend_from_slice(&row[place..place + pass.plan.shards]);
            }
        }
        sums
    }

    /// Writes the sums of all shards in the place of a rank's own: what each rank has given, in order.
    /// The update looks at the copy in `watched`.
    pub fn fill(&self, device: &Device, ranks: &[&[u32]], watched: Option<&Watched>) -> Result<()> {
        let mut row = vec![0; self.stride];
        let mut shard = 0;
        for words in ranks {
            let kinds = if self.has_balance { 2 } else { 1 };
            let n = words.len() / kinds;
            for (at, &word) in words.iter().enumerate() {
                let kind = (at / n.max(1)) * (self.n_shards + 1);
                row[(kind + shard + at % n.max(1)) * ALIGNMENT_WORDS] = word;
            }
            shard += n;
        }
        let place = self.n_targets.len() * self.stride;
        device.upload_words(&self.words.slice(place, self.stride)?, &row)?;
        if let Some(watched) = watched {
            device.upload_words(&watched.words, &row[..self.n_shards * ALIGNMENT_WORDS])?;
        }
        Ok(())
    }

    /// Copies the sums of the shards that a pass has ended there.
    pub fn watch(
        &self,
        device: &Device,
        watched: &Watched,
        losses: &Buffer,
        pass: &MicroBatch,
    ) -> Result<()> {
        let (place, held) = (self.shard_of(pass) * ALIGNMENT_WORDS, pass.plan.shards);
        Ok(device.copy(&losses.slice(0, held)?, &watched.words.slice(place, held)?)?)
    }

    fn shard_of(&self, pass: &MicroBatch) -> usize {
        pass.first_sample / self.shard_size
    }
}

/// (s0 + s1) + (s2 + s3), and so on, of a power of two of sums.
fn pairwise(sums: &mut [f32]) -> f32 {
    let mut n = sums.len();
    while n > 1 {
        for pair in 0..n / 2 {
            sums[pair] = add(sums[2 * pair], sums[2 * pair + 1]);
        }
        n /= 2;
    }
    sums.first().copied().unwrap_or(0.0)
}
