//! A record of a chain: what it holds of a state, and the line that it is written as.

use std::fmt;

use anyhow::Result;
use hlx_core::SPECIFICATION;
use hlx_core::digest::{canonical_bits, sha256_hex};
use hlx_nn::StateDigest;
use serde::{Deserialize, Serialize};

use super::VERSION;
use crate::config::Config;
use crate::run::place::Place;
use crate::run::specification_before_numbers;

/// What precedes a line's digest.
pub const SEAL: &str = ",\"digest\":\"";
/// Hexadecimal digits that a record has of each tensor's digest.
const TENSOR_DIGITS: usize = 16;

/// One record: the digests of the state after a step, and the loss and the gradient norm of each
/// step since the record before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainRecord {
    /// Steps done.
    pub step: u64,
    /// The epoch of the next step.
    pub epoch: u64,
    /// The next step's batch within the epoch.
    pub batch_idx: u64,
    /// The identity of the run; in the first record alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Where the steps since the record before were computed, of an arithmetic whose bits depend on that: in the first
    /// record where the run began, and in a later one if it is another place than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The loss of each step since the record before: the sum over the bytes predicted.
    pub losses: Vec<Bits>,
    /// The gradient's norm, before clipping, of each of these steps.
    pub norms: Vec<Bits>,
    /// The tree digest of all parameters.
    pub parameters: String,
    /// The tree digest of the optimizer's tensors.
    pub optimizer: String,
    /// The first 16 digits of each tensor's root: parameters, then the optimizer's tensors.
    pub tensors: Vec<String>,
    /// The digest of the record before; empty in the first.
    pub previous: String,
}

/// The identity of a run: the specification, the arithmetic, the configuration and the corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The format's number.
    pub version: u32,
    /// [`SPECIFICATION`] of the program that began the run; 1 where it is missing.
    #[serde(default = "specification_before_numbers")]
    pub specification: u32,
    /// The arithmetic: `portable`, `integer`, `fast` or `fast_f16`.
    #[serde(alias = "profile")]
    pub arithmetic: String,
    /// [`Config::identity_digest`], as in the checkpoints; of version 1 what
    /// [`Config::digest_before_identities`] returns.
    pub config: String,
    /// SHA-256 of the corpus.
    pub data: String,
}

impl Origin {
    /// Describes a run of this configuration and corpus.
    pub fn new(arithmetic: &str, config: String, data: &str) -> Self {
        Self {
            version: VERSION,
            specification: SPECIFICATION,
            arithmetic: arithmetic.to_owned(),
            config,
            data: data.to_owned(),
        }
    }

    /// The digest by which this chain identifies a configuration.
    ///
    /// # Errors
    /// As [`Config::identity_digest`].
    pub fn digest_of(&self, config: &Config) -> Result<String> {
        match self.version {
            1 => config.digest_before_identities(),
            _ => config.identity_digest(),
        }
    }
}

/// The bits of an f32, every NaN as one; written as 8 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bits(pub u32);

impl Bits {
    /// The value.
    pub fn value(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Bits {
    fn from(value: f32) -> Self {
        Self(canonical_bits(value))
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl From<Bits> for String {
    fn from(bits: Bits) -> Self {
        bits.to_string()
    }
}

impl TryFrom<String> for Bits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bits = u32::from_str_radix(&text, 16).ok().map(Self);
        bits.filter(|bits| bits.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no f32 in 8 hexadecimal digits"))
    }
}

/// The digits that a record has of a root.
pub fn tensor_digits(root: &impl fmt::Display) -> String {
    let mut digits = root.to_string();
    digits.truncate(TENSOR_DIGITS);
    digits
}

impl ChainRecord {
    /// Makes the record of a state without steps after it.
    pub fn new(step: u64, epoch: u64, batch_idx: u64, state: &StateDigest) -> Self {
        let tensors = state.parameters.tensors.iter();
        Self {
            step,
            epoch,
            batch_idx,
            origin: None,
            place: None,
            losses: Vec::new(),
            norms: Vec::new(),
            parameters: state.parameters.root.to_string(),
            optimizer: state.optimizer.root.to_string(),
            tensors: tensors
                .chain(&state.optimizer.tensors)
                .map(|tensor| tensor_digits(&tensor.root))
                .collect(),
            previous: String::new(),
        }
    }

    /// Whether two records are of the same state: step, cursor and digests.
    pub fn same_state(&self, other: &Self) -> bool {
        let state = |record: &Self| (record.step, record.epoch, record.batch_idx);
        let digests = |record: &Self| (record.parameters.clone(), record.optimizer.clone());
        state(self) == state(other)
            && digests(self) == digests(other)
            && self.tensors == other.tensors
    }

    /// Returns the record's line, without its end, and its digest.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn seal(&self) -> Result<(String, String)> {
        let mut line = serde_json::to_string(self)?;
        let digest = sha256_hex(line.as_bytes());
        line.pop();
        line.push_str(&format!("{SEAL}{digest}\"}}"));
        Ok((line, digest))
    }
}
