//! The memory of training steps, each in a fresh process.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use hlx_core::DeviceKind;

use super::bench::Bench;
use super::sheet::Sheet;
use crate::power::memory_in_use;
use crate::side::{Session, number};
use crate::{note, say};

const COLUMNS: &str = "step,program,held_bytes,device_bytes,resident_bytes,first_step_s";

/// Measures the steps of the device's models: memory.csv has a row per model and program.
///
/// Held bytes are what a program says of itself: HLX all that it holds on the device, PyTorch what its allocator has
/// reserved there. Device bytes are the growth of the GPU's memory in use, resident bytes the process's peak on the host.
///
/// # Errors
/// What HLX's device reports. PyTorch is left out where it does not run.
pub fn measure(bench: &Bench) -> Result<()> {
    let models: &[&str] = match bench.kind {
        _ if bench.quick => &["mini"],
        DeviceKind::VulkanGpu => &["tiny", "medium", "gpt2"],
        DeviceKind::Cpu | DeviceKind::VulkanSoftware => &["mlp", "tiny"],
    };
    let own = std::env::current_exe().context("this program's path")?;
    let mut sheet = Sheet::new(&bench.facts("memory")?, COLUMNS);
    for model in models {
        let mut hlx = Command::new(&own);
        hlx.args(["first-step", model, "--device", &bench.device]);
        hlx.stdin(Stdio::piped()).stdout(Stdio::piped());
        sheet.rows.push(row(model, "HLX", &mut hlx)?);
        let mut torch = bench.python("peers.py")?;
        torch.args(["first-step", model, "--device", bench.peer_device()]);
        match row(model, "PyTorch", &mut torch) {
            Ok(row) => sheet.rows.push(row),
            Err(error) => note!("PyTorch, {model}, is left out: {error:#}"),
        }
        sheet.write(&bench.partial("memory.csv"))?;
    }
    Ok(())
}

fn row(model: &str, program: &str, command: &mut Command) -> Result<Vec<String>> {
    let before = memory_in_use();
    let mut session = Session::start(command)?;
    let first = session.answer()?.map_err(anyhow::Error::msg)?;
    let later = session.answer()?.map_err(anyhow::Error::msg)?;
    let grown = memory_in_use()
        .zip(before)
        .map(|(now, before)| now - before);
    let resident = session.peak_resident_bytes();
    session.end()?;
    // PyTorch does not say what it holds on the CPU.
    let held = number(&later, "held_bytes").filter(|&bytes| bytes > 0.0);
    let bytes = |number: Option<f64>| number.map_or(String::new(), |bytes| format!("{bytes:.0}"));
    say!("{model:10} {program:8} holds {} bytes", bytes(held));
    Ok(vec![
        model.to_owned(),
        program.to_owned(),
        bytes(held),
        bytes(grown),
        bytes(resident),
        number(&first, "first_step_s").map_or(String::new(), |seconds| format!("{seconds:.3}")),
    ])
}
