//! The line protocol through which HLX and PyTorch are measured in turns.
//!
//! A side says `ready DESCRIPTION`, then answers each line `run CASE` with `ok KEY=VALUE ..`
//! (`ms`, the time of a run, is always there; `launches` of a training step) or with `error MESSAGE`; it ends with its input.
//! `digest CASE` is answered with `ok digest=SHA256` of what a product or three training steps compute.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use hlx_core::{Arithmetic, Device};

use crate::cases::Case;
use crate::measure::Ready;
use crate::product::Product;
use crate::step::{Training, configuration};

/// Seconds that the tries of one answer take.
const SECONDS: f64 = 0.25;
/// Steps before the digest of a training.
const DIGEST_STEPS: usize = 3;

/// Answers requests until the input ends. The case that was prepared last is held, so that the
/// rounds of a case prepare it once and the device holds one case at a time.
///
/// # Errors
/// A device that cannot be opened, or a closed output.
pub fn serve(device: &str, arithmetic: Arithmetic) -> Result<()> {
    let device = Device::open_from_env(device)?.in_arithmetic(arithmetic)?;
    let info = device.info();
    say(&format!(
        "ready HLX {}, {}, {}",
        env!("CARGO_PKG_VERSION"),
        info.name,
        info.driver
    ))?;
    let mut prepared = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        match answer(&device, &mut prepared, &line?) {
            Ok(answer) => say(&format!("ok {answer}"))?,
            Err(error) => say(&format!("error {error:#}"))?,
        }
    }
    Ok(())
}

fn answer(device: &Device, prepared: &mut HashMap<String, Ready>, line: &str) -> Result<String> {
    if let Some(name) = line.strip_prefix("digest ") {
        prepared.clear();
        return Ok(format!("digest={}", digest(device, &Case::parse(name)?)?));
    }
    let Some(name) = line.strip_prefix("run ") else {
        bail!("`{line}` is no request");
    };
    if !prepared.contains_key(name) {
        prepared.clear();
        device.sync()?;
        device.trim_memory();
        let ready = Ready::new(device, &Case::parse(name)?)?;
        prepared.insert(name.to_owned(), ready);
    }
    let ready = prepared.get_mut(name).context("prepared above")?;
    let ms = ready.run_in_a_row(device, SECONDS)?;
    Ok(match ready.launches() {
        None => format!("ms={ms:.6}"),
        Some(launches) => format!("ms={ms:.6} launches={launches}"),
    })
}

/// SHA-256 of a product's result, or the digest of the parameters after three steps.
fn digest(device: &Device, case: &Case) -> Result<String> {
    match &case.label {
        Some(name) => {
            let found =
                configuration(name).with_context(|| format!("no configuration `{name}`"))?;
            let mut training = Training::new(device, &found)?;
            (0..DIGEST_STEPS).try_for_each(|_| training.step())?;
            training.digest()
        }
        None if case.op == "matmul" => {
            let [m, n, k] = case.sizes[..] else {
                bail!("`{}` has no three sizes", case.name());
            };
            Product::new(device, [m, n, k])?.digest()
        }
        None => bail!(
            "`{}` has no digest: products and training steps have",
            case.name()
        ),
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Runs one training step in a fresh process and says when it was done; then some more for the
/// memory, and waits until its input ends, so that the device's memory can be looked at.
///
/// # Errors
/// An unknown configuration, and what the device reports.
pub fn first_step(device: &str, name: &str) -> Result<()> {
    let start = Instant::now();
    let device = Device::open_from_env(device)?;
    let opened = start.elapsed().as_secs_f64();
    let found = configuration(name).with_context(|| format!("no configuration `{name}`"))?;
    let mut training = Training::new(&device, &found)?;
    let recorded = start.elapsed().as_secs_f64();
    training.step()?;
    let loss = training.loss()?;
    say(&format!(
        "ok opened_s={opened:.3} recorded_s={recorded:.3} first_step_s={:.3} loss={loss:.5} held_bytes={}",
        start.elapsed().as_secs_f64(),
        device.held_bytes()
    ))?;
    for _ in 0..3 {
        training.step()?;
    }
    device.sync()?;
    say(&format!("ok held_bytes={}", device.held_bytes()))?;
    let mut rest = String::new();
    std::io::stdin().read_line(&mut rest)?;
    Ok(())
}
