//! What each class of `transformers` reads of a `config.json`, and what it takes where a key is missing.
//!
//! `tests/fixtures/make_class_keys.py` lists what the classes themselves read; a test compares the list with this.

use crate::Architecture;

/// A class of `transformers` that can be read and written.
pub(super) struct Class {
    pub architecture: Architecture,
    /// Its name in `architectures`.
    pub name: &'static str,
    /// Its `model_type`.
    pub kind: &'static str,
    /// The keys that it reads beside [`DECODER`].
    own: &'static [&'static str],
    /// What it takes for `num_key_value_heads`; without one, the query heads.
    pub kv_heads: Option<usize>,
    /// What it takes for `head_dim`; without one, the width over the query heads.
    pub head_width: Option<usize>,
    /// What it takes for `rms_norm_eps`.
    pub norm_eps: f32,
    /// What it takes for `rope_theta`.
    pub theta: f64,
    /// What it takes for `sliding_window`.
    pub window: Option<usize>,
    /// What it takes for `attn_logit_softcapping` and `final_logit_softcapping`.
    pub soft_caps: [Option<f32>; 2],
}

/// What Llama and all that came after it read.
const DECODER: [&str; 15] = [
    "attention_dropout",
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
    "vocab_size",
    // Where a scaling has one, an attribute of the configuration wins over the scaling's own.
    "original_max_position_embeddings",
];

const GPT2: [&str; 18] = [
    "activation_function",
    "add_cross_attention",
    "attn_pdrop",
    "embd_pdrop",
    "layer_norm_epsilon",
    "n_embd",
    "n_head",
    "n_inner",
    "n_layer",
    "n_positions",
    "resid_pdrop",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "tie_word_embeddings",
    "vocab_size",
    // Other names of sizes.
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
];

const PLAIN: Class = Class {
    architecture: Architecture::Llama,
    name: "LlamaForCausalLM",
    kind: "llama",
    own: &["attention_bias", "hidden_act", "mlp_bias"],
    kv_heads: None,
    head_width: None,
    norm_eps: 1e-6,
    theta: 10_000.0,
    window: None,
    soft_caps: [None; 2],
};

/// Every class, in the order in which errors name them.
pub(super) const CLASSES: [Class; 9] = [
    Class {
        architecture: Architecture::Gpt2,
        name: "GPT2LMHeadModel",
        kind: "gpt2",
        own: &["max_position_embeddings"],
        ..PLAIN
    },
    PLAIN,
    Class {
        architecture: Architecture::Mistral,
        name: "MistralForCausalLM",
        kind: "mistral",
        // With `layer_types`, `transformers` takes its class Ministral, which is Mistral with a list of windows.
        own: &["hidden_act", "layer_types", "sliding_window"],
        kv_heads: Some(8),
        window: Some(4096),
        ..PLAIN
    },
    Class {
        architecture: Architecture::Mixtral,
        name: "MixtralForCausalLM",
        kind: "mixtral",
        own: &[
            "hidden_act",
            "num_experts",
            "num_experts_per_tok",
            "num_local_experts",
            "router_aux_loss_coef",
            "router_jitter_noise",
            "sliding_window",
        ],
        kv_heads: Some(8),
        norm_eps: 1e-5,
        theta: 1e6,
        ..PLAIN
    },
    Class {
        architecture: Architecture::Qwen2,
        name: "Qwen2ForCausalLM",
        kind: "qwen2",
        own: &[
            "hidden_act",
            "layer_types",
            "max_window_layers",
            "sliding_window",
            "use_sliding_window",
        ],
        kv_heads: Some(32),
        window: Some(4096),
        ..PLAIN
    },
    Class {
        architecture: Architecture::Qwen3,
        name: "Qwen3ForCausalLM",
        kind: "qwen3",
        own: &[
            "attention_bias",
            "hidden_act",
            "layer_types",
            "max_window_layers",
            "sliding_window",
            "use_sliding_window",
        ],
        kv_heads: Some(32),
        head_width: Some(128),
        window: Some(4096),
        ..PLAIN
    },
    Class {
        architecture: Architecture::Qwen3Moe,
        name: "Qwen3MoeForCausalLM",
        kind: "qwen3_moe",
        own: &[
            "attention_bias",
            "decoder_sparse_step",
            "hidden_act",
            "mlp_only_layers",
            "moe_intermediate_size",
            "norm_topk_prob",
            "num_experts",
            "num_experts_per_tok",
            "num_local_experts",
            "router_aux_loss_coef",
            "sliding_window",
            "use_sliding_window",
        ],
        kv_heads: Some(4),
        window: Some(4096),
        ..PLAIN
    },
    Class {
        architecture: Architecture::Gemma2,
        name: "Gemma2ForCausalLM",
        kind: "gemma2",
        own: &[
            "attention_bias",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "hidden_activation",
            "layer_types",
            "query_pre_attn_scalar",
            "sliding_window",
            "use_bidirectional_attention",
        ],
        soft_caps: [Some(50.0), Some(30.0)],
        ..GEMMA
    },
    Class {
        architecture: Architecture::Gemma3,
        name: "Gemma3ForCausalLM",
        kind: "gemma3_text",
        own: &[
            "attention_bias",
            // `attn_logit_softcapping` is stored there and never applied.
            "final_logit_softcapping",
            "hidden_activation",
            "layer_types",
            "query_pre_attn_scalar",
            "rope_local_base_freq",
            "sliding_window",
            "sliding_window_pattern",
            "use_bidirectional_attention",
        ],
        theta: 1e6,
        ..GEMMA
    },
];

const GEMMA: Class = Class {
    kv_heads: Some(4),
    head_width: Some(256),
    window: Some(4096),
    ..PLAIN
};

impl Class {
    /// The class of a name in `architectures` or a `model_type`.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLASSES
            .iter()
            .find(|class| class.name == name || class.kind == name)
    }

    /// Whether the class reads a key.
    pub fn reads(&self, key: &str) -> bool {
        let common: &[&str] = match self.architecture {
            Architecture::Gpt2 => &GPT2,
            _ => &DECODER,
        };
        common.contains(&key) || self.own.contains(&key)
    }

    /// Whether a null is not what a missing key is.
    pub fn has_usual(&self, key: &str) -> bool {
        let [of_attention, of_logits] = self.soft_caps;
        match key {
            // Mixtral's missing window is none; a null has always been written there.
            "sliding_window" => true,
            "attn_logit_softcapping" => of_attention.is_some(),
            "final_logit_softcapping" => of_logits.is_some(),
            _ => false,
        }
    }

    /// Whether it is one of Gemma's.
    pub fn is_gemma(&self) -> bool {
        matches!(
            self.architecture,
            Architecture::Gemma2 | Architecture::Gemma3
        )
    }
}

/// Keys that no class here reads and others do, or older versions did.
const ELSEWHERE: [&str; 6] = [
    "decoder_sparse_step",
    "mrope_section",
    "n_ctx",
    "partial_rotary_factor",
    "rope_local_base_freq",
    "sliding_window_pattern",
];

/// Whether a key has a meaning for some class, so that another one's silence about it is no doubt.
pub(super) fn is_known(key: &str) -> bool {
    ELSEWHERE.contains(&key) || CLASSES.iter().any(|class| class.reads(key))
}

#[cfg(test)]
mod tests;
