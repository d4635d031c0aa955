//! The training loop.
//!
//! A step: the batch's rows go up, the recorded forward and backward of each micro-batch is
//! replayed, the gradients go through the tree over the shards, and the recorded update runs; a
//! batch in one pass is one graph, update included.
//! Nothing waits for the device: a log period's losses are sent for at its end and logged when
//! they arrive, some steps later. Evaluations, checkpoints and ends of epochs do wait.

mod losses;
mod observer;
mod pass;
mod setup;

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::Result;
use hlx_core::{Context, Graph};
use hlx_nn::{GradientTree, MicroBatchPlan, Optimizer, Transformer};

pub use observer::{Observer, Silent};
pub(crate) use setup::load_model;
pub use setup::{Start, TrainOptions};

use crate::config::{Config, Format};
use crate::data::{Batch, Batches, Dataset, Split};
use crate::evaluate::{Evaluation, evaluate};
use crate::run::{
    Checkpoint, Digests, EvalSplit, Metric, MetricsFile, Progress, Retention, RunFolder,
    STATE_FILE, State,
};
use crate::schedule::Schedule;
use losses::{LossRing, PendingLosses};
use pass::PassGraphs;

/// The whole training corpus is evaluated at the end of an epoch whose mean loss is at most this
/// many times the target.
const CLOSE: f64 = 4.0;

/// A run in memory.
pub struct Trainer {
    ctx: Context,
    config: Config,
    folder: RunFolder,
    metrics: MetricsFile,
    data: Dataset,
    split: Split,
    batches: Batches,
    schedule: Schedule,
    total_steps: u64,
    model: Transformer,
    optimizer: Box<dyn Optimizer>,
    plan: MicroBatchPlan,
    tree: GradientTree,
    passes: PassGraphs,
    update: Option<Graph>,
    ring: LossRing,
    progress: Progress,
    /// The order of the epoch that `progress` is in.
    order: Vec<usize>,
    /// The digest of the newest checkpoint's listing, and its step.
    chain: (String, Option<u64>),
    period: Period,
    /// When the last log line was written.
    logged: Instant,
    /// Losses that were sent for, and what is logged with them.
    awaited: VecDeque<(PendingLosses, Option<LogLine>)>,
    /// The mean training loss of the last log period.
    last_loss: Option<f64>,
}

/// What a log period has counted beside its losses.
#[derive(Default)]
struct Period {
    n_steps: u64,
    n_tokens: u64,
    rate: f32,
}

/// A log line that waits for its losses.
struct LogLine {
    step: u64,
    epoch: f64,
    period: Period,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps done.
    pub step: u64,
    /// Epochs done, in part.
    pub epochs: f64,
    /// Whether the target loss ended it.
    pub reached_target: bool,
    /// The loss over the training corpus, without dropout and smoothing: of pairs, and of a
    /// text with a target loss.
    pub train: Option<Evaluation>,
    /// The mean training loss of the last log period.
    pub last_loss: Option<f64>,
    /// The loss over the held-out samples, if there are any.
    pub held_out: Option<Evaluation>,
    /// The last checkpoint's digests.
    pub digests: Digests,
}

impl Trainer {
    /// The model.
    pub fn model(&self) -> &Transformer {
        &self.model
    }

    /// The device.
    pub fn context(&self) -> &Context {
        &self.ctx
    }

