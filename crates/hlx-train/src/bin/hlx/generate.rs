//! `hlx generate`: text from a trained model; the same seed gives the same text on every device.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_train::generate::{Generation, generate};
use hlx_train::sample::Sampling;
use hlx_train::trained::Trained;

use crate::DeviceArgument;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, or one of its checkpoints.
    run: PathBuf,
    /// The text to go on from, or the input to answer.
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    #[command(flatten)]
    device: DeviceArgument,
    /// Bytes at most.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Divides the logits; 0 always takes the likeliest byte.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Draw from the K likeliest bytes; 0 draws from all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,
    /// Draw from the likeliest bytes that together have probability P.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
    /// Keys the draws.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let &Arguments {
        max_tokens,
        temperature,
        top_k,
        top_p,
        seed,
        ..
    } = arguments;
    ensure!(
        temperature >= 0.0 && temperature.is_finite(),
        "--temperature: {temperature} is not at least 0"
    );
    ensure!(
        top_p > 0.0 && top_p <= 1.0,
        "--top-p: {top_p} is not above 0 and at most 1"
    );
    let ctx = arguments.device.open()?;
    let trained = Trained::open(&ctx, &arguments.run)?;
    let sampling = Sampling {
        temperature,
        top_k,
        top_p,
        seed,
    };
    let generation = Generation {
        max_tokens,
        sampling,
        format: trained.config.data.format,
    };
    let prompts = [arguments.prompt.as_bytes()];
    let texts = generate(&trained.model, &prompts, &generation)?;
    let mut out = std::io::stdout().lock();
    for text in &texts {
        // The bytes as they are: a cut through a character is the terminal's to show.
        out.write_all(text)
            .and_then(|()| out.write_all(b"\n"))
            .context("standard output")?;
    }
    Ok(())
}
