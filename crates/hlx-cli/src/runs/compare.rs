//! `hlx compare`: the first difference of two runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use hlx_core::Device;
use hlx_report::compare::{ChainDifference, Comparison, Source, compare, recompute};
use hlx_report::text::with_commas;
use hlx_train::verify::{Verification, VerifyOptions};

use crate::print::{self, say};

/// The exit status of runs that differ.
const DIFFERS: u8 = 1;
/// The exit status of what cannot be compared.
const CANNOT_COMPARE: u8 = 2;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 the chains hold the same bits as far as both go, 1 they differ, 2 they cannot be \
                        compared."
)]
pub struct Arguments {
    /// The two run folders.
    #[arg(num_args = 2, required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Compute both runs again from the last equal record to the step after which their states differ, and name its
    /// first tensor and element.
    #[arg(long)]
    recompute: bool,
    /// With --recompute: auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(
        long,
        default_value = "auto",
        value_name = "DEVICE",
        requires = "recompute"
    )]
    device: String,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Compares; the status says whether the bits are equal.
pub fn run(arguments: &Arguments) -> ExitCode {
    match arguments.compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERS),
        Err(error) => {
            print::error(&error);
            ExitCode::from(match print::is_of_output(&error) {
                true => DIFFERS,
                false => CANNOT_COMPARE,
            })
        }
    }
}

impl Arguments {
    fn compare(&self) -> Result<bool> {
        ensure!(
            self.runs.len() == 2,
            "two runs are compared, {} are given",
            self.runs.len()
        );
        let paths = [self.runs[0].as_path(), self.runs[1].as_path()];
        let mut comparison = compare(paths)?;
        let mut note = None;
        if let (true, Some(difference)) = (self.recompute, &comparison.difference) {
            let last = difference.state_step.unwrap_or(difference.step);
            let runs = self.verifications(paths, comparison.equal_to, last)?;
            if !recompute(&mut comparison, runs, &mut |_| {})? {
                note = Some(format!(
                    "computed again up to step {last}, both are equal: one of the chains is not what this HLX \
                     computes, and hlx verify says which"
                ));
            }
        }
        let printed = match self.json {
            true => to_json(&comparison, note.as_deref()).and_then(|value| say!("{value}")),
            false => print_comparison(&comparison, note.as_deref()),
        };
        print::or_closed(printed)?;
        Ok(comparison.equal)
    }

    /// Both runs, ready to be computed from the newest checkpoint at or before a step.
    fn verifications(
        &self,
        paths: [&Path; 2],
        from: Option<u64>,
        to: u64,
    ) -> Result<[Verification; 2]> {
        let device = Device::open_from_env(&self.device)?;
        let options = VerifyOptions {
            from,
            to: Some(to),
            ..VerifyOptions::default()
        };
        let run = |path: &Path| Verification::new(&device, path, &options);
        Ok([run(paths[0])?, run(paths[1])?])
    }
}

fn to_json(comparison: &Comparison, note: Option<&str>) -> Result<serde_json::Value> {
    let mut value = serde_json::json!({ "kind": "compare", "version": 1, "note": note });
    if let (Some(value), serde_json::Value::Object(rest)) =
        (value.as_object_mut(), serde_json::to_value(comparison)?)
    {
        value.extend(rest);
    }
    Ok(value)
}

fn print_comparison(comparison: &Comparison, note: Option<&str>) -> Result<()> {
    let Comparison {
        runs: [ours, theirs],
        configuration,
        same_corpus,
        specifications,
        last_steps,
        common_records,
        equal_to,
        difference,
        ..
    } = comparison;
    say!("a          {ours}, to step {}", with_commas(last_steps[0]))?;
    say!(
        "b          {theirs}, to step {}",
        with_commas(last_steps[1])
    )?;
    say!("records    {} in common", with_commas(*common_records))?;
    if configuration.is_empty() {
        say!("config     equal, key by key")?;
    }
    for key in configuration {
        let value = |at: usize| key.values[at].as_deref().unwrap_or("not set");
        let decides = if key.decides_bits {
            ""
        } else {
            " (decides no bit)"
        };
        say!(
            "config     {} = {} | {}{decides}",
            key.key,
            value(0),
            value(1)
        )?;
    }
    if !same_corpus {
        say!("corpus     its digests differ")?;
    }
    let [a, b] = specifications;
    if a != b {
        say!("arithmetic specification {a} | {b}")?;
    }
    match equal_to {
        Some(step) => say!("equal      up to step {}", with_commas(*step))?,
        None => say!("equal      nothing")?,
    }
    match difference {
        Some(difference) => print_difference(difference)?,
        None if last_steps[0] == last_steps[1] => say!("result     equal")?,
        None => say!("result     equal as far as both go")?,
    }
    match note {
        Some(note) => say!("note       {note}"),
        None => Ok(()),
    }
}

fn print_difference(difference: &ChainDifference) -> Result<()> {
    let step = with_commas(difference.step);
    say!("differs    at step {step}: {}", difference.what.name())?;
    say!("  a        {}", difference.values[0])?;
    say!("  b        {}", difference.values[1])?;
    let Some((state_step, source)) = difference.state_step.zip(difference.source) else {
        return Ok(());
    };
    let source = match source {
        Source::Records => "by the records",
        Source::Checkpoints => "by the checkpoints",
        Source::Recomputed => "computed again",
    };
    let (n, of) = (difference.n_differing, difference.n_tensors);
    say!(
        "state      after step {}, {source}: {n} of {of} tensors differ",
        with_commas(state_step)
    )?;
    let Some(tensor) = &difference.tensor else {
        return Ok(());
    };
    say!("tensor     {}", tensor.name)?;
    say!("  a        {}", tensor.digests[0])?;
    say!("  b        {}", tensor.digests[1])?;
    let Some(element) = &tensor.element else {
        return Ok(());
    };
    say!(
        "element    {}, the first of {} that differ",
        element.index,
        with_commas(element.n_differing)
    )?;
    say!(
        "  a        {} (bits {})",
        element.values[0],
        element.bits[0]
    )?;
    say!(
        "  b        {} (bits {})",
        element.values[1],
        element.bits[1]
    )?;
    say!(
        "greatest   {:e} between elements of this tensor",
        element.greatest
    )
}
