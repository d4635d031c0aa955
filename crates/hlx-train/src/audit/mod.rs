//! Auditing a run: stretches that a seed chooses are computed again, and what was found becomes a statement.
//!
//! A stretch goes from one state that the run has stored to the next. All states are compared with the chain's
//! records by
//! their digests, so that what remains to be wrong are the steps between them. `docs/audit.md` says what this proves.

mod check;
mod report;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_core::Device;
use hlx_receipt::{
    Audit, AuditMethod, AuditWork, AuditedRun, AuditedSubject, Auditor, Certificate, Layout,
    Sha256, SigningKey, Whole,
};

pub use check::{Expected, check, names_weights};
pub use report::{OF_THIS_RUN, certificate_bytes, report, report_of_check};

use crate::run::{CHAIN_FILE, Chain};
use crate::verify::{Difference, Inputs, StoredStates, Verification, VerifyOptions};

/// What is audited, and how.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// How many stretches are computed again; [`USUAL_STRETCHES`], or all if there are fewer, if left out.
    pub stretches: Option<u64>,
    /// Keys their choice.
    pub seed: String,
    /// The corpus, if it is no longer where the run read it.
    pub data_path: Option<PathBuf>,
    /// Samples computed at a time, if not as many as the run did: no bit depends on it.
    pub micro_batch_size: Option<usize>,
}

/// The stretches that are computed again if nobody says how many.
pub const USUAL_STRETCHES: u64 = 4;

/// An audit that is about to run.
pub struct Auditing {
    inputs: Inputs,
    method: AuditMethod,
    run: AuditedRun,
    stored: StoredStates,
    micro_batch_size: Option<usize>,
}

/// What an audit has found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was computed and compared, up to the first difference.
    pub work: AuditWork,
    /// The first difference.
    pub fault: Option<Fault>,
}

/// What is wrong with a run.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A checkpoint's tensors or place are not those of the chain's record of its step.
    OtherState(PathBuf),
    /// A recomputed step, or the initial state, differs.
    Steps(Box<Difference>),
}

impl Auditing {
    /// Reads a run, proves its chain, configuration and corpus, compares every checkpoint with the chain and
    /// chooses the stretches.
    ///
    /// # Errors
    /// One line with why the run cannot be audited, as [`Verification::new`]; a seed or a number of stretches that
    /// cannot be.
    pub fn new(run: &Path, options: &AuditOptions) -> Result<Self> {
        hlx_receipt::check_seed(&options.seed)?;
        let inputs = Inputs::open(run, options.data_path.as_deref())?;
        let (folder, chain) = (inputs.folder(), inputs.chain());
        let stored = StoredStates::read(folder, chain, inputs.config())?;
        let layout = layout(chain, &stored)?;
        let n = layout.n_stretches();
        let k = options.stretches.unwrap_or(USUAL_STRETCHES.min(n));
        let run = audited_run(&inputs)?;
        let method = AuditMethod::new(&options.seed, &run.last_record_sha256, layout, k)?;
        Ok(Self {
            run,
            method,
            stored,
            inputs,
            micro_batch_size: options.micro_batch_size,
        })
    }

    /// How the stretches were chosen.
    pub fn method(&self) -> &AuditMethod {
        &self.method
    }

    /// The run.
    pub fn run_digests(&self) -> &AuditedRun {
        &self.run
    }

    /// Steps that are computed again.
    pub fn n_steps(&self) -> u64 {
        let lengths = self.method.checked.iter();
        lengths.map(|[from, to]| to - from).sum()
    }

    /// Computes the stretches again, up to the first difference. `step` is called with the number of steps done.
    ///
    /// # Errors
    /// What the device reports.
    pub fn run(&self, device: &Device, step: &mut dyn FnMut(u64)) -> Result<Outcome> {
        self.run_while(device, &mut |n| {
            step(n);
            true
        })
    }

