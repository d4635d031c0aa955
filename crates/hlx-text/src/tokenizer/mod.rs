//! Tokenizers: bytes, characters, and any `tokenizer.json`.

mod beside;
mod byte_level;
mod characters;
mod check;
mod cleanup;
mod encode;
mod exported;
mod fast;
mod file;
mod specials;
mod split;
mod stated;
mod stream;
mod surround;
mod templates;
mod token_bytes;
mod train;

use std::path::Path;
use std::sync::Arc;

use hlx_core::digest::sha256_hex;
use hlx_core::files::{self, parent, place};
use serde::{Deserialize, Serialize};

pub use beside::TokenizerFiles;
pub use stated::{SPECIAL_TOKENS_MAP_FILE, TOKENIZER_CONFIG_FILE};
pub use stream::DecodeStream;
pub use templates::ChatTemplates;
pub use train::{BpeTrainer, WordCounts};

use crate::{Result, TextError};
use characters::Characters;
use file::TokenizerFile;

/// The name of a tokenizer's file in a folder.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// Separates the input from the output of a pair of bytes.
const SEPARATOR: u32 = 0x1e;
/// Ends a document of bytes.
const END: u32 = 0x04;

/// Text to tokens and back. Clones share their tables.
///
/// ```
/// use hlx_text::Tokenizer;
///
/// let tokenizer = Tokenizer::bytes();
/// assert_eq!(tokenizer.encode("hi")?, [104, 105]);
/// assert_eq!(tokenizer.decode(&[104, 105, 4])?, "hi");
/// let tokenizer = Tokenizer::characters_of("hello")?;
/// assert_eq!(tokenizer.encode("hole")?, [1, 3, 2, 0]);
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: Kind,
    specials: SpecialTokens,
    json: String,
    digest: String,
}

#[derive(Debug)]
enum Kind {
    Bytes,
    Characters(Characters),
    File(Box<TokenizerFile>),
}

impl Inner {
    /// Whether a token of bytes is left out of texts.
    fn skips(&self, id: u32) -> bool {
        matches!(self.kind, Kind::Bytes) && self.specials.all.contains(&id)
    }
}

/// The tokens that stand for no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a document.
    pub bos: Option<u32>,
    /// Ends a document.
    pub eos: Option<u32>,
    /// Fills rows.
    pub pad: Option<u32>,
    /// Separates the input from the output of a pair; bytes alone have one.
    pub separator: Option<u32>,
    /// All of them, in rising order.
    pub all: Vec<u32>,
    /// Whether no file states `eos`, which is a token of a usual name then.
    pub eos_is_usual: bool,
}

/// How the tokenizers of HLX itself are written.
#[derive(Serialize, Deserialize)]
#[serde(tag = "hlx_tokenizer", rename_all = "lowercase", deny_unknown_fields)]
enum Own {
    Bytes,
    Characters { characters: String },
}

impl Tokenizer {
    /// One token per byte: 256 tokens. The separator of pairs is 0x1e, the end 0x04.
    pub fn bytes() -> Self {
        let specials = SpecialTokens {
            eos: Some(END),
            separator: Some(SEPARATOR),
            all: vec![END, SEPARATOR],
            ..SpecialTokens::default()
        };
        Self::of_own(Kind::Bytes, specials, &Own::Bytes)
    }

    /// One token per character: those of a text, in the order of their code points.
    ///
    /// # Errors
    /// [`TextError::Argument`] for an empty text.
    pub fn characters_of(text: &str) -> Result<Self> {
        let characters = Characters::of(text)?;
        let own = Own::Characters {
            characters: characters.all().iter().collect(),
        };
        let kind = Kind::Characters(characters);
        Ok(Self::of_own(kind, SpecialTokens::default(), &own))
    }

    fn of_own(kind: Kind, specials: SpecialTokens, own: &Own) -> Self {
        // A struct of strings has a JSON form.
        let json = serde_json::to_string(own).unwrap_or_default();
        Self::of(kind, specials, json)
    }

    fn of(kind: Kind, specials: SpecialTokens, json: String) -> Self {
        let digest = sha256_hex(json.as_bytes());
        let inner = Inner {
            kind,
            specials,
            json,
            digest,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Reads a `tokenizer.json`, or the one of a folder. `tokenizer_config.json` and
    /// `chat_template.jinja` beside it state the special tokens and the chat template.
    ///
    /// # Errors
    /// [`TextError::File`]: a file that cannot be read, or is no tokenizer.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (folder, name) = match (path.is_dir(), path.file_name()) {
            (true, _) | (false, None) => (path, Path::new(TOKENIZER_FILE)),
            (false, Some(name)) => (parent(path), Path::new(name)),
        };
        let path = place(folder, &name.to_string_lossy());
        let json = files::read_json(&path).map_err(|error| TextError::file(&path, error))?;
        let beside = file::Beside::of(TokenizerFiles::read(folder)?)?;
        Self::read(&json, &path, &beside)
    }

