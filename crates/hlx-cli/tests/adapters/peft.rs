//! Adapters that the library PEFT has saved, over the output and by the keys of `adapter_config.json`
//! (`crates/hlx-nn/tests/fixtures/make_lora_keys.py`): the logits that PEFT computes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{CausalLm, LoraConfig, Model, is_own_peft_config, peft_config, read_peft_config};
use hlx_train::model_folder::{logits, open_adapted};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::Scratch;
use super::{arguments, cpu};

const FIXTURE: &[u8] = include_bytes!("../../../hlx-nn/tests/fixtures/lora_keys.safetensors");

#[derive(Deserialize)]
struct Adapter {
    model: String,
    config: String,
    adapter: String,
}

type Tensors<'a> = BTreeMap<String, TensorView<'a>>;

fn file() -> SafeTensors<'static> {
    SafeTensors::deserialize(FIXTURE).expect("reads")
}

fn adapters() -> BTreeMap<String, Adapter> {
    let (_, metadata) = SafeTensors::read_metadata(FIXTURE).expect("reads");
    let named = metadata.metadata().as_ref().expect("metadata");
    serde_json::from_str(&named["adapters"]).expect("adapters")
}

/// The tensors below a name.
fn below(start: &str) -> Tensors<'static> {
    let all = file().tensors().into_iter();
    let own = all.filter_map(|(name, view)| {
        let rest = name.strip_prefix(start)?.strip_prefix('/')?;
        Some((rest.to_owned(), view))
    });
    own.collect()
}

fn words(name: &str) -> Vec<[u8; 4]> {
    let view = file().tensor(name).expect(name);
    view.data().as_chunks::<4>().0.to_vec()
}

fn write(path: &Path, tensors: Tensors<'_>) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let bytes = safetensors::serialize(tensors, None).expect("written");
    fs::write(path, bytes).expect("written");
}

/// Writes the model of an adapter (`hub`) and the adapter (`adapter`).
fn write_folders(place: &Scratch, name: &str, adapter: &Adapter) {
    let base = below(&format!("base {}", adapter.model));
    write(&place.join("hub/model.safetensors"), base);
    place.write("hub/config.json", &adapter.config);
    write(
        &place.join("adapter/adapter_model.safetensors"),
        below(name),
    );
    place.write("adapter/adapter_config.json", &adapter.adapter);
}

fn ids(device: &Device, name: &str) -> Tensor {
    let ids = words(&format!("ids/{name}")).into_iter();
    let ids: Vec<u32> = ids.map(u32::from_le_bytes).collect();
    Tensor::from_slice::<u32>(device, &ids, &[1, ids.len()]).expect("made")
}

fn assert_near(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs() / largest;
        assert!(error < 1e-5, "{name}: {found}, expected {expected}");
    }
}

#[test]
fn adapters_of_peft_over_the_output_and_by_every_key_compute_what_peft_computes() {
    let place = Scratch::new("adapter-peft");
    let device = cpu();
    let adapters = adapters();
    assert_eq!(adapters.len(), 19);
    for (name, adapter) in &adapters {
        write_folders(&place, name, adapter);
        let (model, lora) =
            open_adapted(&device, &place.join("hub"), &place.join("adapter")).expect(name);
        let found = logits(model.module(), &ids(&device, name)).expect(name);
        let expected = words(name).into_iter().map(f32::from_le_bytes);
        let expected: Vec<f32> = expected.collect();
        assert_near(name, &found.to_vec::<f32>().expect("read"), &expected);
        // An adapter of a tied output leaves the embedding what it was: the model is no longer tied.
        let unties = ["tied head", "head of gpt2", "whole table", "whole head"];
        let is_tied = adapter.model != "llama" && !unties.contains(&name.as_str());
        assert_eq!(model.config().tied_output, is_tied, "{name}");
        written_again(name, &model, &lora);
        // Merged it is the same model.
        place.succeeds(&arguments(
            "lora hub --adapter adapter --merge --out merged",
        ));
        let merged =
            hlx_train::model_folder::open(&device, &place.join("merged"), None).expect(name);
        let found = logits(merged.module(), &ids(&device, name)).expect(name);
        assert_near(name, &found.to_vec::<f32>().expect("read"), &expected);
    }
}

