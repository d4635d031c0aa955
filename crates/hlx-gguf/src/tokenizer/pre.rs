//! The known values of `tokenizer.ggml.pre`: how a text is split into words before pairs are joined.
//!
//! The expressions are those of the `tokenizer.json` files that the names stand for.

use serde_json::{Value as Json, json};

/// How texts are split, and what else a name says.
pub(super) struct Pre {
    pub pre_tokenizer: Json,
    pub normalizer: Json,
    /// Whether a word that is a token as a whole becomes it, whatever the pairs say.
    pub ignores_merges: bool,
    /// Whether a text begins with the token that begins one, where the file does not say so.
    pub adds_bos: bool,
}

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Mistral's: words begin with a capital letter.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The names that are known, in the order in which errors list them.
const NAMES: [&str; 15] = [
    "gpt-2",
    "phi-2",
    "llama-bpe",
    "llama3",
    "llama-v3",
    "falcon3",
    "smaug-bpe",
    "dbrx",
    "qwen2",
    "deepseek-r1-qwen",
    "megrez",
    "smollm",
    "starcoder",
    "refact",
    "tekken",
];

impl Pre {
    /// What a name says.
    pub fn named(name: &str) -> Result<Self, String> {
        let of = |pre_tokenizer: Json| Self {
            pre_tokenizer,
            normalizer: Json::Null,
            ignores_merges: false,
            adds_bos: false,
        };
        Ok(match name {
            "gpt-2" | "phi-2" => of(byte_level(true)),
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" => Self {
                ignores_merges: true,
                adds_bos: true,
                ..of(split(LLAMA3))
            },
            "smaug-bpe" | "dbrx" => of(split(LLAMA3)),
            "qwen2" | "megrez" => Self {
                normalizer: json!({"type": "NFC"}),
                ..of(split(QWEN2))
            },
            "deepseek-r1-qwen" => of(split(QWEN2)),
            "smollm" | "starcoder" | "refact" => of(json!({
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": true}, byte_level(true)],
            })),
            "tekken" => Self {
                ignores_merges: true,
                adds_bos: true,
                ..of(split(TEKKEN))
            },
            other => {
                return Err(format!(
                    "`tokenizer.ggml.pre` is {}, expected one of {}",
                    crate::error::shown(other),
                    NAMES.join(", ")
                ));
            }
        })
    }

    /// The name of a way to split texts, as a `tokenizer.json` has it.
    pub fn name_of(
        pre_tokenizer: &Json,
        normalizer: &Json,
        ignores_merges: bool,
    ) -> Result<&'static str, String> {
        let steps = steps_of(pre_tokenizer);
        let normalizer = &normalizer["type"];
        let is_it = |name: &&str| {
            let known = Self::named(name);
            known.is_ok_and(|known| {
                let same = known.ignores_merges == ignores_merges;
                same && known.normalizer["type"] == *normalizer
                    && steps_of(&known.pre_tokenizer) == steps
            })
        };
        NAMES.into_iter().find(is_it).ok_or_else(|| {
            "the tokenizer splits texts in a way that GGUF files have no name for".to_owned()
        })
    }
}

/// The steps of a pre-tokenizer, without settings that change no token.
fn steps_of(pre_tokenizer: &Json) -> Vec<Json> {
    let one = std::slice::from_ref(pre_tokenizer);
    let steps = pre_tokenizer["pretokenizers"]
        .as_array()
        .map_or(one, Vec::as_slice);
    let step = |step: &Json| {
        let mut step = step.clone();
        if let Some(step) = step.as_object_mut() {
            step.remove("trim_offsets");
            if step.get("type") == Some(&json!("ByteLevel")) {
                // What a missing key is.
                step.entry("use_regex").or_insert(json!(true));
            }
        }
        step
    };
    steps.iter().map(step).collect()
}

fn split(regex: &str) -> Json {
    json!({
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false},
            byte_level(false),
        ],
    })
}

/// Bytes as characters; `splits` says whether words are GPT-2's.
pub(super) fn byte_level(splits: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": splits})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_errors_list_are_known() {
        for name in NAMES {
            assert!(Pre::named(name).is_ok(), "{name}");
        }
        let refused = Pre::named("gpt-4o").map(|_| ()).expect_err("not known");
        assert!(refused.starts_with("`tokenizer.ggml.pre` is gpt-4o, expected one of gpt-2, "));
    }
}
