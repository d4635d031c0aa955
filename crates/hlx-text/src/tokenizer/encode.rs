//! Encoding by the `tokenizers` crate, step by step: its own expressions stop without an error where one meets its
//! limit of steps, and the rest of the text becomes one word.

use fancy_regex::Regex;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::tokenizer::pattern::Invert;
use tokenizers::{
    Error, Model as _, OffsetType, PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior,
    Tokenizer,
};

use super::split::GPT2;

/// Bytes of text that tokens which strip blanks may have read for them, all in all.
const MAX_STRIPPED: usize = 20_000_000_000;

/// The pre-tokenizers of a tokenizer, one after the other.
pub(super) struct PreTokenizers {
    all: Vec<PreTokenizer>,
    /// Added tokens that read all text in front of them.
    stripping: Vec<String>,
}

enum PreTokenizer {
    /// By the crate.
    Crate(PreTokenizerWrapper),
    /// By an expression.
    Split(Regex, SplitDelimiterBehavior, bool),
    /// Words by GPT-2's expression, with a blank in front or without.
    Words(Regex, bool),
}

impl PreTokenizers {
    /// The pre-tokenizers of a tokenizer.
    ///
    /// # Errors
    /// What is wrong with an expression.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, String> {
        let mut all = Vec::new();
        if let Some(first) = tokenizer.get_pre_tokenizer() {
            add(&mut all, first)?;
        }
        let added = tokenizer.get_added_tokens_decoder();
        let strips = added
            .values()
            .filter(|token| token.lstrip || token.single_word);
        Ok(Self {
            all,
            stripping: strips.map(|token| token.content.clone()).collect(),
        })
    }

    /// Encodes a text as `Tokenizer::encode_fast`.
    ///
    /// # Errors
    /// A text that the model has no token for, an expression that meets its limit.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        specials: bool,
    ) -> Result<Vec<u32>, Error> {
        let found = |token: &String| text.matches(token.as_str()).count();
        let read: usize = self.stripping.iter().map(found).sum();
        if read.saturating_mul(text.len()) > MAX_STRIPPED {
            let reason =
                format!("the text holds {read} tokens that strip blanks; encode it in parts");
            return Err(reason.into());
        }
        let added = tokenizer.get_added_vocabulary();
        let mut pieces = added.extract_and_normalize(tokenizer.get_normalizer(), text);
        self.all.iter().try_for_each(|one| one.take(&mut pieces))?;
        let model = tokenizer.get_model();
        pieces.tokenize(|piece| model.tokenize(piece.get()))?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
        let encoding = tokenizer.post_process(encoding, None, specials)?;
        Ok(encoding.get_ids().to_vec())
    }
}

fn add(all: &mut Vec<PreTokenizer>, one: &PreTokenizerWrapper) -> Result<(), String> {
    let compiled = |regex: &str| Regex::new(regex).map_err(|error| error.to_string());
    match one {
        PreTokenizerWrapper::Sequence(sequence) => {
            let inner: &[PreTokenizerWrapper] = sequence.as_ref();
            return inner.iter().try_for_each(|one| add(all, one));
        }
        PreTokenizerWrapper::Split(split) => match &split.pattern {
            SplitPattern::Regex(regex) => {
                all.push(PreTokenizer::Split(
                    compiled(regex)?,
                    split.behavior,
                    split.invert,
                ));
            }
            SplitPattern::String(_) => all.push(PreTokenizer::Crate(one.clone())),
        },
        PreTokenizerWrapper::ByteLevel(bytes) if bytes.use_regex => {
            all.push(PreTokenizer::Words(compiled(GPT2)?, bytes.add_prefix_space));
            let rest = ByteLevel::new(false, bytes.trim_offsets, false);
            all.push(PreTokenizer::Crate(PreTokenizerWrapper::ByteLevel(rest)));
        }
        _ => all.push(PreTokenizer::Crate(one.clone())),
    }
    Ok(())
}

impl PreTokenizer {
    fn take(&self, pieces: &mut PreTokenizedString) -> Result<(), Error> {
        match self {
            Self::Crate(one) => one.pre_tokenize(pieces),
            Self::Split(regex, behavior, false) => {
                pieces.split(|_, piece| piece.split(regex, *behavior).map_err(met))
            }
            Self::Split(regex, behavior, true) => {
                pieces.split(|_, piece| piece.split(Invert(regex), *behavior).map_err(met))
            }
            Self::Words(regex, blank) => pieces.split(|_, mut piece| {
                if *blank && !piece.get().starts_with(' ') {
                    piece.prepend(" ");
                }
                let words = piece.split(regex, SplitDelimiterBehavior::Isolated);
                words.map_err(met)
            }),
        }
    }
}

/// The error of an expression that cannot continue.
fn met(error: Error) -> Error {
    format!(
        "an expression of the tokenizer meets its limit ({error}); cut the text into shorter parts"
    )
    .into()
}
