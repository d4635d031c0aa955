//! Prepares a run from its configuration: a new one, or one that continues after its newest
//! checkpoint.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_text::TOKENIZER_FILE;

use super::finite::{FiniteWatch, check_place, check_start};
use super::memory::{DoesNotFit, run_memory};
use super::pace::FirstSteps;
use super::room::check_room;
use super::{ChainRecorder, Engine, RunFiles, Trainer};
use crate::config::{Config, Format};
use crate::model_folder;
use crate::ranks::{Group, agreed, agreed_on, check_count, check_identity};
use crate::run::{
    Chain, ChainFile, ChainRecord, Checkpoint, EventFile, Manifest, Monitor, Place, Progress,
    ProvedRecord, RankPlace, RunFolder, RunLock, check_specification, place,
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

/// A run folder that is locked and holds a run, and what there is to continue from.
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
    /// checkpoint of a run that continues. The folder is locked until the trainer is dropped.
    ///
    /// # Errors
    /// One line with what is wrong: the corpus, a folder that holds a run already or is in use, a
    /// run of another model or specification, a damaged checkpoint, a device without the memory;
    /// [`NotFinite`](super::NotFinite) for a checkpoint whose parameters are NaN or infinite.
    pub fn new(device: &Device, config: Config, options: &TrainOptions) -> Result<Self> {
        Self::of_rank(device, config, options, &Group::alone(), false)
    }

    /// As [`Trainer::new`], as one of the ranks that share the run's batches; all of them call it. Rank 0
    /// alone resolves where the run begins, and writes its folder. `shares_device` says that other ranks
    /// may use this one's GPU.
    ///
    /// # Errors
    /// As [`Trainer::new`]; [`Refused`](crate::ranks::Refused), the same on all ranks, for what one of
    /// them cannot begin with, and for ranks that differ; a rank that is lost.
    pub fn of_rank(
        device: &Device,
        mut config: Config,
        options: &TrainOptions,
        group: &Group,
        shares_device: bool,
    ) -> Result<Self> {
        agreed_on(group, check_count(group, &config))?;
        agreed_on(group, config.resolve_first_weights())?;
        let start = options.start.without_unstarted();
        let mut opened = agreed_on(group, open(&start, &config, group))?;
        let corpus = match group.is_alone() {
            true => Corpus::load(&options.data_path, &config)?,
            false => Corpus::load_together(group, &options.data_path, &config)?,
        };
        if config.data.format.has_path() {
            let absolute = std::path::absolute(&options.data_path)?;
            config.data.path = absolute.to_string_lossy().into_owned();
        }
        let checkpoint = opened.as_mut().and_then(|opened| opened.checkpoint.take());
        let checkpoint = agreed_on(group, everywhere(group, checkpoint))?;
        if let Some(checkpoint) = &checkpoint {
            check_start(group, &config, checkpoint)?;
            agreed_on(group, check_place(group, device, &config, checkpoint))?;
        }
        let chain = checkpoint.as_ref().map_or("", Checkpoint::chain);
        let places = check_identity(
            group,
            device,
            shares_device,
            &config,
            corpus.digest(),
            chain,
        )?;
        let engine = Engine::of_rank(device, config, corpus, checkpoint.as_ref(), group);
        let (engine, progress) = engine?;
        let monitor = checkpoint
            .as_ref()
            .map(Monitor::of_checkpoint)
            .transpose()?;
        let monitor = monitor.unwrap_or_default();
        let n_classes = engine.task.n_classes();
        for warning in engine.config.train.warnings(n_classes) {
            tracing::warn!("{warning}");
        }
        if group.is_first() {
            for warning in engine.task.warnings()? {
                tracing::warn!("{}: {warning}", options.data_path.display());
            }
        }
        let fits = check_room(&engine, group.n_ranks());
        agreed_on(group, fits)?;
        let memory = run_memory(&engine, progress.epoch)?;
        let fits = match memory.fits() {
            true => Ok(()),
            false => Err(DoesNotFit(memory.clone()).into()),
        };
        agreed_on(group, fits)?;
        let mut recorder = ChainRecorder::new(&engine, None)?;
        let first = recorder.first(&engine, &progress)?;
        // Only now, with all that can be refused behind, is anything written.
        let begun = match group.is_first() {
            true => {
                let run = Begun {
                    start: &start,
                    opened,
                    checkpoint: checkpoint.as_ref(),
                    first,
                };
                let begun = run.files(&engine, &progress, &options.data_path, &places);
                begun.map(|(folder, files)| (folder, Some(files)))
            }
            false => RunFolder::unopened().map(|folder| (folder, None)),
        };
        let (folder, files) = agreed_on(group, begun)?;
        let folder = agreed_on(group, seen_by_all(group, folder))?;
        let here = place::of(engine.device.arithmetic(), &engine.device);
        // What rank 0 reads in the chain, so that all have the same next record.
        let stated = files.as_ref().and_then(|files| files.place.as_ref());
        let moves = agreed(group, Ok(vec![u8::from(stated != here.as_ref())]))?;
        recorder.moves_to(here.filter(|_| moves[0] == vec![1]));
        Ok(Self {
            group: group.clone(),
            places,
            files,
            newest: match &checkpoint {
                None => (String::new(), None),
                Some(checkpoint) => (checkpoint.chain().to_owned(), Some(progress.step)),
            },
            period: Default::default(),
            logged: Instant::now(),
            awaited: Default::default(),
            last_loss: None,
            period_skips: 0,
            watch: FiniteWatch::after(progress.step),
            exchange_times: Default::default(),
            memory,
            pace: FirstSteps::default(),
            monitor,
            engine,
            folder,
            recorder,
            progress,
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

/// Opens the run that continues, or checks that one may begin; rank 0 alone does.
fn open(start: &Start, config: &Config, group: &Group) -> Result<Option<Opened>> {
    match start {
        _ if !group.is_first() => Ok(None),
        Start::Resume(path) => Opened::new(path, config).map(Some),
        Start::New(path) => RunFolder::check_free(path).map(|()| None),
        Start::Numbered { .. } => Ok(None),
    }
}

/// The checkpoint that rank 0 continues from, as every rank reads it.
fn everywhere(group: &Group, checkpoint: Option<Checkpoint>) -> Result<Option<Checkpoint>> {
    if group.is_alone() {
        return Ok(checkpoint);
    }
    let path = match &checkpoint {
        Some(checkpoint) => std::path::absolute(checkpoint.path())?,
        None => PathBuf::new(),
    };
    let path = group.from_first(path.to_string_lossy().as_bytes())?;
    let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
    match (group.is_first(), path.as_os_str().is_empty()) {
        (true, _) | (_, true) => Ok(checkpoint),
        (false, false) => Checkpoint::open(&path).map(Some),
    }
}

/// The folder of a run, which every rank must see: rank 0's lock names its holder there.
fn seen_by_all(group: &Group, folder: RunFolder) -> Result<RunFolder> {
    if group.is_alone() {
        return Ok(folder);
    }
    let mine = match group.is_first() {
        true => folder.absolute()?,
        false => folder,
    };
    let holder = mine.holder();
    let path = group.from_first(mine.path().to_string_lossy().as_bytes())?;
    let holder = group.from_first(holder.as_bytes())?;
    let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
    let seen = RunFolder::open(&path)?;
    ensure!(
        seen.holder().as_bytes() == holder,
        "{}: is not the folder that rank 0 sees under this name",
        path.display()
    );
    Ok(seen)
}

/// What rank 0 begins the files of a run with.
struct Begun<'a> {
    start: &'a Start,
    opened: Option<Opened>,
    checkpoint: Option<&'a Checkpoint>,
    /// The record of the state that the run begins with.
    first: ChainRecord,
}

impl Begun<'_> {
    /// Creates or opens the folder and its files.
    fn files(
        self,
        engine: &Engine,
        progress: &Progress,
        data: &Path,
        places: &[RankPlace],
    ) -> Result<(RunFolder, RunFiles)> {
        let (folder, lock, manifest) = match self.opened {
            Some(opened) => (opened.folder, opened.lock, opened.manifest),
            None => begin(self.start, &engine.config)?,
        };
        let (chain, place) = open_chain(&folder, self.checkpoint, progress, self.first)?;
        folder.clear_temporaries()?;
        if engine.config.data.format == Format::Shards {
            bring_companions(&folder, &engine.config, data)?;
        }
        write_manifest(&folder, engine, manifest, progress.step, places)?;
        let events = match engine.config.train.tensorboard {
            Some(false) => None,
            _ => Some(EventFile::create(folder.path(), progress.step)?),
        };
        let files = RunFiles {
            metrics: folder.metrics_after(progress.step)?,
            events,
            chain,
            place,
            _lock: lock,
        };
        Ok((folder, files))
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
/// of the data, and what they lack from the model that the run begins with. The tokenizer is written last: a
/// run that was killed before it gets all of them when it is resumed.
fn bring_companions(folder: &RunFolder, config: &Config, data: &Path) -> Result<()> {
    if folder.path().join(TOKENIZER_FILE).is_file() {
        return Ok(());
    }
    let from = config.begins_with();
    model_folder::bring_companions(data, from, folder.path())
}

/// Opens the chain for appending after this state's record, and returns where it says that its steps are computed;
/// `state` is that record made anew, and a chain without any begins with it.
///
/// # Errors
/// A damaged chain, one of another specification, one that lacks the checkpoint's record, or whose
/// record is of another state.
fn open_chain(
    folder: &RunFolder,
    checkpoint: Option<&Checkpoint>,
    progress: &Progress,
    state: ChainRecord,
) -> Result<(ChainFile, Option<Place>)> {
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
    let proved = found.as_ref().and_then(|chain| chain.at(progress.step));
    let digest = proved.map_or("none", |proved| &proved.digest);
    let place = || format!("{}: the record of step {}", path.display(), progress.step);
    ensure!(
        stated.is_empty() || stated == digest,
        "{} has digest {digest}, the checkpoint names {stated}",
        place()
    );
    let begun = found
        .as_ref()
        .is_some_and(|chain| !chain.records().is_empty());
    ensure!(proved.is_some() || !begun, "{} is missing", place());
    if let Some(ProvedRecord { record, .. }) = proved {
        ensure!(
            record.same_state(&state),
            "{} is not of the state that the run goes on from",
            place()
        );
    }
    let before = found
        .as_ref()
        .and_then(|chain| chain.place_at(progress.step))
        .cloned();
    let place = before.or_else(|| state.place.clone());
    let mut chain = ChainFile::open_after(&path, found.as_ref(), progress.step)?;
    if chain.last().is_none() {
        chain.append(state)?;
    }
    Ok((chain, place))
}

/// Writes `run.json` with one more stretch after those that it had.
fn write_manifest(
    folder: &RunFolder,
    engine: &Engine,
    before: Option<Manifest>,
    from_step: u64,
    places: &[RankPlace],
) -> Result<()> {
    let n_parameters = engine.weights().n_elements() as u64;
    let (device, config, data) = (&engine.device, &engine.config, engine.task.digest());
    let mut manifest = Manifest::new(config, data, n_parameters)?;
    manifest.stretches = before.map_or_else(Vec::new, |before| before.stretches);
    manifest.add_stretch(device, from_step, places);
    folder.write_manifest(manifest)
}
