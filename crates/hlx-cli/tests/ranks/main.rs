//! Runs over several ranks: the digests, files and chain of one process, whatever the number of ranks and
//! their devices. Here each rank is a thread with a device of its own; `processes.rs` starts programs.

mod combinations;
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod corpora;
mod evaluation;
#[cfg(target_os = "linux")]
mod hosts;
mod mpi;
mod processes;
mod silent_errors;
mod threads;
mod torchrun;

use std::fs;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use common::{SMALL_MODEL, Scratch, contents};
use hlx_train::train::Outcome;
use threads::{CPU, Run, train};

/// The arithmetics that a run may have.
const ARITHMETICS: [&str; 2] = ["arithmetic=portable", "arithmetic=integer"];

/// A run of this many steps (`train.max_steps=400`), for what happens while it goes on.
#[cfg(target_os = "linux")]
const fn long(steps: &'static str) -> [&'static str; 8] {
    let (shards, checkpoints) = ("train.shards=8", "train.checkpoint_every=20");
    [
        "train",
        "config.toml",
        "--set",
        shards,
        "--set",
        steps,
        "--set",
        checkpoints,
    ]
}

/// Waits until a condition holds.
#[cfg(target_os = "linux")]
fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Trains alone and over ranks, and compares everything that a run leaves but times and devices.
fn check(place: &Scratch, sets: &[&str], runs: &[&[&str]]) -> Outcome {
    let sets = [sets, &["train.checkpoint_every=2", "train.log_every=1"]].concat();
    let whole = place.train(&threads::open(CPU), "whole", &sets);
    for devices in runs {
        let out = format!("of-{}", devices.join("-"));
        let run = Run::new(place, &out, &sets);
        let outcome = train(&run, devices).expect("trains");
        same_runs(place, ("whole", &whole), (&out, &outcome));
        fs::remove_dir_all(place.join(&out)).expect("removed");
    }
    fs::remove_dir_all(place.join("whole")).expect("removed");
    whole
}

/// The lines of a run's metrics without times and speeds.
fn metrics(place: &Scratch, run: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(place.join(run).join("metrics.jsonl")).expect("reads");
    let line = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let keys = line.as_object_mut().expect("an object");
        let measured = [
            "ms_per_step",
            "per_second",
            "share_of_peak",
            "exchange",
            "memory_bytes",
        ];
        keys.retain(|key, _| !measured.iter().any(|end| key.ends_with(end)));
        line
    };
    text.lines().map(line).collect()
}

/// Fails unless two runs have the same checkpoints, chain, metrics, losses and outcome.
fn same_runs(place: &Scratch, (one, first): (&str, &Outcome), (other, second): (&str, &Outcome)) {
    let read = |run: &str, file: &str| fs::read(place.join(run).join(file)).expect("reads");
    assert_eq!(
        String::from_utf8(read(one, "chain.jsonl")),
        String::from_utf8(read(other, "chain.jsonl")),
        "{other}"
    );
    assert_eq!(metrics(place, one), metrics(place, other), "{other}");
    let checkpoints = |run: &str| {
        let folder = place.join(run).join("checkpoints");
        let named = |(path, bytes): (std::path::PathBuf, Vec<u8>)| {
            (
                path.strip_prefix(&folder).expect("inside").to_owned(),
                bytes,
            )
        };
        contents(&folder).into_iter().map(named).collect::<Vec<_>>()
    };
    let (these, those) = (checkpoints(one), checkpoints(other));
    let names = |files: &[(std::path::PathBuf, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&these), names(&those), "{other}");
    for (this, that) in these.iter().zip(&those) {
        assert!(this == that, "{other}: {} differs", this.0.display());
    }
    let losses = |outcome: &Outcome| {
        let Outcome {
            train,
            held_out,
            last_loss,
            skipped,
            step,
            ..
        } = outcome;
        // As text: a loss may be NaN.
        format!("{train:?} {held_out:?} {last_loss:?} {skipped} {step}")
    };
    assert_eq!(losses(first), losses(second), "{other}");
}

#[test]
fn any_number_of_ranks_leaves_the_files_of_one() {
    let place = Scratch::new("ranks");
    for arithmetic in ARITHMETICS {
        let runs: [&[&str]; 3] = [&[CPU; 2], &[CPU; 4], &[CPU; 8]];
        check(&place, &["train.shards=8", arithmetic], &runs);
    }
}

