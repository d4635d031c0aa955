//! `hlx verify --golden`: trains the golden runs on each device and compares their digests.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use hlx_core::files::Output;
use hlx_core::{Device, DeviceInfo, environment};
use hlx_train::golden::{GoldenDigests, GoldenFile, GoldenRun};
use serde_json::json;

use crate::print::{self, say};

/// The options of `--golden`.
pub struct Options<'a> {
    /// The requested devices; all of the machine if there are none.
    pub devices: &'a [String],
    /// A file of digests to compare with, instead of those that the program was built with.
    pub against: Option<&'a Path>,
    /// Where to write the digests that are found, instead of comparing them.
    pub write: Option<&'a Path>,
    /// JSON instead of text.
    pub json: bool,
}

/// How it ended.
pub enum Verdict {
    /// Every digest of every device is the one expected.
    Equal,
    /// One differs at least.
    Differs,
    /// A device could not train, and no other differs.
    CannotCheck,
}

/// A device's golden runs.
struct Trained {
    info: DeviceInfo,
    digests: [GoldenDigests; 4],
    seconds: [f64; 4],
}

/// Trains on every device, and reports each when it is done.
pub fn run(options: &Options<'_>) -> Result<Verdict> {
    if let Some(path) = options.write {
        // Said before the training, which takes its time.
        Output::at(path).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    let mut expected = match (options.against, options.write) {
        (Some(path), _) => Some(GoldenFile::read(path)?),
        (None, None) => Some(GoldenFile::expected()?),
        (None, Some(_)) => None,
    };
    let (mut lines, mut n_differ, mut n_failed) = (Vec::new(), 0, 0);
    // Whoever reads no further still wants to know the verdict, which is the exit status.
    let mut printed = Ok(());
    for selector in selectors(options.devices)? {
        match train(&selector) {
            Ok(trained) => {
                // Without a file to compare with, the first device is the reference.
                let file = expected.get_or_insert_with(|| GoldenFile::new(trained.digests.clone()));
                n_differ += trained.differences(file).len();
                if !options.json && printed.is_ok() {
                    printed = trained.print(file);
                }
                lines.push(trained.to_json(file));
            }
            Err(error) => {
                n_failed += 1;
                lines.push(json!({ "selector": selector, "error": format!("{error:#}") }));
                crate::print::error(&error.context(selector));
            }
        }
    }
    let verdict = match (n_differ, n_failed) {
        (0, 0) => Verdict::Equal,
        (0, _) => Verdict::CannotCheck,
        _ => Verdict::Differs,
    };
    if options.json {
        let equal = matches!(verdict, Verdict::Equal);
        printed = say!(
            "{}",
            json!({ "kind": "golden", "equal": equal, "devices": lines })
        );
    }
    match (options.write, expected, &verdict) {
        (Some(path), Some(file), Verdict::Equal) => {
            file.write(path)?;
            if !options.json && printed.is_ok() {
                printed = say!("written    {}", path.display());
            }
        }
        (Some(path), ..) => bail!(
            "{}: is not written, the devices do not agree",
            path.display()
        ),
        _ => {}
    }
    print::or_closed(printed)?;
    Ok(verdict)
}

/// The requested devices: the environment's first of all, then the arguments', else all.
fn selectors(devices: &[String]) -> Result<Vec<String>> {
    Ok(match environment::text("HLX_DEVICE")? {
        Some(selector) => vec![selector],
        None if devices.is_empty() => Device::devices()
            .into_iter()
            .map(|info| info.selector)
            .collect(),
        None => devices.to_vec(),
    })
}

fn train(selector: &str) -> Result<Trained> {
    let device = Device::open(selector)?;
    let mut digests = Vec::new();
    let mut seconds = [0.0; 4];
    for (run, seconds) in GoldenRun::ALL.into_iter().zip(&mut seconds) {
        let start = Instant::now();
        digests.push(run.train(&device).context(run.name())?);
        *seconds = start.elapsed().as_secs_f64();
    }
    let digests = <[GoldenDigests; 4]>::try_from(digests);
    Ok(Trained {
        info: device.info().clone(),
        digests: digests.map_err(|_| anyhow!("a golden run is missing"))?,
        seconds,
    })
}

impl Trained {
    /// The digests that are not those of the file: run, name, expected, found.
    fn differences<'a>(
        &'a self,
        file: &'a GoldenFile,
    ) -> Vec<(GoldenRun, &'static str, &'a str, &'a str)> {
        let mut differences = Vec::new();
        for (run, digests) in GoldenRun::ALL.into_iter().zip(&self.digests) {
            for ((name, found), (_, expected)) in
                digests.named().into_iter().zip(file.of(run).named())
            {
                if found != expected {
                    differences.push((run, name, expected, found));
                }
            }
        }
        differences
    }

    fn print(&self, file: &GoldenFile) -> Result<()> {
        say!("{}, {}", self.info, self.info.driver)?;
        let differences = self.differences(file);
        for (run, seconds) in GoldenRun::ALL.into_iter().zip(self.seconds) {
            let mut own = differences
                .iter()
                .filter(|difference| difference.0 == run)
                .peekable();
            let verdict = if own.peek().is_some() {
                "differs"
            } else {
                "equal"
            };
            say!("  {:<12} {verdict:<8} {seconds:.2} s", run.name())?;
            for (_, name, expected, found) in own {
                say!("    {name:<10} expected {expected}")?;
                say!("    {:<10} found    {found}", "")?;
            }
        }
        Ok(())
    }

    fn to_json(&self, file: &GoldenFile) -> serde_json::Value {
        let runs = GoldenRun::ALL
            .into_iter()
            .zip(&self.digests)
            .zip(self.seconds);
        let runs: Vec<_> = runs
            .map(|((run, found), seconds)| {
                let expected = file.of(run);
                json!({
                    "name": run.name(), "equal": found == expected, "expected": expected,
                    "found": found, "seconds": seconds,
                })
            })
            .collect();
        let info = &self.info;
        json!({
            "device": info.name, "selector": info.selector, "driver": info.driver, "runs": runs,
        })
    }
}
