//! Adapters in a run: begun from another run, trained alone, resumed, verified, written and merged.

mod common;

use common::{SMALL_MODEL, Scratch, overrides, proof, status};
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::train::{Silent, Start, TrainOptions, Trainer};
use hlx_train::trained::Trained;

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn values(weights: &hlx_nn::Weights) -> Vec<(String, Vec<f32>)> {
    let names = weights.parameters().iter().map(|one| one.name().to_owned());
    names
        .zip(weights.download(weights.values()).expect("downloads"))
        .collect()
}

#[test]
fn adapters_are_trained_resumed_verified_and_merged() {
    let place = Scratch::new("lora");
    place.train(&cpu(), "base", &["train.max_steps=3"]);
    let from = format!("train.init_from={}", place.join("base").display());
    let sets = [
        from.as_str(),
        "lora={rank = 2, alpha = 4.0, targets = [\"*.attention.*\", \"*.feed_forward.up\"]}",
        "train.schedule=constant",
        "model.dropout=0",
    ];
    let whole = place.train(&cpu(), "whole", &sets);
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let out = format!("parts-{number}");
        place.train(device, &out, &[&sets[..], &["train.max_steps=4"]].concat());
        let config = Config::load(&place.join("config.toml"), &overrides(&sets)).expect("loads");
        let options = TrainOptions {
            start: Start::Resume(place.join(&out)),
            data_path: place.join("corpus.jsonl"),
        };
        let mut trainer = Trainer::new(device, config, &options).expect("resumes");
        let parts = trainer.run(&mut Silent).expect("trains");
        assert_eq!(
            proof(&parts.digests),
            proof(&whole.digests),
            "{}",
            device.info()
        );
    }
    let base = Trained::open(&cpu(), &place.join("base"), false).expect("opens");
    let adapted = Trained::open(&cpu(), &place.join("whole"), false).expect("opens");
    let base = values(base.model.weights());
    let adapted = values(adapted.model.weights());
    for (name, before) in &base {
        let after = adapted
            .iter()
            .find(|(other, _)| other == name)
            .expect("the base's");
        assert_eq!(after.1, *before, "{name}");
    }
    assert_eq!(adapted.len(), base.len() + 2 * 2 * 3);
    let trained = adapted
        .iter()
        .filter(|(name, _)| name.ends_with(".lora_B.weight"));
    assert!(trained.clone().count() == 6);
    assert!(
        trained
            .flat_map(|(_, values)| values)
            .any(|&value| value != 0.0)
    );

    place.digests("whole");
    let verified = place.succeeds(&["verify", "whole"]);
    assert!(verified.contains("equal"), "{verified}");
    let written = place.succeeds(&["lora", "whole", "--out", "adapter"]);
    assert!(written.contains("adapter_model.safetensors"), "{written}");
    place.succeeds(&["lora", "whole", "--out", "merged", "--merge"]);
    // A run that begins with the merged model, and takes no step worth the name, has its loss.
    let from = format!(
        "train.init_from={}",
        place.join("merged/model.safetensors").display()
    );
    let still = [
        from.as_str(),
        "train.learning_rate=0",
        "train.max_steps=1",
        "model.dropout=0",
    ];
    let merged = place.train(&cpu(), "from-merged", &still);
    let (merged, apart) = (
        merged.train.expect("a loss").loss,
        whole.train.expect("a loss").loss,
    );
    assert!((merged - apart).abs() < 1e-4, "{merged} {apart}");
}

/// A tied model has no layer for its output.
#[test]
fn a_target_that_names_no_layer_is_named_in_a_line() {
    let place = Scratch::exported("lora-target", SMALL_MODEL);
    let train = |targets: &str, out: &str| {
        let lora = format!("lora={{rank = 1, targets = [{targets}]}}");
        let sets = ["--set", "train.init_from=hub", "--set", &lora];
        let line = [&["train", "config.toml", "--out", out][..], &sets].concat();
        let (code, _, printed) = status(&place, &line);
        assert_eq!(code, 0, "{printed}");
        printed
    };
    let printed = train("\"*.q_proj\", \"lm_head\"", "one");
    let line = "lora.targets: lm_head names no linear layer of the model, and is left out";
    assert_eq!(printed.matches(line).count(), 1, "{printed}");
    assert!(!train("\"*.q_proj\"", "other").contains("lora.targets"));
}

