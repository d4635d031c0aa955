//! `hlx audit`: recomputes random stretches of a run and signs what was found, or checks such a certificate.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hlx_core::Device;
use hlx_receipt::{Audit, Certificate, PublicKey, SigningKey, Whole};
use hlx_train::audit::{
    AuditOptions, Auditing, Expected, Fault, OF_THIS_RUN, Outcome, certificate_bytes, check,
    report, report_of_check,
};
use hlx_train::receipts::{Check, Verdict};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::golden;
use crate::output::output;
use crate::print::{self, say};
use crate::verify::{end, print_difference};

/// Exit status: 0 equal, or the certificate is of this run; 1 differs; 2 cannot be audited or checked.
#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder.
    run: PathBuf,
    /// How many stretches between checkpoints are recomputed; 4, or all if there are fewer, if left out.
    #[arg(long, value_name = "K")]
    stretches: Option<u64>,
    /// Chooses the stretches: a number or any text that the run's maker could not know; random if left out.
    #[arg(long, value_name = "SEED")]
    seed: Option<String>,
    /// The private key that signs the certificate (hlx key new); with --check, the public key that must have.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Where the certificate is written; RUN/audit.json if left out.
    #[arg(long, value_name = "FILE", requires = "key")]
    out: Option<PathBuf>,
    /// Check this certificate against the folder instead; nothing is recomputed.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["stretches", "seed", "out", "micro_batch_size", "device"]
    )]
    check: Option<PathBuf>,
    /// The corpus, if it is no longer where the run read it.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Samples computed at a time, if fewer fit into this device's memory; the bits stay the same.
    #[arg(long, value_name = "SAMPLES")]
    micro_batch_size: Option<usize>,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins. auto if left out.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Audits or checks; the status says what was found.
pub fn run(arguments: &Arguments) -> ExitCode {
    end(match &arguments.check {
        Some(path) => arguments.check(path),
        None => arguments.audit(),
    })
}

impl Arguments {
    fn audit(&self) -> Result<golden::Verdict> {
        // What needs no device and no data is said before they are opened.
        let key = self.key.as_deref().map(SigningKey::open).transpose()?;
        let usual = || self.run.join("audit.json");
        let path = self.out.clone().unwrap_or_else(usual);
        let written = key.is_some().then(|| output(&path, &self.inputs()));
        let written = written.transpose()?;
        let seed = match &self.seed {
            Some(seed) => seed.clone(),
            None => hlx_receipt::random_seed()?,
        };
        let options = AuditOptions {
            stretches: self.stretches,
            seed,
            data_path: self.data.clone(),
            micro_batch_size: self.micro_batch_size,
        };
        let auditing = Auditing::new(&self.run, &options)?;
        let device = Device::open_from_env(self.device.as_deref().unwrap_or("auto"))?;
        let bar = progress_bar(auditing.n_steps(), self.json);
        let outcome = auditing.run(&device, &mut |n| bar.set_position(n))?;
        bar.finish_and_clear();
        let audit = auditing.statement(&outcome, &device);
        let certificate = match (&key, &written, &outcome.fault) {
            (Some(key), Some(file), None) => {
                let bytes = auditing.certify(audit.clone(), key)?;
                file.write(&bytes)
                    .with_context(|| format!("{}: cannot be written", path.display()))?;
                Some((path, Certificate::open(&bytes)?))
            }
            _ => None,
        };
        let printed = match self.json {
            true => {
                let written = certificate.as_ref();
                let written = written.map(|(path, certificate)| (path.as_path(), certificate));
                say!("{}", report(&audit, &outcome, written))
            }
            false => print(&audit, &outcome, certificate.as_ref(), key.is_some()),
        };
        print::or_closed(printed)?;
        Ok(verdict(outcome.fault.is_none()))
    }

    /// The files that an audit reads, which a certificate must not replace.
    fn inputs(&self) -> Vec<PathBuf> {
        let of_run = ["config.toml", "chain.jsonl", "run.json"];
        let of_run = of_run.map(|name| self.run.join(name)).into_iter();
        let given = [&self.key, &self.data].into_iter().flatten().cloned();
        of_run.chain(given).collect()
    }

