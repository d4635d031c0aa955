//! Which kind of block each tensor of a quantised model has.

use crate::kind::BlockKind;

/// A mixture of kinds, under the name that other programs have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recipe {
    /// Q8_0 alone.
    Q8_0,
    /// Q4_0, and Q6_K for the output.
    Q4_0,
    /// Q4_K, and Q6_K for the output and for half of the layers' values and down projections.
    Q4KM,
    /// Q5_K, and Q6_K for the same tensors.
    Q5KM,
    /// Q6_K alone.
    Q6K,
    /// MXFP4, and Q8_0 for the output and the embedding.
    MXFP4,
}

/// A recipe, its name, its kind and its number in `general.file_type`.
const TABLE: [(Recipe, &str, BlockKind, u32); 6] = [
    (Recipe::Q8_0, "q8_0", BlockKind::Q8_0, 7),
    (Recipe::Q4_0, "q4_0", BlockKind::Q4_0, 2),
    (Recipe::Q4KM, "q4_k_m", BlockKind::Q4K, 15),
    (Recipe::Q5KM, "q5_k_m", BlockKind::Q5K, 17),
    (Recipe::Q6K, "q6_k", BlockKind::Q6K, 18),
    (Recipe::MXFP4, "mxfp4", BlockKind::MXFP4, 38),
];

/// The model that a tensor belongs to, as far as kinds depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeModel {
    /// Its layers.
    pub n_layers: usize,
    /// Whether its embedding is its output as well.
    pub tied: bool,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 6] = [
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4KM,
        Self::Q5KM,
        Self::Q6K,
        Self::MXFP4,
    ];

    fn row(self) -> &'static (Self, &'static str, BlockKind, u32) {
        &TABLE[self as usize]
    }

    /// The recipe's name: `q4_k_m`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The recipe of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recipe| recipe.name() == name)
    }

    /// The kind of most matrices.
    pub fn main_kind(self) -> BlockKind {
        self.row().2
    }

    /// The recipe's number in `general.file_type`.
    pub fn file_type(self) -> u32 {
        self.row().3
    }

    /// The kind of a tensor, by its name in the file and its shape, outermost extent first.
    ///
    /// The rule is llama.cpp's. Vectors, positions and the routers of experts stay F32. The output, or the embedding
    /// that is one, has 6 bits at least. In the mixtures the first and the last eighth of the layers and every third
    /// one between have Q6_K for values and down projections, as errors there cost most. A matrix whose rows are not whole
    /// blocks has the next larger kind of blocks of 32, and F16 where those do not fit either.
    pub fn kind_of(self, name: &str, shape: &[usize], model: RecipeModel) -> BlockKind {
        if is_kept(name, shape) {
            return BlockKind::F32;
        }
        let columns = shape.last().copied().unwrap_or(0);
        fitting(self.wanted(name, model), columns)
    }

    fn wanted(self, name: &str, model: RecipeModel) -> BlockKind {
        let embedding = name == "token_embd.weight";
        if name == "output.weight" || (embedding && model.tied) {
            return match self {
                Self::Q8_0 | Self::MXFP4 => BlockKind::Q8_0,
                _ => BlockKind::Q6K,
            };
        }
        match self {
            Self::MXFP4 if embedding => BlockKind::Q8_0,
            Self::Q4KM | Self::Q5KM if has_more_bits(name, model.n_layers) => BlockKind::Q6K,
            Self::Q4KM if name.contains(".attn_qkv.") => BlockKind::Q5K,
            Self::Q5KM if name.contains(".attn_qkv.") => BlockKind::Q6K,
            _ => self.main_kind(),
        }
    }
}

/// Whether a tensor stays F32 in every file: vectors, positions and the routers of experts, which are small.
pub(crate) fn is_kept(name: &str, shape: &[usize]) -> bool {
    let kept = ["position_embd.", "ffn_gate_inp."];
    shape.len() < 2 || kept.iter().any(|part| name.contains(part))
}

