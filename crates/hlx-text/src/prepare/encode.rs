//! Records of a corpus to documents of tokens.

use std::ops::Range;
use std::path::Path;

use super::reader::{Chunk, Content, Piece, Place};
use super::record::{Chat, Read, Record};
use super::seen::Seen;
use super::sources::Source;
use crate::{ChatInput, ChatTemplate, Document, Result, TextError, Tokenizer};

/// How records become tokens.
pub(super) struct Encoder<'a> {
    pub tokenizer: &'a Tokenizer,
    /// The template of chats, or why the one beside the tokenizer cannot be used: other records need none.
    pub template: Option<Result<&'a ChatTemplate, &'a TextError>>,
    /// Text that ends a document in plain text.
    pub separator: Option<&'a str>,
    /// Tokens between the input and the output of a pair.
    pub pair_separator: Vec<u32>,
    /// Tokens before and after each document that is not a chat.
    pub begin: Vec<u32>,
    pub end: Vec<u32>,
    /// The token that separates documents of tokens.
    pub boundary: Option<u32>,
}

/// A document or a part of one.
pub(super) struct Fragment {
    pub document: Document,
    /// Whether the document begins with it.
    pub first: bool,
}

/// What became of a chunk.
pub(super) struct Encoded {
    pub parts: Vec<Fragment>,
    /// What it held.
    pub seen: Seen,
    /// Whether the last document ends with the chunk.
    pub ends: bool,
    pub next: Place,
    pub n_bytes: u64,
    pub done: f64,
}

impl Encoder<'_> {
    /// Encodes a chunk.
    ///
    /// # Errors
    /// One line with the file, and the line where there is one.
    pub fn chunk(&self, chunk: Chunk, sources: &[Source]) -> Result<Encoded> {
        let (mut parts, mut seen) = (Vec::new(), Seen::default());
        let ends = chunk.pieces.last().is_none_or(|piece| piece.ends);
        for piece in chunk.pieces {
            let path = &sources[piece.source].path;
            self.piece(&piece, path, &mut parts, &mut seen)?;
        }
        Ok(Encoded {
            parts,
            seen,
            ends,
            next: chunk.next,
            n_bytes: chunk.n_bytes,
            done: chunk.done,
        })
    }

    fn piece(
        &self,
        piece: &Piece,
        path: &Path,
        parts: &mut Vec<Fragment>,
        seen: &mut Seen,
    ) -> Result<()> {
        let before = parts.len();
        let begun = |parts: &[Fragment]| parts.iter().filter(|part| part.first).count() as u64;
        match &piece.content {
            Content::Tokens(tokens) => {
                parts.extend(self.token_parts(tokens, piece));
                seen.documents.tokens += begun(&parts[before..]);
            }
            Content::Text(_) => {
                let text = piece.text(path)?;
                self.texts(text, piece, parts)
                    .map_err(|error| TextError::file(path, error))?;
                let n = begun(&parts[before..]);
                seen.documents.texts += n;
                seen.n_plain += n;
            }
            Content::Lines(_) => {
                for line in piece.records(path, self.template.is_some())? {
                    let (place, read) = line?;
                    let document = self.record(&read.record);
                    let document = document
                        .map_err(|error| TextError::file(path, format!("{place}: {error}")))?;
                    seen.add(&read, &document);
                    parts.push(Fragment::whole(document));
                }
            }
        }
        match piece.whole && parts.len() == before {
            true => Err(TextError::file(path, "holds no text")),
            false => Ok(()),
        }
    }

    /// Encodes one record as a document with its ends.
    pub fn record(&self, record: &Record) -> Result<Document> {
        match record {
            Record::Text(text) => self.text(text, true, true),
            Record::Pair { input, output } => self.pair(input, &self.pair_separator, output),
            Record::Completion { prompt, completion } => self.pair(prompt, &[], completion),
            Record::Chat(chat) => self.chat(chat),
        }
    }

    /// Encodes the parts of a pair one by one, as they are when the model answers.
    fn pair(&self, input: &str, separator: &[u32], output: &str) -> Result<Document> {
        let mut segments = Segments::default();
        segments.extend(self.begin.iter().copied(), false);
        segments.extend(self.tokenizer.encode(input)?, false);
        segments.extend(separator.iter().copied(), false);
        segments.extend(self.tokenizer.encode(output)?, true);
        segments.extend(self.end.iter().copied(), true);
        Ok(segments.into_document())
    }

    fn chat(&self, chat: &Chat) -> Result<Document> {
        let template = self.template.ok_or_else(|| {
            let reason = "`messages` need a chat template: the tokenizer's folder has none, and none \
                          is given";
            TextError::argument("chat_template", reason)
        })?;
        let template = template.map_err(TextError::clone)?;
        let (text, mut answers) = template.render_input_for_training(&chat.input)?;
        if chat.n_given > 0 {
            let mut given = ChatInput {
                add_generation_prompt: true,
                ..chat.input.clone()
            };
            given.messages.truncate(chat.n_given);
            let given = template.render_input(&given)?;
            if !text.starts_with(&given) {
                let reason =
                    "the template lays the prompt out otherwise once the completion follows";
                return Err(TextError::argument("chat_template", reason));
            }
            answers.retain(|answer| answer.start >= given.len());
        }
        self.masked(&text, &answers)
    }

    /// Encodes a text whose ranges alone are trained on; the parts between are encoded one by one,
    /// as they are when the model answers.
    fn masked(&self, text: &str, trained: &[Range<usize>]) -> Result<Document> {
        let mut segments = Segments::default();
        let mut at = 0;
        for range in trained {
            segments.extend(self.tokenizer.encode(&text[at..range.start])?, false);
            segments.extend(self.tokenizer.encode(&text[range.clone()])?, true);
            at = range.end;
        }
        segments.extend(self.tokenizer.encode(&text[at..])?, false);
        Ok(segments.into_document())
    }

    fn text(&self, text: &str, first: bool, last: bool) -> Result<Document> {
        let mut tokens = Vec::new();
        if first {
            tokens.extend(&self.begin);
        }
        tokens.extend(self.tokenizer.encode(text)?);
        if last {
            tokens.extend(&self.end);
        }
        Ok(Document::new(tokens))
    }

    /// The documents of a piece of text. Blank ones are left out.
    fn texts(&self, text: &str, piece: &Piece, parts: &mut Vec<Fragment>) -> Result<()> {
        let Some(separator) = self.separator else {
            if piece.starts && piece.ends && text.trim().is_empty() {
                return Ok(());
            }
            parts.push(Fragment {
                document: self.text(text, piece.starts, piece.ends)?,
                first: piece.starts,
            });
            return Ok(());
        };
        for document in text.split(separator) {
            if !document.trim().is_empty() {
                parts.push(Fragment::whole(self.text(document, true, true)?));
            }
        }
        Ok(())
    }

    /// Documents of tokens, cut where the separating token is.
    fn token_parts(&self, tokens: &[u32], piece: &Piece) -> Vec<Fragment> {
        let mut documents: Vec<Vec<u32>> = vec![Vec::new()];
        for &token in tokens {
            let is_end = Some(token) == self.boundary;
            let open = documents
                .last()
                .is_some_and(|document| !document.is_empty());
            if is_end && piece.leads && open {
                documents.push(Vec::new());
            }
            if let Some(document) = documents.last_mut() {
                document.push(token);
            }
            if is_end && !piece.leads {
                documents.push(Vec::new());
            }
        }
        documents.retain(|document| !document.is_empty());
        let part = |(at, tokens): (usize, Vec<u32>)| Fragment {
            document: Document::new(tokens),
            first: at > 0 || piece.starts,
        };
        documents.into_iter().enumerate().map(part).collect()
    }
}

