//! A scalar of a contract: a specialization constant's value, or a word of push constants.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::spirv::ScalarKind;

/// A scalar of 32 bits, or a truth value. A float is its bits, every NaN 0x7fc00000.
///
/// In JSON: `{"u32": 7}`, `{"i32": -1}`, `{"f32": 0.1}`, `{"bool": true}`; floats that JSON lacks
/// are `{"f32": "inf"}`, `"-inf"` and `"nan"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An unsigned integer.
    U32(u32),
    /// A signed integer.
    I32(i32),
    /// A float's bits.
    F32(#[serde(with = "float")] u32),
}

impl Scalar {
    /// Makes a float.
    pub fn f32(value: f32) -> Self {
        Self::F32(hlx_core::digest::canonical_bits(value))
    }

    /// The word that a shader gets.
    pub fn word(self) -> u32 {
        match self {
            Self::Bool(value) => u32::from(value),
            Self::U32(word) | Self::F32(word) => word,
            Self::I32(value) => value as u32,
        }
    }

    /// What it is.
    pub fn kind(self) -> ScalarKind {
        match self {
            Self::Bool(_) => ScalarKind::Bool,
            Self::U32(_) => ScalarKind::U32,
            Self::I32(_) => ScalarKind::I32,
            Self::F32(_) => ScalarKind::F32,
        }
    }
}

/// Floats as numbers where a person reads, as bits where not.
mod float {
    use super::{Deserialize, Deserializer, Serialize, Serializer};
    use super::{canonical, from_number};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Readable {
        Number(f64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(bits: &u32, to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return bits.serialize(to);
        }
        let value = f32::from_bits(*bits);
        // The shortest digits that name the float, read as f64, are written as they are.
        let number: Result<f64, _> = value.to_string().parse();
        let readable = match number {
            Ok(number) if value.is_finite() => Readable::Number(number),
            _ => Readable::Text(value.to_string().to_lowercase()),
        };
        readable.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        if !from.is_human_readable() {
            return canonical(u32::deserialize(from)?);
        }
        match Readable::deserialize(from)? {
            Readable::Number(number) => from_number(number),
            Readable::Text(text) => super::from_text(&text),
        }
    }
}

fn canonical<E: serde::de::Error>(bits: u32) -> Result<u32, E> {
    if hlx_core::digest::canonical_bits(f32::from_bits(bits)) == bits {
        return Ok(bits);
    }
    Err(E::custom(format!("NaN {bits:#010x}, expected 0x7fc00000")))
}

fn from_number<E: serde::de::Error>(number: f64) -> Result<u32, E> {
    let value: f32 = number.to_string().parse().map_err(E::custom)?;
    if value.is_finite() {
        return Ok(value.to_bits());
    }
    Err(E::custom(format!("{number} is no f32")))
}

fn from_text<E: serde::de::Error>(text: &str) -> Result<u32, E> {
    match text {
        "inf" => Ok(f32::INFINITY.to_bits()),
        "-inf" => Ok(f32::NEG_INFINITY.to_bits()),
        "nan" => Ok(hlx_core::digest::CANONICAL_NAN),
        _ => Err(E::custom(format!("`{text}`, expected inf, -inf or nan"))),
    }
}

/// The number that a kind of contract begins with: 900, 901 or 902.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Number<const N: u16>;

impl<const N: u16> Serialize for Number<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        N.serialize(to)
    }
}

impl<'de, const N: u16> Deserialize<'de> for Number<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u16::deserialize(from)? {
            found if found == N => Ok(Self),
            found => Err(D::Error::custom(format!("contract {found}, expected {N}"))),
        }
    }
}
