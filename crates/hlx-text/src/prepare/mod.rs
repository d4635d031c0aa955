//! Preparing a corpus: text, JSON lines and other programs' tokens to shards, in parallel and resumable.
//!
//! One thread at a time reads a chunk, all tokenise chunks, and results are written in the chunks'
//! order: the shards' bytes do not depend on the number of threads, nor on where the work was stopped.

mod encode;
mod foreign;
mod open;
mod ordered;
mod reader;
mod record;
mod scan;
mod seen;
mod sources;
mod state;
mod values;

use std::ops::ControlFlow;
use std::path::PathBuf;

use hlx_core::files::write_atomically;

use crate::shards::ShardOptions;
use crate::tokenizer::TOKENIZER_FILE;
use crate::{
    ChatTemplate, ChatTemplates, PREPARATION_FILE, Preparation, Result, ShardWriter, TextError,
    TokenShards, Tokenizer,
};
use encode::{Encoded, Encoder};
pub use foreign::{HEAD, no_text};
use ordered::ordered;
use reader::{Cuts, Reader};
pub use scan::{ScanOptions, characters_of_files, count_words};
use seen::Seen;
use sources::Source;
pub use sources::SourceFormat;
use state::State;

/// What is prepared, and how.
#[derive(Clone, Debug)]
pub struct PrepareOptions {
    /// Files, folders and globs.
    pub inputs: Vec<PathBuf>,
    /// The folder of the shards.
    pub out: PathBuf,
    /// The format of all files; without it their names tell: `.jsonl`, `.ndjson` and `.json` are
    /// JSON lines, `.bin` is tokens, everything else text but tables (`.csv`, `.tsv`).
    pub format: Option<SourceFormat>,
    /// Text that ends a document in text files; without it a file is one document.
    pub separator: Option<String>,
    /// Text between the input and the output of a pair; without it the tokenizer's token for it, or a newline.
    pub pair_separator: Option<String>,
    /// The source of a chat template, instead of the one beside the tokenizer.
    pub template: Option<String>,
    /// The date that chat templates find, as `YYYY-MM-DD` with an optional time ([`ChatTemplate::dated`]).
    pub date: Option<String>,
    /// Whether each document but chats begins with the tokenizer's first token (BOS); by default with the special
    /// tokens that the tokenizer's post-processor puts in front of a text.
    pub begin: Option<bool>,
    /// Whether each document ends with the tokenizer's last token (EOS), where it has one.
    pub end: bool,
    /// A shard ends with the first chunk that takes it to this many tokens.
    pub shard_tokens: u64,
    /// Threads that tokenise.
    pub threads: usize,
    /// Files that are put beside the shards, such as the settings of the tokenizer and its chat template.
    pub companions: Vec<Companion>,
}

/// A file that goes with the shards of a preparation, and decides none of their bytes.
#[derive(Clone, Debug)]
pub struct Companion {
    /// Its name in the folder.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl PrepareOptions {
    /// Files by their names, documents with the tokenizer's beginning and their end, shards of 100 million tokens, one thread per core.
    pub fn new(inputs: Vec<PathBuf>, out: PathBuf) -> Self {
        Self {
            inputs,
            out,
            format: None,
            separator: None,
            pair_separator: None,
            template: None,
            date: None,
            begin: None,
            end: true,
            shard_tokens: ShardOptions::new(1).shard_tokens,
            threads: threads(),
            companions: Vec::new(),
        }
    }
}

/// One thread per core.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrepareProgress {
    /// The share of the files that is read, from 0 to 1; a compressed file counts when it ends.
    pub done: f64,
    /// Bytes of text tokenised by this call.
    pub n_bytes: u64,
    /// Tokens written, those of an earlier call included.
    pub n_tokens: u64,
}