    /// The configuration, every default filled in.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The run folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The corpus.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// Which samples are trained on, and which are held out.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.progress.step
    }

    /// Steps of the whole run, if no target loss ends it before.
    pub fn total_steps(&self) -> u64 {
        self.total_steps
    }

    /// Trains to the end of the run, evaluates, and saves the last checkpoint.
    ///
    /// # Errors
    /// What the device or the disk reports; the checkpoints written before stay whole.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        while self.progress.step < self.total_steps && !self.progress.reached_target {
            self.one_step()?;
            observer.step(self.progress.step, self.total_steps);
            self.after_step(observer)?;
        }
        self.finish(observer)
    }

    /// Launches one optimizer step and moves the cursor on.
    fn one_step(&mut self) -> Result<()> {
        let (step, batch_idx) = (self.progress.step, self.progress.batch_idx as usize);
        let positions = self.config.positions();
        let batch = self
            .batches
            .batch(&self.data, &self.order, batch_idx, positions);
        let rate = self.schedule.rate(step);
        self.optimizer.prepare(f64::from(rate))?;
        self.passes.set_target_count(batch.n_targets)?;
        self.gradient(&batch, step)?;
        self.apply()?;
        self.ring
            .end_step(&self.ctx, self.optimizer.gradient_norm(), batch.n_targets)?;
        self.period.n_steps += 1;
        self.period.n_tokens += batch.n_tokens as u64;
        self.period.rate = rate;
        self.progress.step += 1;
        self.progress.batch_idx += 1;
        Ok(())
    }

    /// Leaves the batch's gradient in the store.
    fn gradient(&mut self, batch: &Batch, step: u64) -> Result<()> {
        for (rows, pass) in batch.micro_batches.iter().zip(&self.plan.passes) {
            let acted_on = (&self.model, self.optimizer.as_ref());
            self.passes.replay(acted_on, rows, pass, step)?;
            if let Some(level) = pass.level {
                self.ring.take(&self.ctx, self.passes.losses(), pass)?;
                self.tree.push(self.model.store(), level)?;
            }
        }
        Ok(self.tree.finish(self.model.store())?)
    }

    /// Clips the gradient and updates the parameters, unless the batch's one pass has done so.
    fn apply(&mut self) -> Result<()> {
        if self.plan.passes.iter().all(|pass| pass.plan.whole_batch) {
            return Ok(());
        }
        if self.update.is_none() {
            let (graph, ()) = self
                .ctx
                .record(|| self.optimizer.update(self.model.store()))?;
            self.update = Some(graph);
        }
        if let Some(update) = &self.update {
            update.replay()?;
        }
        Ok(())
    }

    /// Logs, evaluates, saves and ends the epoch, each when its time has come.
    fn after_step(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let (step, train) = (self.progress.step, &self.config.train);
        let due = |every: u64| every > 0 && step.is_multiple_of(every);
        let (log, eval, save) = (
            due(train.log_every),
            due(train.eval_every),
            due(train.checkpoint_every),
        );
        let epoch_ends = self.progress.batch_idx as usize >= self.batches.per_epoch();
        if log || save || epoch_ends || self.ring.is_full() {
            self.send_for_losses(log)?;
        }
        self.receive_losses(eval || save || epoch_ends, observer)?;
        if epoch_ends {
            self.end_epoch(observer)?;
        }
        if eval && !self.split.eval.is_empty() {
            self.evaluate(EvalSplit::HeldOut, observer)?;
        }
        if save {
            self.save(observer)?;
        }
        Ok(())
    }

    /// Sends for the losses of the steps since the last time, and ends the log period.
    fn send_for_losses(&mut self, log: bool) -> Result<()> {
        if let Some(losses) = self.ring.take_all(&self.ctx)? {
            let line = log.then(|| LogLine {
                step: self.progress.step,
                epoch: self.epochs(),
                period: std::mem::take(&mut self.period),
            });
            self.awaited.push_back((losses, line));
        }
        Ok(())
    }

    /// Takes in the losses that have arrived, or `all`, and writes their log lines.
    fn receive_losses(&mut self, all: bool, observer: &mut dyn Observer) -> Result<()> {
        while let Some((losses, line)) = self.awaited.pop_front() {
            if !all && !losses.is_done()? {
                self.awaited.push_front((losses, line));
                break;
            }
            let mut grad_norm = 0.0;
            for step in self.ring.receive(losses, &self.plan)? {
                self.progress.epoch_loss.add(step.loss, step.n_targets);
                self.progress.period_loss.add(step.loss, step.n_targets);
                grad_norm = step.grad_norm;
            }
            if let Some(line) = line {
                self.log(line, grad_norm, observer)?;
            }
        }
        Ok(())
    }

    fn log(&mut self, line: LogLine, grad_norm: f32, observer: &mut dyn Observer) -> Result<()> {
        let losses = std::mem::take(&mut self.progress.period_loss);
        self.last_loss = losses.mean();
        let seconds = self.logged.elapsed().as_secs_f64();
        self.logged = Instant::now();
        let metric = Metric::Train {
            step: line.step,
            epoch: line.epoch,
            loss: losses.mean().unwrap_or(0.0),
            grad_norm,
            learning_rate: line.period.rate,
            ms_per_step: seconds * 1e3 / line.period.n_steps.max(1) as f64,
            tokens_per_second: line.period.n_tokens as f64 / seconds.max(1e-9),
        };
        self.note(&metric, observer)
    }

    fn note(&mut self, metric: &Metric, observer: &mut dyn Observer) -> Result<()> {
        if self.metrics.append(metric)? {
            observer.metric(metric);
        }
        Ok(())
    }

    /// Moves to the next epoch; looks whether the target has been reached if the epoch's losses
    /// came close to it.
    fn end_epoch(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let losses = std::mem::take(&mut self.progress.epoch_loss);
        self.progress.epoch += 1;
        self.progress.batch_idx = 0;
        self.order = self.batches.order(self.progress.epoch);
        let Some(target) = self.config.train.target_loss else {
            return Ok(());
        };
        if losses.mean().is_some_and(|mean| mean <= CLOSE * target) {
            let evaluation = self.evaluate(EvalSplit::Train, observer)?;
            self.progress.reached_target = evaluation.loss <= target;
        }
        Ok(())
    }

    /// Evaluates samples, and notes it; the log period's clock stands still meanwhile.
    fn evaluate(&mut self, split: EvalSplit, observer: &mut dyn Observer) -> Result<Evaluation> {
        let paused = Instant::now();
        let samples = match split {
            EvalSplit::Train => &self.split.train,
            EvalSplit::HeldOut => &self.split.eval,
        };
        let batch_size = self.config.micro_batch_size();
        let found = evaluate(&self.model, &self.data, samples, batch_size)?;
        let metric = Metric::Eval {
            step: self.progress.step,
            split,
            loss: found.loss,
            loss_with_end: found.loss_with_end,
            n_bytes: found.n_bytes,
        };
        self.note(&metric, observer)?;
        if split == EvalSplit::HeldOut || self.split.eval.is_empty() {
            self.progress.ranking_loss = Some(found.loss);
        }
        self.logged += paused.elapsed();
        Ok(found)
    }

    fn finish(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        self.send_for_losses(false)?;
        self.receive_losses(true, observer)?;
        // A large text is not read once more unless its loss was asked for.
        let wanted = self.data.format() == Format::Pairs || self.config.train.target_loss.is_some();
        let train = match wanted {
            true => Some(self.evaluate(EvalSplit::Train, observer)?),
            false => None,
        };
        let held_out = if self.split.eval.is_empty() {
            None
        } else {
            Some(self.evaluate(EvalSplit::HeldOut, observer)?)
        };
        if let (Some(target), Some(train)) = (self.config.train.target_loss, train) {
            self.progress.reached_target |= train.loss <= target;
        }
        if self.chain.1 != Some(self.progress.step) {
            self.save(observer)?;
        }
        let newest = self.folder.newest()?;
        let digests = newest.map(|checkpoint| checkpoint.digests);
        Ok(Outcome {
            step: self.progress.step,
            epochs: self.epochs(),
            reached_target: self.progress.reached_target,
            train,
            last_loss: self.last_loss,
            held_out,
            digests: digests.ok_or_else(|| anyhow::anyhow!("the run has no checkpoint"))?,
        })
    }

    fn epochs(&self) -> f64 {
        let within = self.progress.batch_idx as f64 / self.batches.per_epoch() as f64;
        self.progress.epoch as f64 + within
    }

    /// Writes a checkpoint and removes those that need not stay.
    fn save(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let paused = Instant::now();
        let store = self.model.store();
        let optimizer = self.optimizer.state(store)?;
        let digests = Digests {
            step: self.progress.step,
            parameters: store.digest()?,
            optimizer: optimizer.digest(),
            config: self.config.digest()?,
            data: self.data.digest().to_owned(),
            loss: self
                .progress
                .ranking_loss
                .or(self.progress.epoch_loss.mean()),
            previous: self.chain.0.clone(),
            files: Default::default(),
        };
        let mut sizes = serde_json::to_vec_pretty(self.model.config())?;
        sizes.push(b'\n');
        let files = [
            (hlx_nn::MODEL_FILE, store.to_safetensors()?),
            (hlx_nn::CONFIG_FILE, sizes),
            (
                STATE_FILE,
                State::new(self.progress.clone(), optimizer).to_bytes()?,
            ),
        ];
        let parent = self.folder.checkpoints();
        self.chain = (
            Checkpoint::write(&parent, digests, &files)?,
            Some(self.progress.step),
        );
        Retention {
            keep: self.config.train.keep,
        }
        .apply(&parent)?;
        observer.checkpoint(self.progress.step, &parent);
        self.logged += paused.elapsed();
        Ok(())
    }
}
