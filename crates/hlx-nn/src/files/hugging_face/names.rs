//! Where a parameter lies in the files of its family.

use crate::Architecture;

/// The place of a parameter in a tensor of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The tensor's name.
    pub name: String,
    /// The file has the matrix transposed.
    pub transposed: bool,
    /// The parameter is one of so many equal parts of the (transposed) tensor's rows.
    pub part: (usize, usize),
}

/// Returns where the parameter `name` of a model of this family is.
pub(crate) fn place_of(architecture: Architecture, name: &str) -> Place {
    match architecture {
        Architecture::Gpt2 => gpt2(name),
        Architecture::Mixtral => whole(mixtral(name)),
        _ => whole(name.to_owned()),
    }
}

fn whole(name: String) -> Place {
    Place {
        name,
        transposed: false,
        part: (0, 1),
    }
}

/// GPT-2 has queries, keys and values in one tensor, and matrices as \[in, out\].
fn gpt2(name: &str) -> Place {
    let tables = [
        ("model.embed_tokens.", "transformer.wte."),
        ("model.embed_positions.", "transformer.wpe."),
        ("model.norm.", "transformer.ln_f."),
    ];
    for (ours, theirs) in tables {
        if let Some(rest) = name.strip_prefix(ours) {
            return whole(format!("{theirs}{rest}"));
        }
    }
    let parts = [
        ("input_layernorm.", "ln_1.", None),
        ("post_attention_layernorm.", "ln_2.", None),
        ("self_attn.q_proj.", "attn.c_attn.", Some((0, 3))),
        ("self_attn.k_proj.", "attn.c_attn.", Some((1, 3))),
        ("self_attn.v_proj.", "attn.c_attn.", Some((2, 3))),
        ("self_attn.o_proj.", "attn.c_proj.", Some((0, 1))),
        ("mlp.up_proj.", "mlp.c_fc.", Some((0, 1))),
        ("mlp.down_proj.", "mlp.c_proj.", Some((0, 1))),
    ];
    let layer = name
        .strip_prefix("model.layers.")
        .and_then(|rest| rest.split_once('.'));
    let Some((layer, rest)) = layer else {
        return whole(name.to_owned());
    };
    for (ours, theirs, product) in parts {
        if let Some(end) = rest.strip_prefix(ours) {
            return Place {
                name: format!("transformer.h.{layer}.{theirs}{end}"),
                transposed: product.is_some() && end == "weight",
                part: product.unwrap_or((0, 1)),
            };
        }
    }
    whole(name.to_owned())
}

fn mixtral(name: &str) -> String {
    name.replace(".mlp.", ".block_sparse_moe.")
        .replace(".gate_proj.", ".w1.")
        .replace(".down_proj.", ".w2.")
        .replace(".up_proj.", ".w3.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_their_family_s_names() {
        let of = |architecture, name| place_of(architecture, name);
        let name = "model.layers.3.self_attn.k_proj.weight";
        assert_eq!(of(Architecture::Llama, name), whole(name.to_owned()));
        let expected = Place {
            name: "transformer.h.3.attn.c_attn.weight".to_owned(),
            transposed: true,
            part: (1, 3),
        };
        assert_eq!(of(Architecture::Gpt2, name), expected);
        let found = of(Architecture::Gpt2, "model.layers.0.mlp.down_proj.bias");
        assert_eq!(found, whole("transformer.h.0.mlp.c_proj.bias".to_owned()));
        let found = of(Architecture::Gpt2, "model.embed_positions.weight").name;
        assert_eq!(found, "transformer.wpe.weight");
        let found = of(
            Architecture::Mixtral,
            "model.layers.1.mlp.experts.2.up_proj.weight",
        )
        .name;
        assert_eq!(found, "model.layers.1.block_sparse_moe.experts.2.w3.weight");
    }
}
