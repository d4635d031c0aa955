//! The engine that computes a run's steps: model and data (a task), optimizer and graphs; it writes no
//! file.
//!
//! A run that trains and a run that is verified go through the same engine.

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Context, Graph};
use hlx_nn::{AVERAGE, GradientTree, MicroBatchPlan, Optimizer, PlateauState, Watched, Weights};

use super::losses::{LossRing, PendingLosses, StepLoss};
use super::pass::PassGraphs;
use crate::config::Config;
use crate::data::{Batches, Split};
use crate::evaluate::Evaluation;
use crate::run::{Checkpoint, LossSum, Progress, STATE_FILE, State, read_schedule_state};
use crate::schedule::RunSchedule;
use crate::task::{self, Batch, BatchSizes, Corpus, Task};

/// A configuration and its task on a device, ready for the next step.
pub(crate) struct Engine {
    pub ctx: Context,
    pub config: Config,
    pub task: Box<dyn Task>,
    pub split: Split,
    pub batches: Batches,
    pub total_steps: u64,
    pub optimizer: Box<dyn Optimizer>,
    pub plan: MicroBatchPlan,
    /// The losses of the last steps.
    pub ring: LossRing,
    schedule: RunSchedule,
    tree: GradientTree,
    passes: PassGraphs,
    update: Option<Graph>,
    /// Of a step of several passes, the losses that its update looks at.
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
}

impl Engine {
    /// Makes the model, or reads it from a checkpoint and proves its digests; returns the run's
    /// progress.
    ///
    /// # Errors
    /// A checkpoint of another model or corpus, or a damaged one; a device without the memory.
    pub fn new(
        ctx: &Context,
        config: Config,
        corpus: Corpus,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(Self, Progress)> {
        let ctx = &ctx.with_arithmetic(config.arithmetic);
        if let Some(checkpoint) = checkpoint {
            check_corpus(checkpoint, corpus.digest())?;
        }
        let task = task::make_for_training(ctx, &config, corpus, checkpoint)?;
        let split = task.split(config.data.eval_fraction, config.seed);
        let (train, seed) = (&config.train, config.seed);
        let (batch_size, micro_batch_size) = (train.batch_size, config.micro_batch_size());
        let batches = task.batches(&split.train, batch_size, seed);
        let total_steps = total_steps(&config, batches.per_epoch() as u64);
        config.freeze(task.weights())?;
        let mut optimizer = config.make_optimizer(task.weights())?;
        let progress = match checkpoint {
            None => Progress {
                seed,
                ..Progress::default()
            },
            Some(checkpoint) => load_state(checkpoint, task.weights(), optimizer.as_mut())?,
        };
        let plan = MicroBatchPlan::new(batch_size, micro_batch_size, config.shards())?;
        let tree = GradientTree::new(task.weights(), &plan)?;
        let mut schedule = RunSchedule::new(&config, total_steps)?;
        if let (Some(checkpoint), Some(_)) = (checkpoint, schedule.state()) {
            schedule.set_state(read_schedule_state(checkpoint)?);
        }
        let passes = PassGraphs::new(ctx, &config, task.weights())?;
        let ring = LossRing::new(ctx, &config)?;
        let is_whole = plan.passes.iter().all(|pass| pass.plan.whole_batch);
        let watched = match (train.skip_non_finite, is_whole) {
            (true, false) => Some(ring.watched(ctx, &plan)?),
            _ => None,
        };
        if train.skip_non_finite {
            optimizer.guard(watched.clone().unwrap_or_else(|| passes.watched()));
        }
        let engine = Self {
            ctx: ctx.clone(),
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
            tree,
        };
        Ok((engine, progress))
    }

    /// Launches one optimizer step and moves the cursor on.
    pub fn one_step(&mut self, progress: &mut Progress) -> Result<StepCounts> {
        let (step, batch_idx) = (progress.step, progress.batch_idx as usize);
        let samples = self.batches.samples(&self.order, batch_idx);
        let sizes = BatchSizes {
            batch_size: self.config.train.batch_size,
            micro_batch_size: self.config.micro_batch_size(),
        };
        let batch = self.task.batch(&samples, progress.epoch, sizes)?;
        let rate = self.schedule.rate(step);
        self.optimizer.prepare(f64::from(rate))?;
        self.passes.set_target_count(batch.n_targets)?;
        self.gradient(&batch, step)?;
        self.apply()?;
        self.ring
            .end_step(&self.ctx, self.optimizer.gradient_norm(), batch.n_targets)?;
        progress.step += 1;
        progress.batch_idx += 1;
        Ok(StepCounts {
            n_inputs: batch.n_inputs as u64,
            rate,
        })
    }

    /// Leaves the batch's gradient in the weights.
    fn gradient(&mut self, batch: &Batch, step: u64) -> Result<()> {
        self.passes.begin_step(&self.plan)?;
        for (rows, pass) in batch.micro_batches.iter().zip(&self.plan.passes) {
            let acted_on = (self.task.as_ref(), self.optimizer.as_ref());
            self.passes.replay(acted_on, rows, pass, step)?;
            if let Some(level) = pass.level {
                let losses = self.passes.losses();
                self.ring.take(&self.ctx, losses, pass)?;
                if let Some(losses) = self.passes.balance_losses() {
                    self.ring.take_balance(&self.ctx, losses, pass)?;
                }
                if let Some(watched) = &self.watched {
                    self.ring.watch(&self.ctx, watched, losses, pass)?;
                }
                self.tree.push(self.task.weights(), level)?;
            }
        }
        Ok(self.tree.finish(self.task.weights())?)
    }

    /// Clips the gradient and updates the parameters, unless the batch's one pass has done so.
    fn apply(&mut self) -> Result<()> {
        if self.plan.passes.iter().all(|pass| pass.plan.whole_batch) {
            return Ok(());
        }
        if self.update.is_none() {
            let (graph, ()) = self
                .ctx
                .record(|| self.optimizer.update(self.task.weights()))?;
            self.update = Some(graph);
        }
        if let Some(update) = &self.update {
            update.replay()?;
        }
        Ok(())
    }

    /// Evaluates samples, on the moving average of the parameters where the configuration says so.
    pub fn evaluate(&self, samples: &[usize]) -> Result<Evaluation> {
        let batch_size = self.config.micro_batch_size();
        self.with_evaluated_weights(|| self.task.evaluate(samples, batch_size))
    }

    /// Calls `body` with the weights that evaluations read in the place of the model's.
    pub fn with_evaluated_weights<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let buffers = self.optimizer.buffers();
        let average = buffers.iter().find(|(name, _)| *name == AVERAGE);
        let has_steps = self.optimizer.step_count() > 0;
        let wanted = self.config.train.evaluates_average() && has_steps;
        let Some((_, average)) = average.filter(|_| wanted) else {
            return body();
        };
        let values = self.weights().values();
        let kept = self.ctx.alloc(values.len())?;
        self.ctx.copy(values, &kept)?;
        self.ctx.copy(average, values)?;
        let found = body();
        self.ctx.copy(&kept, values)?;
        found
    }

    /// The model's weights.
    pub fn weights(&self) -> &Weights {
        self.task.weights()
    }

    /// Waits for a download of losses and returns them step by step.
    pub fn receive(&self, losses: PendingLosses) -> Result<Vec<StepLoss>> {
        self.ring.receive(losses, &self.plan)
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

    /// What a checkpoint keeps of a schedule with a state.
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
    let found = optimizer.digest(weights)?;
    checkpoint.prove("optimizer's state", &checkpoint.digests.optimizer, &found)?;
    Ok(progress)
}
