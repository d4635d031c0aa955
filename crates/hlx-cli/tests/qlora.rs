//! Adapters over a frozen base in the blocks of a GGUF file or of a folder in NF4 (QLoRA): trained, verified, written, merged, and read again.

mod common;
#[path = "qlora/nf4.rs"]
mod nf4;

use std::fs;

use common::{Scratch, proof};
use hlx_core::Arithmetic;
use hlx_io::save_npy;

/// Three steps of a model whose rows fill blocks of 32.
const MODEL: &str = r#"seed = 7

[model]
architecture = "qwen3"
width = 64
n_layers = 1
n_heads = 4
n_kv_heads = 2
feed_forward_width = 96
positions = 32

[data]
path = "tokens"
format = "shards"
length = 16

[train]
max_steps = 3
batch_size = 4
learning_rate = 0.01
schedule = "constant"
checkpoint_every = 0
"#;

const LORA: &str = r#"rank = 2, alpha = 3.0, targets = ["*.self_attn.*", "*.mlp.*"]"#;

/// A folder with a base in blocks, `base.gguf` or, of NF4, the folder `base`, and its tokens.
fn place(name: &str, kind: &str) -> Scratch {
    let place = Scratch::exported(name, MODEL);
    match kind {
        "nf4" => nf4::write_base(&place),
        _ => _ = place.succeeds(&["quantize", "hub", "--to", kind, "--out", "base.gguf"]),
    }
    place
}

/// The name of the base of a place.
fn base_of(place: &Scratch) -> &'static str {
    match place.join("base").is_dir() {
        true => "base",
        false => "base.gguf",
    }
}

fn lora_over(place: &Scratch) -> String {
    let base = place.join(base_of(place));
    format!("lora={{{LORA}, base = \"{}\"}}", base.display())
}

fn train(place: &Scratch, out: &str, more: &[&str], sets: &[&str]) {
    let lora = lora_over(place);
    let mut line = vec!["train", "config.toml", "--out", out, "--set", &lora];
    line.extend(more);
    for set in sets {
        line.extend(["--set", set]);
    }
    place.succeeds(&line);
}

#[test]
fn every_device_and_micro_batch_has_the_same_bits() {
    // Matrices in blocks, and in 16 bits.
    check_bits("q4_0", &[Arithmetic::Integer, Arithmetic::Portable], 1);
    check_bits("f16", &[Arithmetic::Integer], 3);
    // (One of a layer's matrices and the embedding are in f32.)
    check_bits("nf4", &[Arithmetic::Integer, Arithmetic::Portable], 4);
}

/// Trains over a base whose elements take less than some bytes each.
fn check_bits(kind: &str, arithmetics: &[Arithmetic], bytes: usize) {
    let place = place("qlora-devices", kind);
    let lora = lora_over(&place);
    for arithmetic in arithmetics {
        let own = format!("arithmetic={arithmetic}");
        let mut first = None;
        for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
            let sizes = if device.is_cpu() {
                &["4", "1"][..]
            } else {
                &["2"]
            };
            for micro in sizes {
                let micro_batch = format!("train.micro_batch_size={micro}");
                let sets = [&lora[..], &own, &micro_batch, "train.max_steps=2"];
                let out = format!("{arithmetic}-{number}-{micro}");
                let mut trainer = place.trainer(device, &out, &sets);
                // The adapters alone are the model's weights: the rest has no gradient and no optimizer's state.
                let weights = trainer.weights();
                assert_eq!(weights.parameters().len(), 2 * 7);
                let base = weights.base().expect("a base");
                assert!(base.n_bytes() < bytes * base.n_elements());
                let outcome = trainer.run(&mut hlx_train::train::Silent).expect("trains");
                let found = (proof(&outcome.digests), outcome.last_loss.map(f64::to_bits));
                let expected = first.get_or_insert_with(|| found.clone());
                assert_eq!(*expected, found, "{out} {}", device.info());
            }
        }
    }
}

#[test]
fn a_run_is_verified_resumed_written_and_read_again() {
    for kind in ["q4_0", "nf4"] {
        check_run(kind);
    }
}

fn check_run(kind: &str) {
    let place = place("qlora", kind);
    let base = base_of(&place);
    train(&place, "tuned", &[], &["arithmetic=integer"]);
    let verified = place.succeeds(&["verify", "tuned"]);
    assert!(verified.contains("equal"), "{verified}");
    let parts = ["arithmetic=integer", "train.max_steps=2"];
    train(&place, "parts", &[], &parts);
    train(&place, "parts", &["--resume"], &["arithmetic=integer"]);
    train(
        &place,
        "ranks",
        &["--devices", "cpu,cpu"],
        &["arithmetic=integer"],
    );
    for other in ["parts", "ranks"] {
        assert_eq!(
            proof(&place.digests(other)),
            proof(&place.digests("tuned")),
            "{other}"
        );
    }

    // PEFT's files, over the base as it lies: the bits of the run.
    place.succeeds(&["lora", "tuned", "--out", "adapter"]);
    let ids = hlx_autograd::Tensor::from_slice::<u32>(
        &hlx_core::testing::cpu().expect("opens"),
        &[5, 9, 2, 7],
        &[1, 4],
    );
    save_npy(&place.join("ids.npy"), &ids.expect("made")).expect("written");
    let logits = |more: &[&str]| {
        let line = [&["logits"], more, &["--ids", "ids.npy", "--out", "l.npy"]].concat();
        place.succeeds(&line);
        fs::read(place.join("l.npy")).expect("written")
    };
    let of_run = logits(&["tuned"]);
    assert_eq!(logits(&[base, "--adapter", "adapter"]), of_run);
    assert_ne!(logits(&[base]), of_run, "nothing was learnt");

    // Merged into floats of 32 and 16 bits, and into blocks again.
    place.succeeds(&["lora", "tuned", "--out", "merged", "--merge"]);
    for (kind, file) in [("f16", "merged-f16.gguf"), ("q8_0", "merged-q8.gguf")] {
        place.succeeds(&["lora", "tuned", "--merge", "--to", kind, "--out", file]);
        assert_ne!(logits(&[file]), of_run);
    }
    let with = [
        "lora",
        base,
        "--adapter",
        "adapter",
        "--merge",
        "--out",
        "again",
    ];
    place.succeeds(&with);
    let model = |folder: &str| fs::read(place.join(folder).join("model.safetensors"));
    assert_eq!(
        model("again").expect("there"),
        model("merged").expect("there")
    );
    let text = |more: &[&str]| {
        let generate = [
            "--prompt",
            "the river",
            "--max-tokens",
            "4",
            "--temperature",
            "0",
        ];
        place.succeeds(&[&["generate"], more, &generate].concat())
    };
    assert_eq!(text(&["tuned"]), text(&[base, "--adapter", "adapter"]));
}

