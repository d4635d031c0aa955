//! Tokens after prompts, by the engine's loop on the calling thread.

use anyhow::{Result, ensure};
use hlx_nn::{CausalLm, CausalModel, PagePool};

use super::growing::{News, Tell};
use crate::engine::{
    Event, Finish, Limits, Memory, NAN_LOGITS, Request, Speaker, Spelling, Usage, answer_here,
};
use crate::sample::Sampling;

/// Sequences that grow at a time; no bit depends on it.
const PLACES: usize = 32;

/// How tokens are generated.
#[derive(Clone, Debug)]
pub struct TokenGeneration {
    /// Tokens at most.
    pub max_tokens: usize,
    /// How each is drawn.
    pub sampling: Sampling,
    /// Sequences for each prompt, which differ by their draws.
    pub n_texts: usize,
    /// Tokens that end a sequence; they are not part of it.
    pub stop_tokens: Vec<u32>,
    /// Whether a sequence continues after the model's positions, with the last tokens that they hold, which
    /// takes a whole pass a token.
    pub slides: bool,
}

impl TokenGeneration {
    /// One sequence for each prompt, ended by `stop_tokens` or after `max_tokens`.
    pub fn new(max_tokens: usize, sampling: Sampling, stop_tokens: Vec<u32>) -> Self {
        Self {
            max_tokens,
            sampling,
            n_texts: 1,
            stop_tokens,
            slides: false,
        }
    }
}

/// What happens to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// It continues with a token.
    Token(u32),
    /// It has ended.
    End,
    /// It cannot continue: its logits are NaN.
    Failed,
}

impl Drawn {
    /// The error of a sequence that cannot continue.
    pub fn failure() -> anyhow::Error {
        anyhow::anyhow!(NAN_LOGITS)
    }
}

/// Gets what happens to the sequence of a number; ends one that continues by returning true.
pub type Take<'a> = &'a mut dyn FnMut(usize, Drawn) -> Result<bool>;

