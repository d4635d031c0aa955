//! Numbers of the command line and of configurations that no run can have.

use std::time::{Duration, Instant};

use crate::common::Scratch;

const HOSTILE: [&str; 3] = ["9000000000000000000", "18446744073709551615", "-1"];

#[test]
fn a_run_with_a_hostile_number_is_refused_and_leaves_no_folder() {
    let place = Scratch::new("verbs-numbers");
    for key in [
        "train.batch_size",
        "train.micro_batch_size",
        "train.max_steps",
        "train.epochs",
        "train.warmup_steps",
        "train.keep",
        "train.checkpoint_every",
        "model.n_layers",
        "model.positions",
        "model.width",
        "sample.max_tokens",
    ] {
        for number in HOSTILE {
            let set = format!("{key}={number}");
            let line = place.fails(&["train", "config.toml", "--out", "run", "--set", &set]);
            assert!(line.starts_with(&format!("error: --set {key}=")), "{line}");
            assert!(!place.join("run").exists(), "{set}");
        }
    }
    for key in [
        "train.learning_rate",
        "train.clip_norm",
        "data.eval_fraction",
    ] {
        for number in ["nan", "inf", "1e300", "-1.0"] {
            let set = format!("{key}={number}");
            let line = place.fails(&["train", "config.toml", "--out", "run", "--set", &set]);
            assert!(line.starts_with(&format!("error: --set {set}: ")), "{line}");
            assert!(!place.join("run").exists(), "{set}");
        }
    }
}

#[test]
fn a_batch_that_no_memory_holds_is_refused_and_leaves_no_folder() {
    let place = Scratch::new("verbs-batch");
    let limited = |limit: &str, sets: &[&str]| {
        let mut command = place.hlx(&["train", "config.toml", "--out", "run"]);
        for set in sets {
            command.args(["--set", set]);
        }
        let output = command.env("HLX_MEMORY_LIMIT", limit).output();
        let line = crate::common::failure(output.expect("starts"));
        assert!(!place.join("run").exists(), "{line}");
        line
    };
    let line = limited("1000000000", &["train.batch_size=1048576"]);
    let expected = "error: train.micro_batch_size: 1048576 samples take more than ";
    assert!(
        line.starts_with(expected) && line.ends_with(" has 1000000000"),
        "{line}"
    );
    let wide = [
        "model.width=256",
        "model.n_heads=2",
        "train.batch_size=1048576",
    ];
    let line = limited("100000000000000", &wide);
    let expected = "error: train.micro_batch_size: 1048576 samples are a tensor of ";
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn a_hostile_number_of_the_command_line_is_refused_at_once() {
    let place = Scratch::new("verbs-arguments");
    place.write("a.txt", "the river of light\n");
    let calls: [&[&str]; 12] = [
        &["data", "prepare", "a.txt", "-o", "out", "--threads"],
        &["data", "prepare", "a.txt", "-o", "out", "--shard-tokens"],
        &["data", "ascii-pairs", "--count"],
        &["tokenizer", "train", "a.txt", "--vocab", "300", "--threads"],
        &["tokenizer", "train", "a.txt", "--vocab"],
        &["generate", "run", "--prompt", "a", "--max-tokens"],
        &["generate", "run", "--prompt", "a", "--samples"],
        &["generate", "run", "--prompt", "a", "--top-k"],
        &["chat", "run", "--max-tokens"],
        &["eval", "run", "--length"],
        &["contract", "product", "--store", "s", "--size"],
        &["run", "x.json", "--store", "s", "--repeat"],
    ];
    for arguments in calls {
        for number in HOSTILE {
            // A shard of that many tokens never ends, which is not a fault.
            let is_size = arguments.last() == Some(&"--shard-tokens");
            if is_size && !number.starts_with('-') {
                continue;
            }
            let start = Instant::now();
            let mut command = place.hlx(arguments);
            let output = command.arg(number).output().expect("starts");
            let lines = crate::common::text(&output.stderr);
            let status = output.status.code();
            assert!(
                [Some(1), Some(2)].contains(&status),
                "{arguments:?} {number}: {lines}"
            );
            assert!(lines.starts_with("error: "), "{lines}");
            assert!(start.elapsed() < Duration::from_secs(5), "{arguments:?}");
        }
    }
    let devices = vec!["cpu"; 1000].join(",");
    let line = place.fails(&["train", "config.toml", "--devices", &devices]);
    assert!(line.contains("1000 devices, expected at most 64"), "{line}");
    for age in HOSTILE {
        let gc = [
            "store",
            "gc",
            "--dry-run",
            "--store",
            "s",
            "--older-than",
            age,
        ];
        let found = place.hlx(&gc).output().expect("starts");
        assert!([Some(0), Some(2)].contains(&found.status.code()), "{gc:?}");
    }
}

#[test]
fn a_number_of_the_command_line_that_is_none_is_named_with_its_range() {
    let place = Scratch::new("verbs-ranges");
    let seed = "a whole number from 0 to 18446744073709551615, decimal or behind 0x";
    for (option, value, range) in [
        ("--seed", "18446744073709551616", seed),
        ("--seed", "-1", seed),
        ("--seed", "1.5", seed),
        ("--max-tokens", "1e3", "a whole number from 0 to 16777216"),
        ("--max-tokens", "-1", "a whole number from 0 to 16777216"),
        ("--samples", "0", "a whole number from 1 to 1048576"),
        ("--temperature", "warm", "a number of at most 3.4028235e38"),
        ("--top-p", "1e50", "a number of at most 3.4028235e38"),
    ] {
        let call = ["generate", "run", "--prompt", "a", option, value];
        let output = place.hlx(&call).output().expect("starts");
        let lines = crate::common::text(&output.stderr);
        let expected = format!("error: invalid value '{value}' for '{option} <");
        assert!(lines.starts_with(&expected), "{lines}");
        let first = lines.lines().next().expect("a line");
        assert!(first.ends_with(&format!(">': expected {range}")), "{lines}");
    }
}
