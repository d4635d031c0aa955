//! The training loop.
//!
//! A step: the batch's rows are uploaded, the graph of each micro-batch's forward and backward pass
//! is replayed, the gradients are summed by the tree over the shards, and the recorded update is
//! replayed; a batch in one pass is one graph, update included.
//! Nothing waits for the device: the download of a log period's losses starts at its end, and they
//! are logged when they arrive, some steps later. Evaluations, checkpoints and ends of epochs wait.

mod chain_recorder;
mod engine;
mod exchange;
mod files;
mod finite;
mod losses;
mod memory;
mod observer;
mod pace;
mod pass;
mod plan;
mod room;
mod saving;
mod setup;
mod shared_step;
mod shared_work;
mod silent_errors;
mod state_file;

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::Result;
use hlx_core::warn_once;
use hlx_core::{Device, DeviceKind};
use hlx_nn::Weights;

pub(crate) use chain_recorder::{ChainRecorder, PendingChainRecord};
pub(crate) use engine::Engine;
pub use exchange::{ExchangeTimes, Span, Traffic};
use files::RunFiles;
use finite::FiniteWatch;
pub use finite::NotFinite;
pub use memory::{DoesNotFit, RunMemory, SmallerRun, written};
pub use observer::{Observer, Silent};
pub use plan::{OtherOptimizer, TrainPlan};
pub use setup::{Start, TrainOptions};

use crate::config::Config;
use crate::data::Split;
use crate::evaluate::Evaluation;
use crate::ranks::Group;
use crate::run::{Digests, EvalSplit, Metric, Monitor, Progress, RankPlace, RunFolder};
use crate::task::Task;
pub(crate) use losses::{PendingLosses, StepLoss};
use pace::FirstSteps;
use silent_errors::compare_records;

/// The whole training corpus is evaluated at the end of an epoch whose mean loss is at most this
/// many times the target.
const CLOSE: f64 = 4.0;

/// A run in memory.
pub struct Trainer {
    engine: Engine,
    /// The ranks that share the run's batches.
    group: Group,
    places: Vec<RankPlace>,
    folder: RunFolder,
    /// The files of the folder that grow, and its lock; rank 0 has them.
    files: Option<RunFiles>,
    recorder: ChainRecorder,
    progress: Progress,
    monitor: Monitor,
    /// The digest of the newest checkpoint's listing, and its step.
    newest: (String, Option<u64>),
    period: Period,
    /// When the last log line was written.
    logged: Instant,
    /// Downloads that have started and are not written to the files yet, in order.
    awaited: VecDeque<Awaited>,
    /// The mean training loss of the last log period.
    last_loss: Option<f64>,
    /// Steps skipped since the last log line.
    period_skips: u64,
    /// Losses that are not finite.
    watch: FiniteWatch,
    /// When this rank's exchanges ran, up to the last log line.
    exchange_times: ExchangeTimes,
    /// What the run takes of the device's memory.
    memory: RunMemory,
    pace: FirstSteps,
}

/// Downloads of one moment: losses, a log line that is made of them, and the digests of a record
/// of the chain.
struct Awaited {
    step: u64,
    epoch: f64,
    losses: Option<PendingLosses>,
    line: Option<LogLine>,
    record: Option<PendingChainRecord>,
}

/// What a log period has counted beside its losses.
#[derive(Default)]
struct Period {
    n_steps: u64,
    n_inputs: u64,
    rate: f32,
}

impl Awaited {
    fn is_done(&self) -> Result<bool> {
        let losses = self
            .losses
            .as_ref()
            .map(PendingLosses::is_done)
            .transpose()?;
        let record = self
            .record
            .as_ref()
            .map(PendingChainRecord::is_done)
            .transpose()?;
        Ok(losses.unwrap_or(true) && record.unwrap_or(true))
    }
}