    /// Reads what [`Tokenizer::to_json`] wrote, or the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`TextError::File`] for bytes that are not a tokenizer.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        Self::read(json, Path::new(TOKENIZER_FILE), &file::Beside::default())
    }

    /// As [`Tokenizer::from_json`], with the files that lay beside the tokenizer's.
    ///
    /// # Errors
    /// As [`Tokenizer::open`].
    pub fn from_files(json: &[u8], files: TokenizerFiles) -> Result<Self> {
        Self::read(json, Path::new(TOKENIZER_FILE), &file::Beside::of(files)?)
    }

    fn read(json: &[u8], path: &Path, beside: &file::Beside) -> Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| {
            TextError::file(path, format!("is no tokenizer: {error}"))
        };
        let text = std::str::from_utf8(json).map_err(|error| wrong(&error))?;
        if let Ok(own) = serde_json::from_str::<Own>(text) {
            return match own {
                Own::Bytes => Ok(Self::bytes()),
                Own::Characters { characters } => Self::characters_of(&characters),
            };
        }
        let (file, specials) = TokenizerFile::parse(text, beside).map_err(|error| wrong(&error))?;
        Ok(Self::of(
            Kind::File(Box::new(file)),
            specials,
            text.to_owned(),
        ))
    }

    /// Encodes a text. Nothing is added to it; special tokens that it names become these tokens.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a character that the vocabulary does not have, and for a text on which an
    /// expression of the tokenizer meets its limit of steps.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.inner.kind {
            Kind::Bytes => Ok(text.bytes().map(u32::from).collect()),
            Kind::Characters(characters) => characters.encode(text),
            Kind::File(file) => file.encode(text, false),
        }
    }

    /// Encodes a text with the special tokens that the tokenizer's post-processor puts around one.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_with_specials(&self, text: &str) -> Result<Vec<u32>> {
        match &self.inner.kind {
            Kind::File(file) => file.encode(text, true),
            _ => self.encode(text),
        }
    }

    /// The special tokens that the tokenizer's post-processor puts in front of a text.
    pub fn text_begin(&self) -> &[u32] {
        match &self.inner.kind {
            Kind::File(file) => &file.surroundings().before,
            _ => &[],
        }
    }

    /// The special tokens that the tokenizer's post-processor puts after a text.
    pub fn text_end(&self) -> &[u32] {
        match &self.inner.kind {
            Kind::File(file) => &file.surroundings().behind,
            _ => &[],
        }
    }

    /// Decodes tokens, special ones left out. Bytes that are no UTF-8 become U+FFFD. A token that the vocabulary
    /// does not have adds nothing, as in `transformers`: models may have more tokens than their tokenizers.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a decoder of the tokenizer's file that cannot be carried out.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        self.decoded(tokens, true)
    }

    /// Decodes tokens, special ones too.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn decode_all(&self, tokens: &[u32]) -> Result<String> {
        self.decoded(tokens, false)
    }

    fn decoded(&self, tokens: &[u32], skip_specials: bool) -> Result<String> {
        match &self.inner.kind {
            Kind::Bytes => {
                let readable = tokens
                    .iter()
                    .filter(|id| !(skip_specials && self.inner.skips(**id)));
                let bytes: Vec<u8> = readable.filter_map(|&id| u8::try_from(id).ok()).collect();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Kind::Characters(characters) => Ok(characters.decode(tokens)),
            Kind::File(file) => file.decode(tokens, skip_specials),
        }
    }

    /// Starts decoding token by token, for output that is shown while it grows.
    pub fn stream(&self) -> DecodeStream<'_> {
        DecodeStream::new(self)
    }

    /// Starts decoding what follows a prompt token by token: the pieces are what the text of all tokens has
    /// after that of the prompt's, blanks at its beginning included.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn stream_after(&self, prompt: &[u32]) -> Result<DecodeStream<'_>> {
        DecodeStream::after(self, prompt)
    }

    /// The largest token and one: every token is below it.
    pub fn vocabulary_size(&self) -> usize {
        match &self.inner.kind {
            Kind::Bytes => 256,
            Kind::Characters(characters) => characters.all().len(),
            Kind::File(file) => file.vocabulary_size(),
        }
    }

    /// The token of this text, if there is one.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        match &self.inner.kind {
            Kind::Bytes => match token.as_bytes() {
                &[byte] => Some(u32::from(byte)),
                _ => None,
            },
            Kind::Characters(characters) => characters.id_of(token),
            Kind::File(file) => file.token_to_id(token),
        }
    }

    /// The text of a token as the vocabulary has it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        match &self.inner.kind {
            Kind::Bytes => u8::try_from(id).ok().map(|byte| char::from(byte).into()),
            Kind::Characters(characters) => {
                let found = characters.all().get(id as usize);
                found.map(char::to_string)
            }
            Kind::File(file) => file.id_to_token(id),
        }
    }

    /// The special tokens.
    pub fn specials(&self) -> &SpecialTokens {
        &self.inner.specials
    }

    /// The chat template that lies beside the tokenizer's file; of several the one named `default`.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_templates()?.default_source()
    }

    /// All chat templates that lie beside the tokenizer's file.
    pub fn chat_templates(&self) -> Option<&ChatTemplates> {
        match &self.inner.kind {
            Kind::File(file) => Some(file.chat_templates()),
            _ => None,
        }
    }

    /// The files that lay beside the tokenizer's.
    pub fn files(&self) -> Option<&TokenizerFiles> {
        match &self.inner.kind {
            Kind::File(file) => Some(file.files()),
            _ => None,
        }
    }

    /// SHA-256 of [`Tokenizer::to_json`], as 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }

    /// The tokenizer as text: of a `tokenizer.json` its own bytes.
    pub fn to_json(&self) -> &str {
        &self.inner.json
    }
}