#[test]
fn devices_of_several_kinds_share_a_batch() {
    let Some(vulkan) = threads::vulkan() else {
        return;
    };
    let place = Scratch::new("ranks-mixed");
    let runs: [&[&str]; 2] = [&[CPU, &vulkan], &[&vulkan, CPU, CPU, &vulkan]];
    check(&place, &["train.micro_batch_size=2"], &runs);
}

/// A micro-batch is a part of a shard, one, several, or more than a rank has.
#[test]
fn micro_batches_of_ranks_change_nothing() {
    let place = Scratch::new("ranks-micro");
    for size in [1, 2, 4] {
        let set = format!("train.micro_batch_size={size}");
        check(
            &place,
            &[&set, "train.max_steps=3"],
            &[&[CPU; 2], &[CPU; 4]],
        );
    }
}

/// Matrices of several parts, each of which has one owner.
#[test]
fn muon_over_large_matrices_has_one_owner_a_matrix() {
    let place = Scratch::new("ranks-muon");
    let sets = [
        "train.optimizer=muon",
        "model.width=64",
        "train.max_steps=2",
        "train.shards=8",
    ];
    check(&place, &sets, &[&[CPU; 2], &[CPU; 8]]);
}

/// Steps are skipped by all ranks alike: a rate beyond all bounds.
#[test]
fn steps_that_are_not_finite_are_skipped_by_all_ranks() {
    let place = Scratch::new("ranks-skips");
    let sets = [
        "train.skip_non_finite=true",
        "train.learning_rate=1e30",
        "train.clip_norm=0",
        "train.optimizer=sgd",
        "train.warmup_steps=0",
        "train.schedule=constant",
        "train.max_skips=20",
        "train.max_steps=5",
    ];
    let outcome = check(&place, &sets, &[&[CPU; 2], &[CPU; 4]]);
    assert!(outcome.skipped > 0);
}

/// Prepared tokens whose embedding is the output projection too; windows, and padded records.
#[test]
fn token_models_with_tied_embeddings_train_over_ranks() {
    let place = Scratch::new("ranks-tokens");
    let tied = format!("{SMALL_MODEL}\n[model.shape]\ntied_output = true\n");
    place.prepare_tokens();
    for config in [SMALL_MODEL.to_owned(), tied] {
        place.write("config.toml", &config);
        check(&place, &[], &[&[CPU; 2], &[CPU; 4]]);
        let padded = ["data.path=pairs", "data.rows=padded", "train.batch_size=8"];
        check(&place, &padded, &[&[CPU; 2]]);
    }
}

/// A mixture of experts with its balance loss, and adapters on a model whose other weights stay.
#[test]
fn experts_and_adapters_train_over_ranks() {
    let place = Scratch::new("ranks-experts");
    place.prepare_tokens();
    let experts = SMALL_MODEL.replace("qwen3", "qwen3_moe")
        + "router_balance = 0.5\n\n[model.shape.experts]\nn_experts = 4\nper_token = 2\nwidth = 8\n\
           renormalised = true\nbalance_coefficient = 0.02\ndense_layers = []\n";
    place.write("config.toml", &experts);
    let padded = ["data.path=pairs", "data.rows=padded", "train.batch_size=8"];
    for arithmetic in ARITHMETICS {
        let sets = [&padded[..], &[arithmetic]].concat();
        check(&place, &sets, &[&[CPU; 2], &[CPU; 4]]);
    }
    place.write("config.toml", SMALL_MODEL);
    place.train(&threads::open(CPU), "base", &[]);
    let base = format!("train.init_from={}", place.join("base").display());
    let lora = "lora={rank = 2, alpha = 4.0, targets = [\"*_proj\"]}";
    for arithmetic in ARITHMETICS {
        check(&place, &[&base, lora, arithmetic], &[&[CPU; 2], &[CPU; 4]]);
    }
    // The tied embedding is frozen: its other use's gradient was once added to that of the step before.
    let micro = [&base, lora, "train.micro_batch_size=1"];
    let parts = place.train(&threads::open(CPU), "parts", &micro);
    let whole = place.train(&threads::open(CPU), "in-one", &micro[..2]);
    assert_eq!(common::proof(&parts.digests), common::proof(&whole.digests));
}