/// Tokenises files into a folder of shards, with the tokenizer beside them (`tokenizer.json`) and its
/// companions. If it is stopped, even killed, the same call continues after the last whole shard, and leaves
/// the same files as a call that ran through; the index comes last, so that a folder with one lacks nothing. A
/// folder that is not empty and that no preparation has begun is refused, and nothing in it is touched.
/// `progress` is called after each chunk of about a megabyte, and may
/// stop the work.
///
/// ```
/// use std::ops::ControlFlow;
/// use hlx_text::{PrepareOptions, Tokenizer, prepare};
///
/// let folder = std::env::temp_dir().join(format!("hlx-doc-prepare-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("a.jsonl"), "{\"input\": \"2+2\", \"output\": \"4\"}\n")?;
/// let options = PrepareOptions::new(vec![folder.join("a.jsonl")], folder.join("tokens"));
/// let shards = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Continue(()))?;
/// assert_eq!(shards.read(0..6)?, [50, 43, 50, 0x1e, 52, 4]);
/// assert_eq!(shards.trained(2..6)?, [false, false, true, true]);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// One line with the file, and the line where there is one: files that cannot be read, are empty,
/// no UTF-8, or no JSON; a template that raises; a folder that holds shards already, was begun with other
/// files or options, or is being written by another process.
pub fn prepare(
    options: &PrepareOptions,
    tokenizer: &Tokenizer,
    mut progress: impl FnMut(&PrepareProgress) -> ControlFlow<()> + Send,
) -> Result<TokenShards> {
    let sources = sources::resolve(&options.inputs, options.format, Some(&options.out))?;
    let template = template(options, tokenizer)?;
    let template = template.as_ref().map(Result::as_ref);
    let encoder = encoder(options, tokenizer, template)?;
    let mut state = State::open(&encoder, options, &sources)?;
    let json = tokenizer.to_json().as_bytes();
    let companions = options.companions.iter();
    let companions = companions.map(|one| (one.name.as_str(), &one.bytes[..]));
    let beside: Vec<(&str, &[u8])> = companions.chain([(TOKENIZER_FILE, json)]).collect();
    for (name, bytes) in &beside {
        let path = options.out.join(name);
        write_atomically(&path, bytes).map_err(|error| TextError::file(&path, error))?;
    }
    if !state.is_indexed() {
        let work = Work {
            options,
            tokenizer,
            encoder: &encoder,
            sources: &sources,
        };
        let mut is_stopped = false;
        let written = work.write_shards(&mut state, |reached| {
            let next = progress(reached);
            is_stopped = next.is_break();
            next
        });
        let seen = match written {
            Ok(seen) => seen,
            Err(error) if is_stopped => return Err(error),
            Err(error) => {
                let names = beside.iter().map(|(name, _)| *name);
                let names: Vec<&str> = names.chain([PREPARATION_FILE]).collect();
                let removed = state.abandon(&names);
                removed.map_err(|error| TextError::file(&options.out, error))?;
                return Err(error);
            }
        };
        for line in seen.notices(options) {
            tracing::warn!("{}: {line}", options.out.display());
        }
    }
    state.finish()?;
    TokenShards::open(&options.out)
}

/// What [`prepare`] makes shards of.
struct Work<'a> {
    options: &'a PrepareOptions,
    tokenizer: &'a Tokenizer,
    encoder: &'a Encoder<'a>,
    sources: &'a [Source],
}

