//! The chain of a run: it grows with the run, survives a crash, and shows every flipped bit.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, contents, failure, status};
use hlx_train::run::{Chain, ChainRecord};

const TRAIN: [&str; 6] = [
    "train",
    "config.toml",
    "--set",
    "train.checkpoint_every=3",
    "--out",
    "run",
];

/// A run of 6 steps with records of the steps 0, 2, 3, 4 and 6, and its chain's bytes.
fn run() -> (Scratch, Vec<u8>) {
    let place = Scratch::new("chain");
    place.succeeds(&TRAIN);
    let bytes = fs::read(place.join("run/chain.jsonl")).expect("a chain");
    (place, bytes)
}

#[test]
fn a_record_stands_at_every_log_period_and_checkpoint() {
    let (place, _) = run();
    let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
    let steps: Vec<u64> = chain
        .records()
        .iter()
        .map(|proved| proved.record.step)
        .collect();
    assert_eq!(steps, [0, 2, 3, 4, 6]);
    let ChainRecord {
        epoch,
        batch_idx,
        losses,
        norms,
        tensors,
        ..
    } = &chain.records()[4].record;
    // 20 pairs are 3 batches of 8; two of the steps stand in the last record.
    assert_eq!((*epoch, *batch_idx), (2, 0));
    assert_eq!((losses.len(), norms.len()), (2, 2));
    assert!(losses.iter().all(|loss| loss.value() > 0.0));
    // Parameters and two moments of each.
    assert_eq!(tensors.len() % 3, 0);
    assert_eq!(place.digests("run").record, chain.records()[4].digest);
    assert!(chain.records()[0].record.origin.is_some());
}

#[test]
fn every_device_writes_the_same_chain() {
    let place = Scratch::new("devices");
    let mut chains = Vec::new();
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let out = format!("run-{number}");
        place.train(device, &out, &["train.micro_batch_size=4"]);
        chains.push(fs::read(place.join(&out).join("chain.jsonl")).expect("a chain"));
    }
    place.train(&hlx_core::testing::cpu().expect("opens"), "whole", &[]);
    chains.push(fs::read(place.join("whole/chain.jsonl")).expect("a chain"));
    assert!(chains.iter().all(|chain| *chain == chains[0]));
}

#[test]
fn one_flipped_bit_of_a_chain_is_found() {
    let place = Scratch::new("flips");
    let small = [
        "model.n_layers=1",
        "train.max_steps=3",
        "train.optimizer=sgd",
    ];
    place.train(&hlx_core::testing::cpu().expect("opens"), "run", &small);
    let bytes = fs::read(place.join("run/chain.jsonl")).expect("a chain");
    let path = place.join("damaged.jsonl");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, &damaged).expect("writes");
        let error = Chain::read(&path).expect_err(&format!("byte {at}"));
        assert!(error.to_string().contains("damaged.jsonl:"), "{error:#}");
    }
}

#[test]
fn a_last_line_cut_short_by_a_crash_is_left_out() {
    let (place, bytes) = run();
    let path = place.join("cut.jsonl");
    let last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .expect("lines")
        + 1;
    for end in last..bytes.len() {
        fs::write(&path, &bytes[..end]).expect("writes");
        let chain = Chain::read(&path).expect("reads");
        assert_eq!(
            (chain.records().len(), chain.is_torn()),
            (4, end > last),
            "{end}"
        );
    }
}

#[test]
fn missing_records_are_found() {
    let (place, bytes) = run();
    let path = place.join("run/chain.jsonl");
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let expected = [
        "is not the first record of a chain",
        "names",
        "names",
        "names",
        "ends at step 4, but there is",
    ];
    for (missing, words) in expected.iter().enumerate() {
        let mut left = lines.clone();
        left.remove(missing);
        fs::write(&path, left.concat()).expect("writes");
        let (code, _, stderr) = status(&place, &["verify", "run"]);
        assert_eq!(code, 2, "{missing}: {stderr}");
        assert!(
            stderr.contains("run/chain.jsonl") && stderr.contains(words),
            "{stderr}"
        );
    }
    fs::remove_file(&path).expect("removes");
    let (code, _, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("error: run/chain.jsonl: No such file"),
        "{stderr}"
    );
}

