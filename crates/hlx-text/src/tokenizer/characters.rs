//! One token per character.

use std::collections::{BTreeSet, HashMap};

use crate::{Result, TextError};

/// The characters in the order of their code points.
#[derive(Debug)]
pub(super) struct Characters {
    all: Vec<char>,
    ids: HashMap<char, u32>,
}

impl Characters {
    pub fn of(text: &str) -> Result<Self> {
        let all: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
        if all.is_empty() {
            return Err(TextError::argument("characters", "the text is empty"));
        }
        let ids = all.iter().copied().zip(0..).collect();
        Ok(Self { all, ids })
    }

    pub fn all(&self) -> &[char] {
        &self.all
    }

    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let id = |(at, char): (usize, char)| {
            self.ids.get(&char).copied().ok_or_else(|| {
                let reason =
                    format!("the character {char:?} at byte {at} is not in the vocabulary");
                TextError::argument("encode", reason)
            })
        };
        text.char_indices().map(id).collect()
    }

    /// The text of tokens that are in range.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let chars = tokens.iter();
        chars.filter_map(|&id| self.all.get(id as usize)).collect()
    }

    pub fn id_of(&self, token: &str) -> Option<u32> {
        let mut chars = token.chars();
        match (chars.next(), chars.next()) {
            (Some(char), None) => self.ids.get(&char).copied(),
            _ => None,
        }
    }
}
