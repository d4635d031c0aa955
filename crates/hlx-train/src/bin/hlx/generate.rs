//! `hlx generate`: text from a trained model; the same seed gives the same text on every device.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_train::generate::{Generation, generate, generate_streaming};
use hlx_train::sample::Sampling;
use hlx_train::trained::Trained;

use crate::DeviceArgument;

/// Which weights of a checkpoint are read.
#[derive(clap::Args)]
pub struct WeightsArgument {
    /// Read the moving average of the weights (train.ema_decay).
    #[arg(long)]
    pub average: bool,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, or RUN/best.
    run: PathBuf,
    /// The text to go on from, or the input to answer; may be given several times.
    #[arg(long, value_name = "TEXT", required_unless_present = "prompts")]
    prompt: Vec<String>,
    /// A file with a prompt in each line; empty lines are skipped.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    weights: WeightsArgument,
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
    /// Draw from the bytes that have at least this part of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,
    /// Divide the logits of bytes that are there already by this; 1 changes nothing.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f32,
    /// End a text before this one; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Texts for each prompt.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Keys the draws.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Print a JSON object for each text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let sampling = arguments.sampling()?;
    let prompts = arguments.all_prompts()?;
    let ctx = arguments.device.open()?;
    let trained = Trained::open(&ctx, &arguments.run, arguments.weights.average)?;
    let format = trained.config.data.format;
    let generation = Generation {
        n_texts: arguments.samples as usize,
        stop: arguments
            .stop
            .iter()
            .map(|stop| stop.clone().into_bytes())
            .collect(),
        ..Generation::new(format, arguments.max_tokens, sampling)
    };
    let as_bytes: Vec<&[u8]> = prompts.iter().map(String::as_bytes).collect();
    let mut out = std::io::stdout().lock();
    if prompts.len() == 1 && arguments.samples == 1 && !arguments.json {
        // The bytes as they are: a cut through a character is the terminal's to show. A closed pipe
        // shows at the end.
        let mut printed = Ok(());
        let mut tell = |_: usize, bytes: &[u8]| {
            if printed.is_ok() {
                printed = out.write_all(bytes).and_then(|()| out.flush());
            }
        };
        generate_streaming(&trained.model, &as_bytes, &generation, &mut tell)?;
        return printed
            .and_then(|()| out.write_all(b"\n"))
            .context("standard output");
    }
    let texts = generate(&trained.model, &as_bytes, &generation)?;
    let of_texts = prompts
        .iter()
        .flat_map(|prompt| std::iter::repeat_n(prompt, generation.n_texts));
    for (prompt, text) in of_texts.zip(&texts) {
        let text = String::from_utf8_lossy(text);
        let line = match arguments.json {
            true => serde_json::json!({"prompt": prompt, "text": text}).to_string(),
            false => format!("> {prompt}\n{text}\n"),
        };
        writeln!(out, "{line}").context("standard output")?;
    }
    Ok(())
}

impl Arguments {
    fn all_prompts(&self) -> Result<Vec<String>> {
        let mut prompts = self.prompt.clone();
        if let Some(path) = &self.prompts {
            let file = std::fs::read_to_string(path);
            let file = file.with_context(|| path.display().to_string())?;
            let lines = file.lines().filter(|line| !line.trim().is_empty());
            prompts.extend(lines.map(str::to_owned));
            ensure!(!prompts.is_empty(), "{}: holds no prompt", path.display());
        }
        Ok(prompts)
    }

    fn sampling(&self) -> Result<Sampling> {
        let &Self {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
            ..
        } = self;
        ensure!(
            temperature >= 0.0 && temperature.is_finite(),
            "--temperature: {temperature} is not at least 0"
        );
        ensure!(
            top_p > 0.0 && top_p <= 1.0,
            "--top-p: {top_p} is not above 0 and at most 1"
        );
        ensure!(
            (0.0..=1.0).contains(&min_p),
            "--min-p: {min_p} is not from 0 to 1"
        );
        ensure!(
            repetition_penalty > 0.0 && repetition_penalty.is_finite(),
            "--repetition-penalty: {repetition_penalty} is not above 0"
        );
        Ok(Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
        })
    }
}
