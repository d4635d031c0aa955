//! `hlx verify`: recomputes a stretch of a run, or the golden runs, and says whether the bits are
//! equal.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use hlx_core::{Device, SPECIFICATION};
use hlx_train::run::RunFolder;
use hlx_train::verify::{Difference, Report, Source, Verification, VerifyOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::golden::{self, Options, Verdict};
use crate::print::{self, say};
use crate::receipts::{self, Wanted};

/// The exit status of what differs, and of a verdict that could not be printed.
const DIFFERS: u8 = 1;
/// The exit status of what cannot be checked.
const CANNOT_CHECK: u8 = 2;

/// Exit status: 0 equal, 1 differs, or standard output is full (an error line says so), 2 cannot be checked.
#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder.
    #[arg(
        required_unless_present_any = ["golden", "receipts"],
        conflicts_with_all = ["golden", "receipts"]
    )]
    run: Option<PathBuf>,
    /// Check receipts of a server's answers instead: files, and folders of them.
    #[arg(
        long = "receipt",
        value_name = "FILE",
        num_args = 1..,
        requires = "model",
        conflicts_with_all = ["golden", "from", "to", "data", "micro_batch_size"]
    )]
    receipts: Vec<PathBuf>,
    /// With --receipt: the run or the model's folder that has answered.
    #[arg(long, value_name = "MODEL", requires = "receipts")]
    model: Option<PathBuf>,
    /// With --receipt: the public key that must have signed them (hlx key show).
    #[arg(long, value_name = "FILE", requires = "receipts")]
    key: Option<PathBuf>,
    /// With --receipt: the moving average of the run's weights has answered.
    #[arg(long, requires = "receipts")]
    average: bool,
    /// With --receipt: the adapter that the server was given.
    #[arg(long, value_name = "DIR", requires = "receipts")]
    adapter: Option<PathBuf>,
    /// With --receipt: the certificate of an audit (hlx audit) that the receipts must name, of the training of MODEL.
    #[arg(long, value_name = "FILE", requires = "receipts")]
    audit: Option<PathBuf>,
    /// Train the golden runs and compare their digests with those that HLX was published with.
    #[arg(long)]
    golden: bool,
    /// With --golden: compare with the digests of this file instead.
    #[arg(
        long,
        value_name = "FILE",
        requires = "golden",
        conflicts_with = "write"
    )]
    against: Option<PathBuf>,
    /// With --golden: write the digests found to this file, if all devices agree.
    #[arg(long, value_name = "FILE", requires = "golden")]
    write: Option<PathBuf>,
    /// Begin at the newest checkpoint at or before this step; the initial parameters if left out.
    #[arg(long, value_name = "STEP", conflicts_with = "golden")]
    from: Option<u64>,
    /// End at the first record at or after this step; the chain's end if left out.
    #[arg(long, value_name = "STEP", conflicts_with = "golden")]
    to: Option<u64>,
    /// The corpus, if it is no longer where the run read it.
    #[arg(long, value_name = "FILE", conflicts_with = "golden")]
    data: Option<PathBuf>,
    /// Samples computed at a time, if fewer fit into this device's memory; the bits stay the same.
    #[arg(long, value_name = "SAMPLES", conflicts_with = "golden")]
    micro_batch_size: Option<usize>,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins. Of a run, auto if
    /// left out; of the golden runs, every device found, and it may be given again.
    #[arg(long = "device", value_name = "DEVICE")]
    devices: Vec<String>,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Verifies; the status says whether the bits are equal.
pub fn run(arguments: &Arguments) -> ExitCode {
    let verdict = match (&arguments.run, &arguments.model) {
        (Some(run), _) => arguments.verify(run),
        (None, Some(model)) => arguments.verify_receipts(model),
        (None, None) => golden::run(&Options {
            devices: &arguments.devices,
            against: arguments.against.as_deref(),
            write: arguments.write.as_deref(),
            json: arguments.json,
        }),
    };
    end(verdict)
}

/// The exit status of a verdict; an error is printed.
pub fn end(verdict: Result<Verdict>) -> ExitCode {
    match verdict {
        Ok(Verdict::Equal) => ExitCode::SUCCESS,
        Ok(Verdict::Differs) => ExitCode::from(DIFFERS),
        Ok(Verdict::CannotCheck) => ExitCode::from(CANNOT_CHECK),
        Err(error) => {
            print::error(&error);
            ExitCode::from(match print::is_of_output(&error) {
                true => DIFFERS,
                false => CANNOT_CHECK,
            })
        }
    }
}

impl Arguments {
    fn verify_receipts(&self, model: &Path) -> Result<Verdict> {
        receipts::verify(&Wanted {
            paths: &self.receipts,
            model,
            key: self.key.as_deref(),
            average: self.average,
            adapter: self.adapter.as_deref(),
            audit: self.audit.as_deref(),
            device: self.device()?,
            json: self.json,
        })
    }