    fn check(&self, path: &Path) -> Result<golden::Verdict> {
        let key = self.key.as_deref().map(PublicKey::open).transpose()?;
        let bytes = certificate_bytes(path)?;
        let expected = Expected {
            key: key.as_ref(),
            data_path: self.data.as_deref(),
        };
        let (certificate, checks) = check(&bytes, &self.run, &expected);
        let audit = certificate.as_ref().map(|found| &found.audit);
        let verdict_of = Verdict::new(checks, || OF_THIS_RUN.to_owned());
        let printed = match self.json {
            true => say!("{}", report_of_check(&verdict_of, certificate.as_ref())),
            false => print_checks(&verdict_of, audit.filter(|_| verdict_of.valid)),
        };
        print::or_closed(printed)?;
        Ok(verdict(verdict_of.valid))
    }
}

fn verdict(is_equal: bool) -> golden::Verdict {
    match is_equal {
        true => golden::Verdict::Equal,
        false => golden::Verdict::Differs,
    }
}

fn progress_bar(n: u64, json: bool) -> ProgressBar {
    let target = match !json && std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(n), target);
    let template = "{bar:32} step {pos}/{len}  {elapsed} of about {duration}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

type Written = (PathBuf, Certificate);

fn print(audit: &Audit, outcome: &Outcome, written: Option<&Written>, has_key: bool) -> Result<()> {
    print_method(audit)?;
    match &outcome.fault {
        Some(Fault::OtherState(path)) => {
            say!(
                "differs    {}: is not the state that the chain's record of its step is of",
                path.display()
            )?;
        }
        Some(Fault::Steps(difference)) => print_difference(difference)?,
        None => print_work(audit)?,
    }
    match written {
        Some((path, certificate)) => {
            say!("written    {}", path.display())?;
            say!("           sha256 {}", certificate.sha256)?;
            say!("signed     by the key {}", certificate.key)
        }
        None if has_key => say!("written    nothing: a run that differs gets no certificate"),
        None => say!("written    nothing: --key FILE signs a certificate (hlx key new)"),
    }
}

fn print_method(audit: &Audit) -> Result<()> {
    let method = &audit.method;
    let (Whole(k), Whole(n)) = (method.n_checked, method.n_stretches);
    say!("device     {}", audit.auditor.device)?;
    say!("seed       {}", method.seed)?;
    say!(
        "stretches  {k} of {n}, the steps {}",
        spans(&method.checked)
    )
}

/// A number and its noun.
fn counted(n: u64, one: &str, many: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        _ => format!("{n} {many}"),
    }
}

/// Steps from and to, as a reader counts them.
fn spans(checked: &[[u64; 2]]) -> String {
    let spans = checked
        .iter()
        .map(|[from, to]| format!("{} to {to}", from + 1));
    spans.collect::<Vec<_>>().join(", ")
}

fn print_work(audit: &Audit) -> Result<()> {
    let work = &audit.work;
    let initial = match work.initial_state {
        true => ", the initial parameters",
        false => "",
    };
    say!(
        "equal      {} in {}, {}{initial}",
        counted(work.steps.0, "step", "steps"),
        counted(work.records.0, "record", "records"),
        counted(work.checkpoints.0, "checkpoint", "checkpoints")
    )?;
    say!(
        "states     {}",
        counted(
            work.stored_states.0,
            "checkpoint is that of its record",
            "checkpoints are those of their records"
        )
    )?;
    for chance in &audit.chances {
        say!(
            "chance     {:.4} that {}, in {}, would have passed",
            chance.passes,
            counted(chance.wrong_steps.0, "wrong step", "wrong steps"),
            counted(chance.wrong_stretches.0, "stretch", "stretches"),
        )?;
    }
    Ok(())
}

fn print_checks(verdict: &Verdict, audit: Option<&Audit>) -> Result<()> {
    for Check { name, ok, detail } in &verdict.checks {
        match ok {
            true => say!("{name:<10} {detail}")?,
            false => say!("differs    {name}: {detail}")?,
        }
    }
    let Some(audit) = audit else { return Ok(()) };
    print_method(audit)?;
    print_work(audit)?;
    for assumption in audit.assumptions() {
        say!("rests on   {assumption}")?;
    }
    Ok(())
}
