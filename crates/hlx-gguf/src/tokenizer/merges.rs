//! The pairs that a tokenizer joins: those of metadata, or those that scores make.

use std::cmp::Reverse;

use super::tokens::{Kind, Tokens};
use crate::error::shown;
use crate::metadata::Metadata;

/// Two tokens that are joined.
pub(super) type Pair<'a> = [&'a str; 2];

/// The longest piece, in characters, whose pairs are listed: SentencePiece's own limit is 16.
const MAX_PIECE: usize = 1024;

/// The pairs of metadata, the first of which is joined first.
pub(super) fn stated<'a>(
    metadata: &'a Metadata,
    tokens: &Tokens<'_>,
) -> Result<Vec<Pair<'a>>, String> {
    const KEY: &str = "tokenizer.ggml.merges";
    let merges = metadata.texts(KEY)?;
    let merges = merges.ok_or_else(|| format!("`{KEY}` is missing"))?;
    let pair = |merge: &'a String| {
        let known = |part: &str| tokens.ids.contains_key(part);
        // No token but the blank itself has a blank, as bytes are characters of an alphabet without it.
        let pair = merge.split_once(' ');
        let pair = pair.filter(|(left, right)| {
            known(left) && known(right) && known(&[*left, *right].concat())
        });
        pair.map(|(left, right)| [left, right]).ok_or_else(|| {
            format!(
                "`{KEY}` has `{}`, which are no two tokens that make one",
                shown(merge)
            )
        })
    };
    merges.iter().map(pair).collect()
}

/// The pairs of SentencePiece's tokens: of any two that make a third, that with the highest score is joined first.
///
/// SentencePiece takes the leftmost of pairs with one score, a list of pairs the first in the list. Scores of trained
/// vocabularies are all different, so this matters only where two pairs that make the same token overlap in a text.
pub(super) fn of_scores<'a>(
    metadata: &Metadata,
    tokens: &Tokens<'a>,
) -> Result<Vec<Pair<'a>>, String> {
    const KEY: &str = "tokenizer.ggml.scores";
    let scores = metadata.numbers(KEY)?;
    let scores = scores.ok_or_else(|| format!("`{KEY}` is missing"))?;
    if scores.len() != tokens.texts.len() {
        let (found, n) = (scores.len(), tokens.texts.len());
        return Err(format!("`{KEY}` has {found} numbers for {n} tokens"));
    }
    let is_piece = |id: usize| matches!(tokens.kinds[id], Kind::Normal | Kind::UserDefined);
    let mut found = Vec::new();
    for (id, text) in tokens.texts.iter().enumerate() {
        if !is_piece(id) {
            continue;
        }
        if text.chars().count() > MAX_PIECE {
            return Err(format!(
                "the token {id} has more than {MAX_PIECE} characters"
            ));
        }
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            let part = |part: &str| tokens.ids.get(part).copied().filter(|&id| is_piece(id));
            if let (Some(one), Some(two)) = (part(left), part(right)) {
                found.push((Reverse(Ordered(scores[id])), id, one, two));
            }
        }
    }
    found.sort_unstable();
    let texts = |(_, _, one, two): (_, usize, usize, usize)| {
        [&tokens.texts[one][..], &tokens.texts[two][..]]
    };
    Ok(found.into_iter().map(texts).collect())
}

/// A score, in the order of numbers.
#[derive(Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
