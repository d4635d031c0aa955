//! Contract 900: a shader.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::base64;
use super::scalar::Number;

/// A shader: SPIR-V with its entry point (contract 900).
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shader {
    /// 900.
    pub contract: Number<900>,
    /// The name of the entry point.
    pub entry_point: String,
    /// Its stage.
    pub stage: Stage,
    /// The module: little-endian words. In JSON it is base64.
    #[serde(with = "module")]
    pub spirv: Vec<u8>,
}

/// The stage of an entry point. HLX runs compute shaders only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A compute shader.
    Compute,
}

impl Shader {
    /// Makes a compute shader of a module with the entry point `main`.
    pub fn compute(spirv: &[u8]) -> Self {
        Self {
            contract: Number,
            entry_point: "main".to_owned(),
            stage: Stage::Compute,
            spirv: spirv.to_vec(),
        }
    }

    /// The module's words; `None` if its bytes are not a whole number of them.
    pub fn words(&self) -> Option<Vec<u32>> {
        let (words, rest) = self.spirv.as_chunks::<4>();
        rest.is_empty().then(|| {
            words
                .iter()
                .map(|&bytes| u32::from_le_bytes(bytes))
                .collect()
        })
    }
}

impl std::fmt::Debug for Shader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (entry, length) = (&self.entry_point, self.spirv.len());
        write!(f, "Shader({entry}, {length} bytes of SPIR-V)")
    }
}

mod module {
    use super::{Deserialize, Deserializer, Serialize, Serializer, base64};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            return base64::encode(bytes).serialize(to);
        }
        bytes.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        if !from.is_human_readable() {
            return Vec::deserialize(from);
        }
        let text = String::deserialize(from)?;
        let wrong = || serde::de::Error::custom("spirv is no padded base64");
        base64::decode(&text).ok_or_else(wrong)
    }
}
