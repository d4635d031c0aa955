//! The architectures that are known, and the names of their tensors.

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Gpt2,
    Llama,
    Mistral,
    Mixtral,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    Gemma2,
    Gemma3,
}

/// The values of `general.architecture` that are known. That of llama is also Mistral's and Mixtral's.
const ARCHITECTURES: [(&str, Family); 7] = [
    ("gpt2", Family::Gpt2),
    ("llama", Family::Llama),
    ("qwen2", Family::Qwen2),
    ("qwen3", Family::Qwen3),
    ("qwen3moe", Family::Qwen3Moe),
    ("gemma2", Family::Gemma2),
    ("gemma3", Family::Gemma3),
];

impl Family {
    /// The family of an architecture.
    pub fn of(architecture: &str) -> Result<Self, String> {
        let found = ARCHITECTURES.iter().find(|(name, _)| *name == architecture);
        found.map(|(_, family)| *family).ok_or_else(|| {
            format!(
                "the architecture {} is not known; known are {}",
                crate::error::shown(architecture),
                ARCHITECTURES.map(|(name, _)| name).join(", ")
            )
        })
    }

    /// The class of `transformers` and its `model_type`.
    pub fn class(self) -> (&'static str, &'static str) {
        match self {
            Self::Gpt2 => ("GPT2LMHeadModel", "gpt2"),
            Self::Llama => ("LlamaForCausalLM", "llama"),
            Self::Mistral => ("MistralForCausalLM", "mistral"),
            Self::Mixtral => ("MixtralForCausalLM", "mixtral"),
            Self::Qwen2 => ("Qwen2ForCausalLM", "qwen2"),
            Self::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
            Self::Qwen3Moe => ("Qwen3MoeForCausalLM", "qwen3_moe"),
            Self::Gemma2 => ("Gemma2ForCausalLM", "gemma2"),
            Self::Gemma3 => ("Gemma3ForCausalLM", "gemma3_text"),
        }
    }

    /// The family of a `model_type`.
    pub fn of_type(kind: &str) -> Option<Self> {
        let families = [
            Self::Gpt2,
            Self::Llama,
            Self::Mistral,
            Self::Mixtral,
            Self::Qwen2,
            Self::Qwen3,
            Self::Qwen3Moe,
            Self::Gemma2,
            Self::Gemma3,
        ];
        families.into_iter().find(|family| family.class().1 == kind)
    }

    /// The family's `general.architecture`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama | Self::Mistral | Self::Mixtral => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3moe",
            Self::Gemma2 => "gemma2",
            Self::Gemma3 => "gemma3",
        }
    }

    pub fn is_gemma(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3)
    }

    /// Whether the rows of queries and keys are stored in the order of rotated pairs.
    pub fn interleaves(self) -> bool {
        matches!(self, Self::Llama | Self::Mistral | Self::Mixtral)
    }

    /// Names of tensors outside of the layers, with Hugging Face's.
    fn outside(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Gpt2 => &[
                ("token_embd", "transformer.wte"),
                ("position_embd", "transformer.wpe"),
                ("output_norm", "transformer.ln_f"),
                ("output", "lm_head"),
            ],
            _ => &[
                ("token_embd", "model.embed_tokens"),
                ("output_norm", "model.norm"),
                ("output", "lm_head"),
            ],
        }
    }

    /// Names of tensors of a layer that all experts share or that have none, with Hugging Face's.
    fn inside(self) -> Vec<(&'static str, &'static str)> {
        if self == Self::Gpt2 {
            return vec![
                ("attn_norm", "ln_1"),
                ("attn_qkv", "attn.c_attn"),
                ("attn_output", "attn.c_proj"),
                ("ffn_norm", "ln_2"),
                ("ffn_up", "mlp.c_fc"),
                ("ffn_down", "mlp.c_proj"),
            ];
        }
        let mut names = vec![
            ("attn_norm", "input_layernorm"),
            ("attn_q", "self_attn.q_proj"),
            ("attn_k", "self_attn.k_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
        ];
        if matches!(self, Self::Qwen3 | Self::Qwen3Moe | Self::Gemma3) {
            names.push(("attn_q_norm", "self_attn.q_norm"));
            names.push(("attn_k_norm", "self_attn.k_norm"));
        }
        match self.is_gemma() {
            true => names.extend([
                ("post_attention_norm", "post_attention_layernorm"),
                ("ffn_norm", "pre_feedforward_layernorm"),
                ("post_ffw_norm", "post_feedforward_layernorm"),
            ]),
            false => names.push(("ffn_norm", "post_attention_layernorm")),
        }
        match self {
            Self::Mixtral => names.push(("ffn_gate_inp", "block_sparse_moe.gate")),
            Self::Qwen3Moe => names.push(("ffn_gate_inp", "mlp.gate")),
            _ => names.extend([
                ("ffn_gate", "mlp.gate_proj"),
                ("ffn_up", "mlp.up_proj"),
                ("ffn_down", "mlp.down_proj"),
            ]),
        }
        names
    }

    /// The names of experts' tensors: in a file, before and behind an expert's number in Hugging Face's.
    fn of_experts(self) -> [(&'static str, &'static str); 3] {
        match self {
            Self::Mixtral => [
                ("ffn_gate_exps", "block_sparse_moe.experts.{}.w1"),
                ("ffn_up_exps", "block_sparse_moe.experts.{}.w3"),
                ("ffn_down_exps", "block_sparse_moe.experts.{}.w2"),
            ],
            _ => [
                ("ffn_gate_exps", "mlp.experts.{}.gate_proj"),
                ("ffn_up_exps", "mlp.experts.{}.up_proj"),
                ("ffn_down_exps", "mlp.experts.{}.down_proj"),
            ],
        }
    }

    fn layers(self) -> &'static str {
        match self {
            Self::Gpt2 => "transformer.h",
            _ => "model.layers",
        }
    }
}

