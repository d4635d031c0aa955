//! The shape of a causal language model, as plain values.

use serde::{Deserialize, Serialize};

use super::names::ParameterLayout;
use super::rotary::Rotary;
use crate::Result;
use crate::error::NnError;
use crate::limits::{MAX_EXPERTS, MAX_HEADS, MAX_LAYERS, MAX_SIZE, check_parameters, check_sizes};

/// The widest head that the attention kernels take.
const MAX_HEAD_WIDTH: usize = 256;

/// The most numbers of a table that is made when a model is declared.
const MAX_TABLE: usize = 1 << 28;

/// The deviation of ordinary weights (Radford and others 2019, GPT-2).
const WEIGHT_STD: f32 = 0.02;

/// The family whose files a model reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// `GPT2LMHeadModel`.
    Gpt2,
    /// `LlamaForCausalLM`, Llama 2 and 3. Files of earlier versions say `custom` of a model that is none of these, whose
    /// names are Llama's.
    #[serde(alias = "custom")]
    Llama,
    /// `MistralForCausalLM`.
    Mistral,
    /// `MixtralForCausalLM`.
    Mixtral,
    /// `Qwen2ForCausalLM`.
    Qwen2,
    /// `Qwen3ForCausalLM`.
    Qwen3,
    /// `Qwen3MoeForCausalLM`.
    Qwen3Moe,
    /// `Gemma2ForCausalLM`.
    Gemma2,
    /// `Gemma3ForCausalLM`, text alone.
    Gemma3,
}

/// How a model knows where a token is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// A learned row a position is added to the embedding.
    Learned,
    /// Sines and cosines are added to the embedding (Vaswani et al. 2017).
    Sinusoidal,
    /// Queries and keys are rotated by their position.
    Rotary(Rotary),
}

/// How the residual stream is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// `LayerNorm`, with gain and bias.
    LayerNorm,
    /// `RMSNorm`, with a gain.
    RmsNorm,
    /// `RMSNorm` with the gain 1 + w, as Gemma's.
    RmsNormOnePlus,
}

/// What a feed-forward network computes between its projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedForwardKind {
    /// down(gelu(up(x))), by the error function.
    GELU,
    /// down(gelu(up(x))), by the approximation with tanh.
    GELUTanh,
    /// down(silu(gate(x)) up(x)).
    SwiGlu,
    /// down(gelu(gate(x)) up(x)), by the approximation with tanh.
    GeGlu,
}

/// A mixture of experts in the place of the feed-forward network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertsConfig {
    /// The experts of a layer.
    pub n_experts: usize,
    /// How many of them a token goes to.
    pub per_token: usize,
    /// The hidden width of an expert.
    pub width: usize,
    /// Whether the chosen experts' weights are divided by their sum.
    pub renormalised: bool,
    /// What training multiplies the balance loss by
    /// ([`CausalModel::logits_and_balance`](crate::CausalModel::logits_and_balance)); 0 for none.
    #[serde(default)]
    pub balance_coefficient: f32,
    /// The layers that have an ordinary feed-forward network instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dense_layers: Vec<usize>,
}