/// What a log line tells of the last step of its period.
#[derive(Clone, Copy, Default)]
struct LastStep {
    grad_norm: f32,
    balance: Option<f32>,
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
    /// Whether it ended because the held-out loss had stopped to improve.
    pub stopped_early: bool,
    /// Steps that were skipped as their loss or norm was not finite.
    pub skipped: u64,
    /// The first step since the run began or was resumed whose loss was NaN or infinite.
    pub first_non_finite: Option<u64>,
    /// Why the run has ended before its end, or has come to nothing.
    pub not_finite: Option<NotFinite>,
    /// Whether the observer ended it before its end; it continues when it is resumed.
    pub interrupted: bool,
    /// The loss over the training corpus, without dropout and smoothing: of pairs, of images, and of
    /// a text with a target loss.
    pub train: Option<Evaluation>,
    /// The mean training loss of the last log period.
    pub last_loss: Option<f64>,
    /// The loss over the held-out samples, if there are any.
    pub held_out: Option<Evaluation>,
    /// The last checkpoint's digests; those of none are empty.
    pub digests: Digests,
}

impl Trainer {
    /// The model and its data.
    pub fn task(&self) -> &Task {
        &self.engine.task
    }

    /// The model's weights.
    pub fn weights(&self) -> &Weights {
        self.engine.weights()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.engine.device
    }

    /// The configuration, every default filled in.
    pub fn config(&self) -> &Config {
        &self.engine.config
    }

    /// What the run takes of the device's memory, as it was found before the first step.
    pub fn memory(&self) -> &RunMemory {
        &self.memory
    }

    /// Where each rank of the run runs; one without others.
    pub fn places(&self) -> &[RankPlace] {
        &self.places
    }

    /// What carries the words between the ranks of the run, where there are several: `NCCL 2.28.3`.
    pub fn carrier(&self) -> Option<String> {
        self.engine.carrier()
    }

    /// When this rank's exchanges have run since the trainer was made.
    pub fn exchange_times(&mut self) -> &ExchangeTimes {
        self.exchange_times.add(self.engine.take_exchange_times());
        &self.exchange_times
    }

    /// What the run is about to do, as `hlx train --json` prints it.
    pub fn facts(&self) -> serde_json::Value {
        let (device, split) = (self.device(), self.split());
        let info = device.info();
        serde_json::json!({
            "kind": "start", "device": info.name, "driver": info.driver, "selector": info.selector,
            "arithmetic": device.arithmetic(), "parameters": self.weights().n_elements(),
            "train_samples": split.train.len(), "eval_samples": split.eval.len(),
            "step": self.step(), "total_steps": self.total_steps(),
            "run": self.folder.path(), "ranks": self.places, "exchange": self.carrier(),
        })
    }

    /// The run folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Which samples are trained on, and which are held out.
    pub fn split(&self) -> &Split {
        &self.engine.split
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.progress.step
    }

    /// Steps of the whole run, if no target loss ends it before.
    pub fn total_steps(&self) -> u64 {
        self.engine.total_steps
    }

