//! The balance loss of experts over rows that end in padding: of prepared records, packed ones, and of bytes.

mod common;

use common::{Scratch, overrides, proof};
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::run::{Metric, read_metrics};
use hlx_train::train::{Silent, Start, TrainOptions, Trainer};

/// A small mixture of experts over padded records.
const CONFIG: &str = r#"seed = 7

[model]
architecture = "qwen3_moe"
width = 16
n_layers = 2
n_heads = 2
n_kv_heads = 2
head_width = 8
feed_forward_width = 24
positions = 32

[model.shape.experts]
n_experts = 4
per_token = 2
width = 8
renormalised = true
balance_coefficient = 0.02
dense_layers = []

[data]
path = "pairs"
format = "shards"
rows = "padded"

[train]
max_steps = 5
batch_size = 8
shards = 4
learning_rate = 0.01
schedule = "constant"
log_every = 1
checkpoint_every = 0
router_balance = 0.5
"#;

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn balances(place: &Scratch, run: &str) -> Vec<f32> {
    let metrics = read_metrics(&place.join(&format!("{run}/metrics.jsonl"))).expect("reads");
    let of = |metric: &Metric| match metric {
        Metric::Train { router_balance, .. } => *router_balance,
        _ => None,
    };
    metrics.iter().filter_map(of).collect()
}

/// The run in one piece has the bits of one that is stopped and continues in smaller micro-batches, whose rows
/// have less padding, on every device.
fn check(place: &Scratch, sets: &[&str]) {
    let with = |more: &[&'static str]| -> Vec<String> {
        sets.iter()
            .chain(more)
            .map(|set| (*set).to_owned())
            .collect()
    };
    let train = |device: &Device, out: &str, sets: &[String]| {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        place.train(device, out, &sets)
    };
    let whole = proof(&train(&cpu(), "whole", &with(&[])).digests);
    let losses = balances(place, "whole");
    // The loss of an even choice is 2, the experts per token; that of an empty shard is 0, and of 20 pairs the
    // third batch has 4 of 8.
    assert!(
        losses.len() == 5 && losses.iter().all(|&loss| loss > 0.9 && loss < 4.1),
        "{losses:?}"
    );
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let out = format!("parts-{number}");
        train(
            device,
            &out,
            &with(&["train.max_steps=2", "train.micro_batch_size=4"]),
        );
        let last = with(&["train.micro_batch_size=2", "train.recompute=true"]);
        let last: Vec<&str> = last.iter().map(String::as_str).collect();
        let config = Config::load(&place.join("config.toml"), &overrides(&last)).expect("loads");
        let options = TrainOptions {
            data_path: place.join(&config.data.path),
            start: Start::Resume(place.join(&out)),
        };
        let mut trainer = Trainer::new(device, config, &options).expect("resumes");
        let found = proof(&trainer.run(&mut Silent).expect("trains").digests);
        assert_eq!(found, whole, "{}", device.info());
        assert_eq!(balances(place, &out), losses, "{}", device.info());
    }
    let other = train(&cpu(), "other", &with(&["train.router_balance=2"]));
    assert_ne!(proof(&other.digests).0, whole.0);
    let verified = place.succeeds(&["verify", "whole"]);
    assert!(verified.contains("equal"), "{verified}");
}

#[test]
fn padding_of_prepared_records_does_not_count() {
    let place = Scratch::new("balance-padded");
    place.write("config.toml", CONFIG);
    place.prepare_tokens();
    check(&place, &[]);
    // Micro-batches hold whole shards.
    let place = Scratch::new("balance-padded-integer");
    place.write("config.toml", CONFIG);
    place.prepare_tokens();
    check(&place, &["arithmetic=integer"]);
}

#[test]
fn padding_and_empty_samples_of_bytes_do_not_count() {
    let place = Scratch::new("balance-bytes");
    let config = CONFIG.replace("rows = \"padded\"\n", "");
    place.write("config.toml", &config.replace("\"shards\"", "\"pairs\""));
    check(&place, &["data.path=corpus.jsonl"]);
}

/// Records of 19 to 24 predicted tokens: no two share a row of 24 or of 32, so that packed rows of either length,
/// and padded ones, hold the same documents with more or less padding.
#[test]
fn padding_of_packed_documents_does_not_count() {
    let place = Scratch::new("balance-packed");
    place.write("config.toml", CONFIG);
    let pair = |n: usize| {
        let output = &"abcdefgh"[n % 5..];
        format!("{{\"input\": \"rivers river {n:02}\", \"output\": \"{output}\"}}\n")
    };
    place.write("pairs.jsonl", &(0..20).map(pair).collect::<String>());
    let prepare = "data prepare --tokenizer bytes -o pairs pairs.jsonl";
    place.succeeds(&prepare.split(' ').collect::<Vec<_>>());
    check(&place, &["data.rows=packed", "data.length=32"]);
    let expected = (proof(&place.digests("whole")), balances(&place, "whole"));
    for (out, rows) in [
        ("short", ["data.rows=packed", "data.length=24"]),
        ("padded", ["data.rows=padded", "data.length=32"]),
    ] {
        let digests = place.train(&cpu(), out, &rows).digests;
        let found = (proof(&digests), balances(&place, out));
        assert_eq!(found, expected, "{rows:?}");
    }
}
