//! Pairs of English and HLX's text notation (`docs/ascii-notation.md`), drawn from a grammar.
//!
//! A pair begins as a value: a number, a text, a list, an object or a contract ([`values`],
//! [`objects`], [`contracts`]). It is said in one of several ways, and typed as people type: in other
//! letter cases, with a letter left out ([`phrase`]). Words that carry meaning are never mistyped, so an
//! input has one right answer.

mod contracts;
mod draw;
mod number;
mod objects;
mod phrase;
mod values;
mod words;

use std::collections::HashSet;

use self::draw::Draw;
use self::phrase::Said;
use crate::{DataError, Result};

/// An English phrase and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AsciiPair {
    /// English, in plain ASCII.
    pub input: String,
    /// HLX's text notation.
    pub output: String,
}

/// Draws `count` pairs with distinct inputs, each of at most 120 bytes in all. The pairs depend on the
/// seed alone, and a smaller count gives the first of them.
///
/// ```
/// let pairs = hlx_data::ascii_pairs(100, 7)?;
/// assert_eq!(pairs.len(), 100);
/// assert_eq!(pairs[..10], hlx_data::ascii_pairs(10, 7)?);
/// # Ok::<(), hlx_data::DataError>(())
/// ```
///
/// # Errors
/// [`DataError::Argument`] for more than 10 million pairs.
pub fn ascii_pairs(count: usize, seed: u64) -> Result<Vec<AsciiPair>> {
    if count > MOST_PAIRS {
        return Err(DataError::Argument {
            op: "ascii_pairs",
            reason: format!("{count} pairs, expected at most {MOST_PAIRS}"),
        });
    }
    let mut known = HashSet::with_capacity(count);
    let mut pairs = Vec::with_capacity(count);
    for number in 0_u32.. {
        if pairs.len() == count {
            break;
        }
        let pair = draw_pair(seed, number);
        let is_short = pair.input.len() + pair.output.len() <= MOST_BYTES;
        if is_short && known.insert(pair.input.clone()) {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

/// Input and output together: they fit into 128 positions. One pair in a hundred is longer, and left out.
const MOST_BYTES: usize = 120;
/// The grammar says some 10^12 things, so this many are drawn with few repetitions.
const MOST_PAIRS: usize = 10_000_000;

fn draw_pair(seed: u64, number: u32) -> AsciiPair {
    let draw = &mut Draw::new(seed, number);
    let said = Said::any_of(
        draw,
        &[
            (6, values::alone),
            (4, objects::object),
            (6, contracts::contract),
        ],
    );
    AsciiPair {
        input: said.phrase.typed(draw),
        output: said.value,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn an_input_has_one_answer_whatever_its_letter_case() {
        let mut answers: HashMap<String, String> = HashMap::new();
        for pair in ascii_pairs(20_000, 3).expect("pairs") {
            assert!(pair.input.is_ascii() && pair.output.is_ascii(), "{pair:?}");
            let bare = pair.input.to_lowercase();
            let known = answers
                .entry(bare.trim_matches([' ', '.']).to_owned())
                .or_insert_with(|| pair.output.clone());
            assert_eq!(*known, pair.output, "{}", pair.input);
        }
    }

    #[test]
    fn pairs_depend_on_the_seed_alone() {
        let pairs = ascii_pairs(300, 5).expect("pairs");
        assert_eq!(pairs[..20], ascii_pairs(20, 5).expect("pairs"));
        assert_ne!(pairs[..20], ascii_pairs(20, 6).expect("pairs"));
        let inputs: HashSet<&str> = pairs.iter().map(|pair| pair.input.as_str()).collect();
        assert_eq!(inputs.len(), 300);
    }

    #[test]
    fn too_many_are_refused() {
        let error = ascii_pairs(MOST_PAIRS + 1, 1).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "ascii_pairs: 10000001 pairs, expected at most 10000000"
        );
    }
}
