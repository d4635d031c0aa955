//! Text from a model, over bytes or with a tokenizer: requests that the engine's loop answers on the calling thread.

mod answers;
mod growing;
mod settings;
mod text;
mod tokens;

use anyhow::{Result, ensure};
use hlx_nn::{CausalLm, CausalModel};

use crate::config::Format;
use crate::data::{END, SEPARATOR};
use crate::engine::Spelling;
use crate::sample::Sampling;

pub use crate::engine::TextModel;
pub use answers::{Answer, TokenRecord, answer_pairs, count_exact};
pub use growing::{News, Tell, each_text};
pub use settings::{Wanted, check_settings};
pub use text::{encode_prompt, tell_texts, write_texts};
pub use tokens::{Drawn, Held, Take, TokenGeneration, check_prompt, generate_tokens};

/// How to generate.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Bytes at most.
    pub max_tokens: usize,
    /// How each is drawn.
    pub sampling: Sampling,
    /// What the model was trained on: pairs are answered, a text is continued.
    pub format: Format,
    /// Texts for each prompt, which differ by their draws.
    pub n_texts: usize,
    /// Texts that end a text; they are not part of it.
    pub stop: Vec<Vec<u8>>,
    /// Whether prompts of pairs are left without their separator.
    pub raw: bool,
}

impl Generation {
    /// One text for each prompt, ended by the model or after `max_tokens`.
    pub fn new(format: Format, max_tokens: usize, sampling: Sampling) -> Self {
        Self {
            max_tokens,
            sampling,
            format,
            n_texts: 1,
            stop: Vec::new(),
            raw: false,
        }
    }
}

/// Generates from several prompts at once and returns what comes after each, in their order; of
/// several texts for a prompt one after the other.
///
/// A model of pairs stops at its end byte, and where its positions end; a model of text continues
/// with the last bytes that its positions hold. A prompt's text depends on the seed and on nothing else:
/// neither on the other prompts nor on its place among them.
///
/// # Errors
/// A prompt that is empty or leaves no position for an answer, and what the device reports.
pub fn generate(
    model: &CausalLm,
    prompts: &[&[u8]],
    generation: &Generation,
) -> Result<Vec<Vec<u8>>> {
    generate_streaming(model, prompts, generation, &mut |_, _| Ok(()))
}

/// As [`generate`], and hands every text over while it grows: `tell(number, bytes)` gets the next bytes
/// of the result of that number. Bytes that a stop text may begin with are held back until it is clear.
///
/// # Errors
/// As [`generate`], and that of `tell`, which ends all texts.
pub fn generate_streaming(
    model: &CausalLm,
    prompts: &[&[u8]],
    generation: &Generation,
    tell: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
) -> Result<Vec<Vec<u8>>> {
    let Generation { format, raw, .. } = *generation;
    let ids = prompts
        .iter()
        .map(|prompt| prompt_of_bytes(model, prompt, format, raw));
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let mut texts = vec![Vec::new(); ids.len() * generation.n_texts];
    tell_bytes(model, &ids, generation, &mut |number, news| {
        match news {
            News::Bytes(bytes) => return tell(number, bytes),
            News::End(text) => texts[number] = text?,
        }
        Ok(())
    })?;
    Ok(texts)
}

/// As [`generate_streaming`], of prompts that [`prompt_of_bytes`] made, and tells of the end of each text.
///
/// # Errors
/// That of `tell`, which ends all texts, and what the device reports: the texts whose end was not told are lost.
pub fn tell_bytes(
    model: &CausalLm,
    prompts: &[Vec<u32>],
    generation: &Generation,
    tell: Tell<'_>,
) -> Result<()> {
    let pairs = generation.format.is_of_pairs();
    let options = TokenGeneration {
        n_texts: generation.n_texts,
        slides: !pairs,
        ..TokenGeneration::new(
            generation.max_tokens,
            generation.sampling,
            pairs.then_some(u32::from(END)).into_iter().collect(),
        )
    };
    let work = tokens::Work {
        spelling: Spelling::Bytes,
        prompts,
        options: &options,
        stop: &generation.stop,
    };
    work.tell(model, None, tell)
}

/// The ids of a prompt for a model of bytes; of pairs with the separator, unless the prompt is `raw`.
///
/// # Errors
/// A prompt that is empty or leaves no position for an answer.
pub fn prompt_of_bytes(
    model: &CausalLm,
    prompt: &[u8],
    format: Format,
    raw: bool,
) -> Result<Vec<u32>> {
    let (pairs, positions) = (format.is_of_pairs(), model.max_positions());
    let mut ids: Vec<u32> = prompt.iter().map(|&byte| u32::from(byte)).collect();
    if pairs && !raw {
        let reserved = prompt.iter().find(|byte| [SEPARATOR, END].contains(byte));
        if let Some(byte) = reserved {
            anyhow::bail!("the prompt holds the byte {byte:#04x}, which is reserved");
        }
        ensure!(!prompt.is_empty(), "the prompt is empty");
        ids.push(u32::from(SEPARATOR));
        ensure!(
            ids.len() <= positions,
            "the prompt takes {} positions with its separator, and the model has {positions}",
            ids.len()
        );
    }
    check_prompt(model, &ids, !pairs)?;
    Ok(ids)
}
