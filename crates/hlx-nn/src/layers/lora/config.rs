//! Which layers have adapters, and their numbers, by PEFT's names.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::expressions::pattern;
use crate::Result;
use crate::error::NnError;

/// More than the width of any layer, which no rank has to exceed; the factors of a larger one only take memory.
const MAX_RANK: usize = 1 << 16;

/// Which linear layers have an adapter, its numbers, and what is trained beside it, by PEFT's names.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// The rank of the addition.
    pub rank: usize,
    /// The addition is scaled by this over the rank, or with `rslora` over the root of the rank.
    pub alpha: f64,
    /// Patterns for the names of layers, such as `*.attention.qkv`; `*` stands for any letters.
    pub targets: Vec<String>,
    /// Whether alpha is over the root of the rank (Kalajdzievski 2023, rsLoRA).
    #[serde(default, skip_serializing_if = "is_false")]
    pub rslora: bool,
    /// Whether each row of a layer's weight has a trained magnitude of its own (Liu and others 2024, DoRA).
    #[serde(default, skip_serializing_if = "is_false")]
    pub dora: bool,
    /// Other ranks, for the layers whose names a regular expression describes: see [`NamePatterns`].
    #[serde(default, skip_serializing_if = "NamePatterns::is_empty")]
    pub rank_pattern: NamePatterns<usize>,
    /// Other alphas, as `rank_pattern`.
    #[serde(default, skip_serializing_if = "NamePatterns::is_empty")]
    pub alpha_pattern: NamePatterns<f64>,
    /// Patterns, as those of `targets`, for the names of modules that are trained as a whole: embeddings, norms, the
    /// output. They have no adapter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules_to_save: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Default for LoraConfig {
    /// Rank 8 and alpha 16, without targets.
    fn default() -> Self {
        Self {
            rank: 8,
            alpha: 16.0,
            targets: Vec::new(),
            rslora: false,
            dora: false,
            rank_pattern: NamePatterns::default(),
            alpha_pattern: NamePatterns::default(),
            modules_to_save: Vec::new(),
        }
    }
}

impl LoraConfig {
    /// Fails for numbers out of range and patterns that are no regular expressions.
    ///
    /// # Errors
    /// [`NnError::Config`] with the number and what was expected.
    pub fn check(&self) -> Result<()> {
        let fail = |reason: String| Err(refused(reason));
        check_rank("rank", self.rank)?;
        check_alpha("alpha", self.alpha)?;
        if self.targets.is_empty() {
            return fail("targets is empty, expected patterns for names of layers".to_owned());
        }
        for (key, rank) in self.rank_pattern.iter() {
            check_regex("rank_pattern", key)?;
            check_rank(&format!("rank_pattern: {key}"), *rank)?;
        }
        for (key, alpha) in self.alpha_pattern.iter() {
            check_regex("alpha_pattern", key)?;
            check_alpha(&format!("alpha_pattern: {key}"), *alpha)?;
        }
        Ok(())
    }
}

/// What is wrong with a configuration of adapters.
pub(super) fn refused(reason: impl Into<String>) -> NnError {
    NnError::Config {
        what: "lora",
        reason: reason.into(),
    }
}

fn check_rank(name: &str, rank: usize) -> Result<()> {
    match rank {
        0 => Err(refused(format!("{name} is 0, expected at least 1"))),
        1..=MAX_RANK => Ok(()),
        _ => Err(refused(format!(
            "{name} is {rank}, expected at most {MAX_RANK}"
        ))),
    }
}

fn check_alpha(name: &str, alpha: f64) -> Result<()> {
    match alpha > 0.0 && alpha.is_finite() {
        true => Ok(()),
        false => Err(refused(format!(
            "{name} is {alpha}, expected more than 0 and finite"
        ))),
    }
}

fn check_regex(name: &str, key: &str) -> Result<()> {
    let expression = pattern(key);
    match expression {
        Ok(_) => Ok(()),
        Err(reason) => Err(refused(format!(
            "{name}: `{key}` is no regular expression: {reason}"
        ))),
    }
}

/// Values for layers by regular expressions, as PEFT's `rank_pattern` and `alpha_pattern`: the first one in order
/// counts that describes a layer's whole name, or its last parts from a dot on.
#[derive(Clone, Debug, PartialEq)]
pub struct NamePatterns<T>(Vec<(String, T)>);

impl<T> NamePatterns<T> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The regular expressions and their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(String, T)> {
        self.0.iter()
    }
}

impl<T> Default for NamePatterns<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<(String, T)> for NamePatterns<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for NamePatterns<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NamePatterns<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// Reads a map's entries in the order of the file.
struct InOrder<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = NamePatterns<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table of regular expressions and numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(NamePatterns(entries))
    }
}
