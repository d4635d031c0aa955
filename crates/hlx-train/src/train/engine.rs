//! The engine that computes a run's steps: model and data (a task), optimizer and graphs; it writes no
//! file.
//!
//! A run that trains and a run that is verified go through the same engine.

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Device, Graph};
use hlx_nn::{
    AVERAGE, Alone, Exchange, GradientTree, MicroBatchPlan, Optimizer, PlateauState, ShardPlan,
    Watched, Weights,
};
use hlx_ranks::Group;

use super::exchange::ExchangeTimes;
use super::losses::{LossRing, PendingLosses, StepLoss};
use super::pass::{PassGraphs, WindowIsFinal};
use super::shared_step::{SharedStep, as_slices, whole_state};
use crate::config::Config;
use crate::data::{Batches, Split};
use crate::rows::{Batch, BatchSizes};
use crate::run::{Checkpoint, LossSum, Progress, STATE_FILE, State, read_schedule_state};
use crate::schedule::RunSchedule;
use crate::task::{self, Corpus, Task};

/// A configuration and its task on a device, ready for the next step.
pub(crate) struct Engine {
    pub device: Device,
    pub config: Config,
    pub task: Task,
    pub split: Split,
    pub batches: Batches,
    pub total_steps: u64,
    pub optimizer: Box<dyn Optimizer>,
    pub plan: MicroBatchPlan,
    /// The ranks that share the batches.
    pub(super) group: Group,
    /// All shards of a batch, and those of this rank.
    pub(super) shards: ShardPlan,
    /// Where ranks share the batch.
    shared: Option<SharedStep>,
    /// Whether this rank wants the run to stop after the coming step.
    pub wants_stop: bool,
    /// The losses of the last steps.
    pub ring: LossRing,
    schedule: RunSchedule,
    tree: GradientTree,
    pub(super) passes: PassGraphs,
    update: Option<Graph>,
    /// For a step of several passes: the losses that its update looks at.
    watched: Option<Watched>,
    /// The order of the epoch that the run is in.
    order: Vec<usize>,
}

/// The inputs and the rate of a step.
pub(crate) struct StepCounts {
    /// Bytes read, padding left out, or images.
    pub n_inputs: u64,
    /// The learning rate.
    pub rate: f32,
    /// Whether the run stops after this step, as some rank wanted before it.
    pub stops: bool,
}