/// Where a tensor of a file is in Hugging Face's model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is a tensor there.
    Whole(String),
    /// It is the tensors of all experts, whose name has `{}` for their number.
    Experts(String),
}

/// Returns where the tensor of a name belongs; `None` for one that the family does not have.
pub(super) fn named(family: Family, name: &str) -> Option<Named> {
    let (stem, end) = name.rsplit_once('.')?;
    if !matches!(end, "weight" | "bias") {
        return None;
    }
    if let Some((_, theirs)) = family.outside().iter().find(|(ours, _)| *ours == stem) {
        return Some(Named::Whole(format!("{theirs}.{end}")));
    }
    let (layer, part) = stem.strip_prefix("blk.")?.split_once('.')?;
    let is_number = layer.parse::<usize>().is_ok_and(|n| n.to_string() == layer);
    if !is_number {
        return None;
    }
    let whole = |theirs: &str| format!("{}.{layer}.{theirs}.{end}", family.layers());
    if let Some((_, theirs)) = family.inside().iter().find(|(ours, _)| *ours == part) {
        return Some(Named::Whole(whole(theirs)));
    }
    if !matches!(family, Family::Mixtral | Family::Qwen3Moe) {
        return None;
    }
    let experts = family.of_experts();
    let (_, theirs) = experts.iter().find(|(ours, _)| *ours == part)?;
    Some(Named::Experts(whole(theirs)))
}

/// Where a file has a tensor of Hugging Face's model, and its place in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is a tensor there.
    Whole(String, Order),
    /// It is one expert of a tensor.
    Expert(String, Order, usize),
}

/// Tensors in front of the layers, layers, tensors behind them; then by the tables' orders, and weights before biases.
pub(super) type Order = (usize, usize, usize);

/// The reverse of [`named`].
pub(super) fn stored(family: Family, name: &str) -> Option<Stored> {
    let (stem, end) = name.rsplit_once('.')?;
    let is_bias = match end {
        "weight" => 0,
        "bias" => 1,
        _ => return None,
    };
    let outside = family.outside();
    if let Some(at) = outside.iter().position(|(_, theirs)| *theirs == stem) {
        let ours = outside[at].0;
        let is_behind = ours.starts_with("output");
        let layer = if is_behind { usize::MAX } else { 0 };
        return Some(Stored::Whole(format!("{ours}.{end}"), (layer, at, is_bias)));
    }
    let rest = stem.strip_prefix(family.layers())?.strip_prefix('.')?;
    let (layer, part) = rest.split_once('.')?;
    let number: usize = layer
        .parse()
        .ok()
        .filter(|n: &usize| n.to_string() == layer)?;
    let order = |at: usize| (number.saturating_add(1), at, is_bias);
    let whole = |ours: &str| format!("blk.{layer}.{ours}.{end}");
    let inside = family.inside();
    if let Some(at) = inside.iter().position(|(_, theirs)| *theirs == part) {
        return Some(Stored::Whole(whole(inside[at].0), order(at)));
    }
    if !matches!(family, Family::Mixtral | Family::Qwen3Moe) {
        return None;
    }
    for (at, (ours, theirs)) in family.of_experts().iter().enumerate() {
        let (front, behind) = theirs.split_once("{}")?;
        let expert = part
            .strip_prefix(front)
            .and_then(|rest| rest.strip_suffix(behind));
        if let Some(expert) = expert.and_then(|expert| expert.parse().ok()) {
            return Some(Stored::Expert(
                whole(ours),
                order(inside.len() + at),
                expert,
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_have_their_families_names() {
        let whole = |family, name| match named(family, name) {
            Some(Named::Whole(name)) => name,
            other => format!("{other:?}"),
        };
        assert_eq!(
            whole(Family::Llama, "blk.11.attn_q.weight"),
            "model.layers.11.self_attn.q_proj.weight"
        );
        assert_eq!(
            whole(Family::Gemma3, "blk.0.ffn_norm.weight"),
            "model.layers.0.pre_feedforward_layernorm.weight"
        );
        assert_eq!(
            whole(Family::Gpt2, "blk.0.attn_qkv.bias"),
            "transformer.h.0.attn.c_attn.bias"
        );
        let experts = "model.layers.2.block_sparse_moe.experts.{}.w2.weight".to_owned();
        let found = named(Family::Mixtral, "blk.2.ffn_down_exps.weight");
        assert_eq!(found, Some(Named::Experts(experts)));
        for name in [
            "blk.0.attn_q_norm.weight",
            "blk.+1.attn_q.weight",
            "x",
            "blk.0.attn_q.scale",
        ] {
            assert_eq!(named(Family::Llama, name), None, "{name}");
        }
        for family in [Family::Mixtral, Family::Gemma3, Family::Gpt2] {
            for (ours, _) in family.inside() {
                let ours = format!("blk.3.{ours}.weight");
                let Some(Named::Whole(theirs)) = named(family, &ours) else {
                    panic!("{ours}");
                };
                let found = stored(family, &theirs);
                assert!(
                    matches!(found, Some(Stored::Whole(name, _)) if name == ours),
                    "{theirs}"
                );
            }
        }
        let name = "model.layers.2.block_sparse_moe.experts.11.w2.weight";
        let found = stored(Family::Mixtral, name);
        assert!(
            matches!(found, Some(Stored::Expert(name, _, 11)) if name == "blk.2.ffn_down_exps.weight")
        );
        assert!(
            Family::of("phi3")
                .expect_err("no family")
                .starts_with("the architecture phi3 is not known; known")
        );
    }
}
