//! `hlx data`: text to token shards, their verification, and pairs drawn from a grammar.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::files::{self, parent, place};
use hlx_gguf::Gguf;
use hlx_text::{
    Companion, PrepareOptions, PrepareProgress, SPECIAL_TOKENS_MAP_FILE, SourceFormat,
    TOKENIZER_CONFIG_FILE, TokenShards, Tokenizer, characters_of_files, prepare,
};

use hlx_train::companions::Companions;
use hlx_train::config::parse_seed;
use hlx_train::model_folder::{
    self, CHAT_TEMPLATE_FILE, PROCESSOR_TEMPLATE_FILE, warn_of_more_templates,
};
use serde_json::{Map, Value};

use crate::numbers::within;
use crate::output::output;
use crate::print::{self, say};
use crate::progress::{ShareBar, speed};
use crate::tokenizer::Inputs;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Turn text, JSON lines and chats into token shards; the same command continues after a stop.
    Prepare(PrepareArguments),
    /// Hash every file of a folder of shards and compare it with the index.
    Verify {
        /// The folder.
        folder: PathBuf,
        /// Print one line of JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Draw pairs of English and HLX's text notation, one per line as JSON.
    AsciiPairs(AsciiPairsArguments),
}

#[derive(clap::Args)]
struct AsciiPairsArguments {
    /// How many pairs.
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = within::<usize>(0..=u64::MAX), allow_negative_numbers = true)]
    count: usize,
    /// Keys every draw.
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = parse_seed, allow_negative_numbers = true)]
    seed: u64,
    /// The file; written to standard output if left out.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(clap::Args)]
struct PrepareArguments {
    #[command(flatten)]
    inputs: Inputs,
    /// bytes, characters, a tokenizer.json or a folder with one.
    #[arg(long, value_name = "TOKENIZER", default_value = "bytes")]
    tokenizer: String,
    /// The folder of the shards.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Text that ends a document in text files; by default a file is one document.
    #[arg(long, value_name = "TEXT")]
    separator: Option<String>,
    /// Text between input and output; by default the tokenizer's token for it, or a newline.
    #[arg(long, value_name = "TEXT")]
    pair_separator: Option<String>,
    /// A Jinja template for `messages`, instead of the one beside the tokenizer.
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// The date that the chat template finds: YYYY-MM-DD, with HH:MM or HH:MM:SS after a T.
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Begin each document but chats with the tokenizer's first token (BOS); by default they begin with what the
    /// tokenizer's post-processor puts in front of a text.
    #[arg(long, conflicts_with = "no_bos")]
    bos: bool,
    /// Begin no document with tokens of the tokenizer.
    #[arg(long)]
    no_bos: bool,
    /// Leave out the token that ends each document but chats (EOS).
    #[arg(long)]
    no_eos: bool,
    /// The size from which on a shard ends, in tokens.
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
    shard_tokens: Option<u64>,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::Prepare(arguments) => arguments.run(),
        Verb::Verify { folder, json } => {
            let shards = TokenShards::open(folder)?;
            shards.verify()?;
            match json {
                true => say!("{}", Value::Object(as_json(&shards, folder))),
                false => say!("{} is whole: {}", folder.display(), describe(&shards)),
            }
        }
        Verb::AsciiPairs(arguments) => arguments.run(),
    }
}

impl AsciiPairsArguments {
    fn run(&self) -> Result<()> {
        let out = self
            .out
            .as_ref()
            .map(|file| output(file, &[]))
            .transpose()?;
        let pairs = hlx_data::ascii_pairs(self.count, self.seed)?;
        let mut lines = Vec::new();
        for pair in &pairs {
            serde_json::to_writer(&mut lines, pair)?;
            lines.push(b'\n');
        }
        match self.out.as_ref().zip(out) {
            Some((file, out)) if !out.is_stdout() => {
                let written = out.write(&lines);
                written.with_context(|| file.display().to_string())?;
                say!("{}: {} pairs", file.display(), pairs.len())?;
            }
            _ => print::bytes(&lines)?,
        }
        Ok(())
    }
}

