//! The engine that computes a run's steps: model, optimizer, data and graphs; it writes no file.
//!
//! A run that trains and a run that is verified go through the same engine.

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Context, Graph};
use hlx_nn::{
    Adam, AdamConfig, AdamW, AdamWConfig, GradientTree, MicroBatchPlan, Optimizer, ParameterStore,
    Sgd, SgdConfig, Transformer,
};

use super::losses::{LossRing, PendingLosses, StepLoss};
use super::pass::PassGraphs;
use crate::config::{Config, OptimizerKind};
use crate::data::{Batch, Batches, Dataset, Split};
use crate::run::{Checkpoint, Progress, STATE_FILE, State};
use crate::schedule::Schedule;

/// The momentum of `optimizer = "sgd"`.
const SGD_MOMENTUM: f64 = 0.9;

/// A configuration, its corpus and its model on a device, ready for the next step.
pub(crate) struct Engine {
    pub ctx: Context,
    pub config: Config,
    pub data: Dataset,
    pub split: Split,
    pub batches: Batches,
    pub total_steps: u64,
    pub model: Transformer,
    pub optimizer: Box<dyn Optimizer>,
    pub plan: MicroBatchPlan,
    /// The losses of the last steps.
    pub ring: LossRing,
    schedule: Schedule,
    tree: GradientTree,
    passes: PassGraphs,
    update: Option<Graph>,
    /// The order of the epoch that the run is in.
    order: Vec<usize>,
}

/// The tokens and the rate of a step.
pub(crate) struct StepCounts {
    /// Bytes read, padding left out.
    pub n_tokens: u64,
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
        data: Dataset,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(Self, Progress)> {
        let split = data.split(config.data.eval_fraction, config.seed);
        let (train, seed) = (&config.train, config.seed);
        let (batch_size, micro_batch_size) = (train.batch_size, config.micro_batch_size());
        let batches = Batches::new(split.train.clone(), batch_size, micro_batch_size, seed);
        let total_steps = total_steps(&config, batches.per_epoch() as u64);
        let model = match checkpoint {
            None => Transformer::new(ctx, &config.transformer(), seed)?,
            Some(checkpoint) => load_model(ctx, checkpoint, &config)?,
        };
        let mut optimizer = make_optimizer(&config, model.store())?;
        let progress = match checkpoint {
            None => Progress {
                seed,
                ..Progress::default()
            },
            Some(checkpoint) => load_state(checkpoint, &model, optimizer.as_mut(), &data)?,
        };
        let plan = MicroBatchPlan::new(batch_size, micro_batch_size, config.shards())?;
        let tree = GradientTree::new(model.store(), &plan)?;
        let (smoothing, dropout) = (train.label_smoothing as f32, config.model.dropout > 0.0);
        let engine = Self {
            ctx: ctx.clone(),
            passes: PassGraphs::new(ctx, seed, smoothing, dropout, config.shards())?,
            ring: LossRing::new(ctx, config.shards(), batch_size)?,
            schedule: Schedule::new(&config.train, total_steps),
            order: batches.order(progress.epoch),
            update: None,
            config,
            data,
            split,
            batches,
            total_steps,
            model,
            optimizer,
            plan,
            tree,
        };
        Ok((engine, progress))
    }

    /// Launches one optimizer step and moves the cursor on.
    pub fn one_step(&mut self, progress: &mut Progress) -> Result<StepCounts> {
        let (step, batch_idx) = (progress.step, progress.batch_idx as usize);
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
        progress.step += 1;
        progress.batch_idx += 1;
        Ok(StepCounts {
            n_tokens: batch.n_tokens as u64,
            rate,
        })
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

    /// Waits for a download of losses and returns them step by step.
    pub fn receive(&self, losses: PendingLosses) -> Result<Vec<StepLoss>> {
        self.ring.receive(losses, &self.plan)
    }

    /// Whether every batch of the epoch has been trained on.
    pub fn epoch_ends(&self, progress: &Progress) -> bool {
        progress.batch_idx as usize >= self.batches.per_epoch()
    }

    /// Moves to the next epoch.
    pub fn next_epoch(&mut self, progress: &mut Progress) {
        progress.epoch += 1;
        progress.batch_idx = 0;
        self.order = self.batches.order(progress.epoch);
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

/// Makes the optimizer that the configuration names.
fn make_optimizer(config: &Config, store: &ParameterStore) -> Result<Box<dyn Optimizer>> {
    let weight_decay = config.train.weight_decay();
    let limit = config.train.clip_norm as f32;
    let clip_norm = (limit > 0.0).then_some(limit);
    Ok(match config.train.optimizer {
        OptimizerKind::Sgd => {
            let sgd = SgdConfig {
                momentum: SGD_MOMENTUM,
                weight_decay,
                clip_norm,
            };
            Box::new(Sgd::new(store, sgd)?)
        }
        OptimizerKind::Adam => {
            let adam = AdamConfig {
                weight_decay,
                clip_norm,
                ..AdamConfig::default()
            };
            Box::new(Adam::new(store, adam)?)
        }
        OptimizerKind::Adamw => {
            let adamw = AdamWConfig {
                weight_decay,
                clip_norm,
                ..AdamWConfig::default()
            };
            Box::new(AdamW::new(store, adamw)?)
        }
    })
}

/// Reads the model of a checkpoint, and proves that its parameters have the digest stated there.
///
/// # Errors
/// A model of other sizes than the configuration's, or other parameters than the digest's.
pub(crate) fn load_model(
    ctx: &Context,
    checkpoint: &Checkpoint,
    config: &Config,
) -> Result<Transformer> {
    let name = || checkpoint.path().display().to_string();
    let sizes: hlx_nn::TransformerConfig =
        serde_json::from_slice(checkpoint.file(hlx_nn::CONFIG_FILE)?).with_context(name)?;
    ensure!(
        sizes == config.transformer(),
        "{}: is of another model than the run's config.toml: {sizes:?}",
        name()
    );
    let model = Transformer::zeroed(ctx, &sizes)?;
    let loaded = model
        .store()
        .load_safetensors(checkpoint.file(hlx_nn::MODEL_FILE)?);
    loaded.with_context(name)?;
    checkpoint.prove(
        "parameters",
        &checkpoint.digests.parameters,
        &model.store().digest()?,
    )?;
    Ok(model)
}

/// Reads the optimizer and the progress of a checkpoint, and proves the optimizer's digest.
fn load_state(
    checkpoint: &Checkpoint,
    model: &Transformer,
    optimizer: &mut dyn Optimizer,
    data: &Dataset,
) -> Result<Progress> {
    let name = || checkpoint.path().display().to_string();
    ensure!(
        checkpoint.digests.data == data.digest(),
        "{}: was trained on another corpus: its SHA-256 is {}, this one's {}",
        name(),
        checkpoint.digests.data,
        data.digest()
    );
    let state = State::from_bytes(checkpoint.file(STATE_FILE)?);
    let State {
        progress,
        optimizer: saved,
        ..
    } = state.with_context(|| format!("{}/{STATE_FILE}", name()))?;
    optimizer
        .load_state(model.store(), &saved)
        .with_context(name)?;
    let found = optimizer.digest(model.store())?;
    checkpoint.prove("optimizer's state", &checkpoint.digests.optimizer, &found)?;
    Ok(progress)
}
