//! The sections that other verbs of this program measure: steps, starts, equal handles, several devices, the CPU.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Device, DeviceKind};

use super::bench::{Bench, output_of};
use super::sheet::Sheet;
use crate::peer_table::{Comparison, field};
use crate::statistics::Statistics;
use crate::step_table::StepTable;

const HANDLE_COLUMNS: &str = "size,runs,sha256,median_ms,min_ms,max_ms";
const CPU_COLUMNS: &str = "case,hlx_ms,peer_ms";

/// What stands for the CPU on a machine whose GPU is measured.
pub const CPU_CASES: [&str; 5] = [
    "matmul 1024x1024x1024",
    "softmax_forward 4096x1024",
    "attention_forward 8x128x4x64",
    "step mlp",
    "step tiny",
];

/// The model and the largest batch of the starts, and their repeats.
struct Starts {
    model: &'static str,
    largest: &'static str,
    repeats: &'static str,
    modes: &'static str,
}

/// Training steps beside PyTorch's: steps.csv, by `hlx-bench peers`.
///
/// # Errors
/// What the verb reports.
pub fn steps(bench: &Bench) -> Result<()> {
    // All modes of all models take a GPU a quarter of an hour, as PyTorch compiles each of them.
    let (cases, modes): (&[&str], &str) = match bench.kind {
        _ if bench.quick => (&["step mini"], "eager"),
        DeviceKind::VulkanGpu => (
            &[
                "step mlp",
                "step tiny",
                "step medium",
                "step gpt2",
                "step resnet-128",
            ],
            "eager,tf32-eager",
        ),
        DeviceKind::Cpu => (
            &["step mlp", "step tiny", "step resnet-32"],
            "eager,compiled",
        ),
        DeviceKind::VulkanSoftware => (&["step mlp", "step tiny"], "eager"),
    };
    let folder = bench.scratch("steps")?;
    let script = bench.script("peers.py")?.display().to_string();
    let out = folder.display().to_string();
    let mut verb = peers(&bench.python, &script, &out);
    verb.extend([
        "--rounds",
        if bench.quick { "1" } else { "2" },
        "--modes",
        modes,
    ]);
    verb.extend(cases.iter().flat_map(|case| ["--kernel", case]));
    bench.own(&verb)?;
    bench.keep(&folder, "steps.csv")
}

/// Cold and warm starts by batch size: batches.csv, by `hlx-bench prove`.
///
/// # Errors
/// What the verb reports; calls whose results differ.
pub fn starts(bench: &Bench) -> Result<()> {
    let of = |model, largest, repeats, modes| Starts {
        model,
        largest,
        repeats,
        modes,
    };
    let starts = match bench.kind {
        _ if bench.quick => of("mini", "2", "2", "eager"),
        DeviceKind::VulkanGpu => of("small", "128", "5", "eager"),
        DeviceKind::Cpu => of("tiny", "32", "5", "eager,compiled"),
        DeviceKind::VulkanSoftware => of("tiny", "4", "3", "eager"),
    };
    let folder = bench.scratch("starts")?;
    let script = bench.script("peers.py")?.display().to_string();
    let out = folder.display().to_string();
    bench.own(&[
        "prove",
        "--batches-only",
        "--model",
        starts.model,
        "--max-batch",
        starts.largest,
        "--repeats",
        starts.repeats,
        "--modes",
        starts.modes,
        "--pytorch",
        &bench.python,
        "--script",
        &script,
        "--out",
        &out,
    ])?;
    bench.keep(&folder, "batches.csv")
}

