//! Reading a corpus from front to back in chunks of about a megabyte, whose cuts depend on the bytes alone.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::open::open;
use super::sources::{Source, SourceFormat};
use super::values::lines_of;
use crate::{Result, TextError, TokenShards};

/// The most bytes of a piece that can be cut anywhere.
const CHUNK: usize = 1 << 20;
/// Bytes from which on a chunk takes no more pieces.
const ENOUGH: u64 = CHUNK as u64 / 2;
/// The longest line of JSON, and the longest document where documents end with a separator.
const MAX_RECORD: usize = 1 << 30;

/// A place between two documents of a corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The file.
    pub source: usize,
    /// Decompressed bytes of it that are behind, or tokens.
    pub offset: u64,
    /// Lines of it that are behind.
    pub line: u64,
}

/// A part of a file.
#[derive(Debug)]
pub(super) struct Piece {
    pub source: usize,
    pub content: Content,
    /// Whether the piece begins a document, or else continues with the last piece's.
    pub starts: bool,
    /// Whether its last document ends with it.
    pub ends: bool,
    /// Whether the token that separates documents stands in front of each.
    pub leads: bool,
    /// Whether the lines are elements of a list, or values that stood on several lines.
    pub listed: bool,
    /// Whether the piece is all of its file.
    pub whole: bool,
    /// The lines and bytes of the file that are before it.
    pub place: Place,
}

/// What a piece holds.
#[derive(Debug)]
pub(super) enum Content {
    Text(Vec<u8>),
    Lines(Vec<u8>),
    Tokens(Vec<u32>),
}

/// Pieces that are tokenised together, and where the corpus continues.
#[derive(Debug)]
pub(super) struct Chunk {
    pub pieces: Vec<Piece>,
    pub next: Place,
    /// Decompressed bytes.
    pub n_bytes: u64,
    /// The share of the files' bytes that is read with it.
    pub done: f64,
}

/// How text is cut into documents, and tokens of other programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    /// Text that ends a document; without it each file is one.
    pub separator: Option<String>,
    /// The token that ends a document of nanoGPT and begins one of llm.c.
    pub end: Option<u32>,
}

/// The reader.
pub(super) struct Reader {
    sources: Vec<Source>,
    cuts: Cuts,
    place: Place,
    current: Option<Stream>,
    total: u64,
}

/// The file that is being read.
enum Stream {
    Bytes {
        from: Box<dyn Read + Send>,
        /// Whether the lines of JSON were made of a list, or of values over several lines.
        listed: bool,
        buffer: VecDeque<u8>,
        ended: bool,
        /// Whether the next piece begins a document.
        starts: bool,
    },
    Tokens {
        shards: TokenShards,
        starts: bool,
        /// Whether the separating token stands in front of its document.
        leads: bool,
    },
}

impl Reader {
    /// Goes to a place of the corpus.
    ///
    /// # Errors
    /// A place after its end, such as one of a damaged state; a file that cannot be opened.
    pub fn new(sources: Vec<Source>, cuts: Cuts, place: Place) -> Result<Self> {
        let (file, n_files) = (place.source, sources.len());
        if file > n_files || file == n_files && place.offset > 0 {
            let reason = format!("the work is said to go on in file {file} of {n_files}, from 0");
            return Err(TextError::argument("data_prepare", reason));
        }
        let total = total(&sources);
        let mut reader = Self {
            sources,
            cuts,
            place,
            current: None,
            total,
        };
        if place.offset > 0 {
            reader.open()?;
        }
        Ok(reader)
    }

