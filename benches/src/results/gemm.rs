//! The product of 1,024: 100 runs, each launched and waited for, in HLX and in other programs.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use hlx_core::{Arithmetic, DeviceKind};

use super::bench::Bench;
use super::sheet::Sheet;
use crate::power::PowerMeter;
use crate::product::Product;
use crate::side::{Answer, Session, value};
use crate::statistics::{Statistics, median};
use crate::{note, say};

const COLUMNS: &str = "program,runs,median_ms,mean_ms,deviation_ms,min_ms,max_ms,device_ms,row_ms,row_tflops,watts,sha256";
/// The file of all runs.
pub const RUNS_FILE: &str = "gemm-runs.csv";
const RUN_COLUMNS: &str = "program,run,ms";

/// Seconds of runs behind each other, over which the power is read.
const BUSY_SECONDS: f64 = 1.5;

/// The other programs: what gemm.py calls them, and their names.
const OTHERS: [(&str, &str); 5] = [
    ("cublas", "cuBLAS"),
    ("torch", "PyTorch"),
    ("torch-tf32", "PyTorch TF32"),
    ("clblast", "CLBlast"),
    ("numpy", "NumPy"),
];

/// What one program's products took.
struct Measured {
    /// The program, its version and its device.
    description: String,
    /// Milliseconds of each run by the host's clock.
    times: Vec<f64>,
    /// The median by the device's clock.
    device_ms: Option<f64>,
    /// Milliseconds of one of many runs behind each other.
    row_ms: f64,
    watts: Option<f64>,
    digest: String,
}

/// Measures all programs; gemm.csv has a row per program, gemm-runs.csv one per run.
///
/// # Errors
/// What HLX's device reports. Another program that does not run here is left out, and says why.
pub fn measure(bench: &Bench) -> Result<()> {
    let size = if bench.quick { 128 } else { 1024 };
    // A software driver takes a second for a product.
    let runs = match bench.kind {
        DeviceKind::VulkanGpu | DeviceKind::Cpu if !bench.quick => 100,
        _ => 10,
    };
    let mut facts = bench.facts("gemm")?;
    facts.push(("size".to_owned(), size.to_string()));
    let mut sheet = Sheet::new(&facts, COLUMNS);
    let mut all = Sheet::new(&facts, RUN_COLUMNS);
    let meter = (!bench.is_on_cpu()).then(PowerMeter::start);
    let flops = 2.0 * (size as f64).powi(3);
    let mut add = |name: &str, measured: Measured| -> Result<()> {
        sheet.facts.push((name.to_owned(), measured.description));
        let times = Statistics::of(&measured.times);
        let optional = |number: Option<f64>| number.map_or(String::new(), |it| format!("{it:.4}"));
        say!(
            "{name:14} {:.4} ms, {:.4} ms of many",
            times.median,
            measured.row_ms
        );
        sheet.add([
            name.to_owned(),
            times.count.to_string(),
            format!("{:.4}", times.median),
            format!("{:.4}", times.mean),
            format!("{:.4}", times.deviation),
            format!("{:.4}", times.min),
            format!("{:.4}", times.max),
            optional(measured.device_ms),
            format!("{:.4}", measured.row_ms),
            format!("{:.4}", flops / measured.row_ms * 1e-9),
            measured
                .watts
                .map_or(String::new(), |watts| format!("{watts:.0}")),
            measured.digest,
        ]);
        for (run, ms) in measured.times.iter().enumerate() {
            all.add([name.to_owned(), (run + 1).to_string(), format!("{ms:.6}")]);
        }
        sheet.write(&bench.partial("gemm.csv"))?;
        all.write(&bench.partial(RUNS_FILE))
    };
    add("HLX", ours(bench, size, runs, meter.as_ref())?)?;
    for (side, name) in OTHERS {
        match theirs(bench, side, size, runs, meter.as_ref()) {
            Ok(measured) => add(name, measured)?,
            Err(error) => note!("{name} is left out: {error:#}"),
        }
    }
    Ok(())
}

fn ours(bench: &Bench, size: usize, runs: usize, meter: Option<&PowerMeter>) -> Result<Measured> {
    let device = bench.open()?.with_arithmetic(Arithmetic::Portable);
    let product = Product::new(&device, [size; 3])?;
    let times = product.latencies(runs)?;
    let device_ms = match device.is_cpu() {
        true => None,
        false => Some(median(&product.ready().single_runs(&device, runs)?)),
    };
    let start = Instant::now();
    let row_ms = product.busy(BUSY_SECONDS)?;
    let (version, info) = (env!("CARGO_PKG_VERSION"), device.info());
    Ok(Measured {
        description: format!("HLX {version}, {}, {}", info.name, info.driver),
        times,
        device_ms,
        row_ms,
        watts: meter.and_then(|meter| meter.mean_since(start)),
        digest: product.digest()?,
    })
}

fn theirs(
    bench: &Bench,
    side: &str,
    size: usize,
    runs: usize,
    meter: Option<&PowerMeter>,
) -> Result<Measured> {
    let mut command: Command = bench.python("gemm.py")?;
    command.arg(side).args(["--size", &size.to_string()]);
    // NumPy computes on the CPU, and stands beside devices that do so, too.
    command.args(["--device", bench.peer_device()]);
    let message = bench.scratch("gemm")?.join("stderr");
    command.stderr(Stdio::from(std::fs::File::create(&message)?));
    let mut session = Session::ready(&mut command).map_err(|error| {
        let said = std::fs::read_to_string(&message).unwrap_or_default();
        match said.trim().lines().last() {
            Some(said) => anyhow::anyhow!("{said}"),
            None => error,
        }
    })?;
    let mut ask =
        |line: &str| -> Result<Answer> { session.request(line)?.map_err(anyhow::Error::msg) };
    let times = numbers(&ask(&format!("latencies {runs}"))?)?;
    let device_ms = match ask(&format!("clock {runs}")) {
        Ok(answer) => Some(median(&numbers(&answer)?)),
        Err(_) => None,
    };
    let start = Instant::now();
    let row_ms = median(&numbers(&ask(&format!("busy {BUSY_SECONDS}"))?)?);
    let watts = meter.and_then(|meter| meter.mean_since(start));
    let digest = ask("digest")?;
    let digest = value(&digest, "digest").context("no digest")?.to_owned();
    let description = session.description.clone();
    session.end()?;
    Ok(Measured {
        description,
        times,
        device_ms,
        row_ms,
        watts,
        digest,
    })
}

/// The numbers of `ms=1.5,2.5`.
fn numbers(answer: &Answer) -> Result<Vec<f64>> {
    let words = value(answer, "ms").context("an answer without ms")?;
    let numbers = words.split(',').map(|word| {
        let parsed = word.parse::<f64>();
        parsed.with_context(|| format!("`{word}` is no number"))
    });
    numbers.collect()
}
