//! `[model]` of today's architectures: a preset or a model folder's shape, with sizes replaced.
//!
//! [`ModelSection::resolve_causal`] leaves the sizes in their keys and everything else in
//! `[model.shape]`, so that what a run writes down describes its model without the preset or the folder.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_nn::{CausalConfig, read_language_model_config};
use serde::Deserialize as _;
use toml::{Table, Value};

use super::fault::{Checked, fault};
use super::{Config, ModelSection};

/// The keys of a shape that are keys of `[model]`, under the shape's names and the section's.
const SIZES: [(&str, &str); 10] = [
    ("vocabulary", "vocabulary"),
    ("width", "width"),
    ("n_layers", "n_layers"),
    ("n_heads", "n_heads"),
    ("n_kv_heads", "n_kv_heads"),
    ("head_width", "head_width"),
    ("feed_forward_width", "feed_forward_width"),
    ("max_positions", "positions"),
    ("dropout", "dropout"),
    ("attention_dropout", "attention_dropout"),
];

impl ModelSection {
    /// Whether the model is a [`CausalLm`](hlx_nn::CausalLm).
    pub fn is_causal(&self) -> bool {
        self.architecture.is_some() || self.config.is_some() || !self.shape.is_empty()
    }

    /// Fills in what a key's absence means, of a model with an architecture.
    pub(super) fn resolve_causal(&mut self) -> Checked {
        if let Some((_, key)) = SIZES
            .iter()
            .find(|(name, _)| self.shape.contains_key(*name))
        {
            let reason = format!("has a size, which is the key model.{key}");
            return fault("model.shape", reason);
        }
        let base = match (&self.architecture, &self.config) {
            (Some(_), Some(_)) => {
                return fault("model.config", "stands beside architecture, expected one");
            }
            (Some(name), None) => match CausalConfig::preset(name) {
                Some(base) => Some(base),
                None => {
                    let known = CausalConfig::PRESETS.join(", ");
                    let reason = format!("{name} is not known, expected one of {known}");
                    return fault("model.architecture", reason);
                }
            },
            (None, Some(folder)) => match read_shape(Path::new(folder)) {
                Ok(base) => {
                    self.vocabulary = self.vocabulary.or(Some(base.vocabulary));
                    Some(base)
                }
                Err(error) => return fault("model.config", format!("{error:#}")),
            },
            (None, None) => None,
        };
        self.config = None;
        if let Some(base) = base {
            self.fill_sizes(&base);
            let resized = self.resized(base);
            let mut shape = match to_table(&resized) {
                Ok(shape) => shape,
                Err(error) => return fault("model.shape", error.to_string()),
            };
            shape.retain(|name, _| SIZES.iter().all(|(size, _)| *size != name));
            shape.extend(std::mem::take(&mut self.shape));
            self.shape = shape;
        }
        match self.causal(self.vocabulary.unwrap_or(1)) {
            Ok(config) => match config.validate() {
                Ok(()) => Ok(()),
                Err(error) => fault("model", error.to_string()),
            },
            Err(error) => fault("model.shape", format!("{error:#}")),
        }
    }

    /// Takes the sizes that are left out from a shape; those that follow from others follow from the
    /// section's.
    fn fill_sizes(&mut self, base: &CausalConfig) {
        let is_resized = self.width.is_some() || self.n_heads.is_some();
        let width = *self.width.get_or_insert(base.width);
        let n_heads = *self.n_heads.get_or_insert(base.n_heads);
        self.n_layers.get_or_insert(base.n_layers);
        let shared = match n_heads.is_multiple_of(base.n_kv_heads) {
            true => base.n_kv_heads,
            false => n_heads,
        };
        self.n_kv_heads.get_or_insert(shared);
        let head_width = match is_resized {
            true => (width / n_heads.max(1)).max(1),
            false => base.head_width,
        };
        self.head_width.get_or_insert(head_width);
        let inner = scaled(base.feed_forward_width, width, base.width);
        self.feed_forward_width.get_or_insert(inner);
        self.positions.get_or_insert(base.max_positions);
    }

    /// A shape whose lists of layers and experts' width fit the section's sizes.
    fn resized(&self, mut base: CausalConfig) -> CausalConfig {
        let n_layers = self.n_layers.unwrap_or(base.n_layers);
        base.full_layers.retain(|&layer| layer < n_layers);
        if let Some(experts) = &mut base.experts {
            experts.dense_layers.retain(|&layer| layer < n_layers);
            experts.width = scaled(experts.width, self.width.unwrap_or(base.width), base.width);
        }
        base
    }

