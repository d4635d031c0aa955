//! Models that are written have the tensors, byte for byte, that llama.cpp's own program converts, and are read back
//! as they were.

mod common;

use hlx_gguf::{BlockKind, Gguf, GgufModel, NewKinds, NewModel, Recipe};
use serde_json::Value;

use common::{Scratch, fixture};

const NAMES: [&str; 9] = [
    "gpt2", "llama", "llama3", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3",
];

fn model(name: &str) -> GgufModel {
    let file = Gguf::open(&fixture(&format!("models/{name}.gguf"))).expect("a file");
    GgufModel::new(file).expect("a model")
}

fn new(model: &GgufModel, kinds: NewKinds) -> NewModel {
    let tensors = model
        .places()
        .map(|(name, place)| (name.to_owned(), place.shape.clone()));
    let tensors: Vec<(String, Vec<usize>)> = tensors.collect();
    NewModel::of(&model.config_json(), &tensors, kinds).expect("a model")
}

/// A configuration without what a file's metadata beside the architecture say.
fn config_of(bytes: &[u8]) -> Value {
    let mut config: Value = serde_json::from_slice(bytes).expect("JSON");
    let object = config.as_object_mut().expect("an object");
    object.retain(|key, _| !key.ends_with("_token_id"));
    config
}

#[test]
fn written_models_are_those_that_llama_cpp_converts() {
    let scratch = Scratch::new("new-models");
    for name in NAMES {
        let model = model(name);
        let new = new(&model, NewKinds::Floats(BlockKind::F16));
        let read = config_of(&new.config_as_read().expect("read"));
        assert_eq!(read, config_of(&model.config_json()), "{name}");
        let path = scratch.0.join(format!("{name}.gguf"));
        new.write(&path, |tensor| model.values(tensor), |_| None)
            .expect("written");
        let back = Gguf::open(&path).expect("read back");
        let file = model.file();
        assert_eq!(back.tensors().len(), file.tensors().len(), "{name}");
        for tensor in file.tensors() {
            let found = back.tensor(tensor.name());
            let found = found.unwrap_or_else(|| panic!("{name}: {}", tensor.name()));
            assert_eq!(
                (found.kind(), found.shape()),
                (tensor.kind(), tensor.shape()),
                "{}",
                tensor.name()
            );
            // The factors of rotary frequencies were computed in f32 there.
            if tensor.name() != "rope_freqs.weight" {
                assert!(
                    back.read(found).expect("bytes") == file.read(tensor).expect("bytes"),
                    "{}",
                    tensor.name()
                );
            }
        }
        for (key, value) in back.metadata().iter() {
            let theirs = file.metadata().get(key);
            let is_own = key.starts_with("general.") || theirs.is_none();
            assert!(
                is_own || theirs == Some(value),
                "{name}: `{key}` is {value:?}, llama.cpp writes {theirs:?}"
            );
        }
    }
}

#[test]
fn biases_of_queries_and_keys_are_put_in_order_as_their_rows_are() {
    let scratch = Scratch::new("new-biases");
    let model = model("llama");
    let mut config = config_of(&model.config_json());
    config["attention_bias"] = true.into();
    let tensors = model
        .places()
        .map(|(name, place)| (name.to_owned(), place.shape.clone()));
    let mut tensors: Vec<(String, Vec<usize>)> = tensors.collect();
    for layer in 0..2 {
        for (part, n) in [("q", 32), ("k", 16), ("v", 16), ("o", 32)] {
            tensors.push((
                format!("model.layers.{layer}.self_attn.{part}_proj.bias"),
                vec![n],
            ));
        }
    }
    let config = serde_json::to_vec(&config).expect("JSON");
    let new = NewModel::of(&config, &tensors, NewKinds::Floats(BlockKind::F32)).expect("a model");
    let path = scratch.0.join("model.gguf");
    let values = |name: &str| {
        let shape = tensors
            .iter()
            .find(|(one, _)| one == name)
            .map(|(_, shape)| shape);
        let n: usize = shape.expect("a tensor").iter().product();
        Ok((0..n).map(|at| at as f32).collect::<Vec<f32>>())
    };
    new.write(&path, values, |_| None).expect("written");
    let file = Gguf::open(&path).expect("a file");
    // Heads of 16: the first and the second value of each pair in turns.
    let stored = file
        .values(file.tensor("blk.0.attn_q.bias").expect("a bias"))
        .expect("values");
    assert_eq!(stored[..4], [0.0, 8.0, 1.0, 9.0]);
    let back = GgufModel::new(file).expect("a model");
    for (name, _) in &tensors {
        assert_eq!(back.values(name), values(name), "{name}");
    }
    let config: Value = serde_json::from_slice(&back.config_json()).expect("JSON");
    assert_eq!(config["attention_bias"], true);
}

#[test]
fn a_recipe_gives_each_tensor_its_kind() {
    let scratch = Scratch::new("new-recipe");
    let model = model("mixtral");
    let new = new(&model, NewKinds::Recipe(Recipe::Q4KM));
    let path = scratch.0.join("model.gguf");
    let important = |tensor: &str| tensor.ends_with("q_proj.weight").then(|| vec![1.0; 32]);
    new.write(&path, |tensor| model.values(tensor), important)
        .expect("written");
    let back = GgufModel::new(Gguf::open(&path).expect("a file")).expect("a model");
    let name = "model.layers.0.block_sparse_moe.experts.3.w2.weight";
    // Rows of 32 and 48 are no whole blocks of 256.
    assert_eq!(
        back.kind("model.layers.0.self_attn.q_proj.weight"),
        Some(BlockKind::Q5_0)
    );
    assert_eq!(back.kind(name), Some(BlockKind::F16));
    assert_eq!(back.kind("lm_head.weight"), Some(BlockKind::Q8_0));
    assert_eq!(
        back.values(name).expect("values"),
        model.values(name).expect("values")
    );
    let file_type = back.file().metadata().count("general.file_type");
    assert_eq!(file_type, Ok(Some(15)));
}

#[test]
fn what_files_have_no_place_for_is_refused() {
    let model = model("llama");
    let tensors = |names: &[&str]| -> Vec<(String, Vec<usize>)> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), vec![2, 2]))
            .collect()
    };
    let floats = NewKinds::Floats(BlockKind::F32);
    let refused = |config: &[u8], names: &[&str]| {
        let error = NewModel::of(config, &tensors(names), floats).expect_err("refused");
        error.to_string()
    };
    let mut config = config_of(&model.config_json());
    let text = |config: &Value| serde_json::to_vec(config).expect("JSON");
    assert_eq!(
        refused(&text(&config), &["model.layers.0.mlp.gate.weight"]),
        "NewModel::of: the tensor model.layers.0.mlp.gate.weight is not known in a LlamaForCausalLM"
    );
    config["rope_scaling"] = serde_json::json!({"rope_type": "dynamic", "factor": 2.0});
    assert_eq!(
        refused(&text(&config), &[]),
        "NewModel::of: `rope_scaling` is dynamic, which GGUF cannot state here"
    );
    config["model_type"] = "phi3".into();
    assert_eq!(
        refused(&text(&config), &[]),
        "NewModel::of: a model of the type phi3 has no place in GGUF"
    );
    let mixtral = config_of(&self::model("mixtral").config_json());
    assert_eq!(
        refused(
            &text(&mixtral),
            &["model.layers.0.block_sparse_moe.experts.1.w2.weight"]
        ),
        "NewModel::of: the experts of blk.0.ffn_down_exps.weight are not all there, or of different shapes"
    );
}
