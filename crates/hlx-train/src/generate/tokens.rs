//! Tokens from a model with a cache: each prompt in one pass, then one token of every sequence a pass, which
//! is recorded once and replayed. Where the likeliest token is always taken, it is found on the device, and a word
//! for each sequence is downloaded instead of its logits.

use anyhow::{Result, ensure};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::Device;
use hlx_nn::{CausalInput, CausalLm, CausalModel, KvCache, Mode, TokenStep, likeliest};

use crate::sample::Sampling;

/// Sequences computed at a time; no bit depends on it.
const BATCH: usize = 32;

const NAN_LOGITS: &str =
    "the model's logits are NaN: its weights are damaged, or the run has diverged";

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

/// A sequence that grows.
struct Sequence {
    /// Its number among the results.
    number: usize,
    /// Its number among those of its prompt, which keys its draws.
    stream: u32,
    ids: Vec<u32>,
    n_prompt: usize,
}

/// What is known of a sequence's next token.
enum Next {
    /// The logits that it is drawn from.
    Logits(Vec<f32>),
    /// The token itself.
    Token(u32),
    /// Nothing: a logit is NaN.
    Nothing,
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
    let mut sequences = Vec::with_capacity(prompts.len() * options.n_texts);
    for prompt in prompts {
        check_prompt(model, prompt, options.slides)?;
        for stream in 0..options.n_texts as u32 {
            sequences.push(Sequence {
                number: sequences.len(),
                stream,
                n_prompt: prompt.len(),
                ids: prompt.clone(),
            });
        }
    }
    let mut found = vec![Vec::new(); sequences.len()];
    let mut has_failed = false;
    let take: Take<'_> = &mut |number, drawn| {
        has_failed |= drawn == Drawn::Failed;
        take(number, drawn)
    };
    // Prompts of similar length have little padding.
    sequences.sort_by_key(|sequence| sequence.ids.len());
    while !sequences.is_empty() {
        let rest = sequences.split_off(sequences.len().min(BATCH));
        let mut cache = cache_for(model, &sequences, options.max_tokens)?;
        for mut sequence in no_grad(|| finish(model, sequences, &mut cache, options, take))? {
            found[sequence.number] = sequence.ids.split_off(sequence.n_prompt);
        }
        sequences = rest;
    }
    ensure!(!has_failed, NAN_LOGITS);
    Ok(found)
}

/// What a model has read: its tokens, with their keys and values.
#[derive(Debug)]
pub struct Held {
    ids: Vec<u32>,
    cache: KvCache,
}

/// As [`generate_tokens`] for one prompt and one sequence after it, which neither slides: what is held of the
/// prompt's beginning is not computed again, and what was read is held afterwards. The tokens are the same.
///
/// # Errors
/// As [`generate_tokens`]; nothing is held then.
pub fn generate_held(
    model: &CausalLm,
    held: &mut Option<Held>,
    prompt: &[u32],
    options: &TokenGeneration,
    take: Take<'_>,
) -> Result<Vec<u32>> {
    check_prompt(model, prompt, false)?;
    let options = TokenGeneration {
        slides: false,
        ..options.clone()
    };
    let sequence = vec![Sequence {
        number: 0,
        stream: 0,
        n_prompt: prompt.len(),
        ids: prompt.to_vec(),
    }];
    let needed = capacity_for(model, &sequence, options.max_tokens);
    let mut cache = match held.take().filter(|held| held.cache.capacity() >= needed) {
        Some(mut held) => {
            let alike = held.ids.iter().zip(prompt).take_while(|(a, b)| a == b);
            // The last token is read again, for its logits.
            held.cache
                .truncate(&[alike.count().min(prompt.len() - 1)])?;
            held.cache
        }
        None => {
            let room = (2 * needed).min(model.max_positions());
            model.cache(&model.device()?, 1, room)?
        }
    };
    let mut has_failed = false;
    let take: Take<'_> = &mut |number, drawn| {
        has_failed |= drawn == Drawn::Failed;
        take(number, drawn)
    };
    let done = no_grad(|| finish(model, sequence, &mut cache, &options, take))?;
    ensure!(!has_failed, NAN_LOGITS);
    let Some(mut one) = done.into_iter().next() else {
        return Ok(Vec::new());
    };
    let n_read = cache.lengths().iter().sum();
    *held = Some(Held {
        ids: one.ids[..n_read].to_vec(),
        cache,
    });
    Ok(one.ids.split_off(one.n_prompt))
}