impl Work<'_> {
    /// Writes the shards after those that are whole, and the index.
    fn write_shards(
        &self,
        state: &mut State,
        mut progress: impl FnMut(&PrepareProgress) -> ControlFlow<()> + Send,
    ) -> Result<Seen> {
        let Self {
            options,
            tokenizer,
            encoder,
            sources,
        } = *self;
        let shard_options = ShardOptions {
            vocabulary_size: tokenizer.vocabulary_size(),
            tokenizer: Some(tokenizer.digest().to_owned()),
            shard_tokens: options.shard_tokens,
        };
        let mut writer = ShardWriter::resume(&options.out, shard_options, state.shards().to_vec())?;
        let cuts = Cuts {
            separator: options.separator.clone(),
            end: tokenizer.specials().eos,
        };
        let mut reader = Reader::new(sources.to_vec(), cuts, state.place())?;
        let (mut n_bytes, mut seen) = (0, state.seen().clone());
        ordered(
            options.threads,
            || reader.next(),
            |chunk| encoder.chunk(chunk, sources),
            |encoded: Encoded| {
                seen.join(&encoded.seen);
                for part in &encoded.parts {
                    writer.push(&part.document, part.first)?;
                }
                if encoded.ends && writer.close_if_full()? {
                    state.save(encoded.next, writer.done(), &seen)?;
                }
                n_bytes += encoded.n_bytes;
                let reached = PrepareProgress {
                    done: encoded.done,
                    n_bytes,
                    n_tokens: writer.n_tokens(),
                };
                match progress(&reached) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => {
                        let reason = "was stopped; the same command goes on with it";
                        Err(TextError::file(&options.out, reason))
                    }
                }
            },
        )?;
        self.write_preparation(&seen)?;
        writer.finish()?;
        Ok(seen)
    }

    /// Writes how texts have become documents, before the index: a folder with an index lacks nothing.
    fn write_preparation(&self, seen: &Seen) -> Result<()> {
        let mut preparation = Preparation::of(self.tokenizer);
        preparation.begin.clone_from(&self.encoder.begin);
        preparation.end.clone_from(&self.encoder.end);
        preparation
            .pair_separator
            .clone_from(&self.encoder.pair_separator);
        preparation.documents = seen.documents;
        let path = self.options.out.join(PREPARATION_FILE);
        write_atomically(&path, &preparation.to_bytes()?)
            .map_err(|error| TextError::file(&path, error))
    }
}

/// The template of chats, if there is one. One beside the tokenizer that cannot be used matters to chats alone.
fn template(
    options: &PrepareOptions,
    tokenizer: &Tokenizer,
) -> Result<Option<Result<ChatTemplate>>> {
    let template = match &options.template {
        Some(source) => Some(Ok(ChatTemplate::with_tokens_of(source, tokenizer)?)),
        None => {
            let has_any = |all: &ChatTemplates| all.names().next().is_some();
            let beside = tokenizer.chat_templates().filter(|all| has_any(all));
            beside.map(|_| ChatTemplate::of(tokenizer))
        }
    };
    match (&options.date, template) {
        (Some(date), Some(Ok(template))) => Ok(Some(Ok(template.dated(date)?))),
        (_, template) => Ok(template),
    }
}

fn encoder<'a>(
    options: &'a PrepareOptions,
    tokenizer: &'a Tokenizer,
    template: Option<Result<&'a ChatTemplate, &'a TextError>>,
) -> Result<Encoder<'a>> {
    let wrong = |reason: &str| TextError::argument("data_prepare", reason);
    let specials = tokenizer.specials();
    if options.separator.as_ref().is_some_and(String::is_empty) {
        return Err(wrong("the separator of documents is empty"));
    }
    let begin = match options.begin {
        None => tokenizer.text_begin().to_vec(),
        Some(false) => Vec::new(),
        Some(true) => {
            let bos = specials.bos;
            let bos = bos.ok_or_else(|| {
                wrong("the tokenizer states no token that begins a document (--bos)")
            })?;
            let mut begin = tokenizer.text_begin().to_vec();
            if !begin.contains(&bos) {
                begin.insert(0, bos);
            }
            begin
        }
    };
    let pair_separator = match (&options.pair_separator, specials.separator) {
        (Some(text), _) => tokenizer.encode(text)?,
        (None, Some(token)) => vec![token],
        // A tokenizer of characters may lack a newline, which matters where there are pairs.
        (None, None) => tokenizer.encode("\n").unwrap_or_default(),
    };
    Ok(Encoder {
        tokenizer,
        template,
        separator: options.separator.as_deref(),
        pair_separator,
        begin,
        end: specials.eos.filter(|_| options.end).into_iter().collect(),
        boundary: specials.eos,
    })
}