/// What HLX writes of an adapter is the same adapter.
fn written_again(name: &str, model: &Model<CausalLm>, lora: &LoraConfig) {
    let (weights, family) = (model.weights(), model.config().family());
    let bytes = weights.lora_to_safetensors(lora, family).expect(name);
    let text = peft_config(lora, weights, family).expect(name);
    assert!(is_own_peft_config(text.as_bytes()), "{name}");
    let read = read_peft_config(text.as_bytes(), model.config()).expect(name);
    let again = Model::zeroed(&cpu(), |b| {
        b.with_lora(read.clone());
        CausalLm::new(b, model.config())
    });
    let again = again.expect(name);
    let base = weights.to_safetensors().expect(name);
    again.weights().load_base_safetensors(&base).expect(name);
    let loaded = again.weights().load_lora(&bytes, &read, family);
    loaded.expect(name);
    again.weights().freeze_all_but_lora(&read).expect(name);
    let digest = |model: &Model<CausalLm>| model.weights().digest().expect(name);
    assert_eq!(digest(&again), digest(model), "{name}");
}

/// The line with which an adapter is refused whose configuration or tensors are changed.
fn refusal(place: &Scratch, name: &str, change: impl Fn(&mut Value)) -> String {
    let adapter = &adapters()[name];
    write_folders(place, name, adapter);
    let mut keys: Value = serde_json::from_str(&adapter.adapter).expect("an object");
    change(&mut keys);
    place.write("adapter/adapter_config.json", &keys.to_string());
    line_of(place)
}

