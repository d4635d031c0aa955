//! Passes over the texts of a corpus that make no tokens: counting words, collecting characters.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::ordered::ordered;
use super::reader::{Chunk, Content, Cuts, Reader};
use super::record::Record;
use super::sources::{Source, SourceFormat, resolve};
use crate::{Result, TextError, Tokenizer, WordCounts};

/// Which files are read, and how.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Files, folders and globs.
    pub inputs: Vec<PathBuf>,
    /// The format of all files; without it their names tell.
    pub format: Option<SourceFormat>,
    /// Threads.
    pub threads: usize,
}

impl ScanOptions {
    /// Files by their names, one thread per core.
    pub fn new(inputs: Vec<PathBuf>) -> Self {
        Self {
            inputs,
            format: None,
            threads: super::threads(),
        }
    }

    /// The files that are read, in order.
    ///
    /// # Errors
    /// An argument that names no file.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let sources = resolve(&self.inputs, self.format, None)?;
        Ok(sources.into_iter().map(|source| source.path).collect())
    }
}

/// Counts the words of all texts of a corpus. `progress` gets the share read and the bytes, and may
/// stop the work, which is an error then.
///
/// # Errors
/// As [`prepare`](super::prepare); files of tokens hold no text.
pub fn count_words(
    options: &ScanOptions,
    progress: impl FnMut(f64, u64) -> ControlFlow<()> + Send,
) -> Result<WordCounts> {
    let mut all = WordCounts::default();
    let count = |texts: &[&str]| {
        let mut counts = WordCounts::default();
        texts.iter().for_each(|text| counts.add(text));
        counts
    };
    scan(options, count, |counts| all.join(counts), progress)?;
    Ok(all)
}

/// Makes the tokenizer of the characters that a corpus has.
///
/// # Errors
/// As [`count_words`].
pub fn characters_of_files(
    options: &ScanOptions,
    progress: impl FnMut(f64, u64) -> ControlFlow<()> + Send,
) -> Result<Tokenizer> {
    let mut all = BTreeSet::new();
    let collect = |texts: &[&str]| {
        let chars = texts.iter().flat_map(|text| text.chars());
        chars.collect::<BTreeSet<char>>()
    };
    scan(options, collect, |chars| all.extend(chars), progress)?;
    Tokenizer::characters_of(&all.into_iter().collect::<String>())
}

fn scan<O: Send>(
    options: &ScanOptions,
    work: impl Fn(&[&str]) -> O + Sync,
    mut take: impl FnMut(O) + Send,
    mut progress: impl FnMut(f64, u64) -> ControlFlow<()> + Send,
) -> Result<()> {
    let sources = resolve(&options.inputs, options.format, None)?;
    let mut reader = Reader::new(sources.clone(), Cuts::default(), Default::default())?;
    let mut n_bytes = 0;
    ordered(
        options.threads,
        || reader.next(),
        |chunk| {
            let texts = texts(&chunk, &sources)?;
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            Ok((work(&texts), chunk.done, chunk.n_bytes))
        },
        |(output, done, bytes)| {
            take(output);
            n_bytes += bytes;
            match progress(done, n_bytes) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(TextError::argument("scan", "was stopped")),
            }
        },
    )
}

/// The texts of a chunk.
fn texts(chunk: &Chunk, sources: &[Source]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for piece in &chunk.pieces {
        let path = &sources[piece.source].path;
        match &piece.content {
            Content::Tokens(_) => {
                return Err(TextError::file(path, "holds tokens, expected text"));
            }
            Content::Text(_) => texts.push(piece.text(path)?.to_owned()),
            Content::Lines(_) => {
                for record in piece.records(path, true)? {
                    match record?.1.record {
                        Record::Text(text) => texts.push(text),
                        Record::Pair { input, output } => texts.extend([input, output]),
                        Record::Completion { prompt, completion } => {
                            texts.extend([prompt, completion]);
                        }
                        Record::Chat(chat) => {
                            let messages = chat.input.messages.iter();
                            texts.extend(messages.map(|message| message.content()));
                        }
                    }
                }
            }
        }
    }
    Ok(texts)
}