impl Engine {
    /// Makes the model, or reads it from a checkpoint and proves its digests; returns the run's
    /// progress.
    ///
    /// # Errors
    /// A checkpoint of another model or corpus, or a damaged one; a device without the memory.
    pub fn new(
        device: &Device,
        config: Config,
        corpus: Corpus,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(Self, Progress)> {
        Self::of_rank(device, config, corpus, checkpoint, &Group::alone())
    }

    /// As [`Engine::new`], as one of the ranks that share each batch; all of them call it.
    ///
    /// # Errors
    /// As [`Engine::new`], a number of ranks that does not divide the shards, and a rank that is lost.
    pub fn of_rank(
        device: &Device,
        config: Config,
        corpus: Corpus,
        checkpoint: Option<&Checkpoint>,
        group: &Group,
    ) -> Result<(Self, Progress)> {
        let device = device.in_arithmetic(config.arithmetic)?;
        let device = &device.with_saved_format(config.train.saved.unwrap_or_default());
        if let Some(checkpoint) = checkpoint {
            check_corpus(checkpoint, corpus.digest())?;
        }
        let task = task::make_for_training(device, &config, corpus, checkpoint)?;
        let split = task.split(config.data.eval_fraction, config.seed);
        let (train, seed) = (&config.train, config.seed);
        let (batch_size, micro_batch_size) = (train.batch_size, config.micro_batch_size());
        let batches = task.batches(&split.train, batch_size, seed);
        let total_steps = total_steps(&config, batches.per_epoch() as u64);
        config.freeze(task.weights())?;
        let shards = ShardPlan::new(batch_size, config.shards())?;
        let shards = shards.of_rank(group.rank(), group.n_ranks())?;
        let shared = match shards.is_whole() {
            true => None,
            false => Some(SharedStep::new(group, &config, task.weights())?),
        };
        let mut optimizer = config.make_optimizer(task.weights())?;
        let progress = match checkpoint {
            None => Progress {
                seed,
                ..Progress::default()
            },
            Some(checkpoint) => {
                let exchange = shared
                    .as_ref()
                    .map_or(&Alone as &dyn Exchange, |shared| shared.exchange());
                load_state(checkpoint, task.weights(), exchange, optimizer.as_mut())?
            }
        };
        let plan = MicroBatchPlan::of(&shards, micro_batch_size)?;
        let tree = match shared {
            None => GradientTree::new(task.weights(), &plan)?,
            Some(_) => GradientTree::of_rank(task.weights(), &plan)?,
        };
        let mut schedule = RunSchedule::new(&config, total_steps)?;
        if let (Some(checkpoint), Some(_)) = (checkpoint, schedule.state()) {
            schedule.set_state(read_schedule_state(checkpoint)?);
        }
        let mut passes = PassGraphs::new(device, &config, task.weights())?;
        if shared.is_some() && !task.weights().buffers().is_empty() {
            passes.defer_norms();
        }
        if let Some(shared) = &shared {
            passes.watch(shared.exchange().windows(task.weights())?);
        }
        let ring = LossRing::new(device, &config, Some(&plan).filter(|_| shared.is_none()))?;
        let watched = match (train.skips_non_finite(), plan.is_one_pass()) {
            (true, false) => Some(ring.watched(device)?),
            _ => None,
        };
        if train.skips_non_finite() {
            optimizer.guard(watched.clone().unwrap_or_else(|| passes.watched()));
        }
        let engine = Self {
            device: device.clone(),
            passes,
            ring,
            watched,
            schedule,
            order: batches.order(progress.epoch),
            update: None,
            config,
            task,
            split,
            batches,
            total_steps,
            optimizer,
            plan,
            group: group.clone(),
            shards,
            shared,
            wants_stop: false,
            tree,
        };
        Ok((engine, progress))
    }

    /// Launches one optimizer step and moves the cursor on.
    pub fn one_step(&mut self, progress: &mut Progress) -> Result<StepCounts> {
        let (step, batch_idx) = (progress.step, progress.batch_idx as usize);
        let samples = self.batches.samples(&self.order, batch_idx);
        let batch = self.batch(&samples, progress.epoch)?;
        let rate = self.schedule.rate(step);
        self.optimizer.prepare(rate)?;
        // A batch of prompts alone, whose answers were cut off, has no loss and no gradient.
        self.passes.set_target_count(batch.n_targets.max(1))?;
        self.check_shard(&samples, progress.epoch, step)?;
        self.gradient(&batch, step)?;
        let stops = match self.shared {
            None => self.apply().map(|()| false)?,
            Some(_) => self.apply_shared()?,
        };
        self.ring.end_step(
            &self.device,
            self.optimizer.gradient_norm(),
            batch.n_targets,
        )?;
        progress.step += 1;
        progress.batch_idx += 1;
        Ok(StepCounts {
            n_inputs: batch.n_inputs as u64,
            rate: rate as f32,
            stops,
        })
    }

    /// Makes this rank's rows of a step, with the counts of the whole batch.
    fn batch(&self, samples: &[usize], epoch: u64) -> Result<Batch> {
        let mine = self.shards.samples();
        let sizes = BatchSizes {
            batch_size: self.shards.batch_size(),
            micro_batch_size: self.plan.micro_batch_size,
            first_sample: mine.start,
            n_samples: mine.len(),
        };
        let mut batch = self.task.batch(samples, epoch, sizes)?;
        if let Some(shared) = &self.shared {
            let counts = [batch.n_targets, batch.n_inputs];
            [batch.n_targets, batch.n_inputs] = shared.sum_counts(counts)?;
        }
        Ok(batch)
    }

    /// Leaves the batch's gradient in the weights.
    fn gradient(&mut self, batch: &Batch, step: u64) -> Result<()> {
        self.passes.begin_step(&self.plan)?;
        let n_passes = self.plan.passes.len();
        for (n, (rows, pass)) in (1..).zip(batch.micro_batches.iter().zip(&self.plan.passes)) {
            let (task, optimizer) = (&self.task, self.optimizer.as_ref());
            let weights = self.task.weights();
            // In the step's last pass, sums go to the other ranks as soon as they are whole.
            let shared = self.shared.as_ref().filter(|_| n == n_passes);
            let mut exchange = |bucket| match shared {
                Some(shared) => shared.begin_bucket(weights, &self.tree, pass.level, bucket),
                None => Ok(()),
            };
            let is_final = shared.map(|_| &mut exchange as WindowIsFinal<'_>);
            self.passes
                .replay(task, optimizer, rows, pass, step, is_final)?;
            if let Some(level) = pass.level {
                let losses = self.passes.losses();
                self.ring.take(&self.device, losses, pass)?;
                if let Some(losses) = self.passes.balance_losses() {
                    self.ring.take_balance(&self.device, losses, pass)?;
                }
                if let (Some(watched), None) = (&self.watched, &self.shared) {
                    self.ring.watch(&self.device, watched, losses, pass)?;
                }
                if shared.is_none() {
                    self.tree.push(weights, level)?;
                }
            }
        }
        match &self.shared {
            None => Ok(self.tree.finish(self.task.weights())?),
            Some(_) => {
                self.tree.close();
                Ok(())
            }
        }
    }

    /// Clips the gradient and updates the parameters, unless the batch's one pass has done so.
    fn apply(&mut self) -> Result<()> {
        if self.plan.is_one_pass() {
            return Ok(());
        }
        self.update()
    }

    /// Sums the gradient over the ranks, updates this rank's part and gathers the others'; returns
    /// whether some rank wants to stop.
    fn apply_shared(&mut self) -> Result<bool> {
        let Some(shared) = &mut self.shared else {
            return Ok(false);
        };
        let weights = self.task.weights();
        let stops = shared.reduce(
            &self.device,
            weights,
            &self.ring,
            self.watched.as_ref(),
            &self.shards,
            &self.plan,
            self.wants_stop,
        )?;
        if let Some(norms) = self.passes.take_norms() {
            let ranks = shared.exchange().gather_words(&norms)?;
            self.passes.follow_norms(&ranks, self.shards.n_shards())?;
        }
        self.update()?;
        if let Some(shared) = &self.shared {
            shared.gather_values(self.task.weights())?;
        }
        Ok(stops)
    }

    /// Replays the update, which is recorded at first.
    fn update(&mut self) -> Result<()> {
        if self.update.is_none() {
            let (graph, ()) = self
                .device
                .record(|| self.optimizer.update(self.task.weights()))?;
            self.update = Some(graph);
        }
        if let Some(update) = &self.update {
            update.replay()?;
        }
        Ok(())
    }

    /// Calls `body` with the weights that evaluations read in the place of the model's.
    pub fn with_evaluated_weights<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let buffers = self.optimizer.buffers();
        let average = buffers.into_iter().find(|(name, _)| *name == AVERAGE);
        let has_steps = self.optimizer.step_count() > 0;
        let wanted = self.config.train.evaluates_average() && has_steps;
        let Some((_, average)) = average.filter(|_| wanted) else {
            return body();
        };
        let whole = hlx_nn::gather_buffer(self.exchange(), self.weights(), None, average)?;
        let values = self.weights().values();
        let original = self.device.alloc(values.len())?;
        self.device.copy(values, &original)?;
        self.device.copy(&whole, values)?;
        let found = body();
        self.device.copy(&original, values)?;
        found
    }

    /// The model's weights.
    pub fn weights(&self) -> &Weights {
        self.task.weights()
    }

    /// What stands between this rank's gradients and the update.
    pub fn exchange(&self) -> &dyn Exchange {
        let shared = self.shared.as_ref();
        shared.map_or(&Alone, |shared| shared.exchange())
    }

    /// What carries the words between the ranks, where there are several.
    pub fn carrier(&self) -> Option<String> {
        Some(self.shared.as_ref()?.exchange().carrier())
    }

    /// When the exchanges of the steps since the last call ran.
    pub fn take_exchange_times(&mut self) -> ExchangeTimes {
        let shared = self.shared.as_mut();
        shared.map(SharedStep::take_times).unwrap_or_default()
    }

    /// The whole buffers of the optimizer's state; all ranks call it.
    pub fn whole_state(&self) -> Result<Vec<(&'static str, hlx_core::Buffer)>> {
        whole_state(self.exchange(), self.weights(), self.optimizer.as_ref())
    }

    /// Waits for a download of losses and returns them step by step.
    pub fn receive(&self, losses: PendingLosses) -> Result<Vec<StepLoss>> {
        self.ring.receive(losses)
    }

    /// Whether every batch of the epoch has been trained on.
    pub fn epoch_ends(&self, progress: &Progress) -> bool {
        progress.batch_idx as usize >= self.batches.per_epoch()
    }

    /// Moves to the next epoch; returns the losses of the one that ends, which a plateau's rate
    /// follows. All of them must have been received.
    pub fn next_epoch(&mut self, progress: &mut Progress) -> LossSum {
        let losses = std::mem::take(&mut progress.epoch_loss);
        self.schedule.end_epoch(losses.mean());
        progress.epoch += 1;
        progress.batch_idx = 0;
        self.order = self.batches.order(progress.epoch);
        losses
    }

    /// What a checkpoint holds of a schedule with a state.
    pub fn schedule_state(&self) -> Option<PlateauState> {
        self.schedule.state()
    }

    /// The epoch and the batch of the next step.
    pub fn cursor(&self, progress: &Progress) -> (u64, u64) {
        if self.epoch_ends(progress) {
            (progress.epoch + 1, 0)
        } else {
            (progress.epoch, progress.batch_idx)
        }
    }
}

/// Steps until the configured epochs or steps are done, whichever comes first.
fn total_steps(config: &Config, per_epoch: u64) -> u64 {
    let by_epochs = config
        .train
        .epochs
        .map(|epochs| epochs.saturating_mul(per_epoch));
    let asked = [by_epochs, config.train.max_steps];
    asked.into_iter().flatten().min().unwrap_or(0)
}

/// Fails unless a checkpoint was trained on data of this digest.
fn check_corpus(checkpoint: &Checkpoint, digest: &str) -> Result<()> {
    ensure!(
        checkpoint.digests.data == digest,
        "{}: was trained on another corpus: its SHA-256 is {}, this one's {digest}",
        checkpoint.path().display(),
        checkpoint.digests.data,
    );
    Ok(())
}

/// Reads the optimizer and the progress of a checkpoint, and proves the optimizer's digest.
fn load_state(
    checkpoint: &Checkpoint,
    weights: &Weights,
    exchange: &dyn Exchange,
    optimizer: &mut dyn Optimizer,
) -> Result<Progress> {
    let name = || checkpoint.path().display().to_string();
    let state = State::from_bytes(checkpoint.file(STATE_FILE)?);
    let State {
        progress,
        optimizer: saved,
        ..
    } = state.with_context(|| format!("{}/{STATE_FILE}", name()))?;
    optimizer.load_state(weights, &saved).with_context(name)?;
    let whole = whole_state(exchange, weights, optimizer)?;
    let found = optimizer.state_of(weights, &as_slices(&whole))?.digest();
    checkpoint.prove("optimizer's state", &checkpoint.digests.optimizer, &found)?;
    Ok(progress)
}
