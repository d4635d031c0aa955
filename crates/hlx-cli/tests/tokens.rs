//! Runs of today's architectures on prepared tokens: the same bits on every device, resumed, in
//! micro-batches and recomputed; evaluated, exported, and gone on from.

mod common;

use common::{Scratch, overrides, proof};
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::run::Metric;
use hlx_train::train::{Silent, Start, TrainOptions, Trainer};

const CONFIG: &str = r#"seed = 7

[model]
architecture = "llama3"
width = 16
n_layers = 2
n_heads = 4
n_kv_heads = 2
feed_forward_width = 24
positions = 24

[data]
path = "tokens"
format = "shards"
length = 16
eval_fraction = 0.1

[train]
max_steps = 5
batch_size = 8
shards = 4
learning_rate = 0.01
log_every = 2
checkpoint_every = 0
"#;

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

/// A folder with a tokenizer, shards of text and of pairs, and the configuration.
fn place(name: &str) -> Scratch {
    let place = Scratch::new(name);
    place.write("config.toml", CONFIG);
    place.prepare_tokens();
    place
}

fn resumed(place: &Scratch, device: &Device, out: &str, sets: &[&str]) -> (String, String) {
    let config = Config::load(&place.join("config.toml"), &overrides(sets)).expect("loads");
    let options = TrainOptions {
        start: Start::Resume(place.join(out)),
        data_path: place.join(&config.data.path),
    };
    let mut trainer = Trainer::new(device, config, &options).expect("resumes");
    proof(&trainer.run(&mut Silent).expect("trains").digests)
}

/// Every way to make rows of documents, of three architectures, on every device, in one go, in parts
/// and in micro-batches.
#[test]
fn every_kind_of_rows_gives_the_same_bits_whole_resumed_and_in_micro_batches() {
    let place = place("tokens-bits");
    let cases = [
        ["llama3", "windows", "tokens"],
        ["gemma2", "separate_windows", "pairs"],
        ["qwen3", "packed", "pairs"],
        ["gpt2", "padded", "pairs"],
    ];
    for [architecture, rows, data] in cases {
        let architecture = format!("model.architecture={architecture}");
        let (kind, path) = (format!("data.rows={rows}"), format!("data.path={data}"));
        let dropout = "model.dropout=0.1";
        let sets = [
            &architecture,
            &kind,
            &path,
            dropout,
            "train.schedule=constant",
        ];
        let whole = place.train(&cpu(), &format!("{rows}-whole"), &sets);
        assert!(whole.held_out.expect("held out").loss.is_finite());
        for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
            let out = format!("{rows}-{number}");
            let first = [
                &sets[..],
                &["train.max_steps=3", "train.micro_batch_size=4"],
            ]
            .concat();
            place.train(device, &out, &first);
            let last = [&sets[..], &["train.micro_batch_size=2"]].concat();
            let found = resumed(&place, device, &out, &last);
            assert_eq!(found, proof(&whole.digests), "{rows} {}", device.info());
        }
    }
}

#[test]
fn a_run_is_verified_evaluated_exported_and_gone_on_from() {
    let place = place("tokens-run");
    let printed = place.succeeds(&["train", "config.toml", "--out", "run"]);
    assert!(printed.contains("rows, "), "{printed}");
    assert!(printed.contains(" tokens"), "{printed}");
    place.digests("run");
    let verified = place.succeeds(&["verify", "run"]);
    assert!(verified.contains("equal"), "{verified}");

    // The part held out, and all tokens.
    let loss = |arguments: &[&str]| -> serde_json::Value {
        let all = [
            &["eval", "run", "--data", "tokens", "--json"][..],
            arguments,
        ]
        .concat();
        serde_json::from_str(&place.succeeds(&all)).expect("an object")
    };
    let (held_out, all) = (loss(&["--held-out"]), loss(&[]));
    let tokens = |found: &serde_json::Value| found["evaluation"]["n_tokens"].as_u64();
    assert!(tokens(&held_out) < tokens(&all), "{held_out} {all}");

    // To Hugging Face's form and back: the same model.
    place.succeeds(&["export", "run", "hub"]);
    assert!(place.join("hub/tokenizer.json").is_file());
    place.succeeds(&["import", "hub", "--out", "mine"]);
    let (hub, mine) = (place.join("hub"), place.join("mine"));
    for folder in [hub, mine] {
        let folder = folder.display();
        let out = format!(
            "{}-run",
            folder.to_string().rsplit('/').next().expect("a name")
        );
        let sets = [
            format!("model.config={folder}"),
            format!("train.init_from={folder}"),
            "train.learning_rate=0".to_owned(),
            "train.max_steps=1".to_owned(),
        ];
        let config = CONFIG.replace("architecture = \"llama3\"\nwidth = 16\nn_layers = 2\nn_heads = 4\nn_kv_heads = 2\nfeed_forward_width = 24\npositions = 24\n", "");
        place.write("tuned.toml", &config);
        let sets: Vec<&str> = sets
            .iter()
            .flat_map(|set| ["--set", set.as_str()])
            .collect();
        place.succeeds(&[&["train", "tuned.toml", "--out", &out], &sets[..]].concat());
        assert_eq!(
            place.digests(&out).parameters,
            place.digests("run").parameters
        );
    }
}

