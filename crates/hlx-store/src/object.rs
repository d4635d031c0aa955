//! The canonical encoding of an object: a header, then the data.
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `HLXOBJ1\n` |
//! | 1 | kind: 0 bytes, 1 tensor |
//! | 1 | dtype's code; 0 for bytes |
//! | 2 | rank; 0 for bytes |
//! | 4 | zero |
//! | 8 each | extents, outermost first |
//! | 8 | length of the data in bytes |
//! | | the data; a tensor's is row-major |

use std::fmt;
use std::str::FromStr;

use hlx_core::sizes;
use serde::{Deserialize, Serialize};

use super::StoreError;

const MAGIC: [u8; 8] = *b"HLXOBJ1\n";
const BYTES: u8 = 0;
const TENSOR: u8 = 1;
/// The header up to the extents.
pub(crate) const FIXED_BYTES: usize = 16;
/// More extents than this are refused.
const MAX_RANK: usize = 16;

/// What an element of a stored tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Dtype {
    Bool,
    U8,
    I8,
    U16,
    I16,
    F16,
    Bf16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

/// Dtypes with their names, codes in files and bytes per element. A code is never used again.
const DTYPES: [(Dtype, &str, u8, usize); 13] = [
    (Dtype::Bool, "bool", 1, 1),
    (Dtype::U8, "u8", 2, 1),
    (Dtype::I8, "i8", 3, 1),
    (Dtype::U16, "u16", 4, 2),
    (Dtype::I16, "i16", 5, 2),
    (Dtype::F16, "f16", 6, 2),
    (Dtype::Bf16, "bf16", 7, 2),
    (Dtype::U32, "u32", 8, 4),
    (Dtype::I32, "i32", 9, 4),
    (Dtype::F32, "f32", 10, 4),
    (Dtype::U64, "u64", 11, 8),
    (Dtype::I64, "i64", 12, 8),
    (Dtype::F64, "f64", 13, 8),
];

impl Dtype {
    fn row(self) -> (Dtype, &'static str, u8, usize) {
        DTYPES[self as usize]
    }

    /// Its name: `f32`, `u8`, ...
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes per element.
    pub fn size_bytes(self) -> usize {
        self.row().3
    }

    pub(crate) fn names() -> String {
        DTYPES.map(|row| row.1).join(", ")
    }

    fn from_code(code: u8) -> Option<Self> {
        DTYPES.iter().find(|row| row.2 == code).map(|row| row.0)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let row = DTYPES.iter().find(|row| row.1 == text);
        row.map(|row| row.0)
            .ok_or_else(|| StoreError::UnknownDtype {
                found: text.to_owned(),
            })
    }
}

impl From<Dtype> for String {
    fn from(dtype: Dtype) -> Self {
        dtype.name().to_owned()
    }
}

impl TryFrom<String> for Dtype {
    type Error = StoreError;

    fn try_from(text: String) -> Result<Self, StoreError> {
        text.parse()
    }
}

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes without further meaning.
    Bytes,
    /// A row-major, little-endian tensor.
    Tensor {
        /// What an element is.
        dtype: Dtype,
        /// The extents, outermost first; empty for a scalar.
        shape: Vec<usize>,
    },
}

impl Content {
    /// Returns a tensor's content.
    pub fn tensor(dtype: Dtype, shape: &[usize]) -> Self {
        Self::Tensor {
            dtype,
            shape: shape.to_vec(),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.write_str("bytes"),
            Self::Tensor { dtype, shape } => write!(f, "a tensor of {dtype} {shape:?}"),
        }
    }
}

/// An object's header: what it is, and the length of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub content: Content,
    pub length: u64,
}

impl Header {
    pub fn of_bytes(length: u64) -> Self {
        let content = Content::Bytes;
        Self { content, length }
    }

    /// Fails unless a tensor's shape fits the length of its data.
    pub fn new(content: Content, length: u64) -> Result<Self, StoreError> {
        if let Content::Tensor { dtype, shape } = &content
            && let Some(reason) = misfit(*dtype, shape, length)
        {
            return Err(StoreError::BadShape {
                dtype: *dtype,
                shape: shape.clone(),
                reason,
            });
        }
        Ok(Self { content, length })
    }

    /// The bytes in front of the data.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, code, shape) = match &self.content {
            Content::Bytes => (BYTES, 0, &[][..]),
            Content::Tensor { dtype, shape } => (TENSOR, dtype.row().2, shape.as_slice()),
        };
        let mut bytes = Vec::with_capacity(FIXED_BYTES + 8 * shape.len() + 8);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[kind, code]);
        bytes.extend_from_slice(&(shape.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for &extent in shape {
            bytes.extend_from_slice(&(extent as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Returns how many bytes follow the fixed part, or what is wrong with it.
    pub fn rest_bytes(fixed: &[u8; FIXED_BYTES]) -> Result<usize, String> {
        if fixed[..8] != MAGIC {
            return Err("does not begin as an object of the store".to_owned());
        }
        let rank = usize::from(u16::from_le_bytes([fixed[10], fixed[11]]));
        if rank > MAX_RANK {
            return Err(format!("has rank {rank}, expected {MAX_RANK} at most"));
        }
        Ok(8 * rank + 8)
    }

    /// Reads a header; only what [`Header::encode`] writes is one.
    pub fn decode(fixed: &[u8; FIXED_BYTES], rest: &[u8]) -> Result<Self, String> {
        let mut numbers = Vec::with_capacity(rest.len() / 8);
        for chunk in rest.chunks_exact(8) {
            let bytes = chunk.try_into().map_err(|_| "has a cut header")?;
            numbers.push(u64::from_le_bytes(bytes));
        }
        let length = numbers.pop().ok_or("has no length")?;
        let content = match (fixed[8], fixed[9]) {
            (BYTES, 0) if numbers.is_empty() => Content::Bytes,
            (TENSOR, code) => Content::Tensor {
                dtype: Dtype::from_code(code).ok_or(format!("has the unknown dtype {code}"))?,
                shape: numbers
                    .iter()
                    .map(|&extent| usize::try_from(extent))
                    .collect::<Result<_, _>>()
                    .map_err(|_| "has a shape past this machine's memory")?,
            },
            (kind, code) => return Err(format!("has the unknown kind {kind} with dtype {code}")),
        };
        if fixed[12..] != [0; 4] {
            return Err("has a header that is no canonical one".to_owned());
        }
        Self::new(content, length).map_err(|error| format!("holds {error}"))
    }
}

/// Says why `length` bytes are not a tensor of this shape; `None` if they are.
fn misfit(dtype: Dtype, shape: &[usize], length: u64) -> Option<String> {
    if shape.len() > MAX_RANK {
        let rank = shape.len();
        return Some(format!("has rank {rank}, expected {MAX_RANK} at most"));
    }
    // Extents are bounded beside a zero too: whoever multiplies some of them is safe.
    let elements = sizes::checked_elements(shape);
    let expected = elements.map(|n| n as u64 * dtype.size_bytes() as u64);
    match expected {
        Some(expected) if expected == length => None,
        Some(expected) => Some(format!("has {length} bytes, expected {expected}")),
        None => Some("has more elements than any memory holds".to_owned()),
    }
}
