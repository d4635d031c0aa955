//! `hlx perplexity`: the perplexity of a text by windows that overlap.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_train::perplexity::perplexity;
use hlx_train::trained::Trained;

use crate::DeviceArgument;
use crate::generate::WeightsArgument;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, or RUN/best.
    run: PathBuf,
    /// The file of the text.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    weights: WeightsArgument,
    /// Bytes of a window; the model's positions if left out.
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// Bytes from a window to the next; half of the length if left out. Fewer give more context to each
    /// byte, and take longer.
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let text = std::fs::read(&arguments.data);
    let text = text.with_context(|| arguments.data.display().to_string())?;
    let ctx = arguments.device.open()?;
    let trained = Trained::open(&ctx, &arguments.run, arguments.weights.average)?;
    let length = arguments.length.unwrap_or(trained.config.positions());
    let stride = arguments.stride.unwrap_or((length / 2).max(1));
    let found = perplexity(&trained.model, &text, length, stride)
        .with_context(|| arguments.data.display().to_string())?;
    if arguments.json {
        let line = serde_json::json!({
            "step": trained.digests.step, "length": length, "stride": stride, "perplexity": found,
        });
        println!("{line}");
        return Ok(());
    }
    println!(
        "perplexity {:.4} over {} bytes",
        found.perplexity, found.n_bytes
    );
    println!(
        "loss       {:.5}, {:.5} bits a byte",
        found.loss, found.bits_per_byte
    );
    println!("windows    of {length} bytes, {stride} apart");
    Ok(())
}