    /// The shape of a resolved section, over a vocabulary.
    ///
    /// # Errors
    /// A key of `model.shape` that is missing, not known or of another type.
    pub fn causal(&self, vocabulary: usize) -> Result<CausalConfig> {
        let size = |size: Option<usize>| Value::Integer(size.unwrap_or(0) as i64);
        let dropout = |p: f64| Value::Float(p);
        let values = [
            Value::Integer(vocabulary as i64),
            size(self.width),
            size(self.n_layers),
            size(self.n_heads),
            size(self.n_kv_heads),
            size(self.head_width),
            size(self.feed_forward_width),
            size(self.positions),
            dropout(self.dropout),
            dropout(self.attention_dropout),
        ];
        let mut table = self.shape.clone();
        for ((name, _), value) in SIZES.iter().zip(values) {
            table.insert((*name).to_owned(), value);
        }
        // The keys of every architecture; the short form of a packed model is the section itself.
        Ok(CausalConfig::deserialize(Value::Table(table))?)
    }
}

/// The sizes of a language model by name, with some keys replaced: an architecture of [`CausalConfig::PRESETS`], or
/// `tiny`, `small` or `medium`. Both are JSON with the keys that a model's folder has; sizes that are left out follow
/// from the others as in `[model]`. The vocabulary of the three is 256, bytes.
///
/// # Errors
/// A name or key that is not known, and a shape that cannot be.
pub fn preset(name: &str, changes: &str) -> Result<String> {
    let mut changes: Table = serde_json::from_str(changes)?;
    let is_architecture = CausalConfig::PRESETS.contains(&name);
    let mut section = Table::new();
    for (shape_name, key) in SIZES {
        // In the short form `positions` is the longest sequence; of an architecture it says how places are told.
        let name = if is_architecture { shape_name } else { key };
        if let Some(value) = changes.remove(name) {
            section.insert(key.to_owned(), value);
        }
    }
    let vocabulary = section.remove("vocabulary");
    let kind = match is_architecture {
        true => {
            section.insert("shape".to_owned(), Value::Table(changes));
            "architecture"
        }
        false => {
            section.extend(changes);
            "preset"
        }
    };
    section.insert(kind.to_owned(), Value::String(name.to_owned()));
    let mut section = ModelSection::deserialize(Value::Table(section))?;
    section
        .resolve()
        .map_err(|fault| anyhow!("{}: {}", fault.key, fault.reason))?;
    let of_name = CausalConfig::preset(name).map_or(256, |base| base.vocabulary);
    let vocabulary = vocabulary.map_or(Ok(of_name), usize::deserialize)?;
    Ok(match is_architecture {
        true => serde_json::to_string(&section.causal(vocabulary)?)?,
        false => serde_json::to_string(&section.transformer(vocabulary))?,
    })
}

impl Config {
    /// The language model that the configuration describes, for data of this many different tokens;
    /// `fixed` says that these are the tokens of a tokenizer.
    ///
    /// # Errors
    /// A `model.vocabulary` that lacks tokens of the data.
    pub fn language_model(&self, tokens: usize, fixed: bool) -> Result<CausalConfig> {
        if !self.model.is_causal() {
            return Ok(self.transformer(tokens).into());
        }
        let vocabulary = self.model.vocabulary.unwrap_or(tokens);
        ensure!(
            vocabulary >= tokens || !fixed,
            "model.vocabulary: {vocabulary} is less than the {tokens} tokens of the data's tokenizer"
        );
        let config = self.model.causal(vocabulary).context("model.shape")?;
        config.validate()?;
        Ok(config)
    }
}

/// A size with the same proportion to the width.
fn scaled(size: usize, width: usize, base_width: usize) -> usize {
    ((size as u128 * width as u128 / base_width as u128) as usize).max(1)
}

/// Reads the shape of a model folder of HLX or of Hugging Face.
fn read_shape(folder: &Path) -> Result<CausalConfig> {
    let config = read_language_model_config(folder)?;
    let has_family = config.family().is_some();
    ensure!(has_family, "{}: has no architecture", folder.display());
    Ok(config)
}