#[test]
fn what_cannot_be_adapted_is_refused() {
    let place = Scratch::new("lora-bad");
    place.train(&cpu(), "base", &["train.max_steps=1"]);
    let fails = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        place.fails(&[&["train", "config.toml", "--out", "run"], &sets[..]].concat())
    };
    let line = fails(&["lora={rank = 2}"]);
    assert!(
        line.ends_with("needs train.init_from, the model that is adapted, or lora.base, a model that stays as it is stored"),
        "{line}"
    );
    let line = fails(&["lora={rank = 0}", "train.init_from=base"]);
    assert!(line.contains("rank is 0, expected at least 1"), "{line}");
    let line = fails(&["lora={targets = [\"head\"]}", "train.init_from=base"]);
    assert!(
        line.contains("targets name no linear layer of the model"),
        "{line}"
    );
    let line = fails(&["train.init_from=nowhere"]);
    assert!(
        line.contains("train.init_from: ") && line.contains("is no run folder"),
        "{line}"
    );
    let line = fails(&["train.init_from=base", "model.width=8"]);
    assert!(
        line.contains("train.init_from: ") && line.contains("has shape"),
        "{line}"
    );
    let line = place.fails(&["lora", "base", "--out", "adapter"]);
    assert!(line.ends_with("has no adapters (section [lora])"), "{line}");
}

/// A GPT-2 has queries, keys and values in one module: the adapter that is written is read again, and merges into
/// the model as the run's own.
#[test]
fn an_adapter_is_written_as_peft_has_it_and_merged_into_a_model_folder() {
    let config = SMALL_MODEL.replace("qwen3", "gpt2");
    let config = config.replace("n_kv_heads = 2", "n_kv_heads = 4");
    let place = Scratch::exported("lora-peft", &config);
    let sets = [
        "train.init_from=hub",
        "lora={rank = 2, alpha = 3.0, targets = [\"*_proj\"]}",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    place.succeeds(&[&["train", "config.toml", "--out", "tuned"], &sets[..]].concat());
    place.succeeds(&["lora", "tuned", "--out", "adapter"]);
    place.succeeds(&["lora", "tuned", "--out", "own", "--merge"]);
    let merge = ["lora", "hub", "--adapter", "adapter", "--merge", "--out"];
    place.succeeds(&[&merge[..], &["merged"]].concat());
    let read = |path: &str| std::fs::read(place.join(path)).expect("there");
    assert_eq!(
        read("merged/model.safetensors"),
        read("own/model.safetensors")
    );
    assert_ne!(
        read("merged/model.safetensors"),
        read("hub/model.safetensors")
    );
    place.succeeds(&[
        "generate",
        "merged",
        "--prompt",
        "river",
        "--max-tokens",
        "2",
    ]);

    let to = |out: &str| place.fails(&[&merge[..], &[out]].concat());
    for out in ["hub", "adapter", "./adapter"] {
        assert_eq!(to(out), format!("error: {out}: is the folder that is read"));
    }
    for out in ["tuned", "tokens"] {
        assert!(to(out).ends_with("has not made; name an empty or a new folder"));
    }
    let line = place.fails(&["lora", "tuned", "--out", "merged"]);
    let expected = "error: merged: was made by `hlx lora --merge`; name an empty or a new folder";
    assert_eq!(line, expected);
    for folder in [&["own", "--merge"][..], &["adapter"]] {
        place.succeeds(&[&["lora", "tuned", "--out"], folder].concat());
    }
    assert_eq!(
        read("merged/model.safetensors"),
        read("own/model.safetensors")
    );

    let line = place.fails(&[
        "lora",
        "tuned",
        "--adapter",
        "adapter",
        "--merge",
        "--out",
        "x",
    ]);
    assert_eq!(line, "error: tuned: is a run, expected a model's folder");
    let line = place.fails(&["lora", "hub", "--adapter", "hub", "--merge", "--out", "x"]);
    assert!(
        line.starts_with("error: hub/adapter_config.json: "),
        "{line}"
    );
    let text = String::from_utf8(read("adapter/adapter_config.json")).expect("text");
    let changed = text.replace("\"use_dora\": false", "\"use_dora\": true");
    place.write("adapter/adapter_config.json", &changed);
    assert_eq!(
        place.fails(&[&merge[..], &["x"]].concat()),
        "error: adapter: adapter: base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector is missing"
    );
}
