//! `[lora]`: low-rank adapters of a language model that is otherwise frozen.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use hlx_nn::{LoraConfig, NamePatterns};
use serde::{Deserialize, Serialize};

use super::fault::{Checked, fault};
use super::{Config, is_false};

/// `[lora]`: the adapters' numbers, by the names of the library PEFT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraSection {
    /// The rank; 8 if left out.
    #[serde(default = "default_rank")]
    pub rank: usize,
    /// The addition is scaled by this over the rank, with `rslora` over its root; 16 if left out.
    #[serde(default = "default_alpha")]
    pub alpha: f64,
    /// Patterns for the names of linear layers; those of attention if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
    /// Whether alpha is over the root of the rank.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rslora: bool,
    /// Whether each row of an adapted weight has a magnitude of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dora: bool,
    /// Ranks of layers by regular expressions for their names; the longest that describes a layer counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rank_pattern: BTreeMap<String, usize>,
    /// Alphas of layers, as `rank_pattern`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub alpha_pattern: BTreeMap<String, f64>,
    /// Patterns for the names of modules that are trained as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules_to_save: Vec<String>,
    /// The frozen base, held as it is stored: see [`Config::base`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The SHA-256 of the base; that of the file when the run begins, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_sha256: Option<String>,
}

/// The patterns in the order in which they count: a table of TOML has none of its own.
fn longest_first<T: Copy>(patterns: &BTreeMap<String, T>) -> NamePatterns<T> {
    let mut entries: Vec<(String, T)> = patterns
        .iter()
        .map(|(key, value)| (key.clone(), *value))
        .collect();
    entries.sort_by_key(|(key, _)| Reverse(key.len()));
    entries.into_iter().collect()
}

fn default_rank() -> usize {
    8
}

fn default_alpha() -> f64 {
    16.0
}

impl Config {
    /// Fills in the layers of attention, by the names that the model has.
    pub(super) fn resolve_lora(&mut self) {
        let attention = match self.model.is_causal() {
            true => "*.self_attn.*",
            false => "*.attention.*",
        };
        if let Some(lora) = &mut self.lora {
            lora.targets.get_or_insert(vec![attention.to_owned()]);
        }
    }

    /// The adapters of the model, if it has any.
    pub fn lora(&self) -> Option<LoraConfig> {
        self.lora.as_ref().map(|section| LoraConfig {
            rank: section.rank,
            alpha: section.alpha,
            targets: section.targets.clone().unwrap_or_default(),
            rslora: section.rslora,
            dora: section.dora,
            rank_pattern: longest_first(&section.rank_pattern),
            alpha_pattern: longest_first(&section.alpha_pattern),
            modules_to_save: section.modules_to_save.clone(),
        })
    }

    pub(super) fn check_lora(&self) -> Checked {
        let Some(lora) = self.lora() else {
            return Ok(());
        };
        if self.model.classifier_kind().is_some() {
            return fault("lora", "a classifier has no adapters");
        }
        self.check_base()?;
        match lora.check() {
            Ok(()) => Ok(()),
            Err(error) => fault("lora", error.to_string()),
        }
    }
}

/// What a checkpoint stores of the adapters' numbers.
pub(crate) fn lora_to_bytes(config: &LoraConfig) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(config)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads what a checkpoint's `lora.json` holds.
///
/// # Errors
/// Bytes that are none, and numbers and patterns that may not be.
pub fn lora_from_bytes(bytes: &[u8]) -> Result<LoraConfig> {
    let config: LoraConfig =
        serde_json::from_slice(bytes).context("is no configuration of adapters")?;
    config.check()?;
    Ok(config)
}