impl Fragment {
    fn whole(document: Document) -> Self {
        Self {
            document,
            first: true,
        }
    }
}

/// Tokens with flags, put together in order.
#[derive(Default)]
struct Segments {
    tokens: Vec<u32>,
    trained: Vec<bool>,
}

impl Segments {
    fn extend(&mut self, tokens: impl IntoIterator<Item = u32>, trained: bool) {
        self.tokens.extend(tokens);
        self.trained.resize(self.tokens.len(), trained);
    }

    fn into_document(self) -> Document {
        Document {
            tokens: self.tokens,
            trained: Some(self.trained),
        }
    }
}

impl Piece {
    /// The bytes as text.
    ///
    /// # Errors
    /// The first place that is no UTF-8.
    pub fn text(&self, path: &Path) -> Result<&str> {
        let bytes = match &self.content {
            Content::Text(bytes) | Content::Lines(bytes) => &bytes[..],
            Content::Tokens(_) => &[],
        };
        std::str::from_utf8(bytes).map_err(|error| {
            let at = error.valid_up_to();
            let lines = bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
            let line = self.place.line + lines as u64 + 1;
            let byte = self.place.offset + at as u64;
            TextError::file(path, format!("{line}: not UTF-8 at byte {byte}"))
        })
    }

    /// The records of lines of JSON with their places; blank lines are left out.
    ///
    /// # Errors
    /// What is no UTF-8; each record's own.
    pub fn records<'a>(
        &'a self,
        path: &'a Path,
        has_template: bool,
    ) -> Result<impl Iterator<Item = Result<(String, Read)>> + 'a> {
        let lines = self.text(path)?.lines().zip(self.place.line + 1..);
        let filled = lines.filter(|(line, _)| !line.trim().is_empty());
        Ok(filled.map(move |(line, number)| {
            let place = match self.listed {
                true => format!("element {number}"),
                false => number.to_string(),
            };
            match Read::parse(line, has_template) {
                Ok(read) => Ok((place, read)),
                Err(reason) => Err(TextError::file(path, format!("{place}: {reason}"))),
            }
        }))
    }
}
