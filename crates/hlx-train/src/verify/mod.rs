//! Recomputing a stretch of a run, and saying where it first differs from what the run recorded.
//!
//! The stretch begins at a checkpoint, or at the initial parameters, and goes through the same
//! engine as training. Each record of the chain in it is compared, and each checkpoint element by
//! element. What device the run was made on does not matter.

mod compare;
mod inputs;
mod report;
mod stored;
mod stretch;
mod tensors;
mod verdict;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::{Arithmetic, Device};
use hlx_nn::MicroBatchPlan;

pub use inputs::{Inputs, proved_config, proved_corpus};
pub use report::{Difference, ElementDifference, Mismatch, Report, Source, TensorDifference};

pub use stored::StoredStates;
pub use tensors::{NamedTensor, checkpoint_tensors, tensor_names};
pub use verdict::Verdict;

use crate::run::{Bits, Chain, ChainRecord, Checkpoint, Progress, ProvedRecord, RunFolder, place};
use crate::train::{ChainRecorder, Engine};
use stretch::Stretch;

/// Which part of a run to recompute, and on what.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The step that the part begins at or before; the run's beginning if left out.
    pub from: Option<u64>,
    /// The step that it ends at or after; the chain's end if left out.
    pub to: Option<u64>,
    /// The corpus, if it is no longer where the run read it.
    pub data_path: Option<PathBuf>,
    /// Samples computed at a time, if not as many as the run did: no bit depends on it.
    pub micro_batch_size: Option<usize>,
}

/// A verification that is about to run.
pub struct Verification {
    folder: RunFolder,
    chain: Chain,
    stretch: Stretch,
    engine: Engine,
    recorder: ChainRecorder,
    progress: Progress,
    /// The losses and norms since the last record.
    losses: Vec<Bits>,
    norms: Vec<Bits>,
}

impl Verification {
    /// Reads the run, proves chain and checkpoints of the stretch against their own digests, and
    /// prepares the state that it begins with. Nothing in the run folder is touched.
    ///
    /// # Errors
    /// One line with why the run cannot be checked: no chain or a damaged one, a step that it
    /// does not reach, a damaged checkpoint, another corpus, a device without the memory.
    pub fn new(device: &Device, run: &Path, options: &VerifyOptions) -> Result<Self> {
        let (folder, chain) = inputs::read(run)?;
        // What needs no corpus is said before it is read.
        let stretch = Stretch::choose(&folder, &chain, options)?;
        let inputs = Inputs::prove(folder, chain, options.data_path.as_deref())?;
        Self::of_stretch(device, inputs, stretch, options)
    }

    /// As [`Verification::new`], of a run that was read before.
    ///
    /// # Errors
    /// As [`Verification::new`].
    pub fn of(device: &Device, inputs: &Inputs, options: &VerifyOptions) -> Result<Self> {
        let stretch = Stretch::choose(&inputs.folder, &inputs.chain, options)?;
        Self::of_stretch(device, inputs.clone(), stretch, options)
    }

    fn of_stretch(
        device: &Device,
        inputs: Inputs,
        stretch: Stretch,
        options: &VerifyOptions,
    ) -> Result<Self> {
        let Inputs {
            folder,
            chain,
            mut config,
            corpus,
        } = inputs;
        if let Some(size) = options.micro_batch_size {
            config.train.micro_batch_size = Some(size);
            let (batch_size, shards) = (config.train.batch_size, config.shards());
            MicroBatchPlan::new(batch_size, size, shards).context("--micro-batch-size")?;
        }
        let steps = stretch.from..=stretch.to;
        check_places(&chain, config.arithmetic, steps, device)?;
        let base = stretch.base.as_deref().map(Checkpoint::open).transpose()?;
        let (engine, progress) = Engine::new(device, config, corpus, base.as_ref())?;
        let mut recorder = ChainRecorder::new(&engine, None)?;
        if let Some(base) = &base {
            let state = recorder.first(&engine, &progress)?;
            check_base(&chain, base, &state)?;
        }
        Ok(Self {
            folder,
            chain,
            stretch,
            engine,
            recorder,
            progress,
            losses: Vec::new(),
            norms: Vec::new(),
        })
    }

    /// The steps that are recomputed: from the state after the first to that after the second.
    pub fn steps(&self) -> (u64, u64) {
        (self.stretch.from, self.stretch.to)
    }

    /// The checkpoint that it begins with; `None` for the initial parameters.
    pub fn base(&self) -> Option<&Path> {
        self.stretch.base.as_deref()
    }

    /// Whether the chain ends in a line that a crash has cut short, and which is left out.
    pub fn is_torn(&self) -> bool {
        self.chain.is_torn()
    }