    /// The one device of what is checked on one.
    fn device(&self) -> Result<&str> {
        match self.devices.as_slice() {
            [] => Ok("auto"),
            [device] => Ok(device),
            _ => bail!(
                "--device: this is verified on one device, {} are given",
                self.devices.len()
            ),
        }
    }

    fn verify(&self, run: &Path) -> Result<Verdict> {
        // What needs no device is said before one is opened.
        let folder = RunFolder::open(run)?;
        let device = Device::open_from_env(self.device()?)?;
        let options = VerifyOptions {
            from: self.from,
            to: self.to,
            data_path: self.data.clone(),
            micro_batch_size: self.micro_batch_size,
        };
        let verification = Verification::new(&device, run, &options)?;
        // Whoever reads no further still wants to know the verdict, which is the exit status.
        let mut printed = match self.json {
            true => Ok(()),
            false => head(&verification, &device.info().to_string()),
        };
        let bar = progress_bar(verification.steps(), self.json);
        let report = verification.run(&mut |step| bar.set_position(step))?;
        bar.finish_and_clear();
        // A folder that cannot be written is verified as well as another.
        if let Err(error) = hlx_train::verify::Verdict::of(&report).append(&folder) {
            tracing::info!("{error:#}");
        }
        if printed.is_ok() {
            printed = match self.json {
                true => say!("{}", to_json(&report)?),
                false => print_report(&report),
            };
        }
        print::or_closed(printed)?;
        Ok(match report.difference {
            None => Verdict::Equal,
            Some(_) => Verdict::Differs,
        })
    }
}

/// Says what is about to run.
fn head(verification: &Verification, device: &str) -> Result<()> {
    let (from, to) = verification.steps();
    say!("device     {device}")?;
    match verification.base() {
        Some(base) => say!("from       step {from}, {}", base.display())?,
        None => say!("from       the initial parameters")?,
    }
    say!("to         step {to}")?;
    if verification.is_torn() {
        say!("chain      its last line is cut short and left out")?;
    }
    Ok(())
}

fn progress_bar((from, to): (u64, u64), json: bool) -> ProgressBar {
    let shown = !json && std::io::stderr().is_terminal();
    let target = match shown {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(to), target);
    let template = "{bar:32} step {pos}/{len}  {elapsed} of about {duration}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_position(from);
    bar.reset_eta();
    bar
}

fn to_json(report: &Report) -> Result<serde_json::Value> {
    let mut value = serde_json::json!({ "kind": "verify", "equal": report.difference.is_none() });
    if let (Some(value), serde_json::Value::Object(rest)) =
        (value.as_object_mut(), serde_json::to_value(report)?)
    {
        value.extend(rest);
    }
    Ok(value)
}

fn print_report(report: &Report) -> Result<()> {
    let Report {
        records,
        checkpoints,
        digest,
        ..
    } = report;
    say!("compared   {records} records, {checkpoints} checkpoints")?;
    match &report.difference {
        None => say!("equal      up to step {}, record {digest}", report.to)?,
        Some(difference) => {
            print_difference(difference)?;
            if report.specification < SPECIFICATION {
                say!(
                    "note       the run follows specification {}, this HLX {SPECIFICATION}: they differ where a \
                     value is not finite",
                    report.specification
                )?;
            }
        }
    }
    Ok(())
}

/// Says where a run and its recomputation first differ.
pub fn print_difference(difference: &Difference) -> Result<()> {
    let source = match difference.source {
        Source::Chain => "record",
        Source::Checkpoint => "checkpoint",
    };
    let Difference { record, step, .. } = difference;
    say!("differs    at step {step}, in the {source} of step {record}")?;
    match difference.equal_to {
        Some(step) => say!("equal      up to the record of step {step}")?,
        None => say!("equal      nothing before it")?,
    }
    if let Some(tensor) = &difference.tensor {
        say!("tensor     {}", tensor.name)?;
        if let Some(element) = &tensor.element {
            say!("  element  {}", element.index)?;
            say!("    recorded   {}", with_value(&element.recorded))?;
            say!("    recomputed {}", with_value(&element.recomputed))?;
        }
        say!("  recorded   {}", tensor.recorded)?;
        say!("  recomputed {}", tensor.recomputed)?;
    }
    for mismatch in &difference.mismatches {
        say!("{}", mismatch.what)?;
        say!("  recorded   {}", mismatch.recorded)?;
        say!("  recomputed {}", mismatch.recomputed)?;
    }
    Ok(())
}

/// The bits of an f32 with the number that they are.
fn with_value(bits: &str) -> String {
    let value = u32::from_str_radix(bits, 16).map(f32::from_bits);
    value.map_or_else(
        |_| bits.to_owned(),
        |value| format!("{value:e} (bits {bits})"),
    )
}
