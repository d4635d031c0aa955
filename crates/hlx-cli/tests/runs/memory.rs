//! What a run takes is known before its first step, to the byte, and what is said to fit does.

use serde_json::Value;

use super::place;
use crate::common::{Scratch, failure, proof, text};

/// The line of a kind that a run prints with `--json` under a limit of memory, and whether it trained.
fn trained(
    place: &Scratch,
    out: &str,
    limit: Option<u64>,
    sets: &[&str],
) -> (Value, Result<(), String>) {
    let mut arguments = vec!["train", "config.toml", "--out", out, "--json"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    let mut command = place.hlx(&arguments);
    if let Some(limit) = limit {
        command.env("HLX_MEMORY_LIMIT", limit.to_string());
    }
    let output = command.output().expect("starts");
    let stdout = text(&output.stdout);
    let line = stdout
        .lines()
        .find(|line| line.contains("\"kind\":\"memory\""));
    let memory = serde_json::from_str(line.expect("a line of the memory")).expect("JSON");
    (
        memory,
        match output.status.success() {
            true => Ok(()),
            false => Err(failure(output)),
        },
    )
}

#[test]
fn a_run_fits_into_what_it_is_said_to_take_and_not_into_less() {
    let place = place("memory");
    // Passes that take more than what is left in the pool's first block.
    let sets = [
        "model.width=64",
        "train.batch_size=16",
        "train.eval_every=0",
        "sample.prompts=[]",
    ];
    let (memory, trained_so) = trained(&place, "whole", None, &sets);
    trained_so.expect("trains");
    let total = memory["total_bytes"].as_u64().expect("bytes");
    assert_eq!(memory["fits"], true);
    let (memory, fitted) = trained(&place, "exact", Some(total), &sets);
    fitted.expect("trains");
    assert_eq!(memory["total_bytes"], total);
    let (memory, refused) = trained(&place, "less", Some(total - 1), &sets);
    let line = refused.expect_err("must not fit");
    assert!(
        line.starts_with("error: train.micro_batch_size: 16 samples take "),
        "{line}"
    );
    assert!(!place.join("less").exists(), "nothing is written");
    let smaller = memory["smaller"].as_array().expect("settings");
    assert!(!smaller.is_empty() && memory["fits"] == false);
    for way in smaller {
        assert!(
            way["fits"] == true && way["total_bytes"].as_u64() < Some(total),
            "{way}"
        );
        let size = format!("train.micro_batch_size={}", way["micro_batch_size"]);
        let again = format!("train.recompute={}", way["recompute"]);
        let attention = format!("train.recompute_attention={}", way["recompute_attention"]);
        assert!(line.contains(&size), "{line}");
        let ways = [&sets[..], &[&size, &again, &attention]].concat();
        let out = format!("as-{}-{}", way["micro_batch_size"], way["recompute"]);
        let (memory, fitted) = trained(&place, &out, Some(total - 1), &ways);
        fitted.expect("trains");
        assert_eq!(memory["total_bytes"], way["total_bytes"]);
        assert_eq!(proof(&place.digests(&out)), proof(&place.digests("whole")));
    }
}

#[test]
fn what_a_run_takes_and_how_long_is_said_in_words() {
    let place = place("memory-words");
    let printed = place.succeeds(&[
        "train",
        "config.toml",
        "--out",
        "run",
        "--set",
        "train.max_steps=40",
    ]);
    let memory = printed
        .lines()
        .find(|line| line.starts_with("memory   "))
        .expect("a line");
    assert!(
        memory.contains(" of ") && memory.ends_with(" in a step"),
        "{memory}"
    );
    let time = printed
        .lines()
        .filter(|line| line.starts_with("time     about "));
    assert_eq!(time.count(), 1, "{printed}");
}
