//! How a model's parameters lie, and what its parts are called: the one table of both layouts.

/// How the parameters of a model's blocks lie, and what they are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterLayout {
    /// Queries, keys and values have a projection each; names are those of Hugging Face's Llama.
    #[default]
    Apart,
    /// They have one projection; names are HLX's own. The shape is a [`TransformerConfig`](crate::TransformerConfig)'s.
    Packed,
}

/// The names of the parts of a model; below a block and its parts, those of their own.
pub(crate) struct Names {
    pub embedding: &'static str,
    pub positions: &'static str,
    pub blocks: &'static str,
    pub final_norm: &'static str,
    pub output: &'static str,
    pub block: BlockNames,
}

/// The names of a block's parts.
pub(crate) struct BlockNames {
    pub attention_norm: &'static str,
    pub attention: &'static str,
    /// The projections to queries, keys and values: three, or one.
    pub heads: &'static [&'static str],
    pub out: &'static str,
    pub network_norm: &'static str,
    pub network: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

impl ParameterLayout {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Apart, Self::Packed];

    /// The names of a model of this layout.
    pub(crate) const fn names(self) -> &'static Names {
        match self {
            Self::Apart => &APART,
            Self::Packed => &PACKED,
        }
    }
}

/// Those of Hugging Face's Llama.
const APART: Names = Names {
    embedding: "model.embed_tokens",
    positions: "model.embed_positions",
    blocks: "model.layers",
    final_norm: "model.norm",
    output: "lm_head",
    block: BlockNames {
        attention_norm: "input_layernorm",
        attention: "self_attn",
        heads: &["q_proj", "k_proj", "v_proj"],
        out: "o_proj",
        network_norm: "post_attention_layernorm",
        network: "mlp",
        up: "up_proj",
        down: "down_proj",
    },
};

/// HLX's own.
const PACKED: Names = Names {
    embedding: "token_embedding",
    positions: "position_embedding",
    blocks: "blocks",
    final_norm: "final_norm",
    output: "output",
    block: BlockNames {
        attention_norm: "attention_norm",
        attention: "attention",
        heads: &["qkv"],
        out: "out",
        network_norm: "feed_forward_norm",
        network: "feed_forward",
        up: "up",
        down: "down",
    },
};
