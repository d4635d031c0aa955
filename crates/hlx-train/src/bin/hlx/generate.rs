//! `hlx generate`: text from a trained model; the same seed gives the same text on every device.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Context, files};
use hlx_train::config::Format;
use hlx_train::generate::{Generation, TextModel, TokenGeneration, generate_streaming};
use hlx_train::model_folder::{Opened, Opening};
use hlx_train::run::RunFolder;
use hlx_train::sample::Sampling;
use hlx_train::trained::Trained;

use crate::DeviceArgument;
use crate::next;
use crate::numbers::{MAX_TEXTS, MAX_TOKENS, within};
use crate::print::{self, Streamed, say};
use crate::weights::WeightsArguments;

/// How tokens are drawn.
#[derive(clap::Args)]
pub struct DrawingArguments {
    /// Divides the logits; 0 always takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Draw from the K likeliest tokens; 0 draws from all.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = within(0..=MAX_TOKENS))]
    top_k: usize,
    /// Draw from the likeliest tokens that together have probability P.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
    /// Draw from the tokens that have at least this part of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,
    /// Divide the logits of tokens that are there already by this; 1 changes nothing.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Keys the draws.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, RUN/best, an imported model's or a Hugging Face folder.
    model: PathBuf,
    /// The text to go on from, or the input to answer; may be given several times.
    #[arg(long, value_name = "TEXT")]
    prompt: Vec<String>,
    /// A file with a prompt in each line; empty lines are skipped.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    weights: WeightsArguments,
    /// Tokens at most.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = within(0..=MAX_TOKENS))]
    max_tokens: usize,
    #[command(flatten)]
    drawing: DrawingArguments,
    /// End a text before this one; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Texts for each prompt.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_TEXTS as i64))]
    samples: u32,
    /// Print a JSON object for each text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let sampling = arguments.drawing.sampling()?;
    let prompts = arguments.all_prompts()?;
    let (n_texts, n_prompts) = (arguments.samples, prompts.len());
    ensure!(
        n_prompts.saturating_mul(n_texts as usize) <= MAX_TEXTS,
        "--samples: {n_texts} texts for each of {n_prompts} prompts, expected at most {MAX_TEXTS} in all"
    );
    let ctx = arguments.device.open()?;
    let source = Source::open(
        &ctx,
        &arguments.model,
        arguments.weights.opening(),
        &sampling,
    )?;
    if prompts.len() == 1 && arguments.samples == 1 && !arguments.json {
        let mut shown = Streamed::default();
        let mut tell = |_: usize, bytes: &[u8]| shown.print(bytes);
        source.write(&prompts, arguments, sampling, &mut tell)?;
        return print::text("\n");
    }
    let texts = source.write(&prompts, arguments, sampling, &mut |_, _| Ok(()))?;
    let of_texts = prompts
        .iter()
        .flat_map(|prompt| std::iter::repeat_n(prompt, arguments.samples as usize));
    for (prompt, text) in of_texts.zip(&texts) {
        let line = match arguments.json {
            true => serde_json::json!({"prompt": prompt, "text": text}).to_string(),
            false => format!("> {prompt}\n{text}\n"),
        };
        say!("{line}")?;
    }
    Ok(())
}

/// A model that goes on from texts.
enum Source {
    /// A run over bytes of a format.
    Bytes(Box<Opened>, Format),
    /// A model with a tokenizer.
    Tokens(Box<TextModel>),
}

impl Source {
    fn open(ctx: &Context, path: &Path, opening: Opening<'_>, sampling: &Sampling) -> Result<Self> {
        let run = RunFolder::open_checkpoint(path).and_then(|(run, _)| run.config());
        Ok(match run {
            Ok(config) if config.data.format != Format::Shards => {
                let (model, config) = Trained::open_as(ctx, path, opening)?;
                Self::Bytes(Box::new(model), config.data.format)
            }
            _ => {
                let text = TextModel::open_to_write(ctx, path, opening, sampling)?;
                Self::Tokens(Box::new(text))
            }
        })
    }

    /// Goes on from prompts; `tell` gets the next bytes of the text of a number.
    fn write(
        &self,
        prompts: &[String],
        arguments: &Arguments,
        sampling: Sampling,
        tell: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<Vec<String>> {
        let n_texts = arguments.samples as usize;
        match self {
            Self::Bytes(model, format) => {
                let stop = arguments.stop.iter().map(|stop| stop.clone().into_bytes());
                let generation = Generation {
                    n_texts,
                    stop: stop.collect(),
                    ..Generation::new(*format, arguments.max_tokens, sampling)
                };
                let prompts: Vec<&[u8]> = prompts.iter().map(String::as_bytes).collect();
                let texts = generate_streaming(model, &prompts, &generation, tell)?;
                let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
                Ok(texts.iter().map(text).collect())
            }
            Self::Tokens(text) => {
                let ends = text.end_tokens.clone();
                let options = TokenGeneration {
                    n_texts,
                    ..TokenGeneration::new(arguments.max_tokens, sampling, ends)
                };
                let prompts = prompts.iter().map(|prompt| text.encode(prompt));
                let prompts = prompts.collect::<Result<Vec<_>>>()?;
                text.write(&prompts, &options, &arguments.stop, &mut |number, new| {
                    tell(number, new.as_bytes())
                })
            }
        }
    }
}

impl Arguments {
    fn all_prompts(&self) -> Result<Vec<String>> {
        let mut prompts = self.prompt.clone();
        if let Some(path) = &self.prompts {
            let file = files::read_settings_text(path);
            let file = file.with_context(|| path.display().to_string())?;
            let lines = file.lines().filter(|line| !line.trim().is_empty());
            prompts.extend(lines.map(str::to_owned));
            ensure!(!prompts.is_empty(), "{}: holds no prompt", path.display());
        }
        ensure!(
            !prompts.is_empty(),
            "--prompt: there is no text to go on from or to answer: {}",
            next::generate(&self.model, "TEXT")
        );
        Ok(prompts)
    }
}

impl DrawingArguments {
    /// Checks the numbers.
    pub fn sampling(&self) -> Result<Sampling> {
        let &Self {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
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
