//! Every verb takes a GGUF file, or a folder that holds its blocks, as the model that it is.

mod common;

use std::fs;
use std::path::PathBuf;

use common::Scratch;
use hlx_autograd::Tensor;
use hlx_gguf::Gguf;
use hlx_io::save_npy;
use hlx_train::receipts::files_of_model;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("../hlx-gguf/tests/fixtures").join(name)
}

/// A scratch folder with a model of blocks, `llama.gguf`, that of its floats, `floats.gguf`, and ids.
fn place(test: &str) -> Scratch {
    let place = Scratch::new(test);
    fs::copy(fixture("models/llama.gguf"), place.join("floats.gguf")).expect("copied");
    let quantise = [
        "quantize",
        "floats.gguf",
        "--to",
        "q4_k_m",
        "--out",
        "llama.gguf",
    ];
    place.succeeds(&quantise);
    let device = hlx_core::testing::cpu().expect("the CPU");
    let ids = Tensor::from_slice::<u32>(&device, &[1, 20, 3, 40, 5, 60], &[1, 6]).expect("ids");
    save_npy(&place.join("ids.npy"), &ids).expect("written");
    place
}

/// What verbs print or write of a model.
fn outcomes(place: &Scratch, model: &str, options: &[&str]) -> Vec<Vec<u8>> {
    let run = |arguments: &[&str]| place.succeeds(&[arguments, options].concat()).into_bytes();
    run(&["logits", model, "--ids", "ids.npy", "--out", "l.npy"]);
    vec![
        fs::read(place.join("l.npy")).expect("there"),
        run(&[
            "generate",
            model,
            "--prompt",
            "Hello world",
            "--max-tokens",
            "8",
            "--json",
        ]),
        run(&[
            "perplexity",
            model,
            "--data",
            "text.txt",
            "--length",
            "16",
            "--json",
        ]),
        run(&[
            "eval", model, "--data", "tokens", "--length", "16", "--json",
        ]),
    ]
}

#[test]
fn a_file_a_folder_of_blocks_and_a_widened_folder_are_one_model() {
    let place = place("doors");
    place.write(
        "text.txt",
        &"Hello world, this is a text of some words. ".repeat(8),
    );
    let prepare = |tokenizer: &str, out: &str| {
        let prepare = [
            "data",
            "prepare",
            "text.txt",
            "--tokenizer",
            tokenizer,
            "--out",
            out,
        ];
        place.succeeds(&prepare);
    };
    prepare("llama.gguf", "tokens");
    let printed = place.succeeds(&["import", "llama.gguf", "--out", "blocks"]);
    assert!(
        printed.ends_with(" bytes of weights in blocks\n"),
        "{printed}"
    );
    place.succeeds(&["import", "llama.gguf", "--widen", "--out", "widened"]);
    let portable = ["--device", "cpu", "--arithmetic", "portable"];
    let expected = outcomes(&place, "widened", &portable);
    for model in ["llama.gguf", "blocks"] {
        for (found, expected) in outcomes(&place, model, &portable).iter().zip(&expected) {
            assert!(
                found == expected,
                "{model}: {}",
                String::from_utf8_lossy(found)
            );
        }
    }
    // The tokenizer of a folder is that of the file's metadata.
    prepare("blocks", "again");
    let tokens = |folder: &str| fs::read(place.join(folder).join("index.json")).expect("there");
    assert!(tokens("tokens") == tokens("again"));
    assert!(place.join("blocks/model.gguf").is_file());
    assert!(!place.join("blocks/model.safetensors").exists());
    // The same folder, with the values as floats.
    place.succeeds(&["import", "llama.gguf", "--widen", "--out", "blocks"]);
    assert!(!place.join("blocks/model.gguf").exists());
    assert!(outcomes(&place, "blocks", &portable) == expected);
}

/// Without an arithmetic a model in blocks is computed in `integer`, by its blocks: with the same bits on every device, and with
/// others than its widened values have.
#[test]
fn blocks_are_multiplied_as_they_lie_on_every_device() {
    let place = place("doors-blocks");
    place.write(
        "text.txt",
        &"Hello world, this is a text of some words. ".repeat(8),
    );
    let prepare = ["data", "prepare", "text.txt", "--tokenizer", "llama.gguf"];
    place.succeeds(&[&prepare[..], &["--out", "tokens"]].concat());
    place.succeeds(&["import", "llama.gguf", "--out", "blocks"]);
    place.succeeds(&["import", "llama.gguf", "--widen", "--out", "widened"]);
    let expected = outcomes(&place, "llama.gguf", &["--device", "cpu"]);
    let integer = ["--device", "cpu", "--arithmetic", "integer"];
    assert!(outcomes(&place, "llama.gguf", &integer) == expected);
    let logits = |model: &str, options: &[&str]| outcomes(&place, model, options).swap_remove(0);
    // The digits of widened values are other integers.
    assert!(logits("widened", &integer) != expected[0]);
    // Values in a type are no blocks.
    let wide = [&integer[..], &["--dtype", "f32"]].concat();
    assert!(logits("llama.gguf", &wide) == logits("widened", &integer));
    if hlx_core::testing::devices().len() > 1 {
        assert!(outcomes(&place, "blocks", &["--device", "vulkan"]) == expected);
    }
}

