//! Text from a model, one byte at a time.

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::{Tensor, no_grad};
use hlx_nn::{ForwardContext, Model, Transformer};

use crate::config::Format;
use crate::data::{Dataset, END, SEPARATOR, VOCABULARY};
use crate::sample::Sampling;

/// Sequences computed at a time.
const BATCH: usize = 32;
/// Lengths are rounded up to a multiple of this.
const TIME_STEP: usize = 8;

/// How to generate.
#[derive(Clone, Copy, Debug)]
pub struct Generation {
    /// Bytes at most.
    pub max_tokens: usize,
    /// How each is drawn.
    pub sampling: Sampling,
    /// What the model was trained on: pairs are answered, a text is continued.
    pub format: Format,
}

/// A sequence being generated.
struct Sequence {
    /// Its number among the prompts, which keys its draws.
    number: usize,
    bytes: Vec<u8>,
    n_prompt: usize,
}

/// Generates from several prompts at once and returns what comes after each, in their order.
///
/// A model of pairs stops at its end byte, and where its positions end; a model of text goes on
/// with the last bytes that its positions hold. A prompt's text does not depend on the others.
///
/// # Errors
/// A prompt that is empty or leaves no position for an answer, and what the device reports.
pub fn generate(
    model: &Model<Transformer>,
    prompts: &[&[u8]],
    generation: &Generation,
) -> Result<Vec<Vec<u8>>> {
    let mut sequences = Vec::with_capacity(prompts.len());
    for (number, prompt) in prompts.iter().enumerate() {
        sequences.push(begin(number, prompt, generation, model.config().positions)?);
    }
    sequences.sort_by_key(|sequence| sequence.bytes.len());
    let mut answers = vec![Vec::new(); prompts.len()];
    while !sequences.is_empty() {
        let rest = sequences.split_off(sequences.len().min(BATCH));
        for (number, answer) in no_grad(|| finish(model, sequences, generation))? {
            answers[number] = answer;
        }
        sequences = rest;
    }
    Ok(answers)
}

fn begin(
    number: usize,
    prompt: &[u8],
    generation: &Generation,
    positions: usize,
) -> Result<Sequence> {
    ensure!(!prompt.is_empty(), "the prompt is empty");
    let mut bytes = prompt.to_vec();
    if generation.format == Format::Pairs {
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
        n_prompt: bytes.len(),
        bytes,
    })
}

/// Runs a batch of sequences to their ends; those that have ended are removed from it.
fn finish(
    model: &Model<Transformer>,
    mut active: Vec<Sequence>,
    generation: &Generation,
) -> Result<Vec<(usize, Vec<u8>)>> {
    let positions = model.config().positions;
    let mut answers = Vec::with_capacity(active.len());
    for draw in 0..generation.max_tokens {
        let logits = last_logits(model, &active)?;
        let mut going = Vec::with_capacity(active.len());
        for (mut sequence, logits) in active.into_iter().zip(logits) {
            let choice = generation
                .sampling
                .choose(&logits, sequence.number as u32, draw as u32);
            let byte = u8::try_from(choice).context("an id above the bytes")?;
            let pairs = generation.format == Format::Pairs;
            if pairs && byte == END {
                answers.push(sequence.answer());
                continue;
            }
            sequence.bytes.push(byte);
            if pairs && sequence.bytes.len() > positions {
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

/// One pair as a model answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The input.
    pub input: String,
    /// The output in the corpus.
    pub expected: String,
    /// The model's.
    pub found: String,
}

impl Answer {
    /// Whether the model's output is the corpus's, byte for byte.
    pub fn is_exact(&self) -> bool {
        self.expected == self.found
    }
}

/// Answers the inputs of pairs by greedy decoding, which reads nothing but the inputs.
///
/// # Errors
/// As [`generate`].
pub fn answer_pairs(
    model: &Model<Transformer>,
    data: &Dataset,
    samples: &[usize],
) -> Result<Vec<Answer>> {
    let pairs: Vec<(&[u8], &[u8])> = samples.iter().map(|&index| data.pair(index)).collect();
    let prompts: Vec<&[u8]> = pairs.iter().map(|pair| pair.0).collect();
    let longest = pairs.iter().map(|pair| pair.1.len()).max().unwrap_or(0);
    // One byte past the longest output: an answer that runs on is not exact.
    let generation = Generation {
        max_tokens: longest + 1,
        sampling: Sampling::default(),
        format: Format::Pairs,
    };
    let found = generate(model, &prompts, &generation)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let answers = pairs
        .iter()
        .zip(&found)
        .map(|((input, output), found)| Answer {
            input: text(input),
            expected: text(output),
            found: text(found),
        });
    Ok(answers.collect())
}
