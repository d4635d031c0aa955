//! The determinism proof: one product a thousand times, and one model at every batch size.

mod batches;
mod product;
mod pytorch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::{note, say};
use anyhow::{Context as _, Result};
use hlx_core::Device;

pub use batches::first_call;

/// What is proved, where, and how often.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The folder for product.csv, batches.csv and their pictures.
    #[arg(long, value_name = "DIR", default_value = "proof")]
    out: PathBuf,
    /// Runs of the product.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Cold and warm calls at each batch size.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// The largest batch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_batch: Option<u32>,
    /// The model: mini, tiny, small, medium or gpt2.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The product alone.
    #[arg(long, conflicts_with = "batches_only")]
    product_only: bool,
    /// The batch sizes alone.
    #[arg(long)]
    batches_only: bool,
    /// A small product, a small model and few runs, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Measure PyTorch too, eager and compiled, with this Python.
    #[arg(long, value_name = "PYTHON")]
    pytorch: Option<String>,
    /// PyTorch's side; benches/peers/peers.py of the repository if left out.
    #[arg(long, value_name = "FILE", requires = "pytorch")]
    script: Option<PathBuf>,
    /// How PyTorch runs, with commas: eager, compiled.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = ["eager", "compiled"],
          default_values = ["eager", "compiled"])]
    modes: Vec<String>,
}

impl Arguments {
    fn open(&self) -> Result<Device> {
        Ok(Device::open_from_env(&self.device)?)
    }

    /// Rows and columns of the product's matrices.
    fn product_size(&self) -> usize {
        if self.quick { 128 } else { 1024 }
    }

    fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.quick { 20 } else { 1000 }) as usize
    }

    fn repeats(&self) -> usize {
        self.repeats.unwrap_or(if self.quick { 2 } else { 10 }) as usize
    }

    /// How long calls go on before warm ones are timed.
    fn busy(&self) -> Duration {
        Duration::from_millis(if self.quick { 0 } else { 300 })
    }

    fn batches(&self) -> Vec<usize> {
        let largest = self.max_batch.unwrap_or(if self.quick { 8 } else { 128 }) as usize;
        (0..)
            .map(|power| 1 << power)
            .take_while(|&batch| batch <= largest)
            .collect()
    }

    fn model(&self) -> &str {
        self.model
            .as_deref()
            .unwrap_or(if self.quick { "mini" } else { "small" })
    }
}

/// Runs the proof. The status is 1 if two runs differ.
///
/// # Errors
/// What the device reports, and files that cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = arguments.open()?;
    say!("{}, {}\n", device.info(), device.info().driver);
    std::fs::create_dir_all(&arguments.out).with_context(|| named(&arguments.out))?;
    let mut equal = true;
    if !arguments.batches_only {
        equal &= product::prove(arguments, &device)?;
    }
    drop(device);
    if !arguments.product_only {
        equal &= batches::prove(arguments)?;
    }
    Ok(if equal {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn named(path: &Path) -> String {
    path.display().to_string()
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    hlx_core::files::write_atomically(&path, text.as_bytes()).with_context(|| named(&path))?;
    note!("wrote {}", path.display());
    Ok(())
}

/// The lines above a CSV: when, where and how it was measured.
fn head(device: &Device) -> String {
    let facts = crate::facts::facts(device);
    facts
        .iter()
        .map(|(key, value)| format!("# {key}: {value}\n"))
        .collect()
}
