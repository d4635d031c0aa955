//! Where a parameter lies in the files of its family.

use crate::decoder::names::Names;
use crate::{Architecture, ParameterLayout};

/// The place of a parameter in a tensor of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The tensor's name.
    pub name: String,
    /// The file has the matrix transposed.
    pub transposed: bool,
    /// The parameter is one of this many equal parts of the (transposed) tensor's rows.
    pub part: (usize, usize),
}

/// Returns where the parameter `name` of a model of this family is; without a family under its own name.
pub(crate) fn place_of(family: Option<Architecture>, name: &str) -> Place {
    match family {
        Some(Architecture::Gpt2) => gpt2(name).unwrap_or_else(|| whole(name.to_owned())),
        Some(Architecture::Mixtral) => whole(mixtral(name)),
        _ => whole(name.to_owned()),
    }
}

/// Returns the name of the tensor that a parameter `name` of a model of this family is in, or is a part of, in a Hugging
/// Face folder; without a family its own name.
pub fn hugging_face_name(family: Option<Architecture>, name: &str) -> String {
    place_of(family, name).name
}

fn whole(name: String) -> Place {
    Place {
        name,
        transposed: false,
        part: (0, 1),
    }
}

/// GPT-2 has queries, keys and values in one tensor, and matrices as \[in, out\].
fn gpt2(name: &str) -> Option<Place> {
    let mut layouts = ParameterLayout::ALL.iter();
    layouts.find_map(|layout| gpt2_of(layout.names(), name))
}

/// The place of a parameter of one layout.
fn gpt2_of(names: &Names, name: &str) -> Option<Place> {
    let end_of = |name: &str, part: &str| {
        let rest = name.strip_prefix(part)?.strip_prefix('.')?;
        Some(rest.to_owned())
    };
    let tables = [
        (names.embedding, "transformer.wte"),
        (names.positions, "transformer.wpe"),
        (names.final_norm, "transformer.ln_f"),
        (names.output, "lm_head"),
    ];
    for (ours, theirs) in tables {
        if let Some(end) = end_of(name, ours) {
            return Some(whole(format!("{theirs}.{end}")));
        }
    }
    let own = &names.block;
    let rest = end_of(name, names.blocks)?;
    let (layer, rest) = rest.split_once('.')?;
    let of_attention = |part: &str| format!("{}.{part}", own.attention);
    let of_network = |part: &str| format!("{}.{part}", own.network);
    let mut parts = vec![
        (own.attention_norm.to_owned(), "ln_1", None),
        (own.network_norm.to_owned(), "ln_2", None),
        (of_attention(own.out), "attn.c_proj", Some((0, 1))),
        (of_network(own.up), "mlp.c_fc", Some((0, 1))),
        (of_network(own.down), "mlp.c_proj", Some((0, 1))),
    ];
    for (place, heads) in own.heads.iter().enumerate() {
        let part = Some((place, own.heads.len()));
        parts.push((of_attention(heads), "attn.c_attn", part));
    }
    parts.iter().find_map(|(ours, theirs, product)| {
        let end = end_of(rest, ours)?;
        Some(Place {
            name: format!("transformer.h.{layer}.{theirs}.{end}"),
            transposed: product.is_some() && end == "weight",
            part: product.unwrap_or((0, 1)),
        })
    })
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
        let of = |architecture, name| place_of(Some(architecture), name);
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
        let found = of(Architecture::Gpt2, "blocks.3.attention.qkv.weight");
        let expected = Place {
            part: (0, 1),
            ..expected
        };
        assert_eq!(found, expected);
        let found = of(Architecture::Gpt2, "output.weight").name;
        assert_eq!(found, "lm_head.weight");
        let found = of(
            Architecture::Mixtral,
            "model.layers.1.mlp.experts.2.up_proj.weight",
        )
        .name;
        assert_eq!(found, "model.layers.1.block_sparse_moe.experts.2.w3.weight");
    }
}