/// Trains to step 6 with a stop after step 3, where `change` is done to the chain.
fn resumed(change: impl Fn(&Path)) -> Scratch {
    let place = Scratch::new("resumed");
    let constant = ["--set", "train.schedule=constant"];
    place.succeeds(&[&TRAIN[..], &["--set", "train.max_steps=3"], &constant].concat());
    change(&place.join("run/chain.jsonl"));
    place
}

const RESUME: [&str; 3] = ["--set", "train.schedule=constant", "--resume"];

#[test]
fn a_resumed_run_continues_its_chain() {
    let whole = Scratch::new("whole");
    whole.succeeds(&[&TRAIN[..], &RESUME[..2]].concat());
    let records = |place: &Scratch| {
        let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
        let states = chain.records()[1..].iter().map(|proved| {
            let mut record = proved.record.clone();
            record.previous.clear();
            record
        });
        states.collect::<Vec<_>>()
    };
    let append = |path: &Path, bytes: &[u8]| {
        let mut chain = fs::read(path).expect("reads");
        chain.extend_from_slice(bytes);
        fs::write(path, chain).expect("writes");
    };
    // As it was, with a line that a crash has cut short, and with what a loss of power may leave
    // of records that no checkpoint has named.
    for end in [
        &b""[..],
        b"{\"step\":4,\"epoch\":1,\"bat",
        b"\0\0\0\n\0\0",
        b"{}\n{}\n",
    ] {
        let place = resumed(|path| append(path, end));
        place.succeeds(&[&TRAIN[..], &RESUME].concat());
        assert_eq!(records(&place), records(&whole));
        let (code, stdout, stderr) = status(&place, &["verify", "run"]);
        assert_eq!(code, 0, "{stdout}{stderr}");
    }
}

#[test]
fn a_run_does_not_go_on_from_a_damaged_chain() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, &str); 4] = [
        (|bytes| bytes[40] ^= 1, "chain.jsonl:1: is damaged"),
        (
            |bytes| bytes.clear(),
            "the record of step 3 has digest none",
        ),
        (
            |bytes| bytes.truncate(bytes.len() - 9),
            "the record of step 3 has digest none",
        ),
        (
            |bytes| *bytes.last_mut().expect("bytes") ^= 4,
            "its end is no end of a line",
        ),
    ];
    for (damage, words) in damages {
        let place = resumed(|path| {
            let mut bytes = fs::read(path).expect("reads");
            damage(&mut bytes);
            fs::write(path, bytes).expect("writes");
        });
        let before = contents(&place.join("run"));
        let line = place.fails(&[&TRAIN[..], &RESUME].concat());
        assert!(line.contains(words), "{line}");
        assert_eq!(contents(&place.join("run")), before, "nothing is touched");
    }
}

#[test]
fn a_run_from_before_the_chain_begins_one() {
    let place = resumed(|path| {
        fs::remove_file(path).expect("removes");
        let checkpoint = path.with_file_name("checkpoints/step-000003/digests.json");
        let text = fs::read_to_string(&checkpoint).expect("reads");
        let mut listing: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let listing = listing.as_object_mut().expect("an object");
        listing.remove("record");
        listing.remove("seal");
        fs::write(
            &checkpoint,
            serde_json::to_vec_pretty(&listing).expect("JSON"),
        )
        .expect("writes");
    });
    place.succeeds(&[&TRAIN[..], &RESUME].concat());
    let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
    let steps: Vec<u64> = chain
        .records()
        .iter()
        .map(|proved| proved.record.step)
        .collect();
    assert_eq!(steps, [3, 4, 6]);
    let (code, _, stderr) = status(&place, &["verify", "run", "--from", "1"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("--from 1: run/chain.jsonl goes from step 3 to 6"),
        "{stderr}"
    );
    let (code, stdout, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("checkpoints/step-000003"), "{stdout}");
}

#[test]
#[cfg(unix)]
fn a_chain_that_cannot_grow_is_named() {
    let place = Scratch::new("limit");
    let program = env!("CARGO_BIN_EXE_hlx");
    let script = format!("trap '' XFSZ; ulimit -f 4; exec {program} \"$@\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script, "sh"]).args(TRAIN);
    shell.current_dir(&place.path).env("HLX_DEVICE", "cpu");
    let line = failure(shell.output().expect("starts"));
    assert!(
        line.contains("run/chain.jsonl: cannot be written: File too large"),
        "{line}"
    );
    // The half-written line is cut off, and the run continues.
    place.succeeds(&[&TRAIN[..], &["--resume"]].concat());
    assert_eq!(status(&place, &["verify", "run"]).0, 0);
}