fn line_of(place: &Scratch) -> String {
    let refused = open_adapted(&cpu(), &place.join("hub"), &place.join("adapter"));
    let line = format!("{:#}", refused.expect_err("refused"));
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn keys_of_peft_that_are_not_followed_are_refused_by_name() {
    let place = Scratch::new("adapter-keys");
    for (key, value, expected) in [
        (
            "modules_to_save",
            json!(["norm", "score"]),
            "`modules_to_save` names score, which the model does not have",
        ),
        (
            "target_modules",
            json!(["embed_tokens"]),
            "names embed_tokens, and adapters of an embedding are not",
        ),
        (
            "target_modules",
            json!(["model.embed_tokens", "q_proj"]),
            "names model.embed_tokens, and adapters of",
        ),
        (
            "target_modules",
            json!(".*_proj("),
            "`target_modules`: `.*_proj(` is no regular expression: ",
        ),
        (
            "target_parameters",
            json!(["mlp.experts"]),
            "`target_parameters` is [\"mlp.experts\"], which is not known",
        ),
        (
            "trainable_token_indices",
            json!([1]),
            "`trainable_token_indices` is [1], which is not known",
        ),
        (
            "layer_replication",
            json!([[0, 1]]),
            "`layer_replication` is [[0,1]], which is not known",
        ),
        (
            "layers_to_transform",
            json!([2]),
            "`layers_to_transform` names layer 2, and there are 2",
        ),
        (
            "layers_to_transform",
            json!("1"),
            "`layers_to_transform` is \"1\", expected a layer's number",
        ),
        (
            "layers_pattern",
            json!("blocks"),
            "`layers_pattern` is \"blocks\", expected layers",
        ),
        (
            "exclude_modules",
            json!(7),
            "`exclude_modules` is 7, expected a list of names",
        ),
        (
            "exclude_modules",
            json!(["q_proj", "lm_head"]),
            "leave no module of the model",
        ),
        (
            "use_rslora",
            json!("yes"),
            "`use_rslora` is \"yes\", expected true or false",
        ),
        (
            "use_dora",
            json!(1),
            "`use_dora` is 1, expected true or false",
        ),
        (
            "use_qalora",
            json!(true),
            "`use_qalora` is true, which is not known here",
        ),
        (
            "lora_bias",
            json!(true),
            "`lora_bias` is true, which is not known here",
        ),
        (
            "bias",
            json!("lora_only"),
            "`bias` is \"lora_only\", which is not known here",
        ),
        (
            "init_lora_weights",
            json!("pissa"),
            "`init_lora_weights` is \"pissa\", which is not known here",
        ),
        (
            "alora_invocation_tokens",
            json!([1, 2]),
            "`alora_invocation_tokens` is [1,2], which is not known",
        ),
        (
            "rank_pattern",
            json!({"lm_head": 0.5}),
            "`rank_pattern`: lm_head has rank 0.5, expected a whole number",
        ),
        (
            "ensure_weight_tying",
            json!(true),
            "`ensure_weight_tying` is true, which is not known here",
        ),
        (
            "task_type",
            json!("SEQ_CLS"),
            "`task_type` is \"SEQ_CLS\", expected CAUSAL_LM",
        ),
        (
            "a_key_of_the_future",
            json!(1),
            "`a_key_of_the_future` is 1, which is not known here",
        ),
    ] {
        let line = refusal(&place, "untied head", |keys| keys[key] = value.clone());
        assert!(line.contains(expected), "{line}, expected {expected}");
    }
}

#[test]
fn tensors_of_no_adapter_are_named_by_what_they_are() {
    let place = Scratch::new("adapter-tensors");
    let name = "untied head";
    write_folders(&place, name, &adapters()[name]);
    let path = place.join("adapter/adapter_model.safetensors");
    let factor = "base_model.model.lm_head.lora_A.weight";
    for (extra, expected) in [
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
            "it is of DoRA",
        ),
        (
            "base_model.model.model.embed_tokens.lora_embedding_A",
            "adapters of an embedding are not",
        ),
        (
            "base_model.model.lm_head.lora_B.bias",
            "biases of adapters (`lora_bias`) are not",
        ),
        (
            "base_model.model.lm_head.modules_to_save.weight",
            "PEFT's `save_pretrained` leaves `modules_to_save` out of the names",
        ),
        (
            "base_model.model.lm_head.lora_A.default.weight",
            "it has an adapter's name in its own",
        ),
        (
            "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight",
            "`target_modules` does not name its layer",
        ),
        (
            "model.layers.0.self_attn.q_proj.lora_A.weight",
            "PEFT's names begin with base_model.model.",
        ),
        ("base_model.model.score", "it is no factor of an adapter"),
    ] {
        let mut tensors = below(name);
        tensors.insert(
            extra.to_owned(),
            file().tensor(&format!("{name}/{factor}")).expect(factor),
        );
        write(&path, tensors);
        let line = line_of(&place);
        let of_none = format!("{extra} is of no adapter of the model: ");
        assert!(line.contains(&of_none) && line.contains(expected), "{line}");
    }
    // The output's own matrix, as PEFT stores it, with other values: it was trained.
    let stored = "base_model.model.lm_head.base_layer.weight";
    let mut tensors = below(name);
    let zeros = vec![0; tensors[stored].data().len()];
    let shape = tensors[stored].shape().to_vec();
    let zeros = TensorView::new(safetensors::Dtype::F32, shape, &zeros).expect("a view");
    tensors.insert(stored.to_owned(), zeros);
    write(&path, tensors);
    let line = line_of(&place);
    assert!(
        line.contains(&format!(
            "{stored} is a weight of the model with other values"
        )),
        "{line}"
    );
    // What lies in the place of the file.
    place.write(
        "adapter/adapter_model.safetensors",
        "version https://git-lfs.github.com/spec/v1\n",
    );
    assert!(line_of(&place).ends_with(hlx_core::files::IS_LFS_POINTER));
    fs::remove_file(&path).expect("removed");
    place.write("adapter/adapter_model.bin", "");
    assert!(line_of(&place).contains("adapter_model.bin can hold programs and is not read"));
    let line = place.fails(&arguments("generate adapter --prompt river"));
    assert!(
        line.contains("adapter: holds an adapter; give its model's folder"),
        "{line}"
    );
}