/// Whether a tensor is the values' or the down projection of a layer that has more bits.
fn has_more_bits(name: &str, n_layers: usize) -> bool {
    let parts = name
        .strip_prefix("blk.")
        .and_then(|rest| rest.split_once('.'));
    let Some((layer, part)) = parts else {
        return false;
    };
    let Ok(layer) = layer.parse::<usize>() else {
        return false;
    };
    let eighth = n_layers / 8;
    let is_one = part.starts_with("attn_v.") || part.starts_with("ffn_down");
    let is_outer = layer < eighth || layer >= 7 * n_layers / 8;
    is_one && (is_outer || (layer - eighth) % 3 == 2)
}

/// The kind, or the next one that rows of so many values have whole blocks of.
fn fitting(kind: BlockKind, columns: usize) -> BlockKind {
    if columns.is_multiple_of(kind.block_values()) {
        return kind;
    }
    let smaller = match kind {
        BlockKind::Q4K => BlockKind::Q5_0,
        BlockKind::Q5K => BlockKind::Q5_1,
        BlockKind::Q6K => BlockKind::Q8_0,
        other => other,
    };
    match columns.is_multiple_of(smaller.block_values()) {
        true => smaller,
        false => BlockKind::F16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_finds_its_own_row() {
        for recipe in Recipe::ALL {
            assert_eq!(recipe.row().0, recipe);
            assert_eq!(Recipe::named(recipe.name()), Some(recipe));
        }
        assert_eq!(Recipe::named("q4_k_s"), None);
    }

    #[test]
    fn the_layers_with_more_bits_are_those_of_llama_cpp() {
        let of = |n_layers| -> Vec<usize> {
            let name = |layer: usize| format!("blk.{layer}.ffn_down.weight");
            (0..n_layers)
                .filter(|&layer| has_more_bits(&name(layer), n_layers))
                .collect()
        };
        // Those of a Llama 3.1 8B in Q4_K_M.
        let expected = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31];
        assert_eq!(of(32), expected);
        assert_eq!(of(2), [1]);
    }

    #[test]
    fn kinds_follow_names_and_shapes() {
        let model = RecipeModel {
            n_layers: 32,
            tied: false,
        };
        let of = |recipe: Recipe, name: &str, columns| recipe.kind_of(name, &[512, columns], model);
        let cases = [
            (Recipe::Q4KM, "blk.4.attn_v.weight", 512, BlockKind::Q4K),
            (Recipe::Q4KM, "blk.6.attn_v.weight", 512, BlockKind::Q6K),
            (
                Recipe::Q4KM,
                "blk.6.ffn_down_exps.weight",
                512,
                BlockKind::Q6K,
            ),
            (Recipe::Q4KM, "blk.6.attn_q.weight", 512, BlockKind::Q4K),
            (
                Recipe::Q4KM,
                "blk.6.ffn_gate_inp.weight",
                512,
                BlockKind::F32,
            ),
            (Recipe::Q4KM, "output.weight", 512, BlockKind::Q6K),
            (Recipe::Q4KM, "token_embd.weight", 512, BlockKind::Q4K),
            (Recipe::Q4KM, "blk.4.attn_v.weight", 96, BlockKind::Q5_0),
            (Recipe::Q5KM, "blk.6.attn_v.weight", 96, BlockKind::Q8_0),
            (Recipe::Q4_0, "blk.0.ffn_up.weight", 40, BlockKind::F16),
            (Recipe::Q4_0, "output.weight", 512, BlockKind::Q6K),
            (Recipe::Q8_0, "output.weight", 512, BlockKind::Q8_0),
            (Recipe::MXFP4, "token_embd.weight", 512, BlockKind::Q8_0),
            (Recipe::MXFP4, "blk.0.ffn_up.weight", 512, BlockKind::MXFP4),
        ];
        for (recipe, name, columns, expected) in cases {
            assert_eq!(of(recipe, name, columns), expected, "{recipe:?} {name}");
        }
        let tied = RecipeModel {
            tied: true,
            ..model
        };
        let found = Recipe::Q4KM.kind_of("token_embd.weight", &[512, 512], tied);
        assert_eq!(found, BlockKind::Q6K);
        assert_eq!(
            Recipe::Q4KM.kind_of("output_norm.weight", &[512], tied),
            BlockKind::F32
        );
    }
}