    /// Trains to the end of the run, evaluates, and saves the last checkpoint. If the observer
    /// ends it before ([`Observer::must_stop`]), a checkpoint of the step just done is saved. A loss or parameters that
    /// are NaN or infinite end it, too ([`Outcome::not_finite`]), and are not saved.
    ///
    /// # Errors
    /// What the device or the disk reports; the checkpoints written before stay whole.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        match self.steps(observer) {
            Err(error) => self.ended_by(error.downcast::<NotFinite>()?),
            ended => ended,
        }
    }

    fn steps(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        while self.progress.step < self.engine.total_steps
            && !self.progress.reached_target
            && !self.stops_early()
        {
            self.engine.wants_stop = observer.must_stop();
            let all_stop = self.one_step()?;
            observer.step(self.progress.step, self.engine.total_steps);
            if let Some(ms_per_step) = self.pace.take() {
                observer.pace(ms_per_step);
            }
            self.after_step(observer)?;
            // Several ranks stop after the step before which one of them wanted to.
            let stops = all_stop || self.group.is_alone() && observer.must_stop();
            if stops && self.progress.step < self.engine.total_steps {
                return self.interrupt(observer);
            }
        }
        self.finish(observer)
    }

    /// Computes a step; returns whether the ranks have agreed to stop after it.
    fn one_step(&mut self) -> Result<bool> {
        let began = Instant::now();
        let counts = self.engine.one_step(&mut self.progress)?;
        self.pace.step(&self.engine.device, began)?;
        self.period.n_steps += 1;
        self.period.n_inputs += counts.n_inputs;
        self.period.rate = counts.rate;
        Ok(counts.stops)
    }

    /// Logs, evaluates, saves and ends the epoch, each at the steps that the configuration gives.
    fn after_step(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let (step, train) = (self.progress.step, &self.engine.config.train);
        let due = |every: u64| every > 0 && step.is_multiple_of(every);
        let (log, eval, save) = (
            due(train.log_every),
            due(train.eval_every),
            due(train.checkpoint_every),
        );
        let epoch_ends = self.engine.epoch_ends(&self.progress);
        if log || save || epoch_ends || self.engine.ring.is_full() {
            self.start_downloads(log, log || save)?;
        }
        // Ranks must decide alike, so they do not depend on when a download arrives.
        let waits = eval || save || epoch_ends || !self.group.is_alone();
        self.receive(waits, observer)?;
        if epoch_ends {
            self.end_epoch(observer)?;
        }
        let mut is_best = false;
        if eval && !self.engine.split.eval.is_empty() {
            let found = self.evaluate(EvalSplit::HeldOut, observer)?;
            let min_delta = self.engine.config.train.min_delta.unwrap_or(0.0);
            is_best = self.monitor.evaluation(step, found.loss, min_delta);
            self.warn_of_evaluation(&found);
            if found.loss.is_finite() {
                self.write_samples(observer)?;
            }
        }
        if save {
            self.save(observer)?;
        } else if is_best && self.engine.config.train.save_best {
            self.save_now(observer)?;
        }
        Ok(())
    }

    /// Whether the held-out loss has not improved for as many evaluations as the configuration allows.
    fn stops_early(&self) -> bool {
        let patience = self.engine.config.train.patience;
        patience.is_some_and(|patience| self.monitor.since_best >= patience)
    }

    /// Lets the model continue from the configured prompts. A text that cannot be made is a line of the log: training
    /// continues.
    fn write_samples(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let paused = Instant::now();
        let prompts = self.engine.config.sample.prompts.clone();
        if prompts.is_empty() {
            return Ok(());
        }
        let texts = self.engine.samples(&self.group)?;
        for (prompt, text) in prompts.into_iter().zip(texts) {
            let step = self.progress.step;
            match text {
                Ok(text) => self.note(&Metric::Sample { step, prompt, text }, observer)?,
                Err(reason) => warn_once(&format!("sample.prompts: {prompt:?}: {reason}")),
            }
        }
        self.logged += paused.elapsed();
        Ok(())
    }

    /// Starts the download of the losses since the last call; `log` ends the log period, and
    /// `record` launches the state's digests unless the chain has this step's already.
    fn start_downloads(&mut self, log: bool, record: bool) -> Result<()> {
        let losses = self.engine.ring.take_all(&self.engine.device)?;
        let (step, epoch) = (self.progress.step, self.epochs());
        let line = (log && losses.is_some()).then(|| LogLine {
            step,
            epoch,
            period: std::mem::take(&mut self.period),
        });
        let record = if record {
            self.recorder.launch(&self.engine, &self.progress)?
        } else {
            None
        };
        if losses.is_some() || record.is_some() {
            self.awaited.push_back(Awaited {
                step,
                epoch,
                losses,
                line,
                record,
            });
        }
        Ok(())
    }

    /// Receives the downloads that have finished, or waits for `all`, and writes log lines and
    /// records.
    fn receive(&mut self, all: bool, observer: &mut dyn Observer) -> Result<()> {
        while let Some(awaited) = self.awaited.pop_front() {
            if !all && !awaited.is_done()? {
                self.awaited.push_front(awaited);
                break;
            }
            let (mut last, mut n_skipped) = (LastStep::default(), 0);
            let losses = awaited.losses.map(|losses| self.engine.receive(losses));
            for step in losses.transpose()?.unwrap_or_default() {
                self.recorder.add(&step);
                self.watch.step(&step);
                let loss = f64::from(step.loss);
                last = LastStep {
                    grad_norm: step.grad_norm,
                    balance: step.balance,
                };
                self.monitor.step(step.skipped);
                if step.skipped {
                    n_skipped += 1;
                    continue;
                }
                self.progress.epoch_loss.add(loss, step.n_targets);
                self.progress.period_loss.add(loss, step.n_targets);
            }
            self.period_skips += n_skipped;
            // The last line of a run that ends for its loss says so, wherever the log period would end.
            let line = awaited.line.or_else(|| {
                self.ends_for_its_loss().then(|| LogLine {
                    step: awaited.step,
                    epoch: awaited.epoch,
                    period: std::mem::take(&mut self.period),
                })
            });
            if let Some(line) = line {
                self.log(line, last, observer)?;
            }
            if let Some(record) = awaited.record {
                let record = self.recorder.receive(record)?;
                if self.engine.config.train.checks_ranks() {
                    compare_records(&self.group, &record)?;
                }
                if let Some(files) = &mut self.files {
                    files.chain.append(record)?;
                }
            }
            self.warn_of_labels();
            self.check_skips()?;
            // What has been computed since is left: files end at the same step on every device.
            self.check_losses()?;
        }
        Ok(())
    }

    fn log(&mut self, line: LogLine, last: LastStep, observer: &mut dyn Observer) -> Result<()> {
        self.warn_of_skips(line.step);
        let losses = std::mem::take(&mut self.progress.period_loss);
        self.last_loss = losses.mean();
        let seconds = self.logged.elapsed().as_secs_f64();
        self.logged = Instant::now();
        let per_second = line.period.n_inputs as f64 / seconds.max(1e-9);
        let is_of_images = matches!(self.task(), Task::Images(_));
        let times = self.engine.take_exchange_times();
        let exchange = times.metric();
        self.exchange_times.add(times);
        let metric = Metric::Train {
            step: line.step,
            epoch: line.epoch,
            loss: losses.mean().unwrap_or(f64::NAN),
            grad_norm: last.grad_norm,
            learning_rate: line.period.rate,
            ms_per_step: seconds * 1e3 / line.period.n_steps.max(1) as f64,
            tokens_per_second: (!is_of_images).then_some(per_second),
            images_per_second: is_of_images.then_some(per_second),
            share_of_peak: self.share_of_peak(per_second),
            router_balance: last.balance,
            skipped: Some(std::mem::take(&mut self.period_skips)).filter(|&n| n > 0),
            exchange,
            memory_bytes: Some(self.engine.device.held_bytes()),
        };
        self.note(&metric, observer)
    }

    fn note(&mut self, metric: &Metric, observer: &mut dyn Observer) -> Result<()> {
        let Some(files) = &mut self.files else {
            return Ok(());
        };
        if files.note(metric)? {
            observer.metric(metric);
        }
        Ok(())
    }

    /// The part of a GPU's measured peak that the products of the model take at a speed.
    fn share_of_peak(&self, inputs_per_second: f64) -> Option<f64> {
        let device = &self.engine.device;
        let flops = self.task().flops_per_input()?;
        let is_gpu = device.info().kind == DeviceKind::VulkanGpu;
        is_gpu.then(|| flops * inputs_per_second / device.tuning().flops_per_second)
    }

    /// Moves to the next epoch; if the epoch's losses came close to the target, evaluates whether it
    /// is reached.
    fn end_epoch(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let losses = self.engine.next_epoch(&mut self.progress);
        let Some(target) = self.engine.config.train.target_loss else {
            return Ok(());
        };
        if losses.mean().is_some_and(|mean| mean <= CLOSE * target) {
            let evaluation = self.evaluate(EvalSplit::Train, observer)?;
            self.progress.reached_target = evaluation.reaches(target);
        }
        Ok(())
    }

    /// Evaluates samples and logs the result; the time is left out of the log period's.
    fn evaluate(&mut self, split: EvalSplit, observer: &mut dyn Observer) -> Result<Evaluation> {
        let paused = Instant::now();
        let samples = match split {
            EvalSplit::Train => &self.engine.split.train,
            EvalSplit::HeldOut => &self.engine.split.eval,
        };
        let found = self.engine.evaluate(samples)?;
        let metric = Metric::Eval {
            step: self.progress.step,
            split,
            loss: found.loss,
            perplexity: found.perplexity(),
            loss_with_end: found.loss_with_end,
            n_bytes: found.n_bytes,
            n_tokens: found.n_tokens,
            accuracy: found.accuracy,
            n_images: found.accuracy.map(|_| found.n_samples),
        };
        self.note(&metric, observer)?;
        if split == EvalSplit::HeldOut || self.engine.split.eval.is_empty() {
            self.progress.ranking_loss = Some(found.loss);
        }
        self.logged += paused.elapsed();
        Ok(found)
    }
}