#[test]
fn floats_of_16_bits_are_held_in_16_bits() {
    let place = place("doors-half");
    let logits = |arguments: &[&str]| {
        let all = [
            "logits",
            "floats.gguf",
            "--ids",
            "ids.npy",
            "--out",
            "l.npy",
            "--device",
            "cpu",
        ];
        place.succeeds(&[&all[..], arguments].concat());
        fs::read(place.join("l.npy")).expect("there")
    };
    // Products widen each element exactly.
    assert!(logits(&[]) == logits(&["--dtype", "f32"]));
    assert!(logits(&["--dtype", "bf16"]) != logits(&[]));
}

#[test]
fn blocks_are_exported_as_they_are_stored() {
    let place = place("doors-export");
    place.succeeds(&["import", "llama.gguf", "--out", "blocks"]);
    let out = ["--gguf", "--out"];
    for (model, file) in [("blocks", "one.gguf"), ("llama.gguf", "two.gguf")] {
        place.succeeds(&[&["export", model], &out[..], &[file]].concat());
    }
    let bytes = |name: &str| fs::read(place.join(name)).expect("there");
    assert!(bytes("one.gguf") == bytes("llama.gguf"));
    assert!(bytes("two.gguf") == bytes("llama.gguf"));
    // A model in several files becomes one file.
    let parts = "parts/m-00001-of-00003.gguf";
    let several = Gguf::open(&fixture(parts)).expect("files");
    several
        .write_whole(&place.join("whole.gguf"))
        .expect("written");
    let whole = Gguf::open(&place.join("whole.gguf")).expect("a file");
    assert_eq!(whole.paths().count(), 1);
    let digest = |file: &Gguf| file.tensors_sha256().expect("a digest");
    assert_eq!(digest(&whole), digest(&several));
    // Floats keep their type: the file's own, f32 of an imported model.
    place.succeeds(&["import", "floats.gguf", "--widen", "--out", "wide"]);
    place.succeeds(&[&["export", "wide"], &out[..], &["wide.gguf"]].concat());
    let kinds = |name: &str| {
        let file = Gguf::open(&place.join(name)).expect("a file");
        let kind = file.tensor("output.weight").expect("a matrix").kind();
        kind.name()
    };
    assert_eq!((kinds("floats.gguf"), kinds("wide.gguf")), ("F16", "F32"));
    let line = place.fails(&["export", "llama.gguf", "--gguf", "--out", "llama.gguf"]);
    assert!(
        line.ends_with("llama.gguf: is the file that is read"),
        "{line}"
    );
    let changed = r#"{"eos_token_id": 7}"#;
    fs::write(place.join("blocks/generation_config.json"), changed).expect("written");
    let export = ["export", "blocks", "--gguf", "--out", "three.gguf"];
    let output = place.hlx(&export).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("differs from the metadata of model.gguf"),
        "{said}"
    );
    assert!(bytes("three.gguf") == bytes("llama.gguf"));
}

#[test]
fn a_digest_is_of_the_tensors_and_not_of_the_file() {
    let place = place("doors-digest");
    place.succeeds(&["import", "llama.gguf", "--out", "blocks"]);
    place.succeeds(&["import", "llama.gguf", "--widen", "--out", "widened"]);
    let digest = |model: &str| -> Value {
        let line = place.succeeds(&["digest", model, "--json"]);
        serde_json::from_str(&line).expect("JSON")
    };
    let of_file = digest("llama.gguf");
    assert_eq!(digest("blocks"), of_file);
    assert_eq!(digest("widened")["parameters"], of_file["parameters"]);
    assert_eq!(digest("widened")["stored"], Value::Null);
    assert_ne!(digest("floats.gguf")["stored"], of_file["stored"]);
    // Receipts name the tensors, whatever the file is called.
    let files = |model: &str| {
        let files = files_of_model(&place.join(model), None).expect("files");
        let files = files.into_iter();
        files
            .map(|file| (file.name, file.sha256.to_string()))
            .collect::<Vec<_>>()
    };
    let stored = of_file["stored"].as_str().expect("a digest");
    let tensors = ("gguf/tensors".to_owned(), stored.to_owned());
    assert_eq!(files("llama.gguf"), std::slice::from_ref(&tensors));
    let of_folder = files("blocks");
    assert_eq!(of_folder[1], tensors);
    let text = place.succeeds(&["digest", "llama.gguf"]);
    assert!(text.ends_with(&format!("stored     {stored}\n")), "{text}");
}

#[test]
fn training_begins_with_a_file() {
    let place = place("doors-train");
    place.write(
        "text.txt",
        &"Hello world, this is a text of some words. ".repeat(8),
    );
    place.succeeds(&[
        "data",
        "prepare",
        "text.txt",
        "--tokenizer",
        "llama.gguf",
        "--out",
        "tokens",
    ]);
    let config = r#"
[model]
config = "llama.gguf"

[data]
path = "tokens"
format = "shards"

[train]
init_from = "llama.gguf"
max_steps = 1
batch_size = 1
"#;
    place.write("run.toml", config);
    place.succeeds(&["train", "run.toml", "--out", "run", "--device", "cpu"]);
    assert!(place.join("run/tokenizer.json").is_file());
}