/// The shape of a [`CausalLm`](crate::CausalLm).
///
/// As JSON it has the keys of its fields; of the packed layout those of a [`TransformerConfig`](crate::TransformerConfig), which are told apart by
/// having no `architecture`.
///
/// ```
/// use hlx_nn::CausalConfig;
///
/// let mut config = CausalConfig::preset("qwen3").expect("a name from CausalConfig::PRESETS");
/// (config.width, config.n_layers, config.vocabulary) = (64, 2, 256);
/// config.validate()?;
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct CausalConfig {
    /// The family.
    pub architecture: Architecture,
    /// How the parameters lie.
    #[serde(skip)]
    pub layout: ParameterLayout,
    /// The number of token ids, V.
    pub vocabulary: usize,
    /// The width of the residual stream, C.
    pub width: usize,
    /// The number of blocks.
    pub n_layers: usize,
    /// The query heads, H.
    pub n_heads: usize,
    /// The key and value heads; they divide the query heads, of which H / `n_kv_heads` share one.
    pub n_kv_heads: usize,
    /// The width of a head, D, at most 256; H D need not be C.
    pub head_width: usize,
    /// The hidden width of the feed-forward networks, F.
    pub feed_forward_width: usize,
    /// The longest sequence.
    pub max_positions: usize,
    /// How positions enter.
    pub positions: Positions,
    /// The rotary positions of the layers with a window, where theirs are others (Gemma 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_rotary: Option<Rotary>,
    /// The norms of the stream, and with `qk_norm` of queries and keys.
    pub norm: NormKind,
    /// Added under the norms' roots.
    pub norm_eps: f32,
    /// The feed-forward network.
    pub feed_forward: FeedForwardKind,
    /// Whether the projections to queries, keys and values have biases.
    #[serde(default)]
    pub qkv_bias: bool,
    /// Whether the projection behind the attention has a bias.
    #[serde(default)]
    pub attention_out_bias: bool,
    /// Whether the projections of the feed-forward network have biases.
    #[serde(default)]
    pub feed_forward_bias: bool,
    /// Whether queries and keys are normalised over a head.
    #[serde(default)]
    pub qk_norm: bool,
    /// What scores are multiplied by; 1 / sqrt(D) if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_scale: Option<f32>,
    /// Scores s become cap tanh(s / cap).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_soft_cap: Option<f32>,
    /// Logits l become cap tanh(l / cap).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_soft_cap: Option<f32>,
    /// How many positions a token sees, itself counted, in the layers with a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// The layers without a window, of a model with one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_layers: Vec<usize>,
    /// Whether the embedding is the output projection too.
    #[serde(default)]
    pub tied_output: bool,
    /// Whether a block adds attention and feed-forward network of one normalised input, instead of one
    /// after the other.
    #[serde(default)]
    pub parallel: bool,
    /// Whether the outputs of attention and feed-forward network are normalised too (Gemma).
    #[serde(default)]
    pub post_norms: bool,
    /// Whether the embedding is multiplied by sqrt(C) (Gemma).
    #[serde(default)]
    pub scaled_embedding: bool,
    /// Experts, of a mixture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertsConfig>,
    /// The probability of the dropouts behind embedding, attention and feed-forward network.
    #[serde(default)]
    pub dropout: f32,
    /// The probability of the dropout of attention weights.
    #[serde(default)]
    pub attention_dropout: f32,
}

impl CausalConfig {
    /// The window of a layer; `None` where a token sees all before it.
    pub fn window_of(&self, layer_idx: usize) -> Option<usize> {
        self.window
            .filter(|_| !self.full_layers.contains(&layer_idx))
    }

    /// The rotary positions of a layer.
    pub fn rotary_of(&self, layer_idx: usize) -> Option<Rotary> {
        let Positions::Rotary(rotary) = &self.positions else {
            return None;
        };
        let local = self.window_of(layer_idx).and(self.window_rotary.as_ref());
        Some(local.unwrap_or(rotary).clone())
    }

    /// The experts of a layer.
    pub fn experts_of(&self, layer_idx: usize) -> Option<&ExpertsConfig> {
        let experts = self.experts.as_ref()?;
        (!experts.dense_layers.contains(&layer_idx)).then_some(experts)
    }

    /// The family whose names the parameters have in files that hold the model's parts, such as adapters; none of the
    /// packed layout, whose names are HLX's own.
    pub fn family(&self) -> Option<Architecture> {
        match self.layout {
            ParameterLayout::Apart => Some(self.architecture),
            ParameterLayout::Packed => None,
        }
    }

    /// The deviations of initial weights, and of those that project back into the residual stream.
    pub(crate) fn deviations(&self) -> [f32; 2] {
        // Division and square root are correctly rounded everywhere: the same bits on any host.
        [WEIGHT_STD, WEIGHT_STD / ((2 * self.n_layers) as f32).sqrt()]
    }

    /// Checks that such a model can be made.
    ///
    /// # Errors
    /// [`NnError::Config`] with the value that cannot be.
    pub fn validate(&self) -> Result<()> {
        if self.layout == ParameterLayout::Packed {
            return self.short_form().map_err(refused)?.validate();
        }
        self.validate_sizes().map_err(refused)?;
        self.validate_experts().map_err(refused)?;
        self.validate_count().map_err(refused)?;
        self.validate_heads().map_err(refused)?;
        self.validate_numbers().map_err(refused)
    }