    /// As [`Auditing::run`], unless `step` returns false: the outcome is then that of the stretches compared before, of
    /// fewer steps than [`Auditing::n_steps`].
    ///
    /// # Errors
    /// As [`Auditing::run`].
    pub fn run_while(&self, device: &Device, step: &mut dyn FnMut(u64) -> bool) -> Result<Outcome> {
        let goes_on = Cell::new(true);
        let step = &mut |n| {
            goes_on.set(goes_on.get() && step(n));
            goes_on.get()
        };
        let mut outcome = Outcome {
            work: AuditWork {
                steps: Whole(0),
                records: Whole(0),
                checkpoints: Whole(0),
                stored_states: Whole(self.stored.steps.len() as u64),
                initial_state: false,
            },
            fault: self.stored.other.clone().map(Fault::OtherState),
        };
        let [first, _] = self.method.layout.ends();
        if outcome.fault.is_none() && first == 0 {
            outcome.fault = self.verify(device, [0, 0], &mut outcome.work, step)?;
            outcome.work.initial_state = outcome.fault.is_none();
        }
        for &stretch in &self.method.checked {
            if outcome.fault.is_some() || !goes_on.get() {
                break;
            }
            outcome.fault = self.verify(device, stretch, &mut outcome.work, step)?;
        }
        Ok(outcome)
    }

    /// Computes a stretch again, or makes the initial state.
    fn verify(
        &self,
        device: &Device,
        [from, to]: [u64; 2],
        work: &mut AuditWork,
        step: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Fault>> {
        let options = VerifyOptions {
            from: (from > 0).then_some(from),
            to: Some(to),
            data_path: None,
            micro_batch_size: self.micro_batch_size,
        };
        let verification = Verification::of(device, &self.inputs, &options)?;
        let before = work.steps.0;
        let report = verification.run_while(&mut |at| step(before + at - from))?;
        if report.difference.is_none() && report.equal_to == Some(to) {
            work.steps.0 += to - from;
        }
        work.records.0 += report.records;
        work.checkpoints.0 += report.checkpoints;
        let difference = report.difference.map(Box::new);
        Ok(difference.map(Fault::Steps))
    }

    /// The statement of an audit; it says that the run is equal, and is none of one that is not.
    pub fn statement(&self, outcome: &Outcome, device: &Device) -> Audit {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let auditor = Auditor {
            created: Whole(now.map_or(0, |time| time.as_secs())),
            device: device.info().to_string(),
            program: concat!("hlx ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        Audit::passed(self.run.clone(), self.method.clone(), outcome.work, auditor)
    }

    /// Signs the statement of an audit that has found no difference; returns the certificate's bytes.
    ///
    /// # Errors
    /// A statement of fewer steps than were chosen, as of a run that differs; a certificate that becomes too large.
    pub fn certify(&self, audit: Audit, key: &SigningKey) -> Result<Vec<u8>> {
        ensure!(
            audit.work.steps.0 == self.n_steps() && self.stored.other.is_none(),
            "a run that differs gets no certificate"
        );
        let chain = Sha256::of(&self.inputs.chain().proved_bytes()?);
        let subjects = vec![
            AuditedSubject::new(CHAIN_FILE, chain),
            AuditedSubject::new("data", self.run.data_sha256),
        ];
        Ok(Certificate::sign(key, audit, subjects)?)
    }
}

/// Cuts a run into stretches at its stored states.
fn layout(chain: &Chain, stored: &StoredStates) -> Result<Layout> {
    let records = chain.records();
    let step = |at: Option<&crate::run::ProvedRecord>| at.map_or(0, |proved| proved.record.step);
    let (first, last) = (step(records.first()), step(records.last()));
    let within = stored.steps.iter().copied();
    let within = within.filter(|&step| step > first && step < last);
    let mut steps = vec![first];
    steps.extend(within);
    steps.push(last);
    ensure!(
        last > first,
        "{}: has no step to check",
        chain.path().display()
    );
    Ok(Layout::of_steps(&steps)?)
}

/// The digests of a run.
fn audited_run(inputs: &Inputs) -> Result<AuditedRun> {
    let chain = inputs.chain();
    let origin = chain.origin()?;
    let last = chain.records().last().context("the chain is empty")?;
    let digest = |name: &str, text: &str| {
        let parsed = text.parse::<Sha256>();
        parsed.map_err(|reason| anyhow!("{}: {name}: {reason}", chain.path().display()))
    };
    Ok(AuditedRun {
        specification: origin.specification,
        arithmetic: origin.arithmetic.clone(),
        place: chain.place_at(last.record.step).cloned(),
        config_sha256: digest("config", &origin.config)?,
        data_sha256: digest("data", &origin.data)?,
        steps: Whole(last.record.step),
        n_records: Whole(chain.records().len() as u64),
        last_record_sha256: digest("digest", &last.digest)?,
        parameters_sha256: digest("parameters", &last.record.parameters)?,
    })
}