    /// Recomputes the stretch up to its end or the first difference. `step` is called after each step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn run(self, step: &mut dyn FnMut(u64)) -> Result<Report> {
        self.run_while(&mut |done| {
            step(done);
            true
        })
    }

    /// As [`Verification::run`], unless `step` returns false: the report is then of the records compared before.
    ///
    /// # Errors
    /// As [`Verification::run`].
    pub fn run_while(mut self, step: &mut dyn FnMut(u64) -> bool) -> Result<Report> {
        let records: Vec<ProvedRecord> = self.stretch.records(&self.chain).cloned().collect();
        let mut report = self.empty_report()?;
        for proved in &records {
            let recorded = &proved.record;
            while self.progress.step < recorded.step {
                self.one_step()?;
                if !step(self.progress.step) {
                    return Ok(report);
                }
            }
            let difference = self.compare(recorded, report.equal_to)?;
            report.records += 1;
            report.checkpoints += u64::from(self.stretch.checkpoints.contains_key(&recorded.step));
            if let Some(difference) = difference {
                report.difference = Some(difference);
                break;
            }
            report.equal_to = Some(recorded.step);
            report.digest.clone_from(&proved.digest);
        }
        Ok(report)
    }

    fn empty_report(&self) -> Result<Report> {
        let digest = match &self.stretch.base {
            Some(_) => self.chain.at(self.stretch.from),
            None => None,
        };
        let info = self.engine.device.info();
        Ok(Report {
            run: self.folder.path().to_owned(),
            specification: self.chain.origin()?.specification,
            device: info.to_string(),
            base: self.stretch.base.clone(),
            from: self.stretch.from,
            to: self.stretch.to,
            records: 0,
            checkpoints: 0,
            equal_to: digest.map(|proved| proved.record.step),
            digest: digest
                .map(|proved| proved.digest.clone())
                .unwrap_or_default(),
            difference: None,
        })
    }

    /// Computes one step, and goes on to the next epoch where one ends.
    fn one_step(&mut self) -> Result<()> {
        self.engine.one_step(&mut self.progress)?;
        if self.engine.ring.is_full() {
            self.receive()?;
        }
        if self.engine.epoch_ends(&self.progress) {
            self.receive()?;
            self.engine.next_epoch(&mut self.progress);
        }
        Ok(())
    }

    /// Receives the losses of the steps since the last call.
    fn receive(&mut self) -> Result<()> {
        let Some(losses) = self.engine.ring.take_all(&self.engine.device)? else {
            return Ok(());
        };
        for step in self.engine.receive(losses)? {
            let loss = f64::from(step.loss);
            if !step.skipped {
                self.progress.epoch_loss.add(loss, step.n_targets);
            }
            self.losses.push(step.loss.into());
            self.norms.push(step.grad_norm.into());
        }
        Ok(())
    }

    /// Compares the state with a record, and with the checkpoint of its step if there is one.
    fn compare(
        &mut self,
        recorded: &ChainRecord,
        equal_to: Option<u64>,
    ) -> Result<Option<Difference>> {
        self.receive()?;
        let state = self.recorder.digest(&self.engine)?;
        let (epoch, batch_idx) = self.engine.cursor(&self.progress);
        let mut found = ChainRecord::new(self.progress.step, epoch, batch_idx, &state);
        found.losses = std::mem::take(&mut self.losses);
        found.norms = std::mem::take(&mut self.norms);
        let difference = compare::records(recorded, &found, &state, equal_to);
        let checkpoint = self.stretch.checkpoints.get(&recorded.step);
        let checkpoint = checkpoint.map(|path| Checkpoint::open(path)).transpose()?;
        match (difference, checkpoint) {
            (Some(difference), Some(checkpoint)) => {
                compare::add_element(&self.engine, &state, &checkpoint, difference).map(Some)
            }
            (None, Some(checkpoint)) => {
                let at = (&found, &self.progress);
                compare::checkpoint(&self.engine, at, &state, &checkpoint, equal_to)
            }
            (difference, None) => Ok(difference),
        }
    }
}

/// Fails unless the bits of a stretch of a run can be those of this device.
fn check_places(
    chain: &Chain,
    arithmetic: Arithmetic,
    steps: RangeInclusive<u64>,
    device: &Device,
) -> Result<()> {
    for proved in chain.records() {
        let step = proved.record.step;
        if !steps.contains(&step) || (step == *steps.start() && steps.start() != steps.end()) {
            continue;
        }
        if let Some(what) = place::differs(arithmetic, chain.place_at(step), device) {
            bail!(
                "{}: cannot be checked here: the steps up to {step} were {what}",
                chain.path().display()
            );
        }
    }
    Ok(())
}

/// Fails unless the chain's record is of the checkpoint's state.
fn check_base(chain: &Chain, base: &Checkpoint, state: &ChainRecord) -> Result<()> {
    let recorded = chain.at(state.step).map(|proved| &proved.record);
    ensure!(
        recorded.is_some_and(|recorded| recorded.same_state(state)),
        "{}: is not the state that the chain's record of step {} is of",
        base.path().display(),
        state.step
    );
    Ok(())
}