/// A shape as TOML, numbers as they are written: by way of JSON, whose `f32` have their shortest form.
fn to_table(config: &CausalConfig) -> Result<Table> {
    Ok(serde_json::from_str(&serde_json::to_string(config)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[model]\narchitecture = \"llama3\"\nwidth = 32\nn_layers = 2\nn_heads = 4\n\
                        positions = 16\n\n[data]\npath = \"tokens\"\nformat = \"shards\"\n\n[train]\n\
                        max_steps = 4\n";

    fn config(text: &str) -> Config {
        Config::parse(text, "a.toml", &[]).expect("good")
    }

    fn shape(config: &Config, tokens: usize) -> CausalConfig {
        config.language_model(tokens, true).expect("fits")
    }

    #[test]
    fn sizes_replace_those_of_a_preset_and_others_follow_them() {
        let small = shape(&config(BASE), 300);
        let preset = CausalConfig::preset("llama3").expect("a preset");
        let expected = CausalConfig {
            vocabulary: 300,
            width: 32,
            n_layers: 2,
            n_heads: 4,
            n_kv_heads: 4,
            head_width: 8,
            feed_forward_width: 128,
            max_positions: 16,
            ..preset
        };
        assert_eq!(small, expected);
        for name in CausalConfig::PRESETS {
            let found = config(&BASE.replace("llama3", name));
            let small = shape(&found, 300);
            let preset = CausalConfig::preset(name).expect("a preset");
            assert_eq!(
                (small.norm, small.tied_output),
                (preset.norm, preset.tied_output)
            );
            // Written down and read again it is the same, whatever the preset is then.
            let text = found.to_toml().expect("written");
            let again = Config::parse(&text, "b.toml", &[]).expect("again");
            assert_eq!(
                (&again, again.identity().expect("one")),
                (&found, found.identity().expect("one"))
            );
            let unnamed = text.replacen(&format!("architecture = \"{name}\"\n"), "", 1);
            assert_eq!(shape(&config(&unnamed), 300), small, "{name}");
        }
    }

    #[test]
    fn keys_of_the_shape_replace_those_of_the_preset() {
        let text = BASE.replace(
            "\n[data]",
            "dropout = 0.1\n[model.shape]\nqk_norm = true\n\n[data]",
        );
        let found = config(&text);
        let small = shape(&found, 300);
        assert!(small.qk_norm);
        assert_eq!(small.dropout, 0.1);
        let identity = found.identity().expect("one");
        assert_eq!(identity["model.shape.qk_norm"], "true");
        assert!(!identity.contains_key("model.architecture"));
    }

    #[test]
    fn what_no_model_can_have_is_refused() {
        let fails = |text: &str| {
            format!(
                "{:#}",
                Config::parse(text, "a.toml", &[]).expect_err("refused")
            )
        };
        let line = fails(&BASE.replace("llama3", "llama9"));
        assert!(
            line.starts_with(
                "a.toml:2: model.architecture: llama9 is not known, expected one of gpt2,"
            ),
            "{line}"
        );
        let line = fails(&BASE.replace("n_heads = 4", "n_heads = 4\nn_kv_heads = 3"));
        assert!(
            line.contains("n_kv_heads is 3, expected a divisor of the 4"),
            "{line}"
        );
        let line = fails(&BASE.replace("\n[data]", "[model.shape]\ncolour = 1\n\n[data]"));
        assert!(
            line.contains("model.shape: unknown field `colour`"),
            "{line}"
        );
        let line = fails(&BASE.replace("\n[data]", "[model.shape]\nwidth = 1\n\n[data]"));
        assert!(
            line.ends_with("model.shape: has a size, which is the key model.width"),
            "{line}"
        );
        let line = fails(&BASE.replace(
            "architecture = \"llama3\"",
            "preset = \"tiny\"\nn_kv_heads = 2",
        ));
        assert!(
            line.contains("model.n_kv_heads: is no key of this model"),
            "{line}"
        );
        let line = fails(&BASE.replace("architecture = \"llama3\"", "config = \"nowhere\""));
        assert!(line.contains("model.config: nowhere"), "{line}");
        let small = config(&BASE.replace("width", "vocabulary = 299\nwidth"));
        let error = small.language_model(300, true).expect_err("too small");
        assert_eq!(
            error.to_string(),
            "model.vocabulary: 299 is less than the 300 tokens of the data's tokenizer"
        );
    }
}
