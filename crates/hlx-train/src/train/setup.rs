//! A run from its configuration: made new, or taken up again where its newest checkpoint is.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Context;
use hlx_nn::Transformer;

use super::{Engine, Recorder, Trainer};
use crate::config::Config;
use crate::data::Dataset;
use crate::run::{Chain, ChainFile, Checkpoint, Link, Manifest, Progress, Record, RunFolder};

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
        let (opened, checkpoint) = match &options.start {
            Start::New(_) => (None, None),
            Start::Resume(path) => {
                let folder = RunFolder::open(path)?;
                check_same_run(&folder, &config)?;
                let checkpoint = folder.newest()?;
                (Some(folder), checkpoint)
            }
        };
        let (engine, progress) = Engine::new(ctx, config, data, checkpoint.as_ref())?;
        let mut recorder = Recorder::new(&engine, None)?;
        let mut first = recorder.first(&engine, &progress)?;
        let (config, data, model) = (&engine.config, &engine.data, &engine.model);
        // Only now, with all that can be refused behind, is anything written.
        let folder = match (&options.start, opened) {
            (Start::New(path), _) => RunFolder::create(path, config)?,
            (Start::Resume(_), Some(folder)) => folder,
            (Start::Resume(path), None) => RunFolder::open(path)?,
        };
        if let (Start::Resume(_), Some(origin)) = (&options.start, &mut first.origin) {
            // A run may go on for longer than it was begun for; config.toml stays as it is.
            origin.config = folder.config()?.digest()?;
        }
        let chain = take_up_chain(&folder, checkpoint.as_ref(), &progress, first)?;
        folder.clear_temporaries()?;
        write_manifest(&folder, ctx, config, data, model, progress.step)?;
        Ok(Self {
            metrics: folder.metrics_after(progress.step)?,
            newest: match &checkpoint {
                None => (String::new(), None),
                Some(checkpoint) => (checkpoint.chain().to_owned(), Some(progress.step)),
            },
            period: Default::default(),
            logged: Instant::now(),
            awaited: Default::default(),
            last_loss: None,
            engine,
            folder,
            chain,
            recorder,
            progress,
        })
    }
}

/// Opens the chain behind the record of this state, which `state` describes; a chain without any
/// begins with it.
///
/// # Errors
/// A damaged chain, one that lacks the checkpoint's record, or whose record is of another state.
fn take_up_chain(
    folder: &RunFolder,
    checkpoint: Option<&Checkpoint>,
    progress: &Progress,
    state: Record,
) -> Result<ChainFile> {
    let path = folder.chain_path();
    let exists = path.exists();
    let found = exists
        .then(|| Chain::read_until(&path, progress.step))
        .transpose()?;
    let stated = checkpoint.map_or("", |checkpoint| &checkpoint.digests.record);
    let link = found.as_ref().and_then(|chain| chain.at(progress.step));
    let digest = link.map_or("none", |link| &link.digest);
    let place = || format!("{}: the record of step {}", path.display(), progress.step);
    ensure!(
        stated.is_empty() || stated == digest,
        "{} has digest {digest}, the checkpoint names {stated}",
        place()
    );
    let begun = found
        .as_ref()
        .is_some_and(|chain| !chain.links().is_empty());
    ensure!(link.is_some() || !begun, "{} is missing", place());
    if let Some(Link { record, .. }) = link {
        ensure!(
            record.same_state(&state),
            "{} is not of the state that the run goes on from",
            place()
        );
    }
    let mut chain = ChainFile::open_after(&path, found.as_ref(), progress.step)?;
    if chain.last().is_none() {
        chain.append(state)?;
    }
    Ok(chain)
}

fn check_same_run(folder: &RunFolder, config: &Config) -> Result<()> {
    let same = config.check_resumes(&folder.config()?);
    same.with_context(|| folder.path().display().to_string())
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