    fn validate_sizes(&self) -> Result<(), String> {
        check_sizes(&[
            ("vocabulary", self.vocabulary, MAX_SIZE),
            ("width", self.width, MAX_SIZE),
            ("n_layers", self.n_layers, MAX_LAYERS),
            ("n_heads", self.n_heads, MAX_HEADS),
            ("n_kv_heads", self.n_kv_heads, MAX_HEADS),
            ("head_width", self.head_width, MAX_HEAD_WIDTH),
            ("feed_forward_width", self.feed_forward_width, MAX_SIZE),
            ("max_positions", self.max_positions, MAX_SIZE),
            // A window of more positions than there are hides none.
            ("window", self.window.unwrap_or(1), usize::MAX),
        ])?;
        for (name, layers) in [
            ("full_layers", &self.full_layers[..]),
            ("dense_layers", self.dense_layers()),
        ] {
            let (found, most) = (layers.len(), self.n_layers);
            if found > most {
                return Err(format!("{name} names {found} layers, and there are {most}"));
            }
            if let Some(layer) = layers.iter().find(|&&layer| layer >= most) {
                return Err(format!("layer {layer} is named, and there are {most}"));
            }
        }
        Ok(())
    }

    fn validate_experts(&self) -> Result<(), String> {
        let Some(experts) = &self.experts else {
            return Ok(());
        };
        let &ExpertsConfig {
            n_experts,
            per_token,
            width,
            ..
        } = experts;
        let coefficient = experts.balance_coefficient;
        if !coefficient.is_finite() || coefficient < 0.0 {
            return Err(format!(
                "balance_coefficient is {coefficient}, expected 0 or more"
            ));
        }
        if width > MAX_SIZE {
            return Err(format!(
                "experts: {n_experts} of width {width}, expected at most {MAX_SIZE}"
            ));
        }
        let most = MAX_EXPERTS / self.n_layers;
        if n_experts > most {
            return Err(format!(
                "experts: {n_experts} in each of {} layers, expected at most {most}",
                self.n_layers
            ));
        }
        if width == 0 || per_token == 0 || per_token > n_experts {
            return Err(format!(
                "experts: {per_token} of {n_experts} of width {width}, expected at least 1 of them"
            ));
        }
        Ok(())
    }

    /// What a device would hold of it, roughly: norms and biases are left out.
    fn validate_count(&self) -> Result<(), String> {
        let (c, layers) = (self.width, self.n_layers);
        let rows = self.vocabulary + self.max_positions;
        let (heads, d) = (self.n_heads + self.n_kv_heads, self.head_width);
        let (experts, inner) = self
            .experts
            .as_ref()
            .map_or((0, 0), |experts| (experts.n_experts, experts.width));
        let table = self.max_positions.saturating_mul(c);
        if self.positions == Positions::Sinusoidal && table > MAX_TABLE {
            return Err(format!(
                "the table of sinusoidal positions has {table} numbers, expected at most {MAX_TABLE}"
            ));
        }
        check_parameters(&[
            &[2, rows, c],
            &[2, layers, c, heads, d],
            &[3, layers, c, self.feed_forward_width],
            &[3, layers, c, experts, inner],
        ])
    }

    fn validate_heads(&self) -> Result<(), String> {
        let (heads, shared) = (self.n_heads, self.n_kv_heads);
        if !heads.is_multiple_of(shared) {
            return Err(format!(
                "n_kv_heads is {shared}, expected a divisor of the {heads} query heads"
            ));
        }
        let Positions::Rotary(rotary) = &self.positions else {
            return Ok(());
        };
        [Some(rotary), self.window_rotary.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|rotary| rotary.check(self.head_width))
    }

    fn dense_layers(&self) -> &[usize] {
        self.experts
            .as_ref()
            .map_or(&[], |experts| &experts.dense_layers)
    }

    fn validate_numbers(&self) -> Result<(), String> {
        for (name, p) in [
            ("dropout", self.dropout),
            ("attention_dropout", self.attention_dropout),
        ] {
            if !(0.0..1.0).contains(&p) {
                return Err(format!("{name} is {p}, expected 0 or more, below 1"));
            }
        }
        for (name, value) in [
            ("norm_eps", Some(self.norm_eps)),
            ("attention_scale", self.attention_scale),
            ("attention_soft_cap", self.attention_soft_cap),
            ("logit_soft_cap", self.logit_soft_cap),
        ] {
            if let Some(value) = value.filter(|value| !value.is_finite() || *value <= 0.0) {
                return Err(format!("{name} is {value}, expected more than 0"));
            }
        }
        if self.parallel && self.post_norms {
            return Err("parallel blocks have no post_norms".to_owned());
        }
        Ok(())
    }
}

fn refused(reason: String) -> NnError {
    NnError::Config {
        what: "causal model",
        reason,
    }
}
