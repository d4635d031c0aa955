//! PyTorch's side of the batch sizes: the same model, the same calls, in the same session.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;

use super::Arguments;
use crate::peers::default_script;
use crate::say;
use crate::table::digits;

/// What PyTorch took at one batch size.
pub struct Peer {
    /// eager or compiled.
    pub mode: String,
    pub batch: usize,
    /// The first call at this size.
    pub cold_ms: f64,
    /// The median of the later ones.
    pub warm_ms: f64,
    /// SHA-256 of the first sequence's logits; several, joined, where calls differ.
    pub row_0: String,
}

/// PyTorch's measurements; empty if they were not requested.
#[derive(Default)]
pub struct Peers {
    pub descriptions: Vec<String>,
    pub rows: Vec<Peer>,
}

impl Peers {
    /// Runs PyTorch's side, if the arguments request it.
    pub fn measure(arguments: &Arguments, model: &str, batches: Vec<usize>) -> Result<Self> {
        let mut peers = Self::default();
        let Some(python) = &arguments.pytorch else {
            return Ok(peers);
        };
        let script = arguments.script.clone().unwrap_or_else(default_script);
        let device = match arguments.open()? {
            device if is_nvidia(&device) => "cuda",
            _ => "cpu",
        };
        let batches: Vec<String> = batches.iter().map(usize::to_string).collect();
        for mode in &arguments.modes {
            // One way of running it may lack what it needs; the others are measured all the same.
            let mut command = Command::new(python);
            command
                .arg(&script)
                .args(["infer", model, "--mode", mode, "--device", device])
                .args(["--repeats", &arguments.repeats().to_string()])
                .args(["--batches", &batches.join(",")]);
            if let Err(error) = peers.run_mode(mode, &mut command) {
                say!("PyTorch, {mode}, was not measured: {error:#}");
            }
        }
        Ok(peers)
    }

    fn run_mode(&mut self, mode: &str, command: &mut Command) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = command.output().with_context(|| program)?;
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.trim().lines().last().unwrap_or_default();
        ensure!(output.status.success(), "{last}");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            match line.strip_prefix("ready ") {
                Some(description) => self.descriptions.push(format!("{mode}: {description}")),
                None => self.rows.push(read(mode, line)?),
            }
        }
        Ok(())
    }

    /// Prints the table beside HLX's warm times by batch size.
    pub fn print(&self, ours: &[(usize, f64)]) {
        if self.rows.is_empty() {
            return;
        }
        self.descriptions.iter().for_each(|line| say!("{line}"));
        say!(
            "{:>9} {:>6} {:>9} {:>9} {:>8}  row 0",
            "mode",
            "batch",
            "cold",
            "warm",
            "HLX is"
        );
        for Peer {
            mode,
            batch,
            cold_ms,
            warm_ms,
            row_0,
        } in &self.rows
        {
            let ours = ours
                .iter()
                .find(|(ours, _)| ours == batch)
                .map_or(f64::NAN, |row| row.1);
            let (cold, warm) = (digits(*cold_ms), digits(*warm_ms));
            say!(
                "{mode:>9} {batch:>6} {cold:>9} {warm:>9} {:>7.2}x  {:.16}",
                warm_ms / ours,
                row_0
            );
        }
        for mode in ["eager", "compiled"] {
            let rows = self.rows.iter().filter(|row| row.mode == mode);
            let digests: BTreeSet<&str> = rows.flat_map(|row| row.row_0.split('+')).collect();
            say!("{mode}: {} digest(s) of row 0", digests.len());
        }
    }
}

fn is_nvidia(device: &Device) -> bool {
    !device.is_cpu() && device.info().name.contains("NVIDIA")
}

/// Reads `ok batch=1 cold_ms=2500 warm_ms=3.1 row_0=...`.
fn read(mode: &str, line: &str) -> Result<Peer> {
    let field = |key: &str| {
        let found = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.with_context(|| format!("PyTorch said `{line}`, without {key}"))
    };
    Ok(Peer {
        mode: mode.to_owned(),
        batch: field("batch")?.parse()?,
        cold_ms: field("cold_ms")?.parse()?,
        warm_ms: field("warm_ms")?.parse()?,
        row_0: field("row_0")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn lines_are_read() -> anyhow::Result<()> {
        let row = read("eager", "ok batch=8 cold_ms=12.5 warm_ms=3.25 row_0=ab+cd")?;
        assert_eq!((row.batch, row.cold_ms, row.warm_ms), (8, 12.5, 3.25));
        assert_eq!(row.row_0, "ab+cd");
        assert!(read("eager", "ok batch=8 warm_ms=3").is_err());
        assert!(read("eager", "error no CUDA").is_err());
        Ok(())
    }
}