impl PrepareArguments {
    fn run(&self) -> Result<()> {
        let bar = ShareBar::new();
        let tokenizer = self.tokenizer(&bar)?;
        let mut last = PrepareProgress::default();
        let mut options = self.options()?;
        options.companions = self.companions()?;
        let shards = prepare(&options, &tokenizer, |reached| {
            last = *reached;
            bar.set(reached.done, format!("{} tokens", reached.n_tokens));
            ControlFlow::Continue(())
        })?;
        let time = bar.finish();
        if self.json {
            let mut line = as_json(&shards, &self.out);
            line.insert("bytes".to_owned(), last.n_bytes.into());
            line.insert("seconds".to_owned(), time.as_secs_f64().into());
            return say!("{}", Value::Object(line));
        }
        say!(
            "{}: {}; {}",
            self.out.display(),
            describe(&shards),
            speed(last.n_bytes, time)
        )?;
        Ok(())
    }

    /// What goes beside the shards: what lies beside the tokenizer's file, and the chat template that is used.
    fn companions(&self) -> Result<Vec<Companion>> {
        let tokenizer = Path::new(&self.tokenizer);
        let folder = match tokenizer.is_dir() {
            true => tokenizer,
            false => parent(tokenizer),
        };
        let template = self.chat_template.clone();
        let files = [
            (place(folder, TOKENIZER_CONFIG_FILE), TOKENIZER_CONFIG_FILE),
            (
                place(folder, SPECIAL_TOKENS_MAP_FILE),
                SPECIAL_TOKENS_MAP_FILE,
            ),
            (
                place(folder, PROCESSOR_TEMPLATE_FILE),
                PROCESSOR_TEMPLATE_FILE,
            ),
            (
                template.unwrap_or_else(|| place(folder, CHAT_TEMPLATE_FILE)),
                CHAT_TEMPLATE_FILE,
            ),
        ];
        let is_gguf = Gguf::is_gguf(tokenizer);
        let is_file = !is_gguf && !["bytes", "characters"].contains(&self.tokenizer.as_str());
        if is_file && self.chat_template.is_none() {
            warn_of_more_templates(folder);
        }
        let mut companions = Vec::new();
        if is_gguf {
            let mut made = model_folder::companions(tokenizer)?;
            made.retain(|(name, _)| *name == TOKENIZER_CONFIG_FILE);
            companions.extend(made.into_iter().map(|(name, bytes)| {
                let name = name.to_owned();
                Companion { name, bytes }
            }));
        }
        for (from, name) in files {
            if from.is_file() && (is_file || self.chat_template.as_ref() == Some(&from)) {
                let bytes =
                    files::read_settings(&from).with_context(|| from.display().to_string())?;
                let name = name.to_owned();
                companions.push(Companion { name, bytes });
            }
        }
        Ok(companions)
    }

    fn tokenizer(&self, bar: &ShareBar) -> Result<Tokenizer> {
        Ok(match self.tokenizer.as_str() {
            "bytes" => Tokenizer::bytes(),
            "characters" => characters_of_files(&self.inputs.scan_options(), |share, _| {
                bar.set(share, "collecting characters".to_owned());
                ControlFlow::Continue(())
            })?,
            path if Gguf::is_gguf(Path::new(path)) => {
                Companions::of(Path::new(path))?.need_tokenizer()?
            }
            path => Tokenizer::open(Path::new(path))?,
        })
    }

    fn options(&self) -> Result<PrepareOptions> {
        let mut options = PrepareOptions::new(self.inputs.files.clone(), self.out.clone());
        options.format = self.inputs.format.map(SourceFormat::from);
        options.threads = self.inputs.threads.unwrap_or(options.threads);
        options.separator.clone_from(&self.separator);
        options.pair_separator.clone_from(&self.pair_separator);
        if let Some(path) = &self.chat_template {
            let source =
                files::read_settings_text(path).with_context(|| path.display().to_string())?;
            options.template = Some(source);
        }
        options.date.clone_from(&self.date);
        options.begin = (self.bos || self.no_bos).then_some(self.bos);
        options.end = !self.no_eos;
        options.shard_tokens = self.shard_tokens.unwrap_or(options.shard_tokens);
        Ok(options)
    }
}

/// The line of JSON on a folder of shards.
fn as_json(shards: &TokenShards, folder: &Path) -> Map<String, Value> {
    let members = [
        ("kind", "tokens".into()),
        ("folder", folder.display().to_string().into()),
        ("tokens", shards.len().into()),
        ("documents", shards.n_documents().into()),
        ("vocabulary", shards.vocabulary_size().into()),
    ];
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn describe(shards: &TokenShards) -> String {
    let (n, n_documents) = (shards.len(), shards.n_documents());
    let vocabulary = shards.vocabulary_size();
    format!("{n} tokens in {n_documents} documents, vocabulary {vocabulary}")
}
