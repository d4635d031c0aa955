//! `[model]`: what is trained.

use anyhow::{Context as _, Result};
use hlx_nn::{ClassifierConfig, ClassifierKind, TransformerConfig};
use serde::{Deserialize, Serialize};

use super::Config;
use super::fault::Checked;

/// `[model]`: for a transformer a preset, or sizes, or a preset with some sizes replaced; for a classifier
/// its kind and the widths of its layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// `mlp` or `cnn`, classifiers of images; a transformer if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ModelKind>,
    /// A preset of today's architectures, such as `llama3`: a name of
    /// [`CausalConfig::PRESETS`](hlx_nn::CausalConfig::PRESETS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The folder of a model of HLX or of Hugging Face whose shape is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// For an architecture: the number of token ids; the tokenizer's, or the folder's, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<usize>,
    /// `tiny`, `small` or `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Width of the residual stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Number of blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<usize>,
    /// Number of attention heads; divides the width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_heads: Option<usize>,
    /// For an architecture: the key and value heads; the preset's if it divides the heads, else as many
    /// as heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_kv_heads: Option<usize>,
    /// For an architecture: the width of a head; the preset's, or width over heads where one of these
    /// is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_width: Option<usize>,
    /// Width of the feed-forward layer; four times the width if left out, and of an architecture as many
    /// times as the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed_forward_width: Option<usize>,
    /// The longest sequence; 128 if left out, and of an architecture the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<usize>,
    /// For a classifier: the widths of the hidden affine layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Vec<usize>>,
    /// For a `cnn`: the channels of each convolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<usize>>,
    /// For a `cnn`: whether a batch norm follows each convolution.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch_norm: bool,
    /// Probability that an activation is dropped in training.
    #[serde(default)]
    pub dropout: f64,
    /// For a transformer: the probability that an attention weight is dropped in training.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attention_dropout: f64,
    /// For an architecture: every other key of a [`CausalConfig`](hlx_nn::CausalConfig).
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub shape: toml::Table,
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// The named sizes of `[model]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Width 256, 4 layers, 4 heads, 128 positions.
    Tiny,
    /// Width 512, 6 layers, 8 heads, 256 positions.
    Small,
    /// Width 768, 12 layers, 12 heads, 512 positions.
    Medium,
}

/// What the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A language model over bytes; the same as no kind.
    Transformer,
    /// A classifier of affine layers.
    Mlp,
    /// A classifier of convolutions and affine layers.
    Cnn,
    /// A classifier of residual blocks.
    Resnet,
}

impl ModelSection {
    /// The kind of a classifier; `None` of a transformer.
    pub fn classifier_kind(&self) -> Option<ClassifierKind> {
        match self.kind? {
            ModelKind::Transformer => None,
            ModelKind::Mlp => Some(ClassifierKind::Mlp),
            ModelKind::Cnn => Some(ClassifierKind::Cnn),
            ModelKind::Resnet => Some(ClassifierKind::Resnet),
        }
    }

    /// Fills in what a key's absence means.
    pub(super) fn resolve(&mut self) -> Checked {
        match self.classifier_kind() {
            Some(ClassifierKind::Mlp) => {
                self.hidden.get_or_insert_with(|| vec![256, 128]);
            }
            Some(ClassifierKind::Cnn) => {
                self.channels.get_or_insert_with(|| vec![16, 32]);
                self.hidden.get_or_insert_with(|| vec![64]);
            }
            Some(ClassifierKind::Resnet) => {
                self.channels.get_or_insert_with(|| vec![16, 32, 64]);
                self.hidden.get_or_insert_with(Vec::new);
            }
            // A key that does not fit beside them is refused by the check.
            None if self.is_causal() && self.preset.is_none() => {
                self.kind = None;
                return self.resolve_causal();
            }
            None => self.resolve_transformer(),
        }
        Ok(())
    }

    fn resolve_transformer(&mut self) {
        // Left out and named, it is the same run.
        self.kind = None;
        let preset = self.preset.map(Preset::sizes);
        let from_preset = |at: usize| preset.map(|sizes| sizes[at]);
        self.width = self.width.or(from_preset(0));
        self.n_layers = self.n_layers.or(from_preset(1));
        self.n_heads = self.n_heads.or(from_preset(2));
        self.positions = self.positions.or(from_preset(3)).or(Some(128));
        self.feed_forward_width = self
            .feed_forward_width
            .or(self.width.map(|width| width * 4));
    }

    /// The transformer that the sizes of a resolved section describe, over a vocabulary.
    pub(super) fn transformer(&self, vocabulary: usize) -> TransformerConfig {
        TransformerConfig {
            vocabulary,
            width: self.width.unwrap_or(0),
            n_layers: self.n_layers.unwrap_or(0),
            n_heads: self.n_heads.unwrap_or(0),
            feed_forward_width: self.feed_forward_width.unwrap_or(0),
            positions: self.positions.unwrap_or(128),
            dropout: self.dropout as f32,
            attention_dropout: self.attention_dropout as f32,
        }
    }
}

impl Preset {
    /// Width, layers, heads, positions.
    fn sizes(self) -> [usize; 4] {
        match self {
            Self::Tiny => [256, 4, 4, 128],
            Self::Small => [512, 6, 8, 256],
            Self::Medium => [768, 12, 12, 512],
        }
    }
}

impl Config {
    /// The transformer that the sizes describe, over a vocabulary; none is missing after [`Config::load`].
    pub fn transformer(&self, vocabulary: usize) -> TransformerConfig {
        self.model.transformer(vocabulary)
    }

    /// The classifier for images of a shape, channels first, and of this many classes.
    ///
    /// # Errors
    /// A transformer's configuration, and sizes that no classifier of such images can have.
    pub fn classifier(&self, input: [usize; 3], classes: usize) -> Result<ClassifierConfig> {
        let model = &self.model;
        let kind = model.classifier_kind();
        let sizes = ClassifierConfig {
            kind: kind.context(
                "model.kind: a transformer reads no images, expected mlp, cnn or resnet",
            )?,
            input,
            classes,
            channels: model.channels.clone().unwrap_or_default(),
            hidden: model.hidden.clone().unwrap_or_default(),
            dropout: model.dropout as f32,
            batch_norm: model.batch_norm,
        };
        sizes.validate()?;
        Ok(sizes)
    }

    /// The longest sequence.
    pub fn positions(&self) -> usize {
        self.model.positions.unwrap_or(128)
    }

    /// The predicted tokens of a row: all positions, unless `data.length` is less.
    pub fn row_length(&self) -> usize {
        self.data.length.unwrap_or(self.positions())
    }
}
