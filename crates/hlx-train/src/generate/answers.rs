//! The pairs of a corpus as a model answers them.

use anyhow::Result;
use hlx_nn::{Model, Transformer};

use super::{Generation, generate};
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
pub fn answer_pairs(
    model: &Model<Transformer>,
    data: &Dataset,
    samples: &[usize],
) -> Result<Vec<Answer>> {
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
