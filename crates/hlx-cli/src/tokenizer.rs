//! `hlx tokenizer`: training tokenizers.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_text::{BpeTrainer, ScanOptions, SourceFormat, TOKENIZER_FILE, count_words};

use crate::numbers::{MAX_THREADS, MAX_TOKENS, within};
use crate::output::output;
use crate::print::say;
use crate::progress::{ShareBar, speed};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Train byte-level BPE on files and write a tokenizer.json.
    Train(TrainArguments),
}

/// The files of a corpus.
#[derive(clap::Args)]
pub struct Inputs {
    /// Files, folders, or globs in quotes; plain, gzip or zstd. Records of JSON are one per line, or a list.
    #[arg(required = true, value_name = "FILES")]
    pub files: Vec<PathBuf>,
    /// The format of all files; by default their names tell.
    #[arg(long, value_enum)]
    pub format: Option<FormatArgument>,
    /// Threads; by default one per core. They change no byte of the result.
    #[arg(long, value_name = "N", value_parser = within::<usize>(1..=MAX_THREADS), allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

/// A format of files.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum FormatArgument {
    /// Plain text.
    Text,
    /// A JSON object a line, or a list of objects.
    Jsonl,
    /// Tokens of nanoGPT or llm.c.
    Tokens,
}

impl Inputs {
    /// How a pass over the files reads them.
    pub fn scan_options(&self) -> ScanOptions {
        let mut options = ScanOptions::new(self.files.clone());
        options.format = self.format.map(SourceFormat::from);
        options.threads = self.threads.unwrap_or(options.threads);
        options
    }
}

impl From<FormatArgument> for SourceFormat {
    fn from(format: FormatArgument) -> Self {
        match format {
            FormatArgument::Text => Self::Text,
            FormatArgument::Jsonl => Self::Jsonl,
            FormatArgument::Tokens => Self::Tokens,
        }
    }
}

#[derive(clap::Args)]
struct TrainArguments {
    #[command(flatten)]
    inputs: Inputs,
    /// Tokens, the 256 bytes and the special tokens included.
    #[arg(long, value_name = "N", value_parser = within::<usize>(1..=MAX_TOKENS), allow_negative_numbers = true)]
    vocab: usize,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = TOKENIZER_FILE)]
    out: PathBuf,
    /// A special token; may be given many times. The first one that is known to end documents does so.
    #[arg(
        long = "special",
        value_name = "TOKEN",
        default_value = "<|endoftext|>"
    )]
    specials: Vec<String>,
    /// Pairs that occur less often are not joined.
    #[arg(long, value_name = "N", default_value_t = BpeTrainer::default().min_frequency, value_parser = within::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    min_frequency: u64,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::Train(arguments) => train(arguments),
    }
}

fn train(arguments: &TrainArguments) -> Result<()> {
    let path = &arguments.out;
    let options = arguments.inputs.scan_options();
    let out = output(path, &options.files()?)?;
    let bar = ShareBar::new();
    let mut n_bytes = 0;
    let counts = count_words(&options, |share, bytes| {
        n_bytes = bytes;
        bar.set(share, "counting words".to_owned());
        ControlFlow::Continue(())
    })?;
    let n_words = counts.len();
    let trainer = BpeTrainer {
        vocabulary_size: arguments.vocab,
        min_frequency: arguments.min_frequency,
        special_tokens: arguments.specials.clone(),
    };
    let tokenizer = trainer.train(counts, |have, wanted| {
        bar.set(have as f64 / wanted as f64, format!("{have} tokens"));
        ControlFlow::Continue(())
    })?;
    let time = bar.finish();
    let written = out.write(tokenizer.to_json().as_bytes());
    written.with_context(|| path.display().to_string())?;
    if out.is_stdout() {
        return Ok(());
    }
    let (path, n) = (path.display(), tokenizer.vocabulary_size());
    if arguments.json {
        let line = serde_json::json!({
            "kind": "tokenizer", "file": path.to_string(), "vocabulary": n, "words": n_words,
            "bytes": n_bytes, "seconds": time.as_secs_f64(),
        });
        return say!("{line}");
    }
    say!(
        "{path}: {n} tokens from {n_words} different words; {}",
        speed(n_bytes, time)
    )
}
