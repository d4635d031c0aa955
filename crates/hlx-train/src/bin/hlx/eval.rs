//! `hlx eval`: a trained model's loss on a file.

use std::path::PathBuf;

use anyhow::Result;
use hlx_train::config::Format;
use hlx_train::data::Dataset;
use hlx_train::evaluate::evaluate;
use hlx_train::generate::answer_pairs;
use hlx_train::trained::Trained;

use crate::DeviceArgument;

/// Samples computed at a time; no bit depends on it.
const BATCH: usize = 16;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, or one of its checkpoints.
    run: PathBuf,
    /// The file, of the format that the model was trained on.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    #[command(flatten)]
    device: DeviceArgument,
    /// Of pairs, answer every input and count the exact ones.
    #[arg(long)]
    exact: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let ctx = arguments.device.open()?;
    let trained = Trained::open(&ctx, &arguments.run)?;
    let (format, positions) = (trained.config.data.format, trained.config.positions());
    let data = Dataset::load(&arguments.data, format, positions)?;
    let samples: Vec<usize> = (0..data.len()).collect();
    let found = evaluate(&trained.model, &data, &samples, BATCH)?;
    let exact = if arguments.exact && format == Format::Pairs {
        let answers = answer_pairs(&trained.model, &data, &samples)?;
        Some(answers.iter().filter(|answer| answer.is_exact()).count())
    } else {
        None
    };
    if arguments.json {
        let line = serde_json::json!({
            "step": trained.digests.step, "evaluation": found, "exact_answers": exact,
        });
        println!("{line}");
        return Ok(());
    }
    println!("loss       {:.5} over {} bytes", found.loss, found.n_bytes);
    if format == Format::Pairs {
        println!("           {:.5} with the end bytes", found.loss_with_end);
    }
    println!("samples    {}", found.n_samples);
    if let Some(exact) = exact {
        println!(
            "exact      {exact} of {} answers (greedy decoding)",
            data.len()
        );
    }
    Ok(())
}
