//! The pairs of a corpus, and the records of prepared tokens, as a model answers them.

use anyhow::Result;
use hlx_nn::CausalLm;

use super::{Drawn, Generation, TokenGeneration, generate, generate_tokens};
use crate::config::Format;
use crate::data::Dataset;
use crate::sample::Sampling;

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
pub fn answer_pairs(model: &CausalLm, data: &Dataset, samples: &[usize]) -> Result<Vec<Answer>> {
    let pairs: Vec<(&[u8], &[u8])> = samples.iter().map(|&index| data.pair(index)).collect();
    let prompts: Vec<&[u8]> = pairs.iter().map(|pair| pair.0).collect();
    let longest = pairs.iter().map(|pair| pair.1.len()).max().unwrap_or(0);
    // One byte past the longest output: an answer that runs on is not exact.
    let generation = Generation::new(Format::Pairs, longest + 1, Sampling::default());
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

/// A prompt as tokens, and the tokens that are to follow it, the end included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// What is given.
    pub prompt: Vec<u32>,
    /// What is trained on.
    pub answer: Vec<u32>,
}

/// Counts the records whose answers a model gives token for token by greedy decoding. It reads nothing
/// but the prompts, and stops at the first token that is another.
///
/// # Errors
/// As [`generate_tokens`].
pub fn count_exact(model: &CausalLm, records: &[TokenRecord]) -> Result<usize> {
    let longest = records.iter().map(|one| one.answer.len()).max();
    let options = TokenGeneration::new(longest.unwrap_or(0), Sampling::default(), Vec::new());
    let prompts: Vec<Vec<u32>> = records.iter().map(|one| one.prompt.clone()).collect();
    let (mut n_right, mut n_exact) = (vec![0; records.len()], 0);
    generate_tokens(model, &prompts, &options, &mut |number, drawn| {
        let Drawn::Token(token) = drawn else {
            return Ok(true);
        };
        let answer = &records[number].answer;
        let is_right = answer.get(n_right[number]) == Some(&token);
        n_right[number] += usize::from(is_right);
        let is_whole = n_right[number] == answer.len();
        n_exact += usize::from(is_right && is_whole);
        Ok(!is_right || is_whole)
    })?;
    Ok(n_exact)
}
