//! The canonical encoding of contracts: equal values have equal bytes and an equal handle.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use hlx_store::{Handle, Objects, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ContractError, Kernel, Pipeline, Shader};

/// Larger contracts than this are refused: the largest kernel of HLX has 110 KiB of SPIR-V.
const MAX_BYTES: usize = 64 << 20;

/// Fixed-width little-endian numbers; lengths are 64 bits.
fn configuration() -> Configuration<LittleEndian, Fixint, Limit<MAX_BYTES>> {
    bincode::config::legacy().with_limit::<MAX_BYTES>()
}

fn wrong(reason: impl std::fmt::Display) -> ContractError {
    let reason = reason.to_string();
    ContractError::Encoding { reason }
}

/// What every contract has: its canonical encoding, and the handle of that.
pub trait Encoded: Serialize + DeserializeOwned {
    /// Returns the canonical encoding: what the content store holds.
    ///
    /// # Errors
    /// [`ContractError::Encoding`] for a contract of more than 64 MiB.
    fn to_bytes(&self) -> Result<Vec<u8>, ContractError> {
        bincode::serde::encode_to_vec(self, configuration()).map_err(wrong)
    }

    /// Reads the canonical encoding.
    ///
    /// # Errors
    /// [`ContractError::Encoding`] for anything but the one encoding of a value.
    fn from_bytes(bytes: &[u8]) -> Result<Self, ContractError> {
        let decoded = bincode::serde::decode_from_slice(bytes, configuration());
        let (value, length): (Self, usize) = decoded.map_err(wrong)?;
        if length != bytes.len() {
            let rest = bytes.len() - length;
            return Err(wrong(format!("{rest} bytes behind the contract")));
        }
        if value.to_bytes()? != bytes {
            return Err(wrong("the bytes are not the canonical encoding"));
        }
        Ok(value)
    }

    /// Returns the handle: that of the canonical encoding in the content store.
    ///
    /// # Errors
    /// As [`Encoded::to_bytes`].
    fn handle(&self) -> Result<Handle, ContractError> {
        Ok(Handle::of_bytes(&self.to_bytes()?))
    }

    /// Returns the contract as JSON, for people.
    ///
    /// # Errors
    /// [`ContractError::Encoding`].
    fn to_json(&self) -> Result<String, ContractError> {
        let mut text = serde_json::to_string_pretty(self).map_err(wrong)?;
        text.push('\n');
        Ok(text)
    }

    /// Puts the canonical encoding into a store and returns its handle.
    ///
    /// # Errors
    /// As [`Objects::put_bytes`].
    fn put(&self, store: &dyn Objects) -> Result<Handle, ContractError> {
        let failed = |source: StoreError| ContractError::Store {
            contract: "a contract".to_owned(),
            source,
        };
        store.put_bytes(&self.to_bytes()?).map_err(failed)
    }
}

impl Encoded for Shader {}
impl Encoded for Kernel {}
impl Encoded for Pipeline {}

/// A contract of any kind, as a file or an object holds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contract {
    /// 900.
    Shader(Shader),
    /// 901.
    Kernel(Kernel),
    /// 902.
    Pipeline(Pipeline),
}

impl Contract {
    /// Reads a contract from JSON.
    ///
    /// # Errors
    /// [`ContractError::Encoding`] with the line of the first error.
    pub fn from_json(text: &str) -> Result<Self, ContractError> {
        #[derive(Deserialize)]
        struct Head {
            contract: u16,
        }
        let head: Head = serde_json::from_str(text).map_err(wrong)?;
        Self::choose(
            head.contract,
            || serde_json::from_str(text).map_err(wrong),
            || serde_json::from_str(text).map_err(wrong),
            || serde_json::from_str(text).map_err(wrong),
        )
    }

    /// Reads a contract from its canonical encoding.
    ///
    /// # Errors
    /// As [`Encoded::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContractError> {
        let number = bytes
            .first_chunk::<2>()
            .map(|&first| u16::from_le_bytes(first));
        Self::choose(
            number.ok_or_else(|| wrong("too short"))?,
            || Shader::from_bytes(bytes),
            || Kernel::from_bytes(bytes),
            || Pipeline::from_bytes(bytes),
        )
    }

    fn choose(
        number: u16,
        shader: impl FnOnce() -> Result<Shader, ContractError>,
        kernel: impl FnOnce() -> Result<Kernel, ContractError>,
        pipeline: impl FnOnce() -> Result<Pipeline, ContractError>,
    ) -> Result<Self, ContractError> {
        match number {
            900 => shader().map(Self::Shader),
            901 => kernel().map(Self::Kernel),
            902 => pipeline().map(Self::Pipeline),
            other => Err(wrong(format!("contract {other}, expected 900, 901 or 902"))),
        }
    }

    /// The contract's name; a shader's is its entry point.
    pub fn name(&self) -> &str {
        match self {
            Self::Shader(shader) => &shader.entry_point,
            Self::Kernel(kernel) => &kernel.name,
            Self::Pipeline(pipeline) => &pipeline.name,
        }
    }

    /// Its handle.
    ///
    /// # Errors
    /// As [`Encoded::handle`].
    pub fn handle(&self) -> Result<Handle, ContractError> {
        match self {
            Self::Shader(shader) => shader.handle(),
            Self::Kernel(kernel) => kernel.handle(),
            Self::Pipeline(pipeline) => pipeline.handle(),
        }
    }

    /// Its JSON form.
    ///
    /// # Errors
    /// As [`Encoded::to_json`].
    pub fn to_json(&self) -> Result<String, ContractError> {
        match self {
            Self::Shader(shader) => shader.to_json(),
            Self::Kernel(kernel) => kernel.to_json(),
            Self::Pipeline(pipeline) => pipeline.to_json(),
        }
    }

    /// Puts its canonical encoding into a store.
    ///
    /// # Errors
    /// As [`Encoded::put`].
    pub fn put(&self, store: &dyn Objects) -> Result<Handle, ContractError> {
        match self {
            Self::Shader(shader) => shader.put(store),
            Self::Kernel(kernel) => kernel.put(store),
            Self::Pipeline(pipeline) => pipeline.put(store),
        }
    }
}
