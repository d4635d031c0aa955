//! A run from its configuration: made new, or taken up again where its newest checkpoint is.

use std::time::Instant;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Context;
use hlx_nn::{
    Adam, AdamConfig, AdamW, AdamWConfig, GradientTree, MicroBatchPlan, Optimizer, ParameterStore,
    Sgd, SgdConfig, Transformer,
};

use super::Trainer;
use super::losses::LossRing;
use super::pass::PassGraphs;
use crate::config::{Config, OptimizerKind};
use crate::data::{Batches, Dataset};
use crate::run::{Checkpoint, Manifest, Progress, RunFolder, STATE_FILE, State};
use crate::schedule::Schedule;

/// The momentum of `optimizer = "sgd"`.
const SGD_MOMENTUM: f64 = 0.9;

/// Where a run is to begin.
#[derive(Clone, Debug)]
pub enum Start {
    /// In a folder that holds no run yet.
    New(PathBuf),
    /// In the folder of a run, after its newest checkpoint.
    Resume(PathBuf),
}

/// What a run needs besides its configuration.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Where it begins.
    pub start: Start,
    /// The corpus's file, found from the configuration's place.
    pub data_path: PathBuf,
}

impl Trainer {
    /// Prepares a run: reads the corpus, makes the model and the run folder, or takes them up
    /// again.
    ///
    /// # Errors
    /// One line with what is wrong: the corpus, a folder that holds a run already, a run of
    /// another model, a damaged checkpoint, a device without the memory.
    pub fn new(ctx: &Context, mut config: Config, options: &TrainOptions) -> Result<Self> {
        let data = Dataset::load(&options.data_path, config.data.format, config.positions())?;
        let absolute = std::path::absolute(&options.data_path)?;
        config.data.path = absolute.to_string_lossy().into_owned();
        let split = data.split(config.data.eval_fraction, config.seed);
        let (train, seed) = (&config.train, config.seed);
        let (batch_size, micro_batch_size) = (train.batch_size, config.micro_batch_size());
        let batches = Batches::new(split.train.clone(), batch_size, micro_batch_size, seed);
        let total_steps = total_steps(&config, batches.per_epoch() as u64);
        let (opened, checkpoint) = match &options.start {
            Start::New(_) => (None, None),
            Start::Resume(path) => {
                let folder = RunFolder::open(path)?;
                check_same_run(&folder, &config)?;
                let checkpoint = folder.newest()?;
                (Some(folder), checkpoint)
            }
        };
        let model = match &checkpoint {
            None => Transformer::new(ctx, &config.transformer(), seed)?,
            Some(checkpoint) => load_model(ctx, checkpoint, &config)?,
        };
        let mut optimizer = make_optimizer(&config, model.store())?;
        let progress = match &checkpoint {
            None => Progress {
                seed,
                ..Progress::default()
            },
            Some(checkpoint) => load_state(checkpoint, &model, optimizer.as_mut(), &data)?,
        };
        let plan = MicroBatchPlan::new(batch_size, micro_batch_size, config.shards())?;
        let tree = GradientTree::new(model.store(), &plan)?;
        let (smoothing, dropout) = (train.label_smoothing as f32, config.model.dropout > 0.0);
        let passes = PassGraphs::new(ctx, seed, smoothing, dropout, config.shards())?;
        let ring = LossRing::new(ctx, config.shards(), batch_size)?;
        // Only now, with all that can be refused behind, is anything written.
        let folder = match (&options.start, opened) {
            (Start::New(path), _) => RunFolder::create(path, &config)?,
            (Start::Resume(_), Some(folder)) => folder,
            (Start::Resume(path), None) => RunFolder::open(path)?,
        };
        folder.clear_temporaries()?;
        write_manifest(&folder, ctx, &config, &data, &model, progress.step)?;
        Ok(Self {
            ctx: ctx.clone(),
            metrics: folder.metrics_after(progress.step)?,
            schedule: Schedule::new(&config.train, total_steps),
            order: batches.order(progress.epoch),
            chain: match &checkpoint {
                None => (String::new(), None),
                Some(checkpoint) => (checkpoint.chain().to_owned(), Some(progress.step)),
            },
            update: None,
            period: Default::default(),
            logged: Instant::now(),
            awaited: Default::default(),
            last_loss: None,
            folder,
            config,
            data,
            split,
            batches,
            total_steps,
            model,
            optimizer,
            plan,
            tree,
            passes,
            ring,
            progress,
        })
    }
}

/// Steps until the epochs or the steps asked for are done, whichever comes first.
fn total_steps(config: &Config, per_epoch: u64) -> u64 {
    let by_epochs = config
        .train
        .epochs
        .map(|epochs| epochs.saturating_mul(per_epoch));
    let asked = [by_epochs, config.train.max_steps];
    asked.into_iter().flatten().min().unwrap_or(0)
}

fn check_same_run(folder: &RunFolder, config: &Config) -> Result<()> {
    let same = config.check_resumes(&folder.config()?);
    same.with_context(|| folder.path().display().to_string())
}

/// Makes the optimizer that the configuration names.
fn make_optimizer(config: &Config, store: &ParameterStore) -> Result<Box<dyn Optimizer>> {
    let weight_decay = config.train.weight_decay;
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

fn write_manifest(
    folder: &RunFolder,
    ctx: &Context,
    config: &Config,
    data: &Dataset,
    model: &Transformer,
    from_step: u64,
) -> Result<()> {
    let n_parameters = model.store().n_elements() as u64;
    let mut manifest = Manifest::new(ctx, config, data, n_parameters)?;
    if let Ok(before) = folder.manifest() {
        manifest.sessions = before.sessions;
    }
    manifest.add_session(ctx, from_step);
    folder.write_manifest(&manifest)
}
