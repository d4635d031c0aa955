//! Text from a model with a tokenizer: tokens in and out, streamed, with texts and tokens that end it.

use anyhow::{Result, bail, ensure};
use hlx_nn::{CausalLm, CausalModel};
use hlx_text::{Preparation, Tokenizer};

use super::growing::{News, Tell};
use super::tokens::{Held, TokenGeneration, Work, check_prompt};
use crate::engine::{Spelling, TextModel};

impl TextModel {
    /// Whether its tokens are bytes.
    pub fn is_of_bytes(&self) -> bool {
        self.tokenizer.digest() == Tokenizer::bytes().digest()
    }

    /// Encodes a prompt as the beginning of a document that the model was trained on. Where the model answers inputs,
    /// the separator is put after it, unless the prompt is `raw`.
    ///
    /// # Errors
    /// A character that the vocabulary does not have, a token that the model does not have, an empty prompt, and
    /// one that takes more positions than the model has.
    pub fn encode_prompt(&self, prompt: &str, raw: bool) -> Result<Vec<u32>> {
        encode_prompt(&self.model, &self.tokenizer, &self.preparation, prompt, raw)
    }

    /// As [`TextModel::encode_prompt`], of a prompt that is not raw.
    ///
    /// # Errors
    /// As [`TextModel::encode_prompt`].
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        self.encode_prompt(prompt, false)
    }

    /// Encodes a whole text: with the tokens in front that documents began with, and after it those of the
    /// tokenizer.
    ///
    /// # Errors
    /// A character that the vocabulary does not have.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = self.preparation.prompt(&self.tokenizer, text, true)?;
        tokens.extend(self.tokenizer.text_end());
        Ok(tokens)
    }

    /// Warns once where nobody knows whether a prompt is an input to be answered.
    pub fn warn_of_pairs(&self) {
        if self.preparation.has_pairs_among_others() {
            let separator = self.tokenizer.decode_all(&self.preparation.pair_separator);
            tracing::warn!(
                "the model was trained on pairs and on other documents: a prompt is continued as it is; end it with {:?} \
                 to have it answered",
                separator.unwrap_or_default()
            );
        }
    }

    /// Continues prompts and returns the text after each, as
    /// [`generate_tokens`](super::generate_tokens); `stop` ends a text in
    /// front of any of these texts. `tell(number, text)` gets the next characters of the text of that
    /// number; those that a stop may begin with are held back until it is clear.
    ///
    /// # Errors
    /// As [`generate_tokens`](super::generate_tokens), and that of `tell`, which ends all texts.
    pub fn write(
        &self,
        prompts: &[Vec<u32>],
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<Vec<String>> {
        write_texts(&self.model, &self.tokenizer, prompts, options, stop, tell)
    }

    /// As [`TextModel::write`] of one prompt: what is held of its beginning is not computed again, and what was read is
    /// held afterwards. The text is the same.
    ///
    /// # Errors
    /// As [`TextModel::write`]; nothing is held then.
    pub fn write_held(
        &self,
        held: &mut Option<Held>,
        prompt: &[u32],
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<String> {
        check_tokens(&self.model, &self.tokenizer, prompt)?;
        let work = Work {
            spelling: Spelling::Text(&self.tokenizer),
            prompts: &[prompt.to_vec()],
            options,
            stop: &bytes_of(stop),
        };
        let mut text = Vec::new();
        let mut take = |_: usize, news: News<'_>| {
            match news {
                // Pieces are whole characters, and a stop begins with one.
                News::Bytes(new) => return tell(&String::from_utf8_lossy(new)),
                News::End(whole) => text = whole?,
            }
            Ok(())
        };
        work.tell(&self.model, Some(held), &mut take)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// As [`TextModel::write`], of a model and its tokenizer.
///
/// # Errors
/// As [`TextModel::write`].
pub fn write_texts(
    model: &CausalLm,
    tokenizer: &Tokenizer,
    prompts: &[Vec<u32>],
    options: &TokenGeneration,
    stop: &[String],
    tell: &mut dyn FnMut(usize, &str) -> Result<()>,
) -> Result<Vec<String>> {
    let mut texts = vec![String::new(); prompts.len() * options.n_texts];
    tell_texts(
        model,
        tokenizer,
        prompts,
        options,
        stop,
        &mut |number, news| {
            match news {
                News::Bytes(new) => return tell(number, &String::from_utf8_lossy(new)),
                News::End(text) => texts[number] = String::from_utf8_lossy(&text?).into_owned(),
            }
            Ok(())
        },
    )?;
    Ok(texts)
}

/// As [`write_texts`], and tells of the end of each text: one that fails by itself ends no other.
///
/// # Errors
/// A prompt that the model cannot continue from, before the first text; that of `tell`, which ends all texts, and
/// what the device reports: the texts whose end was not told are lost.
pub fn tell_texts(
    model: &CausalLm,
    tokenizer: &Tokenizer,
    prompts: &[Vec<u32>],
    options: &TokenGeneration,
    stop: &[String],
    tell: Tell<'_>,
) -> Result<()> {
    let work = Work {
        spelling: Spelling::Text(tokenizer),
        prompts,
        options,
        stop: &bytes_of(stop),
    };
    work.tell(model, None, tell)
}

/// Encodes a prompt for a model as the beginning of a document was prepared; `raw` leaves out the separator of pairs.
///
/// # Errors
/// As [`TextModel::encode_prompt`].
pub fn encode_prompt(
    model: &CausalLm,
    tokenizer: &Tokenizer,
    preparation: &Preparation,
    prompt: &str,
    raw: bool,
) -> Result<Vec<u32>> {
    ensure!(!prompt.is_empty(), "the prompt is empty");
    let ids = preparation.prompt(tokenizer, prompt, raw)?;
    check_tokens(model, tokenizer, &ids)?;
    check_prompt(model, &ids, false)?;
    Ok(ids)
}

/// Fails for a token of a prompt that the model does not have: a tokenizer may have more tokens than its model.
fn check_tokens(model: &CausalLm, tokenizer: &Tokenizer, ids: &[u32]) -> Result<()> {
    let vocabulary = model.vocabulary();
    match ids.iter().find(|&&id| id as usize >= vocabulary) {
        None => Ok(()),
        Some(&id) => bail!(
            "the prompt has the token `{}` ({id}), and the model only {vocabulary} tokens",
            tokenizer.id_to_token(id).unwrap_or_default()
        ),
    }
}

fn bytes_of(texts: &[String]) -> Vec<Vec<u8>> {
    let texts = texts.iter().cloned();
    texts.map(String::into_bytes).collect()
}
