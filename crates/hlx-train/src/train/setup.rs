//! Prepares a run from its configuration: a new one, or one that goes on after its newest
//! checkpoint.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Context;
use hlx_text::TOKENIZER_FILE;

use super::{ChainRecorder, Engine, Trainer};
use crate::config::{Config, Format};
use crate::model_folder::copy_companions;
use crate::run::{
    Chain, ChainFile, ChainRecord, Checkpoint, EventFile, Link, Manifest, Monitor, Progress,
    RunFolder, RunLock, check_specification,
};
use crate::task::Corpus;

/// Where a run is to begin.
#[derive(Clone, Debug)]
pub enum Start {
    /// In a folder that holds no run yet.
    New(PathBuf),
    /// In the first of `runs/NAME`, `runs/NAME-2`, ... that holds no run yet.
    Numbered {
        /// The folder of runs.
        runs: PathBuf,
        /// The name.
        name: String,
    },
    /// In the folder of a run, after its newest checkpoint. A folder whose run was killed before
    /// its first file is begun anew.
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

/// A run folder that is locked and holds a run, and what there is to go on from.
struct Opened {
    folder: RunFolder,
    lock: RunLock,
    checkpoint: Option<Checkpoint>,
    manifest: Option<Manifest>,
}

impl Opened {
    /// Locks the folder of a run before anything in it is read, and refuses a run of another
    /// configuration or specification.
    fn new(path: &Path, config: &Config) -> Result<Self> {
        let folder = RunFolder::open(path)?;
        let lock = RunLock::acquire(path)?;
        let same = config.check_resumes(&folder.config()?);
        same.with_context(|| path.display().to_string())?;
        let checkpoint = folder.newest()?;
        if let Some(checkpoint) = &checkpoint {
            check_specification(checkpoint.path(), checkpoint.digests.specification)?;
        }
        Ok(Self {
            manifest: folder.manifest()?,
            folder,
            lock,
            checkpoint,
        })
    }
}

impl Trainer {
    /// Prepares a run: reads the corpus, makes the model and the run folder, or reads the newest
    /// checkpoint of a run that goes on. The folder is locked until the trainer is dropped.
    ///
    /// # Errors
    /// One line with what is wrong: the corpus, a folder that holds a run already or is in use, a
    /// run of another model or specification, a damaged checkpoint, a device without the memory.
    pub fn new(ctx: &Context, mut config: Config, options: &TrainOptions) -> Result<Self> {
        let start = options.start.without_unstarted();
        let opened = match &start {
            Start::Resume(path) => Some(Opened::new(path, &config)?),
            Start::New(path) => RunFolder::check_free(path).map(|()| None)?,
            Start::Numbered { .. } => None,
        };
        let corpus = Corpus::load(&options.data_path, &config)?;
        if config.data.format.has_path() {
            let absolute = std::path::absolute(&options.data_path)?;
            config.data.path = absolute.to_string_lossy().into_owned();
        }
        if let Some(from) = &config.train.init_from {
            let absolute = std::path::absolute(from)?;
            config.train.init_from = Some(absolute.to_string_lossy().into_owned());
        }
        let checkpoint = opened.as_ref().and_then(|opened| opened.checkpoint.clone());
        let (engine, progress) = Engine::new(ctx, config, corpus, checkpoint.as_ref())?;
        let monitor = checkpoint
            .as_ref()
            .map(Monitor::of_checkpoint)
            .transpose()?;
        let monitor = monitor.unwrap_or_default();
        let n_classes = engine.task.n_classes();
        for warning in engine.config.train.warnings(n_classes) {
            tracing::warn!("{warning}");
        }
        let mut recorder = ChainRecorder::new(&engine, None)?;
        let first = recorder.first(&engine, &progress)?;
        // Only now, with all that can be refused behind, is anything written.
        let (folder, lock, manifest) = match opened {
            Some(opened) => (opened.folder, opened.lock, opened.manifest),
            None => begin(&start, &engine.config)?,
        };
        let chain = open_chain(&folder, checkpoint.as_ref(), &progress, first)?;
        folder.clear_temporaries()?;
        if engine.config.data.format == Format::Shards {
            bring_companions(&folder, &engine.config, &options.data_path)?;
        }
        write_manifest(&folder, &engine, manifest, progress.step)?;
        let events = match engine.config.train.tensorboard {
            Some(false) => None,
            _ => Some(EventFile::create(folder.path(), progress.step)?),
        };
        Ok(Self {
            metrics: folder.metrics_after(progress.step)?,
            events,
            newest: match &checkpoint {
                None => (String::new(), None),
                Some(checkpoint) => (checkpoint.chain().to_owned(), Some(progress.step)),
            },
            period: Default::default(),
            logged: Instant::now(),
            awaited: Default::default(),
            last_loss: None,
            period_skips: 0,
            monitor,
            engine,
            folder,
            chain,
            recorder,
            progress,
            _lock: lock,
        })
    }
}

impl Start {
    /// A run that was killed before its first file is resumed by beginning it.
    fn without_unstarted(&self) -> Self {
        match self {
            Self::Resume(path) if RunFolder::is_unstarted(path) => Self::New(path.clone()),
            other => other.clone(),
        }
    }
}

/// Creates and locks the folder of a new run, and writes its configuration.
fn begin(start: &Start, config: &Config) -> Result<(RunFolder, RunLock, Option<Manifest>)> {
    let (folder, lock) = match start {
        Start::Numbered { runs, name } => RunFolder::claim_numbered(runs, name)?,
        Start::New(path) | Start::Resume(path) => RunFolder::claim(path)?,
    };
    folder.begin(config)?;
    Ok((folder, lock, None))
}

/// Puts the tokenizer and what belongs to it into the folder of a run, which text is written with: those
/// of the data, and what they lack from the model that the run begins with.
fn bring_companions(folder: &RunFolder, config: &Config, data: &Path) -> Result<()> {
    if folder.path().join(TOKENIZER_FILE).is_file() {
        return Ok(());
    }
    if let Some(from) = &config.train.init_from {
        copy_companions(Path::new(from), folder.path())?;
    }
    copy_companions(data, folder.path())
}

/// Opens the chain for appending after this state's record; `state` is that record made anew, and
/// a chain without any begins with it.
///
/// # Errors
/// A damaged chain, one of another specification, one that lacks the checkpoint's record, or whose
/// record is of another state.
fn open_chain(
    folder: &RunFolder,
    checkpoint: Option<&Checkpoint>,
    progress: &Progress,
    state: ChainRecord,
) -> Result<ChainFile> {
    let path = folder.chain_path();
    let exists = path.exists();
    let found = exists
        .then(|| Chain::read_until(&path, progress.step))
        .transpose()?;
    let origin = found.as_ref().and_then(|chain| chain.origin().ok());
    if let Some(origin) = origin {
        check_specification(&path, origin.specification)?;
    }
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

/// Writes `run.json` with one more stretch behind those that it had.
fn write_manifest(
    folder: &RunFolder,
    engine: &Engine,
    before: Option<Manifest>,
    from_step: u64,
) -> Result<()> {
    let n_parameters = engine.weights().n_elements() as u64;
    let (ctx, config, data) = (&engine.ctx, &engine.config, engine.task.digest());
    let mut manifest = Manifest::new(config, data, n_parameters)?;
    manifest.stretches = before.map_or_else(Vec::new, |before| before.stretches);
    manifest.add_stretch(ctx, from_step);
    folder.write_manifest(manifest)
}
