//! Models that llama.cpp's program has converted are those of `transformers` again: names, shapes and values.

mod common;

use std::collections::BTreeSet;

use hlx_core::bytes::little_endian;
use hlx_core::digest::sha256_hex;
use hlx_gguf::{BlockKind, Gguf, GgufModel, Metadata, NewTensor, to_gguf};
use serde_json::Value;

use common::fixture;

const NAMES: [&str; 9] = [
    "gpt2", "llama", "llama3", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3",
];

fn model(name: &str) -> GgufModel {
    let file = Gguf::open(&fixture(&format!("models/{name}.gguf"))).expect("a file");
    GgufModel::new(file).expect("a model")
}

fn expected(name: &str) -> Value {
    let text = std::fs::read(fixture(&format!("models/{name}.json"))).expect("a fixture");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn tensors_have_the_names_shapes_and_values_of_transformers() {
    for name in NAMES {
        let (model, expected) = (model(name), expected(name));
        let theirs = expected["tensors"].as_object().expect("tensors");
        let found: BTreeSet<&str> = model.places().map(|(name, _)| name).collect();
        let wanted: BTreeSet<&str> = theirs.keys().map(String::as_str).collect();
        assert_eq!(found, wanted, "{name}");
        for (tensor, facts) in theirs {
            let shape: Vec<usize> = serde_json::from_value(facts[0].clone()).expect("a shape");
            assert_eq!(
                model.place(tensor).map(|place| &place.shape),
                Some(&shape),
                "{name} {tensor}"
            );
            let values = model.values(tensor).expect("values");
            let digest = sha256_hex(&little_endian(&values));
            assert_eq!(facts[1], digest, "{name} {tensor}");
        }
    }
}

#[test]
fn configurations_are_those_of_transformers() {
    // Other versions of `transformers` write these elsewhere, or not at all; hlx-train's tests compare what they mean.
    let elsewhere = [
        "torch_dtype",
        "rope_theta",
        "rope_scaling",
        "rope_local_base_freq",
    ];
    for name in NAMES {
        let config = model(name).config_json();
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        let theirs = &expected(name)["config"];
        for (key, value) in config.as_object().expect("an object") {
            let is_token = key.ends_with("_token_id");
            if elsewhere.contains(&key.as_str()) || is_token || theirs[key].is_null() {
                continue;
            }
            let same = match (value.as_f64(), theirs[key].as_f64()) {
                (Some(value), Some(theirs)) => (value - theirs).abs() <= 1e-6 * theirs.abs(),
                _ => *value == theirs[key],
            };
            assert!(same, "{name}: `{key}` is {value}, expected {}", theirs[key]);
        }
    }
    let llama3 = model("llama3").config_json();
    let llama3: Value = serde_json::from_slice(&llama3).expect("JSON");
    let theirs = &expected("llama3")["config"]["rope_parameters"];
    for key in [
        "rope_type",
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ] {
        assert_eq!(llama3["rope_scaling"][key], theirs[key], "{key}");
    }
    assert_eq!(llama3["rope_theta"], theirs["rope_theta"]);
}

#[test]
fn stored_rows_are_in_the_order_of_transformers() {
    for name in ["llama", "mixtral", "qwen3"] {
        let model = model(name);
        let matrices = model.places().filter(|(_, place)| place.shape.len() == 2);
        for (tensor, place) in matrices {
            let stored = model.stored(tensor).expect("a matrix");
            assert_eq!(
                (stored.kind, &stored.shape[..]),
                (model.kind(tensor).expect("a kind"), &place.shape[..])
            );
            let values = hlx_gguf::widen(stored.kind, &stored.bytes).expect("whole blocks");
            assert_eq!(values, model.values(tensor).expect("values"), "{tensor}");
        }
    }
    let refused = model("gpt2")
        .stored("transformer.h.0.attn.c_attn.weight")
        .expect_err("transposed");
    assert_eq!(
        refused.to_string(),
        "stored: transformer.h.0.attn.c_attn.weight is no matrix that the file has as it is"
    );
    let refused = model("llama")
        .values("model.layers.9.mlp.up_proj.weight")
        .expect_err("no such layer");
    assert_eq!(
        refused.to_string(),
        "values: the model has no model.layers.9.mlp.up_proj.weight"
    );
}

/// What is said of a model whose metadata and tensors were changed.
fn refused(change: impl Fn(&mut Metadata, &mut Vec<NewTensor>)) -> String {
    let file = Gguf::open(&fixture("models/llama.gguf")).expect("a file");
    let mut metadata = file.metadata().clone();
    let tensors = file.tensors().map(|tensor| NewTensor {
        name: tensor.name().to_owned(),
        kind: tensor.kind(),
        shape: tensor.shape().to_vec(),
    });
    let mut tensors: Vec<NewTensor> = tensors.collect();
    change(&mut metadata, &mut tensors);
    let bytes = |at: usize| {
        let tensor: &NewTensor = &tensors[at];
        let n: usize = tensor.shape.iter().product();
        Ok(vec![0; tensor.kind.bytes_of(n).expect("whole blocks")])
    };
    let written = to_gguf(&metadata, &tensors, bytes).expect("bytes");
    let file = Gguf::from_bytes(written).expect("a file");
    let line = GgufModel::new(file)
        .expect_err("a broken model")
        .to_string();
    assert!(!line.contains(char::is_control), "{line:?}");
    line.strip_prefix("GGUF: ").expect("the file").to_owned()
}

#[test]
fn what_is_not_known_of_a_model_is_refused_by_name() {
    let with =
        |key: &str, value: hlx_gguf::Value| refused(|metadata, _| metadata.set(key, value.clone()));
    assert_eq!(
        with("general.architecture", "phi3".into()),
        "the architecture phi3 is not known; known are gpt2, llama, qwen2, qwen3, qwen3moe, gemma2, gemma3"
    );
    assert_eq!(
        with("llama.logit_scale", 0.5_f32.into()),
        "the key `llama.logit_scale` is not known, and may change the result"
    );
    assert_eq!(
        with("llama.rope.dimension_count", 8_u32.into()),
        "`llama.rope.dimension_count` is 8, and only 16 is known here"
    );
    assert_eq!(
        with("llama.attention.head_count", vec![2_u32, 4].into()),
        "`llama.attention.head_count` has 2 and 4; layers of different sizes are not known"
    );
    assert_eq!(
        with("llama.rope.scaling.type", "ntk".into()),
        "`rope.scaling.type` is ntk, expected none, linear or yarn"
    );
    assert_eq!(
        with("llama.block_count", (1_u64 << 60).into()),
        "has 1152921504606846976 layers and 0 experts, expected at most 4096 and 4096"
    );
    let added = |name: &str, shape: &[usize]| {
        refused(|_, tensors| {
            tensors.push(NewTensor {
                name: name.to_owned(),
                kind: BlockKind::F32,
                shape: shape.to_vec(),
            });
        })
    };
    assert_eq!(
        added("blk.0.attn_sinks.weight", &[2]),
        "the tensor blk.0.attn_sinks.weight is not known in a LlamaForCausalLM"
    );
    assert_eq!(
        added("rope_freqs.weight", &[3]),
        "the tensor rope_freqs.weight has shape [3], expected [8]"
    );
    let odd = refused(|_, tensors| {
        let found = tensors
            .iter_mut()
            .find(|tensor| tensor.name == "blk.1.attn_q.weight");
        found.expect("a tensor").shape = vec![31, 32];
    });
    assert_eq!(
        odd,
        "the tensor blk.1.attn_q.weight has 31 rows, expected whole pairs for 2 heads"
    );
}