/// Magnitudes begin as the norms of the widened rows, and whole modules as the file has them: the model is the base at first.
#[test]
fn every_kind_of_adapter_stands_over_blocks() {
    let place = place("qlora-kinds", "q4_0");
    let base = place.join("base.gguf");
    let train_more = |out: &str, kinds: &str, rate: &str, more: &[&str]| {
        let lora = format!("lora={{{LORA}{kinds}, base = \"{}\"}}", base.display());
        let rate = format!("train.learning_rate={rate}");
        let line = [
            "train",
            "config.toml",
            "--out",
            out,
            "--set",
            &lora,
            "--set",
            &rate,
        ];
        place.succeeds(
            &[
                &line[..],
                &["--set", "arithmetic=integer", "--set", "train.log_every=1"],
                more,
            ]
            .concat(),
        );
    };
    let train = |out: &str, kinds: &str, rate: &str| {
        train_more(out, kinds, rate, &[]);
        let lines = fs::read_to_string(place.join(out).join("metrics.jsonl")).expect("there");
        let first: serde_json::Value =
            serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
        first["loss"].to_string()
    };
    let plain = train("plain", "", "0");
    let kinds = ", dora = true, rslora = true, modules_to_save = [\"model.norm\"]";
    assert_eq!(train("still", kinds, "0"), plain);
    // The output is tied to the embedding, and read in f32 then.
    let kinds = ", dora = true, modules_to_save = [\"model.norm\", \"model.embed_tokens\"]";
    train("tuned", kinds, "0.01");
    let verified = place.succeeds(&["verify", "tuned"]);
    assert!(verified.contains("equal"), "{verified}");
    // The same in two parts.
    train_more("parts", kinds, "0.01", &["--set", "train.max_steps=2"]);
    train_more("parts", kinds, "0.01", &["--resume"]);
    assert_eq!(
        proof(&place.digests("parts")),
        proof(&place.digests("tuned"))
    );
    place.succeeds(&["lora", "tuned", "--out", "adapter"]);
    let text = |more: &[&str]| {
        let sampled = [
            "--prompt",
            "the river",
            "--max-tokens",
            "6",
            "--temperature",
            "0",
        ];
        place.succeeds(&[&["generate"], more, &sampled].concat())
    };
    assert_eq!(
        text(&["tuned"]),
        text(&["base.gguf", "--adapter", "adapter"])
    );
    place.succeeds(&[
        "lora",
        "tuned",
        "--merge",
        "--to",
        "q8_0",
        "--out",
        "merged.gguf",
    ]);
}

#[test]
fn another_base_and_what_is_none_are_refused() {
    let place = place("qlora-bad", "q4_0");
    train(&place, "tuned", &[], &[]);
    let other = ["quantize", "hub", "--to", "q8_0", "--out", "other.gguf"];
    place.succeeds(&other);
    fs::rename(place.join("other.gguf"), place.join("base.gguf")).expect("moved");
    for verb in ["verify", "digest"] {
        if verb == "verify" {
            let line = place.fails(&[verb, "tuned"]);
            assert!(line.contains("is another base: its digest is"), "{line}");
        } else {
            // The adapters' own digests need no base.
            place.succeeds(&[verb, "tuned"]);
        }
    }
    let fails = |lora: &str, more: &[&str]| {
        let set = format!("lora={{rank = 2, {lora}}}");
        let line = ["train", "config.toml", "--out", "bad", "--set", &set];
        place.fails(&[&line[..], more].concat())
    };
    let line = fails("base = \"drawn:Q9\"", &[]);
    assert!(
        line.contains("Q9 is no format of blocks, expected one of Q8_0"),
        "{line}"
    );
    let line = fails("base = \"base.gguf\"", &["--set", "train.init_from=hub"]);
    assert!(
        line.contains("stands beside train.init_from, expected one"),
        "{line}"
    );
    let line = fails("base = \"config.toml\"", &[]);
    assert!(line.contains("lora.base"), "{line}");
    let line = fails("base = \"base.gguf\"", &["--set", "model.n_layers=2"]);
    assert!(line.contains("which these weights have not"), "{line}");
}
