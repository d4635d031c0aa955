//! `preparation.json`: how texts became the documents of a folder of shards, so that a prompt is encoded as the
//! beginning of a document was.

use std::io::ErrorKind;
use std::path::Path;

use hlx_core::files::{self, place};
use serde::{Deserialize, Serialize};

use crate::{Result, TextError, Tokenizer};

/// The file's name, beside a tokenizer.
pub const PREPARATION_FILE: &str = "preparation.json";
/// The version of the file.
const VERSION: u32 = 1;

/// How texts became documents. It lies beside the tokenizer in a folder of shards, of a run and of a model.
///
/// ```
/// use hlx_text::{Preparation, Tokenizer};
///
/// let tokenizer = Tokenizer::bytes();
/// let mut preparation = Preparation::of(&tokenizer);
/// preparation.documents.pairs = 2;
/// preparation.pair_separator = vec![0x1e];
/// assert_eq!(preparation.prompt(&tokenizer, "2+2", false)?, [50, 43, 50, 0x1e]);
/// assert_eq!(preparation.prompt(&tokenizer, "2+2", true)?, [50, 43, 50]);
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    version: u32,
    /// The tokens in front of a text, of a pair and of a prompt with its completion. A chat begins as its template
    /// writes it.
    pub begin: Vec<u32>,
    /// The tokens after them.
    pub end: Vec<u32>,
    /// The tokens between the input and the output of a pair.
    pub pair_separator: Vec<u32>,
    /// What the documents were.
    pub documents: DocumentCounts,
}

/// How many documents were made of records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentCounts {
    /// Texts.
    pub texts: u64,
    /// Inputs with outputs, and a separator between them.
    pub pairs: u64,
    /// Prompts with completions, and nothing between them.
    pub completions: u64,
    /// Conversations.
    pub chats: u64,
    /// Tokens of other programs.
    pub tokens: u64,
}

impl DocumentCounts {
    /// Whether there are documents with a preparation's tokens around them, which chats and tokens of other programs
    /// have not.
    pub fn has_ends(&self) -> bool {
        self.texts + self.pairs + self.completions > 0
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.texts += other.texts;
        self.pairs += other.pairs;
        self.completions += other.completions;
        self.chats += other.chats;
        self.tokens += other.tokens;
    }
}

impl Preparation {
    /// How a tokenizer by itself encodes a text, of which nothing else is known.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        Self {
            version: VERSION,
            begin: tokenizer.text_begin().to_vec(),
            end: Vec::new(),
            pair_separator: Vec::new(),
            documents: DocumentCounts::default(),
        }
    }

    /// That of pairs over a tokenizer that has a separator of its own, as [`Tokenizer::bytes`].
    pub fn of_pairs(tokenizer: &Tokenizer) -> Self {
        Self {
            pair_separator: tokenizer.specials().separator.into_iter().collect(),
            documents: DocumentCounts {
                pairs: 1,
                ..DocumentCounts::default()
            },
            ..Self::of(tokenizer)
        }
    }

    /// Reads the file of a folder; `None` of a folder without one, as older versions have written it.
    ///
    /// # Errors
    /// [`TextError::File`] for a file that cannot be read, or is of another version.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = place(folder, PREPARATION_FILE);
        let bytes = match files::read_settings(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| TextError::file(&path, error))?,
        };
        let wrong = |reason: String| Err(TextError::file(&path, reason));
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(read) if read.version == VERSION => Ok(Some(read)),
            Ok(read) => wrong(format!("has version {}, expected {VERSION}", read.version)),
            Err(error) => wrong(format!("is no preparation: {error}")),
        }
    }

    /// As [`Preparation::read`], or else [`Preparation::of`] the tokenizer of the folder.
    ///
    /// # Errors
    /// As [`Preparation::read`].
    pub fn beside(folder: &Path, tokenizer: &Tokenizer) -> Result<Self> {
        Ok(Self::read(folder)?.unwrap_or_else(|| Self::of(tokenizer)))
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// The encoder's message; it is not expected to fail.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = serde_json::to_vec_pretty(self);
        bytes.map_err(|error| TextError::argument("preparation", error))
    }

    /// Whether a model of these documents answers inputs: all of them are pairs with a separator.
    pub fn answers_inputs(&self) -> bool {
        let of_pairs = DocumentCounts {
            pairs: self.documents.pairs,
            ..DocumentCounts::default()
        };
        self.documents.pairs > 0 && self.documents == of_pairs
    }

    /// Whether pairs were prepared among other documents: nobody knows whether a prompt is an input then.
    pub fn has_pairs_among_others(&self) -> bool {
        self.documents.pairs > 0 && !self.answers_inputs()
    }

    /// Encodes a prompt as the beginning of a document was. Where inputs are answered the separator is put after it,
    /// unless the prompt is `raw`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn prompt(&self, tokenizer: &Tokenizer, text: &str, raw: bool) -> Result<Vec<u32>> {
        let mut tokens = self.begin.clone();
        tokens.extend(tokenizer.encode(text)?);
        if self.answers_inputs() && !raw {
            tokens.extend(&self.pair_separator);
        }
        Ok(tokens)
    }
}