/// The running values follow the shards of all ranks in order; the last batch of an epoch is short.
#[test]
fn batch_norms_follow_the_shards_of_all_ranks() {
    let place = Scratch::new("ranks-norms");
    let config = "seed = 5\n\n[model]\nkind = \"cnn\"\nchannels = [4, 6]\nbatch_norm = true\n\n[data]\n\
                  format = \"digits\"\ncount = 43\neval_fraction = 0.15\n\n[train]\nmax_steps = 7\n\
                  batch_size = 8\nshards = 4\nlearning_rate = 0.01\n";
    place.write("config.toml", config);
    for arithmetic in ARITHMETICS {
        check(&place, &[arithmetic], &[&[CPU; 2], &[CPU; 4]]);
    }
    check(&place, &["train.micro_batch_size=2"], &[&[CPU; 2]]);
    if let Some(vulkan) = threads::vulkan() {
        check(&place, &["train.max_steps=2"], &[&[&vulkan, CPU]]);
    }
}

#[test]
fn images_train_over_ranks() {
    let place = Scratch::new("ranks-images");
    let config = "seed = 5\n\n[model]\nkind = \"mlp\"\nhidden = [8]\n\n[data]\nformat = \"digits\"\n\
                  count = 43\neval_fraction = 0.15\nnoise = 0.1\n\n[train]\nmax_steps = 7\n\
                  batch_size = 8\nlearning_rate = 0.01\n";
    place.write("config.toml", config);
    check(&place, &[], &[&[CPU; 2], &[CPU; 8]]);
    check(&place, &["data.workers=2"], &[&[CPU; 2], &[CPU; 8]]);
    check(&place, &["data.workers=0"], &[&[CPU; 4]]);
}

/// Stopped on some ranks, and resumed on more, on fewer, and on one.
#[test]
fn a_run_is_resumed_by_any_number_of_ranks() {
    let place = Scratch::new("ranks-resumed");
    let sets = ["train.schedule=constant", "data.eval_fraction=0.2"];
    let all = [
        &sets[..],
        &["train.checkpoint_every=2", "train.log_every=1"],
    ]
    .concat();
    let whole = place.train(&threads::open(CPU), "whole", &all);
    for (number, [first, second]) in [[2, 4], [4, 1], [1, 2], [4, 2]].iter().enumerate() {
        let out = format!("parts-{number}");
        let early = [&all[..], &["train.max_steps=4"]].concat();
        train(&Run::new(&place, &out, &early), &vec![CPU; *first]).expect("trains");
        let resumed = Run::resumed(&place, &out, &all);
        let outcome = train(&resumed, &vec![CPU; *second]).expect("goes on");
        let read = |run: &str| fs::read(place.join(run).join("chain.jsonl")).expect("reads");
        assert_eq!(
            common::proof(&outcome.digests),
            common::proof(&whole.digests)
        );
        // The chain has a record of step 4 in both.
        assert_eq!(read("whole"), read(&out), "{first} ranks, then {second}");
        // One device checks what several have made.
        let said = place.succeeds(&["verify", &out]);
        assert!(said.contains("equal"), "{said}");
    }
}

#[test]
fn ranks_that_differ_are_refused_with_what_differs() {
    let place = Scratch::new("ranks-differ");
    let refused = |sets: [&[&str]; 2], corpora: [&str; 2]| {
        let runs = [0, 1].map(|rank| Run {
            data_path: place.join(corpora[rank]),
            ..Run::new(&place, "run", sets[rank])
        });
        let errors = threads::errors(&runs);
        assert_eq!(errors[0], errors[1], "the same line on all ranks");
        assert!(!place.join("run").exists(), "nothing is written");
        errors[0].clone()
    };
    let corpus = "corpus.jsonl";
    let line = refused([&[], &["train.log_every=3"]], [corpus; 2]);
    let expected = "has another configuration: train.log_every is 3 there and 2 on rank 0";
    assert!(
        line.starts_with("rank 1 on ") && line.ends_with(expected),
        "{line}"
    );
    let line = refused([&[], &["arithmetic=integer"]], [corpus; 2]);
    assert!(line.contains("arithmetic is \"integer\" there"), "{line}");
    let text = fs::read_to_string(place.join(corpus)).expect("reads");
    place.write("other.jsonl", &text.replace("one", "eno"));
    let line = refused([&[], &[]], [corpus, "other.jsonl"]);
    assert!(
        line.contains(": the corpus is ") && line.contains(" on rank 0"),
        "{line}"
    );
    let line = refused([&[], &[]], [corpus, "missing.jsonl"]);
    assert!(
        line.starts_with("rank 1 on ") && line.contains("missing.jsonl"),
        "{line}"
    );
}