#[test]
fn adapters_of_an_architecture_are_trained_merged_and_exported() {
    let place = place("tokens-lora");
    place.train(&cpu(), "base", &["train.max_steps=1"]);
    let from = format!("train.init_from={}", place.join("base").display());
    place.train(&cpu(), "adapted", &[&from, "lora={rank = 2}"]);
    let verified = place.succeeds(&["verify", "adapted"]);
    assert!(verified.contains("equal"), "{verified}");
    let line = place.fails(&["export", "adapted", "hub"]);
    assert!(
        line.ends_with("`hlx lora --merge` writes a model that can be exported"),
        "{line}"
    );
    place.succeeds(&["lora", "adapted", "--out", "merged", "--merge"]);
    place.succeeds(&["export", "merged", "hub"]);
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        assert!(place.join("hub").join(name).is_file(), "{name}");
    }
}

#[test]
fn what_cannot_be_trained_on_is_said_in_one_line() {
    let place = place("tokens-bad");
    let number = std::cell::Cell::new(0);
    let fails = |sets: &[&str]| {
        number.set(number.get() + 1);
        let out = format!("run-{}", number.get());
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        place.fails(&[&["train", "config.toml", "--out", &out], &sets[..]].concat())
    };
    let line = fails(&["data.path=nowhere"]);
    assert!(line.contains("nowhere"), "{line}");
    let line = fails(&["data.length=25"]);
    assert!(
        line.ends_with("25 is more than the model's 24 positions"),
        "{line}"
    );
    let line = fails(&["model.vocabulary=279"]);
    assert!(
        line.contains(
            "279 is less than the 280 tokens of the data's tokenizer: tokens/shard-00000.bin: "
        ),
        "{line}"
    );
    let line = fails(&["data.windows=random"]);
    assert!(line.ends_with("is no key of this data.format"), "{line}");
    let line = fails(&["model.hidden=[4]"]);
    assert!(line.contains("model.hidden"), "{line}");

    // Too few tokens for one window; a token outside of the model's vocabulary.
    place.write("few.txt", "river");
    let few = [
        "data",
        "prepare",
        "--tokenizer",
        "tokenizer.json",
        "-o",
        "few",
        "few.txt",
    ];
    place.succeeds(&few);
    let line = fails(&["data.path=few", "data.eval_fraction=0"]);
    assert!(line.contains("a window takes 17 tokens"), "{line}");
    let words: Vec<u8> = (0..400_u16).flat_map(|n| (n % 300).to_le_bytes()).collect();
    std::fs::write(place.join("raw.bin"), words).expect("written");
    let line = fails(&["data.path=raw.bin", "model.vocabulary=280"]);
    let expected = "raw.bin: the token 280 at 280 is outside of the model's vocabulary of 280";
    assert!(line.ends_with(expected), "{line}");

    // A shard cut short; another tokenizer beside the tokens.
    let shard = place.join("pairs/shard-00000.bin");
    let bytes = std::fs::read(&shard).expect("a shard");
    std::fs::write(&shard, &bytes[..bytes.len() - 2]).expect("written");
    let line = fails(&["data.path=pairs"]);
    assert!(line.contains("shard-00000.bin"), "{line}");
    place.succeeds(&[
        "tokenizer",
        "train",
        "--vocab",
        "270",
        "-o",
        "other.json",
        "a.txt",
    ]);
    std::fs::copy(
        place.join("other.json"),
        place.join("tokens/tokenizer.json"),
    )
    .expect("copied");
    let line = fails(&[]);
    assert!(
        line.contains("is not the tokenizer that made the tokens"),
        "{line}"
    );
}