/// One product 1,000 times, and how many handles came out: handles.csv, by `hlx-bench prove`.
///
/// # Errors
/// What the verb reports; runs whose results differ.
pub fn handles(bench: &Bench) -> Result<()> {
    let folder = bench.scratch("handles")?;
    let out = folder.display().to_string();
    // A software driver takes a second for a product of 1,024.
    let is_small = bench.quick || bench.kind == DeviceKind::VulkanSoftware;
    let runs = if bench.quick { "20" } else { "1000" };
    let mut verb = vec!["prove", "--product-only", "--runs", runs, "--out", &out];
    verb.extend(is_small.then_some("--quick"));
    bench.own(&verb)?;
    let product = Sheet::read(&folder.join("product.csv"))?.context("product.csv")?;
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in &product.rows {
        let ms = product.number(row, "ms").context("a run without a time")?;
        times
            .entry(product.cell(row, "handle"))
            .or_default()
            .push(ms);
    }
    let mut sheet = Sheet::new(&bench.facts("handles")?, HANDLE_COLUMNS);
    for (handle, times) in times {
        let of_handle = Statistics::of(&times);
        sheet.add([
            if is_small { "128" } else { "1024" }.to_owned(),
            times.len().to_string(),
            handle.trim_start_matches("sha256:").to_owned(),
            format!("{:.4}", of_handle.median),
            format!("{:.4}", of_handle.min),
            format!("{:.4}", of_handle.max),
        ]);
    }
    sheet.write(&bench.out.join("handles.csv"))
}

/// Training on several devices: ranks.csv, by scaling.py; `false` where there is one device alone.
///
/// # Errors
/// No program hlx; what the script reports.
pub fn ranks(bench: &Bench) -> Result<bool> {
    let n_gpus = Device::devices()
        .iter()
        .filter(|info| info.kind == DeviceKind::VulkanGpu)
        .count();
    if bench.kind == DeviceKind::VulkanSoftware || (!bench.is_on_cpu() && n_gpus < 2) {
        return Ok(false);
    }
    let hlx = bench.hlx.display().to_string();
    ensure!(
        bench.hlx.is_file(),
        "{hlx}: there is no such program (--hlx names it)"
    );
    let folder = bench.scratch("ranks")?;
    let mut script = bench.python("scaling.py")?;
    script.args(["strong", "--hlx", &hlx, "--counts", "1,2", "--csv"]);
    script.arg(folder.join("ranks.csv"));
    match bench.is_on_cpu() {
        true => script.args([
            "--devices",
            "cpu",
            "--models",
            "tiny",
            "--steps",
            "90",
            "--rounds",
            "2",
        ]),
        false => script.args([
            "--devices",
            "vulkan",
            "--models",
            "gpt2",
            "--steps",
            "30",
            "--rounds",
            "1",
        ]),
    };
    if bench.has_cuda() {
        script.arg("--peer");
    }
    output_of(script.stdin(Stdio::null()), "scaling.py")?;
    bench.keep(&folder, "ranks.csv")?;
    Ok(true)
}

/// The CPU beside a GPU: cpu.csv, by `hlx-bench peers`; `false` where the device itself computes on the CPU.
///
/// # Errors
/// What the verb reports.
pub fn cpu(bench: &Bench) -> Result<bool> {
    if bench.is_on_cpu() {
        return Ok(false);
    }
    let folder = bench.scratch("cpu")?;
    let script = bench.script("peers.py")?.display().to_string();
    let out = folder.display().to_string();
    let mut verb = peers(&bench.python, &script, &out);
    verb.extend(["--rounds", "1", "--modes", "eager"]);
    verb.extend(CPU_CASES.iter().flat_map(|case| ["--kernel", case]));
    bench.own_on("cpu", &verb)?;
    let (operations, steps) = (Comparison::read(&folder)?, StepTable::read(&folder)?);
    let mut sheet = Sheet::new(&operations.facts, CPU_COLUMNS);
    for row in &operations.rows {
        sheet.add([row.case.clone(), field(row.hlx_ms), field(row.peer_ms)]);
    }
    for row in &steps.rows {
        let name = format!("step {}", row.name);
        sheet.add([name, field(row.hlx_ms), field(row.peer_ms[0])]);
    }
    sheet.write(&bench.out.join("cpu.csv"))?;
    Ok(true)
}

/// The words of a comparison with PyTorch, without its cases.
fn peers<'a>(python: &'a str, script: &'a str, out: &'a str) -> Vec<&'a str> {
    vec![
        "peers", "--python", python, "--script", script, "--out", out,
    ]
}