    /// The next chunk, if there is one.
    pub fn next(&mut self) -> Result<Option<Chunk>> {
        let (mut pieces, mut n_bytes) = (Vec::new(), 0);
        while n_bytes < ENOUGH && self.place.source < self.sources.len() {
            if self.current.is_none() {
                self.open()?;
            }
            if let Some((piece, bytes)) = self.piece()? {
                n_bytes += bytes;
                pieces.push(piece);
            }
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        Ok(Some(Chunk {
            pieces,
            n_bytes,
            next: self.place,
            done: self.done(),
        }))
    }

    /// The share of the files that is read; within a compressed file it is not known.
    fn done(&self) -> f64 {
        let before = total(&self.sources[..self.place.source]);
        let current = self.sources.get(self.place.source);
        let within = current.map_or(0, |source| self.place.offset.min(source.len));
        before.saturating_add(within) as f64 / self.total.max(1) as f64
    }

    /// Opens the file of the place, and skips what is behind.
    fn open(&mut self) -> Result<()> {
        let source = &self.sources[self.place.source];
        let path = &source.path;
        if source.format == SourceFormat::Tokens {
            let shards = TokenShards::open(path)?;
            let leads = shards.is_of_llm_c();
            self.current = Some(Stream::Tokens {
                shards,
                starts: true,
                leads,
            });
            return Ok(());
        }
        let failed = |error: std::io::Error| TextError::file(path, error);
        let (mut from, listed) = match source.format {
            SourceFormat::Jsonl => lines_of(open(path)?).map_err(failed)?,
            _ => (open(path)?, false),
        };
        let offset = self.place.offset;
        let skipped = std::io::copy(&mut (&mut from).take(offset), &mut std::io::sink());
        let skipped = skipped.map_err(failed)?;
        if skipped != offset {
            let reason = format!("has {skipped} bytes, and the work goes on at byte {offset}");
            return Err(TextError::file(path, reason));
        }
        self.current = Some(Stream::Bytes {
            from,
            listed,
            buffer: VecDeque::new(),
            ended: false,
            starts: true,
        });
        Ok(())
    }

    /// The next piece of the open file, and its bytes; the file is closed after its last one.
    fn piece(&mut self) -> Result<Option<(Piece, u64)>> {
        let place = self.place;
        let source = &self.sources[place.source];
        let Some(stream) = &mut self.current else {
            return Ok(None);
        };
        let (content, starts, ends, last, [leads, listed]) = match stream {
            Stream::Tokens {
                shards,
                starts,
                leads,
            } => {
                let range = place.offset
                    ..shards
                        .len()
                        .min(place.offset.saturating_add(CHUNK as u64 / 2));
                let last = range.end == shards.len();
                let (tokens, ends) = cut_tokens(shards, range, last, *leads, self.cuts.end)?;
                let first = std::mem::replace(starts, ends);
                (Content::Tokens(tokens), first, ends, last, [*leads, false])
            }
            Stream::Bytes {
                from,
                listed,
                buffer,
                ended,
                starts,
            } => {
                let lines = source.format == SourceFormat::Jsonl;
                let separator = match lines {
                    true => Some("\n"),
                    false => self.cuts.separator.as_deref(),
                };
                let failed = |reason: String| TextError::file(&source.path, reason);
                let cut = fill(from, buffer, ended, separator).map_err(failed)?;
                let last = *ended && cut.end == buffer.len();
                let bytes: Vec<u8> = buffer.drain(..cut.end).collect();
                let first = std::mem::replace(starts, cut.ends || last);
                let content = match lines {
                    true => Content::Lines(bytes),
                    false => Content::Text(bytes),
                };
                let ends = cut.ends || last;
                (content, first, ends, last, [false, *listed])
            }
        };
        let (units, bytes, lines) = content.sizes();
        if bytes == 0 && last && place.offset == 0 {
            return Err(TextError::file(&source.path, "is empty"));
        }
        self.place = match last {
            true => Place {
                source: place.source + 1,
                ..Place::default()
            },
            false => Place {
                offset: place.offset.saturating_add(units),
                line: place.line.saturating_add(lines),
                ..place
            },
        };
        if last {
            self.current = None;
        }
        let piece = Piece {
            leads,
            listed,
            whole: last && place.offset == 0,
            source: place.source,
            content,
            starts,
            ends,
            place,
        };
        Ok((bytes > 0).then_some((piece, bytes)))
    }
}

/// The bytes of files; sparse ones may state more than 64 bits count.
fn total(sources: &[Source]) -> u64 {
    let lengths = sources.iter().map(|source| source.len);
    lengths.fold(0, u64::saturating_add)
}

impl Content {
    /// What places count, bytes, and lines.
    fn sizes(&self) -> (u64, u64, u64) {
        match self {
            Self::Text(bytes) | Self::Lines(bytes) => {
                let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
                (bytes.len() as u64, bytes.len() as u64, lines as u64)
            }
            Self::Tokens(tokens) => (tokens.len() as u64, tokens.len() as u64 * 2, 0),
        }
    }
}

/// Where a piece of the buffer ends, and whether a document ends there.
struct Cut {
    end: usize,
    ends: bool,
}

/// Reads until the buffer holds a piece, and finds its end.
fn fill(
    from: &mut Box<dyn Read + Send>,
    buffer: &mut VecDeque<u8>,
    ended: &mut bool,
    separator: Option<&str>,
) -> Result<Cut, String> {
    let mut wanted = CHUNK;
    loop {
        while !*ended && buffer.len() < wanted {
            let mut part = vec![0; 1 << 18];
            let n = from.read(&mut part).map_err(|error| error.to_string())?;
            *ended = n == 0;
            buffer.extend(&part[..n]);
        }
        let bytes = buffer.make_contiguous();
        if *ended && bytes.len() < wanted {
            return Ok(Cut {
                end: bytes.len(),
                ends: true,
            });
        }
        let window = &bytes[..wanted.min(bytes.len())];
        let found = match separator {
            Some(separator) => last_of(window, separator.as_bytes()),
            None => last_line_of_words(window),
        };
        match (found, separator) {
            (Some(end), _) => {
                let ends = separator.is_some();
                return Ok(Cut { end, ends });
            }
            (None, None) if wanted >= 16 * CHUNK => {
                let end = last_character(window);
                return Ok(Cut { end, ends: false });
            }
            _ if wanted >= MAX_RECORD => {
                return Err(format!("a document is longer than {MAX_RECORD} bytes"));
            }
            _ => wanted *= 2,
        }
    }
}

/// The end of the last `separator` in a text.
fn last_of(bytes: &[u8], separator: &[u8]) -> Option<usize> {
    let found = match separator {
        [byte] => bytes.iter().rposition(|other| other == byte),
        _ => bytes
            .windows(separator.len())
            .rposition(|part| part == separator),
    };
    found.map(|at| at + separator.len())
}

/// The last end of a line that a letter or a digit stands before: no known pre-tokenizer joins the two, so
/// that a text cut there has the tokens of the whole.
fn last_line_of_words(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().enumerate().rev();
    let mut ends = ends.filter(|&(at, &byte)| byte == b'\n' && at > 0);
    let found = ends.find(|&(at, _)| {
        let before = &bytes[at.saturating_sub(4)..at];
        let last = String::from_utf8_lossy(before).chars().next_back();
        last.is_some_and(char::is_alphanumeric)
    });
    found.map(|(at, _)| at)
}

/// The start of the last character, which may not be whole; the end of what is no UTF-8 at all.
fn last_character(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(4);
    let continuing = tail.take_while(|&&byte| byte & 0xc0 == 0x80).count();
    match bytes.len().saturating_sub(continuing + 1) {
        0 => bytes.len(),
        end => end,
    }
}

/// Reads tokens up to the last end of a document in a range; all of it where there is none.
fn cut_tokens(
    shards: &TokenShards,
    range: Range<u64>,
    last: bool,
    leads: bool,
    end: Option<u32>,
) -> Result<(Vec<u32>, bool)> {
    let mut tokens = shards.read(range)?;
    if last {
        return Ok((tokens, true));
    }
    let place = tokens.iter().rposition(|&token| Some(token) == end);
    let cut = match (place, leads) {
        (Some(0), true) | (None, _) => return Ok((tokens, false)),
        (Some(place), true) => place,
        (Some(place), false) => place + 1,
    };
    tokens.truncate(cut);
    Ok((tokens, true))
}
