//! Text from a model with a tokenizer: tokens in and out, streamed, with texts and tokens that end it.

use std::path::Path;

use anyhow::{Result, ensure};
use hlx_core::Context;
use hlx_core::files::place;
use hlx_nn::{CausalModel, LanguageModel};
use hlx_text::{TOKENIZER_FILE, Tokenizer};

use super::growing::Growing;
use super::settings::{check_settings, end_tokens};
use super::stop::Stops;
use super::tokens::{Held, TokenGeneration, generate_held, generate_tokens};
use crate::config::Format;
use crate::model_folder::{self, Opened, Opening};
use crate::run::RunFolder;
use crate::sample::Sampling;
use crate::trained::Trained;

/// A language model with its tokenizer.
#[derive(Debug)]
pub struct TextModel {
    /// The model.
    pub model: Opened,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The tokens that end a text: the tokenizer's own, and those that the model's folder names.
    pub end_tokens: Vec<u32>,
}

impl TextModel {
    /// Opens a run, one of its checkpoints, an imported model or a Hugging Face folder.
    ///
    /// # Errors
    /// A path that is none of these, no tokenizer beside the model, or one with more tokens than the
    /// model; an average of a model that is no run's; an adapter of a run or of another model; a weight that
    /// the opening's type does not reach.
    pub fn open(ctx: &Context, path: &Path, opening: Opening<'_>) -> Result<Self> {
        let (model, tokenizer, folder) = match RunFolder::open_checkpoint(path) {
            Ok((run, _)) => {
                let (model, config) = Trained::open_as(ctx, path, opening)?;
                let tokenizer = match config.data.format {
                    Format::Shards => open_tokenizer(run.path())?,
                    _ => Tokenizer::bytes(),
                };
                (model, tokenizer, run.path().to_owned())
            }
            Err(error) => {
                ensure!(
                    model_folder::is_model(path),
                    "{error:#}, and no model's folder"
                );
                let tokenizer = open_tokenizer(path)?;
                let model = model_folder::open_as(ctx, path, opening)?;
                (model, tokenizer, path.to_owned())
            }
        };
        let (tokens, vocabulary) = (tokenizer.vocabulary_size(), model.vocabulary());
        ensure!(
            tokens <= vocabulary,
            "{}: the tokenizer has {tokens} tokens, and the model {vocabulary}",
            folder.display()
        );
        Ok(Self {
            end_tokens: end_tokens(&folder, &tokenizer)?,
            model,
            tokenizer,
        })
    }

    /// As [`TextModel::open`], to write texts with: the folder's settings of generation must be known
    /// ([`check_settings`]).
    ///
    /// # Errors
    /// As [`TextModel::open`] and [`check_settings`].
    pub fn open_to_write(
        ctx: &Context,
        path: &Path,
        opening: Opening<'_>,
        sampling: &Sampling,
    ) -> Result<Self> {
        let run = RunFolder::open_checkpoint(path).map(|(run, _)| run.path().to_owned());
        check_settings(&run.unwrap_or_else(|_| path.to_owned()), sampling)?;
        Self::open(ctx, path, opening)
    }

    /// Whether its tokens are bytes.
    pub fn is_of_bytes(&self) -> bool {
        self.tokenizer.digest() == Tokenizer::bytes().digest()
    }

    /// Encodes a prompt, with the tokens that the tokenizer puts around a text.
    ///
    /// # Errors
    /// A character that the vocabulary does not have, an empty prompt.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        ensure!(!prompt.is_empty(), "the prompt is empty");
        Ok(self.tokenizer.encode_with_specials(prompt)?)
    }

    /// Goes on from prompts and returns the text behind each, as [`generate_tokens`]; `stop` ends a text in
    /// front of any of these texts. `tell(number, text)` gets the next characters of the text of that
    /// number; those that a stop may begin with are held back until it is clear.
    ///
    /// # Errors
    /// As [`generate_tokens`], and that of `tell`, which ends all texts.
    pub fn write(
        &self,
        prompts: &[Vec<u32>],
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<Vec<String>> {
        write_texts((&self.model, &self.tokenizer), prompts, options, stop, tell)
    }

    /// As [`TextModel::write`] of one prompt, with what is held of its beginning, as [`generate_held`].
    ///
    /// # Errors
    /// As [`generate_tokens`].
    pub fn write_held(
        &self,
        held: &mut Option<Held>,
        prompt: &[u32],
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<String> {
        let mut tell = |_: usize, new: &str| tell(new);
        let texts = grown(&self.tokenizer, 1, stop, &mut tell, |take| {
            generate_held(&self.model, held, prompt, options, take).map(drop)
        })?;
        Ok(texts.into_iter().next().unwrap_or_default())
    }
}

/// As [`TextModel::write`], of a model and its tokenizer.
///
/// # Errors
/// As [`generate_tokens`].
pub fn write_texts(
    (model, tokenizer): (&LanguageModel, &Tokenizer),
    prompts: &[Vec<u32>],
    options: &TokenGeneration,
    stop: &[String],
    tell: &mut dyn FnMut(usize, &str) -> Result<()>,
) -> Result<Vec<String>> {
    let n_texts = prompts.len() * options.n_texts;
    grown(tokenizer, n_texts, stop, tell, |take| {
        generate_tokens(model, prompts, options, take).map(drop)
    })
}

/// The texts that `generate` writes token by token, each up to a stop.
fn grown(
    tokenizer: &Tokenizer,
    n_texts: usize,
    stop: &[String],
    tell: &mut dyn FnMut(usize, &str) -> Result<()>,
    generate: impl FnOnce(&mut dyn FnMut(usize, u32) -> Result<bool>) -> Result<()>,
) -> Result<Vec<String>> {
    let stop: Vec<Vec<u8>> = stop.iter().map(|text| text.clone().into_bytes()).collect();
    let stops = Stops::new(&stop);
    let new = || (tokenizer.stream(), Growing::default());
    let mut texts: Vec<_> = (0..n_texts).map(|_| new()).collect();
    // Pieces are whole characters, and a stop begins with one.
    let mut tell = |number: usize, bytes: &[u8]| tell(number, &String::from_utf8_lossy(bytes));
    generate(&mut |number, token| {
        let (stream, text) = &mut texts[number];
        let piece = stream.push(token)?.unwrap_or_default();
        text.grow(piece.as_bytes(), &stops, &mut |new| tell(number, new))
    })?;
    let texts = texts.into_iter().enumerate();
    let finished = texts.map(|(number, (stream, mut text))| {
        let mut tell = |new: &[u8]| tell(number, new);
        if !text.has_ended() {
            text.grow(stream.finish()?.as_bytes(), &stops, &mut tell)?;
        }
        Ok(String::from_utf8_lossy(&text.finish(&mut tell)?).into_owned())
    });
    finished.collect()
}

fn open_tokenizer(folder: &Path) -> Result<Tokenizer> {
    ensure!(
        place(folder, TOKENIZER_FILE).is_file(),
        "{}: holds no {TOKENIZER_FILE}",
        folder.display()
    );
    Ok(Tokenizer::open(folder)?)
}