/// Continues several prompts at once and returns the tokens after each, in the prompts' order; of
/// several sequences for a prompt one after the other. `take(number, drawn)` gets every token as it is
/// drawn, and the end of each sequence; it ends the sequence of that number by returning true.
///
/// What is after a prompt depends on it, the model and the options alone: neither on the other prompts nor
/// on its place among them. A sequence ends where the model's positions end, unless it slides.
///
/// # Errors
/// A prompt that is empty, holds a token that the model does not have, or leaves no position; what `take`
/// reports, and what the device does; logits that are NaN, when all other sequences have ended.
pub fn generate_tokens(
    model: &CausalLm,
    prompts: &[Vec<u32>],
    options: &TokenGeneration,
    take: Take<'_>,
) -> Result<Vec<Vec<u32>>> {
    let work = Work {
        spelling: Spelling::Ids,
        prompts,
        options,
        stop: &[],
    };
    let mut found = vec![Vec::new(); work.n_sequences()];
    let mut has_failed = false;
    work.answer(model, None, &mut |number, event| match event {
        Event::Prompt { .. } => Ok(false),
        Event::Piece { tokens, .. } => {
            for token in tokens {
                found[number].push(token.id);
                if take(number, Drawn::Token(token.id))? {
                    take(number, Drawn::End)?;
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Event::End { finish, .. } => {
            let is_failed = matches!(finish, Finish::Failed(_));
            has_failed |= is_failed;
            take(number, if is_failed { Drawn::Failed } else { Drawn::End })
        }
    })?;
    ensure!(!has_failed, NAN_LOGITS);
    Ok(found)
}

/// What a model has read: its tokens, with their keys and values.
#[derive(Debug)]
pub struct Held(Memory);

/// Sequences after prompts, and how their tokens are written.
pub(super) struct Work<'a> {
    pub spelling: Spelling<'a>,
    pub prompts: &'a [Vec<u32>],
    pub options: &'a TokenGeneration,
    /// Texts that end a text.
    pub stop: &'a [Vec<u8>],
}

impl Work<'_> {
    fn n_sequences(&self) -> usize {
        self.prompts.len() * self.options.n_texts
    }

    /// Tells of the texts after the prompts. Where something may be held, what is held of their beginnings is not
    /// computed again, and what was read is held afterwards; after an error nothing is.
    ///
    /// # Errors
    /// A prompt that the model cannot continue, before the first text; that of `tell`, which ends all texts, and what
    /// the device reports: the texts whose end was not told are lost.
    pub fn tell(
        &self,
        model: &CausalLm,
        held: Option<&mut Option<Held>>,
        tell: Tell<'_>,
    ) -> Result<()> {
        let mut texts = vec![Vec::new(); self.n_sequences()];
        self.answer(model, held, &mut |number, event| {
            match event {
                Event::Prompt { .. } => {}
                Event::Piece { text, .. } => {
                    if !text.is_empty() {
                        texts[number].extend_from_slice(&text);
                        tell(number, News::Bytes(&text))?;
                    }
                }
                Event::End { finish, .. } => {
                    let text = std::mem::take(&mut texts[number]);
                    let text = match finish {
                        Finish::Failed(reason) => Err(anyhow::anyhow!(reason)),
                        Finish::Stop(_) | Finish::Length => Ok(text),
                    };
                    tell(number, News::End(text))?;
                }
            }
            Ok(false)
        })
    }

    /// Answers the requests for the sequences.
    fn answer(
        &self,
        model: &CausalLm,
        held: Option<&mut Option<Held>>,
        hear: &mut dyn FnMut(usize, Event<Vec<u8>>) -> Result<bool>,
    ) -> Result<()> {
        for prompt in self.prompts {
            check_prompt(model, prompt, self.options.slides)?;
        }
        let n = self.n_sequences();
        if self.options.max_tokens == 0 || n == 0 {
            let end = || Event::End {
                finish: Finish::Length,
                end_token: None,
                usage: Usage::default(),
                digest: None,
                trace: None,
            };
            return (0..n).try_for_each(|number| hear(number, end()).map(drop));
        }
        let n_places = n.min(PLACES);
        let (needed, positions) = (self.capacity(model), model.max_positions());
        let mut held = held;
        let reuses_prefixes = held.is_some() || self.options.n_texts > 1;
        let before = held.as_mut().and_then(|held| held.take());
        let memory = match before.filter(|held| held.0.capacity() >= needed) {
            Some(held) => held.0,
            None => {
                // What is held grows with the next prompt.
                let room = if held.is_some() { 2 * needed } else { needed };
                let room = room.min(positions);
                let n_pages = Memory::n_pages(model, n_places, room)?.max(PagePool::pages_of(room));
                Memory::new(model, [n_places, room], n_pages, reuses_prefixes)?
            }
        };
        let limits = Limits {
            places: n_places,
            chunk: self.prompts.iter().map(Vec::len).sum(),
            reuses_prefixes,
            ..Limits::default()
        };
        let speaker = Speaker {
            model,
            spelling: self.spelling,
            end_tokens: &self.options.stop_tokens,
        };
        let memory = answer_here(speaker, self.requests(), memory, limits, hear)?;
        if let Some(held) = held {
            *held = Some(Held(memory));
        }
        Ok(())
    }

    fn requests(&self) -> Vec<Request> {
        let streams = 0..self.options.n_texts as u32;
        let of = |prompt: &Vec<u32>, stream| Request {
            sampling: self.options.sampling,
            stream,
            stop: self.stop.to_vec(),
            slides: self.options.slides,
            ..Request::new(prompt.clone(), self.options.max_tokens)
        };
        let prompts = self.prompts.iter();
        let all = prompts.flat_map(|prompt| streams.clone().map(move |stream| of(prompt, stream)));
        all.collect()
    }

    /// The tokens of the longest sequence that fits, when it has grown.
    fn capacity(&self, model: &CausalLm) -> usize {
        let positions = model.max_positions();
        let lengths = self.prompts.iter().map(Vec::len);
        let longest = lengths.filter(|&length| length <= positions).max();
        let longest = longest.unwrap_or(1);
        longest
            .saturating_add(self.options.max_tokens)
            .min(positions)
    }
}

/// Checks that a model can continue from a prompt.
///
/// # Errors
/// A prompt that is empty, takes more positions than the model has and does not slide, or holds a token that the
/// model does not have.
pub fn check_prompt(model: &CausalLm, prompt: &[u32], slides: bool) -> Result<()> {
    let (positions, vocabulary) = (model.max_positions(), model.vocabulary());
    ensure!(!prompt.is_empty(), "the prompt is empty");
    ensure!(
        slides || prompt.len() <= positions,
        "the prompt takes {} positions, and the model has {positions}",
        prompt.len()
    );
    if let Some(id) = prompt.iter().find(|&&id| id as usize >= vocabulary) {
        anyhow::bail!("the token {id} of the prompt is outside of the vocabulary of {vocabulary}");
    }
    Ok(())
}
