//! Text from a model, one byte at a time.

mod answers;
mod stop;

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::{Tensor, no_grad};
use hlx_nn::{ForwardContext, Model, Transformer};

use crate::config::Format;
use crate::data::{END, SEPARATOR, VOCABULARY};
use crate::sample::Sampling;

pub use answers::{Answer, answer_pairs};
use stop::Stops;

/// Sequences computed at a time.
const BATCH: usize = 32;
/// Lengths are rounded up to a multiple of this.
const TIME_STEP: usize = 8;

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
    /// Texts that end a text; they are no part of it.
    pub stop: Vec<Vec<u8>>,
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
        }
    }
}

/// A sequence being generated.
struct Sequence {
    /// Its number among the results.
    number: usize,
    /// Its number among the texts of its prompt, which keys its draws.
    stream: u32,
    bytes: Vec<u8>,
    n_prompt: usize,
    /// Bytes handed to the caller.
    n_told: usize,
}

/// Generates from several prompts at once and returns what comes after each, in their order; of
/// several texts for a prompt one after the other.
///
/// A model of pairs stops at its end byte, and where its positions end; a model of text goes on
/// with the last bytes that its positions hold. A prompt's text depends on the seed and on nothing else:
/// neither on the other prompts nor on its place among them.
///
/// # Errors
/// A prompt that is empty or leaves no position for an answer, and what the device reports.
pub fn generate(
    model: &Model<Transformer>,
    prompts: &[&[u8]],
    generation: &Generation,
) -> Result<Vec<Vec<u8>>> {
    generate_streaming(model, prompts, generation, &mut |_, _| {})
}

/// As [`generate`], and hands every text over while it grows: `tell(number, bytes)` gets the next bytes
/// of the result of that number. Bytes that a stop text may begin with are held back until it is clear.
///
/// # Errors
/// As [`generate`].
pub fn generate_streaming(
    model: &Model<Transformer>,
    prompts: &[&[u8]],
    generation: &Generation,
    tell: &mut dyn FnMut(usize, &[u8]),
) -> Result<Vec<Vec<u8>>> {
    let positions = model.config().positions;
    let n_texts = generation.n_texts;
    let mut sequences = Vec::with_capacity(prompts.len() * n_texts);
    for prompt in prompts {
        for stream in 0..n_texts as u32 {
            let number = sequences.len();
            sequences.push(begin((number, stream), prompt, generation, positions)?);
        }
    }
    let mut answers = vec![Vec::new(); sequences.len()];
    sequences.sort_by_key(|sequence| sequence.bytes.len());
    while !sequences.is_empty() {
        let rest = sequences.split_off(sequences.len().min(BATCH));
        for (number, answer) in no_grad(|| finish(model, sequences, generation, tell))? {
            answers[number] = answer;
        }
        sequences = rest;
    }
    Ok(answers)
}

fn begin(
    (number, stream): (usize, u32),
    prompt: &[u8],
    generation: &Generation,
    positions: usize,
) -> Result<Sequence> {
    ensure!(!prompt.is_empty(), "the prompt is empty");
    let mut bytes = prompt.to_vec();
    if generation.format.is_of_pairs() {
        let reserved = bytes.iter().find(|byte| [SEPARATOR, END].contains(byte));
        if let Some(byte) = reserved {
            anyhow::bail!("the prompt holds the byte {byte:#04x}, which is reserved");
        }
        bytes.push(SEPARATOR);
        ensure!(
            bytes.len() <= positions,
            "the prompt takes {} positions with its separator, and the model has {positions}",
            bytes.len()
        );
    }
    Ok(Sequence {
        number,
        stream,
        n_prompt: bytes.len(),
        n_told: 0,
        bytes,
    })
}

/// Runs a batch of sequences to their ends; those that have ended are removed from it.
fn finish(
    model: &Model<Transformer>,
    mut active: Vec<Sequence>,
    generation: &Generation,
    tell: &mut dyn FnMut(usize, &[u8]),
) -> Result<Vec<(usize, Vec<u8>)>> {
    let positions = model.config().positions;
    let stops = Stops::new(&generation.stop);
    let mut answers = Vec::with_capacity(active.len());
    for draw in 0..generation.max_tokens {
        let logits = last_logits(model, &active)?;
        let mut going = Vec::with_capacity(active.len());
        for (mut sequence, logits) in active.into_iter().zip(logits) {
            let sampling = generation.sampling;
            let Sequence { bytes, stream, .. } = &sequence;
            let choice = sampling.choose(&logits, bytes, *stream, draw as u32);
            let byte = u8::try_from(choice).context("an id above the bytes")?;
            let ended = sequence.take(byte, generation.format, positions, &stops);
            let is_last = draw + 1 == generation.max_tokens;
            let held = if ended || is_last {
                0
            } else {
                stops.held(sequence.text())
            };
            sequence.tell(held, tell);
            if ended {
                answers.push(sequence.answer());
            } else {
                going.push(sequence);
            }
        }
        active = going;
        if active.is_empty() {
            break;
        }
    }
    answers.extend(active.into_iter().map(Sequence::answer));
    Ok(answers)
}

impl Sequence {
    /// What has been generated.
    fn text(&self) -> &[u8] {
        &self.bytes[self.n_prompt..]
    }

    /// Takes the next byte; returns whether the text has ended.
    fn take(&mut self, byte: u8, format: Format, positions: usize, stops: &Stops<'_>) -> bool {
        let pairs = format.is_of_pairs();
        if pairs && byte == END {
            return true;
        }
        self.bytes.push(byte);
        if let Some(stop) = stops.ended_by(self.text()) {
            self.bytes.truncate(self.bytes.len() - stop);
            return true;
        }
        pairs && self.bytes.len() > positions
    }

    /// Hands over what is new but the last `held` bytes.
    fn tell(&mut self, held: usize, tell: &mut dyn FnMut(usize, &[u8])) {
        let known = self.text().len() - held;
        if known > self.n_told {
            tell(self.number, &self.text()[self.n_told..known]);
            self.n_told = known;
        }
    }

    fn answer(mut self) -> (usize, Vec<u8>) {
        (self.number, self.bytes.split_off(self.n_prompt))
    }

    /// The bytes that the positions hold.
    fn window(&self, positions: usize) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(positions)..]
    }
}

/// The logits of each sequence's next byte.
fn last_logits(model: &Model<Transformer>, sequences: &[Sequence]) -> Result<Vec<Vec<f32>>> {
    let positions = model.config().positions;
    let windows: Vec<&[u8]> = sequences.iter().map(|one| one.window(positions)).collect();
    let longest = windows.iter().map(|window| window.len()).max().unwrap_or(1);
    let (batch, time) = (
        windows.len(),
        longest.next_multiple_of(TIME_STEP).min(positions),
    );
    let mut ids = vec![0_u32; batch * time];
    for (row, window) in ids.chunks_mut(time).zip(&windows) {
        for (id, &byte) in row.iter_mut().zip(*window) {
            *id = u32::from(byte);
        }
    }
    let ctx = model.weights().context();
    let ids = Tensor::ids(ctx, &ids, &[batch, time])?;
    let last = windows.iter().enumerate();
    let last: Vec<u32> = last
        .map(|(row, window)| (row * time + window.len() - 1) as u32)
        .collect();
    let last = Tensor::ids(ctx, &last, &[batch])?;
    let logits = model.forward_at(&ids, &ForwardContext::eval(), &last)?;
    let logits = logits.to_vec()?;
    Ok(logits.chunks(VOCABULARY).map(<[f32]>::to_vec).collect())
}