/// The tokens of the longest sequence that fits, when it has grown.
fn capacity_for(model: &CausalLm, sequences: &[Sequence], max_tokens: usize) -> usize {
    let positions = model.max_positions();
    let lengths = sequences.iter().map(|one| one.ids.len());
    let longest = lengths.filter(|&length| length <= positions).max();
    longest
        .unwrap_or(1)
        .saturating_add(max_tokens)
        .min(positions)
}

/// An empty cache for the sequences that fit; without any, nothing is put into it.
fn cache_for(model: &CausalLm, sequences: &[Sequence], max_tokens: usize) -> Result<KvCache> {
    let positions = model.max_positions();
    let fitting = sequences.iter().filter(|one| one.ids.len() <= positions);
    let capacity = capacity_for(model, sequences, max_tokens);
    Ok(model.cache(&model.device()?, fitting.count().max(1), capacity)?)
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

/// Runs a batch of sequences to their ends, with a cache that holds what is to be held of them.
fn finish(
    model: &CausalLm,
    sequences: Vec<Sequence>,
    cache: &mut KvCache,
    options: &TokenGeneration,
    take: Take<'_>,
) -> Result<Vec<Sequence>> {
    let (device, positions) = (&model.device()?, model.max_positions());
    let fits = |one: &Sequence| one.ids.len() <= positions;
    let (mut cached, mut sliding): (Vec<_>, Vec<_>) = sequences.into_iter().partition(fits);
    let mut step = TokenStep::new(model);
    let mut done = Vec::new();
    for draw in 0..options.max_tokens as u32 {
        let is_greedy = options.sampling.is_greedy();
        let next = next_tokens(device, model, &cached, &mut step, cache, is_greedy)?;
        let next_of_sliding = next_of_windows(device, model, &sliding, is_greedy)?;
        let (mut open, mut outgrown) = (Vec::new(), Vec::new());
        let mut going = Vec::with_capacity(cached.len());
        for (row, (mut one, next)) in cached.into_iter().zip(next).enumerate() {
            let ended = one.advance(next, draw, options, take)?;
            match (ended, fits(&one)) {
                (false, true) => {
                    open.push(row);
                    going.push(one);
                }
                (false, false) if options.slides => outgrown.push(one),
                (false, false) => {
                    take(one.number, Drawn::End)?;
                    done.push(one);
                }
                (true, _) => done.push(one),
            }
        }
        let slid = std::mem::take(&mut sliding).into_iter();
        for (mut one, next) in slid.zip(next_of_sliding) {
            match one.advance(next, draw, options, take)? {
                true => done.push(one),
                false => sliding.push(one),
            }
        }
        if open.len() < cache.lengths().len() && !open.is_empty() {
            cache.retain(&open)?;
        }
        cached = going;
        sliding.append(&mut outgrown);
        if cached.is_empty() && sliding.is_empty() {
            break;
        }
    }
    // They have as many tokens as they may have.
    for one in cached.into_iter().chain(sliding) {
        take(one.number, Drawn::End)?;
        done.push(one);
    }
    Ok(done)
}

impl Sequence {
    /// Draws the next token; returns whether the sequence has ended.
    fn advance(
        &mut self,
        next: Next,
        draw: u32,
        options: &TokenGeneration,
        take: Take<'_>,
    ) -> Result<bool> {
        let id = match next {
            Next::Nothing => {
                take(self.number, Drawn::Failed)?;
                return Ok(true);
            }
            Next::Token(id) => id,
            Next::Logits(logits) => {
                let sampling = &options.sampling;
                sampling.choose(&logits, &self.ids, self.stream, draw) as u32
            }
        };
        let mut has_ended = options.stop_tokens.contains(&id);
        if !has_ended {
            self.ids.push(id);
            has_ended = take(self.number, Drawn::Token(id))?;
        }
        if has_ended {
            take(self.number, Drawn::End)?;
        }
        Ok(has_ended)
    }
}

/// The next tokens of sequences that the positions do not hold, of their ends by themselves.
fn next_of_windows(
    device: &Device,
    model: &CausalLm,
    sequences: &[Sequence],
    is_greedy: bool,
) -> Result<Vec<Next>> {
    if sequences.is_empty() {
        return Ok(Vec::new());
    }
    let (batch, time) = (sequences.len(), model.max_positions());
    let windows = sequences.iter().map(|one| &one.ids[one.ids.len() - time..]);
    let ids: Vec<u32> = windows.flatten().copied().collect();
    let last: Vec<u32> = (1..=batch).map(|row| (row * time - 1) as u32).collect();
    let ids = Tensor::from_slice::<u32>(device, &ids, &[batch, time])?.with_samples(0)?;
    let last = Tensor::from_slice::<u32>(device, &last, &[batch])?;
    let input = CausalInput {
        rows: Some(&last),
        ..CausalInput::new(&ids)
    };
    let logits = model.logits(&input, &Mode::eval())?;
    next_of(model, &logits, is_greedy)
}

/// What logits \[n, V\] say of the next tokens.
fn next_of(model: &CausalLm, logits: &Tensor, is_greedy: bool) -> Result<Vec<Next>> {
    if is_greedy {
        return tokens_of(model, &likeliest(logits)?);
    }
    let logits = logits.to_vec::<f32>()?;
    let rows = logits.chunks(model.vocabulary());
    let next = rows.map(|row| match row.iter().any(|logit| logit.is_nan()) {
        true => Next::Nothing,
        false => Next::Logits(row.to_vec()),
    });
    Ok(next.collect())
}

/// Ids that [`likeliest`] has found.
fn tokens_of(model: &CausalLm, ids: &Tensor) -> Result<Vec<Next>> {
    let ids = ids.to_vec::<u32>()?.into_iter();
    let next = ids.map(|id| match (id as usize) < model.vocabulary() {
        true => Next::Token(id),
        false => Next::Nothing,
    });
    Ok(next.collect())
}

/// Appends what a cache does not have of each sequence, and returns its next token.
fn next_tokens(
    device: &Device,
    model: &CausalLm,
    sequences: &[Sequence],
    step: &mut TokenStep<'_>,
    cache: &mut KvCache,
    is_greedy: bool,
) -> Result<Vec<Next>> {
    if sequences.is_empty() {
        return Ok(Vec::new());
    }
    let held = cache.lengths().to_vec();
    let new: Vec<&[u32]> = sequences
        .iter()
        .zip(held)
        .map(|(one, held)| &one.ids[held..])
        .collect();
    let counts: Vec<usize> = new.iter().map(|new| new.len()).collect();
    if counts.iter().all(|&count| count == 1) {
        let ids = new.concat();
        return match is_greedy {
            true => tokens_of(model, &step.likeliest(&ids, cache)?),
            false => next_of(model, &step.logits(&ids, cache)?, false),
        };
    }
    let (batch, time) = (new.len(), counts.iter().copied().max().unwrap_or(1));
    let mut ids = vec![0; batch * time];
    for (row, new) in ids.chunks_mut(time).zip(&new) {
        row[..new.len()].copy_from_slice(new);
    }
    let last = counts.iter().enumerate();
    let last: Vec<u32> = last
        .map(|(row, count)| (row * time + count - 1) as u32)
        .collect();
    let ids = Tensor::from_slice::<u32>(device, &ids, &[batch, time])?.with_samples(0)?;
    let last = Tensor::from_slice::<u32>(device, &last, &[batch])?;
    let logits = model.logits_cached(&ids, &counts, Some(&last), cache)?;
    next_of(model, &logits, is_greedy)
}
