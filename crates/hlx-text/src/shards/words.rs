//! Tokens as words of two or four bytes, little-endian.

use serde::{Deserialize, Serialize};

/// The bytes of a stored token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Width {
    /// Two: vocabularies of up to 65,536 tokens.
    U16,
    /// Four.
    U32,
}

impl Width {
    /// The smallest width for tokens below `vocabulary_size`.
    pub fn of(vocabulary_size: usize) -> Self {
        match vocabulary_size as u64 <= Self::U16.limit() {
            true => Self::U16,
            false => Self::U32,
        }
    }

    /// Bytes per token.
    pub fn bytes(self) -> usize {
        match self {
            Self::U16 => 2,
            Self::U32 => 4,
        }
    }

    /// The largest vocabulary. The largest word of four bytes is left free: it marks ignored targets.
    pub fn limit(self) -> u64 {
        match self {
            Self::U16 => 1 << 16,
            Self::U32 => u32::MAX as u64,
        }
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::U16 => "u16",
            Self::U32 => "u32",
        }
    }

    /// Appends tokens, which fit the width, to `bytes`.
    pub fn append(self, tokens: &[u32], bytes: &mut Vec<u8>) {
        match self {
            Self::U16 => bytes.extend(tokens.iter().flat_map(|&id| (id as u16).to_le_bytes())),
            Self::U32 => bytes.extend(tokens.iter().flat_map(|id| id.to_le_bytes())),
        }
    }

    /// Appends the tokens of whole words to `tokens`.
    pub fn read(self, bytes: &[u8], tokens: &mut Vec<u32>) {
        match self {
            Self::U16 => {
                let (words, _) = bytes.as_chunks::<2>();
                tokens.extend(
                    words
                        .iter()
                        .map(|&word| u32::from(u16::from_le_bytes(word))),
                );
            }
            Self::U32 => {
                let (words, _) = bytes.as_chunks::<4>();
                tokens.extend(words.iter().map(|&word| u32::from_le_bytes(word)));
            }
        }
    }
}
