//! `hlx import FILE.gguf --widen`: files that llama.cpp's own program converted have the logits of the models that they
//! were converted from.

mod common;

use std::fs;
use std::path::PathBuf;

use common::Scratch;
use hlx_autograd::Tensor;
use hlx_io::{load_npy, save_npy};
use serde_json::Value;

const NAMES: [&str; 9] = [
    "gpt2", "llama", "llama3", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3",
];

fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("../hlx-gguf/tests/fixtures/models").join(name)
}

fn expected(name: &str) -> Value {
    let bytes = fs::read(fixture(&format!("{name}.json"))).expect("a fixture");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Copies a model's file to the place.
fn copied(place: &Scratch, name: &str) -> String {
    let file = format!("{name}.gguf");
    fs::copy(fixture(&file), place.join(&file)).expect("copied");
    file
}

#[test]
fn a_widened_model_has_the_logits_of_transformers() {
    let place = Scratch::new("gguf");
    let device = hlx_core::testing::cpu().expect("the CPU");
    for name in NAMES {
        let (file, expected) = (copied(&place, name), expected(name));
        let printed = place.succeeds(&["import", &file, "--widen", "--out", name]);
        assert!(
            printed.ends_with(&format!(" parameters in {name}\n")),
            "{printed}"
        );
        let ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).expect("ids");
        let ids = Tensor::from_slice::<u32>(&device, &ids, &[1, ids.len()]).expect("ids");
        save_npy(&place.join("ids.npy"), &ids).expect("written");
        place.succeeds(&[
            "logits", name, "--ids", "ids.npy", "--out", "l.npy", "--device", "cpu",
        ]);
        let logits = load_npy(&device, &place.join("l.npy")).expect("read");
        let logits = logits.to_vec::<f32>().expect("logits");
        let theirs: Vec<f32> = serde_json::from_value(expected["logits"].clone()).expect("logits");
        let last = &logits[logits.len() - theirs.len()..];
        let largest = theirs
            .iter()
            .fold(0.0, |most: f32, one| most.max(one.abs()));
        let errors = last
            .iter()
            .zip(&theirs)
            .map(|(one, other)| (one - other).abs());
        let error = errors.fold(0.0, f32::max);
        assert!(error <= 1e-4 * largest, "{name}: {error} of {largest}");
    }
}

#[test]
fn the_tokenizer_comes_along() {
    let place = Scratch::new("gguf-tokenizer");
    for name in ["llama", "llama3"] {
        let file = copied(&place, name);
        place.succeeds(&["import", &file, "--widen", "--out", name]);
        let prompt = [
            "generate",
            name,
            "--prompt",
            "Hello world",
            "--max-tokens",
            "4",
            "--device",
            "cpu",
        ];
        place.succeeds(&prompt);
        place.succeeds(&["export", name, &format!("{name}-exported")]);
        let settings = place.join(&format!("{name}-exported/generation_config.json"));
        let settings: Value =
            serde_json::from_slice(&fs::read(settings).expect("there")).expect("JSON");
        assert!(settings["eos_token_id"].is_number(), "{settings}");
    }
}

/// Logits of a model folder for ids, as a file's bytes.
fn logits(place: &Scratch, model: &str) -> Vec<u8> {
    place.succeeds(&[
        "logits", model, "--ids", "ids.npy", "--out", "l.npy", "--device", "cpu",
    ]);
    fs::read(place.join("l.npy")).expect("there")
}

#[test]
fn a_model_is_written_as_a_file_and_read_back() {
    let place = Scratch::new("gguf-written");
    let device = hlx_core::testing::cpu().expect("the CPU");
    let ids = Tensor::from_slice::<u32>(&device, &[1, 20, 3, 40, 5, 60], &[1, 6]).expect("ids");
    save_npy(&place.join("ids.npy"), &ids).expect("written");
    for name in NAMES {
        let file = copied(&place, name);
        place.succeeds(&["import", &file, "--widen", "--out", name]);
        let written = format!("{name}-again.gguf");
        let printed = place.succeeds(&["quantize", name, "--to", "f16", "--out", &written]);
        assert!(
            printed.ends_with(&format!(" bytes of weights in {written}\n")),
            "{printed}"
        );
        let again = format!("{name}-again");
        place.succeeds(&["import", &written, "--widen", "--out", &again]);
        // The fixtures' values are of f16.
        assert!(logits(&place, &again) == logits(&place, name), "{name}");
        let read = |name: &str| fs::read(place.join(name)).expect("there");
        assert!(
            read(&format!("{again}/config.json")) == read(&format!("{name}/config.json")),
            "{name}"
        );
    }
    let bytes = ["one.gguf", "two.gguf"].map(|out| {
        place.succeeds(&["quantize", "llama", "--to", "q4_k_m", "--out", out]);
        fs::read(place.join(out)).expect("there")
    });
    assert!(bytes[0] == bytes[1]);
    place.succeeds(&["import", "one.gguf", "--widen", "--out", "small"]);
    assert!(logits(&place, "small") != logits(&place, "llama"));
    let line = place.fails(&[
        "quantize",
        "llama",
        "--to",
        "q8_0",
        "--out",
        "llama/model.safetensors",
    ]);
    assert_eq!(
        line,
        "error: llama/model.safetensors: is the file that is read"
    );
}

#[test]
fn what_cannot_be_imported_is_said_in_one_line() {
    let place = Scratch::new("gguf-refused");
    let file = copied(&place, "llama");
    let refused = |arguments: &[&str]| place.fails(arguments);
    place.write("text.gguf", "no such thing");
    assert_eq!(
        refused(&["import", "text.gguf", "--out", "mine"]),
        "error: text.gguf: is no GGUF file"
    );
    for verb in ["generate", "perplexity"] {
        let option = if verb == "generate" {
            "--prompt"
        } else {
            "--data"
        };
        let line = refused(&[verb, "text.gguf", option, "text.gguf", "--device", "cpu"]);
        assert_eq!(line, "error: text.gguf: is no GGUF file");
    }
    fs::create_dir(place.join("folder")).expect("a folder");
    assert_eq!(
        refused(&["import", "folder", "--widen"]),
        "error: --widen: folder is no GGUF file and no folder in NF4"
    );
    place.write("broken.gguf", "GGUF and no more");
    assert_eq!(
        refused(&["import", "broken.gguf", "--widen", "--out", "mine"]),
        "error: broken.gguf: has version 1684955424 of GGUF, expected 2 or 3"
    );
    let mut bytes = fs::read(place.join(&file)).expect("there");
    // An infinity of f32, and NaN of f16.
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&[0, 0, 0x80, 0x7f]);
    fs::write(place.join("infinite.gguf"), bytes).expect("written");
    let error = refused(&["import", "infinite.gguf", "--widen", "--out", "mine"]);
    assert!(
        error.starts_with("error: infinite.gguf: ")
            && error.ends_with(" holds 1 NaN or infinite value"),
        "{error}"
    );
    assert!(!place.join("mine").exists());
}
