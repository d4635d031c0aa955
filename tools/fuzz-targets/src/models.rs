//! Readers of Hugging Face folders, adapters and arrays.

use std::fs;
use std::path::{Path, PathBuf};

use hlx_nn::{
    CausalConfig, CausalLm, ExpertsConfig, LoraConfig, Model, export_hugging_face,
    hugging_face_dtype, import_hugging_face, read_hugging_face_config, read_peft_config,
};
use hlx_text::{ChatTemplate, Tokenizer};
use hlx_train::companions::Companions;
use hlx_train::generate::{Wanted, check_settings};
use hlx_train::run::Monitor;
use hlx_train::sample::Sampling;
use hlx_train::special_tokens::SpecialTokens;

use crate::files::cpu;
use crate::scratch;
use crate::tokens::{use_template, use_tokenizer};

/// The adapter that the targets read: of queries and keys.
pub fn lora() -> LoraConfig {
    LoraConfig {
        rank: 2,
        alpha: 4.0,
        targets: vec!["*.q_proj".to_owned(), "*.k_proj".to_owned()],
        ..LoraConfig::default()
    }
}

/// The shape of a preset with some hundred parameters, which the targets write and read.
pub fn causal_sizes(preset: &str) -> CausalConfig {
    let base = CausalConfig::preset(preset).expect("a preset");
    let experts = base.experts.clone().map(|experts| ExpertsConfig {
        n_experts: 2,
        per_token: 1,
        width: 4,
        ..experts
    });
    CausalConfig {
        experts,
        vocabulary: 11,
        width: 4,
        n_layers: 1,
        n_heads: 2,
        n_kv_heads: 2,
        head_width: 2,
        feed_forward_width: 4,
        max_positions: 8,
        full_layers: Vec::new(),
        ..base
    }
}

/// A folder with a whole model in Hugging Face's form.
pub(crate) fn folder_of_model(name: &str) -> PathBuf {
    let folder = scratch(name);
    if !folder.join("config.json").is_file() {
        let sizes = causal_sizes("llama2");
        let model = Model::new(cpu(), 1, |b| CausalLm::new(b, &sizes)).expect("a model");
        export_hugging_face(model.weights(), &sizes, &folder).expect("written");
    }
    folder
}

/// Reads a Hugging Face configuration.
pub fn hugging_face_config(data: &[u8]) {
    let folder = scratch("hugging-face-config");
    if fs::write(folder.join("config.json"), data).is_ok()
        && let Ok(config) = read_hugging_face_config(&folder)
    {
        let _ = config.validate();
    }
}

/// Reads the tensors of a Hugging Face folder: any bytes as the only file, as the index of several, and as
/// one of them.
pub fn hugging_face_files(data: &[u8]) {
    const INDEX: &str = "model.safetensors.index.json";
    const PART: &str = "model-00001-of-00001.safetensors";
    let single = folder_of_model("hugging-face-single");
    let whole = fs::read(folder_of_model("hugging-face-whole").join("model.safetensors"));
    let whole = whole.expect("a model");
    read_folder(&single, &[("model.safetensors", data)]);
    let parts = folder_of_model("hugging-face-parts");
    // A whole file would be read instead of the parts.
    let _ = fs::remove_file(parts.join("model.safetensors"));
    read_folder(&parts, &[(INDEX, data), (PART, &whole)]);
    let index = format!("{{\"weight_map\": {{\"lm_head.weight\": \"{PART}\"}}}}");
    read_folder(&parts, &[(INDEX, index.as_bytes()), (PART, data)]);
}

fn read_folder(folder: &Path, files: &[(&str, &[u8])]) {
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("written");
    }
    let _ = hugging_face_dtype(folder);
    let _ = import_hugging_face(cpu(), folder);
}

/// Opens tokenizers beside which any bytes stand as their settings, their chat template, and the settings of
/// generation; encodes, decodes and renders.
pub fn tokenizer_config(data: &[u8]) {
    const WORDS: &str = r#"{"version": "1.0", "added_tokens": [{"id": 1, "content": "<s>", "special": true,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
        "model": {"type": "WordLevel", "vocab": {"the": 0}, "unk_token": "the"}}"#;
    let folder = scratch("tokenizer-config");
    let own = Tokenizer::characters_of("the river").expect("a tokenizer");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("written");
    write("tokenizer_config.json", data);
    write("generation_config.json", data);
    for (json, template) in [(own.to_json(), false), (WORDS, false), (WORDS, true)] {
        write("tokenizer.json", json.as_bytes());
        let jinja = folder.join("chat_template.jinja");
        if template {
            fs::write(&jinja, data).expect("written");
            write("tokenizer_config.json", b"{}");
        } else {
            let _ = fs::remove_file(jinja);
        }
        if let Ok(tokenizer) = Tokenizer::open(&folder) {
            use_tokenizer(&tokenizer);
            if let Ok(template) = ChatTemplate::of(&tokenizer) {
                use_template(&template);
            }
        }
    }
    let from = Companions::Folder(folder);
    let _ = SpecialTokens::read(&from, Some(&own));
    let wanted = Wanted {
        sampling: Sampling::default(),
        max_tokens: 8,
        n_texts: 1,
    };
    let _ = check_settings(&from, &wanted);
}

/// Reads adapters of PEFT, and what a checkpoint says of its own.
pub fn adapters(data: &[u8]) {
    for preset in ["llama2", "gpt2"] {
        let sizes = causal_sizes(preset);
        let model = Model::zeroed(cpu(), |b| {
            b.with_lora(lora());
            CausalLm::new(b, &sizes)
        });
        let model = model.expect("a model");
        let _ = model.weights().load_lora(data, &lora(), sizes.family());
        let _ = read_peft_config(data, &sizes);
    }
    if let Ok(read) = hlx_train::config::lora_from_bytes(data) {
        let _ = read.check();
    }
}

/// Reads what a run has seen of its own course; what it is written as is read again.
pub fn monitor(data: &[u8]) {
    if let Ok(monitor) = Monitor::from_bytes(data) {
        let written = monitor.to_bytes().expect("bytes");
        let again = Monitor::from_bytes(&written).expect("its own bytes");
        assert_eq!(again.to_bytes().expect("bytes"), written);
    }
}

/// Reads an array, as the ids of `hlx logits`.
pub fn npy(data: &[u8]) {
    let path = scratch("npy").join("ids.npy");
    if fs::write(&path, data).is_ok()
        && let Ok(tensor) = hlx_io::load_npy(cpu(), &path)
    {
        let again = hlx_io::save_npy(&path, &tensor).and_then(|()| hlx_io::load_npy(cpu(), &path));
        assert_eq!(again.expect("its own bytes").shape(), tensor.shape());
    }
}