/// A few steps of the committed configuration's model, made smaller: the same bits on every device, resumed,
/// in micro-batches and recomputed; verified; and the balance loss is part of the run.
#[test]
fn a_mixture_of_experts_is_trained_with_its_balance_loss() {
    let place = place("tokens-experts");
    let committed = format!(
        "{}/../../configs/qwen3-moe-shakespeare.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(committed).expect("there");
    place.write("config.toml", &text.replace("../shakespeare-", ""));
    let sets = [
        "model.width=16",
        "model.n_layers=2",
        "model.head_width=8",
        "model.positions=24",
        "model.shape.experts.width=8",
        "data.length=16",
        "train.max_steps=5",
        "train.warmup_steps=1",
        "train.batch_size=8",
        "train.shards=4",
        "train.schedule=constant",
        "schedule={}",
        "train.log_every=1",
        "train.eval_every=0",
        "train.save_best=false",
        "train.checkpoint_every=0",
        "sample.max_tokens=4",
    ];
    let with = |more: &[&'static str]| [&sets[..], more].concat();
    let whole = proof(&place.train(&cpu(), "whole", &sets).digests);
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let out = format!("parts-{number}");
        let first = with(&["train.max_steps=3", "train.micro_batch_size=4"]);
        place.train(device, &out, &first);
        let last = with(&["train.micro_batch_size=2", "train.recompute=true"]);
        let found = resumed(&place, device, &out, &last);
        assert_eq!(found, whole, "{}", device.info());
    }
    let verified = place.succeeds(&["verify", "whole"]);
    assert!(verified.contains("equal"), "{verified}");

    // The loss is in every log line, and what is trained on decides the run's bits.
    let metrics = hlx_train::run::read_metrics(&place.join("whole/metrics.jsonl")).expect("reads");
    let balances: Vec<f32> = metrics
        .iter()
        .filter_map(|metric| match metric {
            Metric::Train { router_balance, .. } => *router_balance,
            _ => None,
        })
        .collect();
    // As many experts are chosen a token as `per_token`, 2: so much is the loss of an even choice.
    assert_eq!(balances.len(), 5);
    assert!(
        balances.iter().all(|&loss| loss > 1.9 && loss < 6.0),
        "{balances:?}"
    );
    let other = place.train(&cpu(), "other", &with(&["train.router_balance=1"]));
    assert_ne!(proof(&other.digests).0, whole.0);

    let refused = |more: &str| {
        let sets = with(&[]);
        let sets: Vec<&str> = sets
            .iter()
            .chain([&more])
            .flat_map(|set| ["--set", set])
            .collect();
        place.fails(&[&["train", "config.toml", "--out", "no"][..], &sets].concat())
    };
    let line = refused("train.micro_batch_size=1");
    assert!(
        line.ends_with("1 is less than a shard of 2, which train.router_balance needs whole"),
        "{line}"
    );
    place.write("config.toml", CONFIG);
    let line = place.fails(&["train", "config.toml", "--set", "train.router_balance=0.1"]);
    assert!(
        line.ends_with("train.router_balance=0.1: the model has no experts"),
        "{line}"
    );
}

#[test]
fn the_configurations_of_small_llamas_are_read() {
    for name in [
        "llama-shakespeare.toml",
        "llama-pairs.toml",
        "qwen3-moe-shakespeare.toml",
    ] {
        let path = format!("{}/../../configs/{name}", env!("CARGO_MANIFEST_DIR"));
        let config = Config::load(path.as_ref(), &[]).expect("loads");
        config.language_model(512, true).expect(name);
    }
}
