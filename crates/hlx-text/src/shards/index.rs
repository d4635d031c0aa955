//! `index.json` of a folder of shards: what the files hold, and their digests.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::words::Width;
use crate::{Result, TextError};

/// The name of the index in its folder.
pub(crate) const INDEX_FILE: &str = "index.json";
/// How far a preparation is, beside its shards until all are whole.
pub(crate) const STATE_FILE: &str = "progress.json";
/// What `format` says.
const FORMAT: &str = "hlx-tokens";
/// The version of the format.
const VERSION: u32 = 1;

/// What the files of a folder hold. Its bytes are the identity of the tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Index {
    format: String,
    version: u32,
    /// `u16` or `u32`.
    pub dtype: Width,
    /// Every token is below it.
    pub vocabulary_size: usize,
    /// The digest of the tokenizer, if one made the tokens.
    pub tokenizer: Option<String>,
    /// Tokens of all shards.
    pub n_tokens: u64,
    /// Documents of all shards.
    pub n_documents: u64,
    /// Tokens to train on, of all shards.
    pub n_trained: u64,
    /// The shards in order.
    pub shards: Vec<ShardEntry>,
}

/// What the files of one shard hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardEntry {
    /// Tokens.
    pub n_tokens: u64,
    /// Documents that begin in it.
    pub n_documents: u64,
    /// Tokens to train on.
    pub n_trained: u64,
    /// SHA-256 of the tokens' file.
    pub tokens_sha256: String,
    /// SHA-256 of the file of the documents' starts.
    pub starts_sha256: String,
    /// SHA-256 of the mask's file; without one every token is trained on.
    pub mask_sha256: Option<String>,
}

impl Index {
    pub fn new(
        dtype: Width,
        vocabulary_size: usize,
        tokenizer: Option<String>,
        shards: Vec<ShardEntry>,
    ) -> Self {
        let sum = |of: fn(&ShardEntry) -> u64| shards.iter().map(of).sum();
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            dtype,
            vocabulary_size,
            tokenizer,
            n_tokens: sum(|shard| shard.n_tokens),
            n_documents: sum(|shard| shard.n_documents),
            n_trained: sum(|shard| shard.n_trained),
            shards,
        }
    }

    /// The index as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let written = serde_json::to_vec_pretty(self);
        let mut bytes = written.map_err(|error| TextError::argument("shards", error))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads the index of `path` and checks that its numbers agree.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let wrong = |reason: String| Err(TextError::file(path, reason));
        let index: Self = match serde_json::from_slice(bytes) {
            Ok(index) => index,
            Err(error) => return wrong(format!("is no index of token shards: {error}")),
        };
        if index.format != FORMAT || index.version != VERSION {
            let (format, version) = (&index.format, index.version);
            return wrong(format!(
                "is `{format}` version {version}, expected `{FORMAT}` version {VERSION}"
            ));
        }
        if index.vocabulary_size == 0 || index.vocabulary_size as u64 > index.dtype.limit() {
            let (size, dtype) = (index.vocabulary_size, index.dtype.name());
            return wrong(format!(
                "a vocabulary of {size} tokens does not fit {dtype}"
            ));
        }
        let stated = [index.n_tokens, index.n_documents, index.n_trained];
        let parts: [fn(&ShardEntry) -> u64; 3] = [
            |shard| shard.n_tokens,
            |shard| shard.n_documents,
            |shard| shard.n_trained,
        ];
        for (stated, of) in stated.into_iter().zip(parts) {
            let summed = index.shards.iter().map(of).try_fold(0, u64::checked_add);
            if summed != Some(stated) {
                return wrong(format!(
                    "states {stated} where its shards have {}",
                    summed.unwrap_or(u64::MAX)
                ));
            }
        }
        Ok(index)
    }
}

/// The files of shard `number` in a folder: tokens, starts of documents, mask.
pub(crate) fn shard_files(folder: &Path, number: usize) -> [PathBuf; 3] {
    ["bin", "starts", "mask"].map(|kind| folder.join(format!("shard-{number:05}.{kind}")))
}
