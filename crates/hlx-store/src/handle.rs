//! Handles: the SHA-256 of an object, which is its name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Content, Dtype, Header, StoreError};
use hlx_core::bytes::to_hex;

const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;

/// The name of an object: the SHA-256 of its canonical encoding (kind, dtype, shape, length and
/// data; the layout is in `docs/store.md`). Equal content has an equal handle everywhere; the
/// same bytes with another dtype or shape have another.
///
/// Prints as `sha256:` and 64 hexadecimal digits, and parses from that; serde sees that string.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Handle([u8; 32]);

impl Handle {
    /// Returns the handle that bytes have in any store.
    pub fn of_bytes(data: &[u8]) -> Self {
        Self::of(&Header::of_bytes(data.len() as u64).encode(), data)
    }

    /// Returns the handle that a tensor has in any store: row-major, little-endian data.
    ///
    /// # Errors
    /// [`StoreError::BadShape`] if the shape does not fit the data.
    pub fn of_tensor(dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<Self, StoreError> {
        let header = Header::new(Content::tensor(dtype, shape), data.len() as u64)?;
        Ok(Self::of(&header.encode(), data))
    }

    /// The SHA-256 itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest as 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        to_hex(&self.0)
    }

    pub(crate) fn of(header: &[u8], data: &[u8]) -> Self {
        Self::finish(Sha256::new().chain_update(header).chain_update(data))
    }

    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Reads 64 lower-case hexadecimal digits; `None` of anything else.
    pub(crate) fn from_hex(hex: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if hex.len() != HEX_DIGITS {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl FromStr for Handle {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let bad = |reason: String| StoreError::BadHandle {
            text: text.chars().take(2 * HEX_DIGITS).collect(),
            reason,
        };
        let Some(hex) = text.strip_prefix(PREFIX) else {
            return Err(bad(format!(
                "expected `{PREFIX}` and {HEX_DIGITS} hexadecimal digits"
            )));
        };
        let found = hex.chars().count();
        if found != HEX_DIGITS {
            return Err(bad(format!("has {found} digits, expected {HEX_DIGITS}")));
        }
        Self::from_hex(hex).ok_or_else(|| bad("expected digits 0-9 and a-f".to_owned()))
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.hex())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Handle> for String {
    fn from(handle: Handle) -> Self {
        handle.to_string()
    }
}

impl TryFrom<String> for Handle {
    type Error = StoreError;

    fn try_from(text: String) -> Result<Self, StoreError> {
        text.parse()
    }
}
