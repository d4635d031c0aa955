//! `hlx verify RUN`: equal on every device, the first difference by name, and no silent pass.

#[path = "../common/mod.rs"]
mod common;

mod audits;
mod faults;
mod specification;
mod tampering;

use std::fs;
use std::path::PathBuf;

use common::forms::{Forms, add, check};
use common::{Scratch, status};
use hlx_core::Device;
use hlx_train::run::Bits;
use hlx_train::verify::{Report, Source, Verification, VerifyOptions};
use tampering::{rechain, records, relink, tamper};

const SETS: [&str; 1] = ["train.checkpoint_every=2"];
const TENSOR: &str = "blocks.1.feed_forward.up.weight";

/// A run of 6 steps on the CPU device with checkpoints and records of the steps 2, 4 and 6.
fn run() -> Scratch {
    let place = Scratch::new("verify");
    place.train(&cpu(), "run", &SETS);
    place
}

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn verify(device: &Device, place: &Scratch, options: &VerifyOptions) -> Report {
    let verification =
        Verification::new(device, &place.join("run"), options).expect("can be checked");
    let (from, _) = verification.steps();
    let mut last = from;
    let report = verification.run(&mut |step| {
        assert_eq!(step, last + 1);
        last = step;
    });
    report.expect("verifies")
}

/// Fails unless the JSON on a run that differs has the members that are pinned.
fn pin(place: &Scratch) {
    let (code, stdout, stderr) = status(place, &["verify", "run", "--json"]);
    assert_eq!(code, 1, "{stderr}");
    let mut forms = Forms::new();
    add(
        &mut forms,
        "verify",
        &serde_json::from_str(&stdout).expect("JSON"),
    );
    check(&forms);
}

fn checkpoint(place: &Scratch, step: u64) -> PathBuf {
    place.join(&format!("run/checkpoints/step-{step:06}"))
}

#[test]
fn every_device_verifies_the_runs_of_every_other() {
    let devices = hlx_core::testing::own_devices();
    let runs = ["arithmetic=portable", "arithmetic=integer"];
    let runs = runs.map(|arithmetic| devices.iter().map(move |device| (arithmetic, device)));
    for (arithmetic, trained_on) in runs.into_iter().flatten() {
        let place = Scratch::new("verify");
        place.train(trained_on, "run", &[&SETS[..], &[arithmetic]].concat());
        for device in &devices {
            let report = verify(device, &place, &VerifyOptions::default());
            assert_eq!(
                report.difference,
                None,
                "{} on {device:?}",
                trained_on.info()
            );
            assert_eq!((report.records, report.checkpoints, report.to), (4, 3, 6));
        }
    }
}

#[test]
fn smaller_micro_batches_verify_the_same_bits() {
    let place = run();
    for size in [4, 2, 1] {
        let options = VerifyOptions {
            micro_batch_size: Some(size),
            ..VerifyOptions::default()
        };
        assert_eq!(verify(&cpu(), &place, &options).difference, None, "{size}");
    }
    let (code, _, stderr) = status(&place, &["verify", "run", "--micro-batch-size", "3"]);
    assert_eq!(code, 2);
    let text = "error: --micro-batch-size: micro-batches: 3 samples, expected a divisor of 2";
    assert!(stderr.starts_with(text), "{stderr}");
}

#[test]
fn a_stretch_begins_at_the_checkpoint_before_it() {
    let place = run();
    let stretch = |from, to| {
        let options = VerifyOptions {
            from,
            to,
            ..VerifyOptions::default()
        };
        let report = verify(&cpu(), &place, &options);
        assert_eq!(report.difference, None);
        (report.from, report.to, report.records)
    };
    assert_eq!(stretch(None, None), (0, 6, 4));
    assert_eq!(stretch(Some(1), None), (0, 6, 4));
    assert_eq!(stretch(Some(3), Some(3)), (2, 4, 1));
    assert_eq!(stretch(Some(4), None), (4, 6, 1));
    assert_eq!(stretch(Some(6), None), (4, 6, 1));
    assert_eq!(stretch(None, Some(0)), (0, 0, 1));
}

#[test]
fn a_parameter_changed_under_new_digests_is_named() {
    for (chain, source) in [(true, Source::Chain), (false, Source::Checkpoint)] {
        let place = run();
        let (recorded, recomputed) = tamper(&place, chain);
        for device in hlx_core::testing::own_devices() {
            let report = verify(&device, &place, &VerifyOptions::default());
            let difference = report.difference.expect("differs");
            assert_eq!(difference.source, source);
            let steps = (difference.equal_to, difference.step, difference.record);
            // The chain's record of step 4 is equal where the checkpoint alone was changed.
            assert_eq!(steps, (Some(2), 4, 4), "{source:?}");
            let tensor = difference.tensor.expect("a tensor");
            assert_eq!(tensor.name, TENSOR);
            assert_ne!(tensor.recorded, tensor.recomputed[..tensor.recorded.len()]);
            let element = tensor.element.expect("an element");
            assert_eq!(element.index, 7);
            assert_eq!(element.recorded, format!("{recorded:08x}"));
            assert_eq!(element.recomputed, format!("{recomputed:08x}"));
        }
        // From the changed checkpoint on, the run does not follow from it; or it is not a state of
        // the chain's at all.
        let (code, _, stderr) = status(&place, &["verify", "run", "--from", "4"]);
        assert_eq!(code, if chain { 1 } else { 2 }, "{stderr}");
        pin(&place);
        let (code, stdout, _) = status(&place, &["verify", "run"]);
        assert_eq!(code, 1);
        assert!(
            stdout.contains(TENSOR) && stdout.contains("differs    at step 4"),
            "{stdout}"
        );
    }
}

#[test]
fn a_changed_loss_names_its_step() {
    let place = run();
    let mut records = records(&place);
    let Bits(bits) = records[2].losses[0];
    records[2].losses[0] = Bits(bits ^ 1);
    let sealed = rechain(&place, records);
    for (step, digest) in [(4, &sealed[2]), (6, &sealed[3])] {
        relink(&place, step, digest);
    }
    let (code, stdout, stderr) = status(&place, &["verify", "run", "--json"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["kind"], "verify");
    pin(&place);
    assert_eq!(report["equal"], false);
    let difference = &report["difference"];
    assert_eq!(difference["source"], "chain");
    assert_eq!(difference["step"], 3);
    assert_eq!(difference["record"], 4);
    assert_eq!(difference["equal_to"], 2);
    assert_eq!(difference["tensor"], serde_json::Value::Null);
    let mismatches = difference["mismatches"].as_array().expect("a list");
    assert_eq!(mismatches.len(), 1, "{stdout}");
    assert_eq!(mismatches[0]["what"], "loss of step 3");
    let bits = |key: &str| mismatches[0][key].as_str().expect("text").to_owned();
    assert_ne!(bits("recorded"), bits("recomputed"));
}

#[test]
fn an_equal_run_has_status_0_and_its_chains_digest() {
    let place = run();
    let (code, stdout, stderr) = status(&place, &["verify", "run", "--json"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["equal"], true);
    assert_eq!(report["difference"], serde_json::Value::Null);
    assert_eq!(report["base"], serde_json::Value::Null);
    for (key, value) in [("from", 0), ("to", 6), ("records", 4), ("checkpoints", 3)] {
        assert_eq!(report[key], value, "{key}");
    }
    assert_eq!(report["digest"], place.digests("run").record);
    let (code, stdout, _) = status(&place, &["verify", "run", "--from", "4"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("checkpoints/step-000004"), "{stdout}");
    assert!(stdout.contains("equal      up to step 6"), "{stdout}");
}

#[test]
fn one_flipped_bit_of_a_checkpoint_is_named() {
    let place = run();
    for name in [
        "digests.json",
        "model.safetensors",
        "config.json",
        "state.bin",
    ] {
        let file = checkpoint(&place, 4).join(name);
        let bytes = fs::read(&file).expect("reads");
        let stride = if name == "digests.json" {
            7
        } else {
            bytes.len() / 4
        };
        for at in (0..bytes.len()).step_by(stride) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 7);
            fs::write(&file, &damaged).expect("writes");
            let options = VerifyOptions::default();
            let error = Verification::new(&cpu(), &place.join("run"), &options).err();
            let error = format!("{:#}", error.expect("cannot be checked"));
            assert!(error.contains("step-000004"), "{name} byte {at}: {error}");
        }
        let (code, _, stderr) = status(&place, &["verify", "run"]);
        assert_eq!(code, 2, "{stderr}");
        assert!(
            stderr.contains(name) && stderr.lines().count() == 1,
            "{stderr}"
        );
        fs::write(&file, &bytes).expect("writes");
    }
    assert_eq!(status(&place, &["verify", "run"]).0, 0);
}

#[test]
fn what_cannot_be_checked_has_status_2_and_a_line() {
    let place = run();
    place.write("other.jsonl", "{\"input\": \"a\", \"output\": \"b\"}\n");
    let cases: [(&[&str], &str); 7] = [
        (&["verify", "nothing"], "nothing: is no run folder"),
        (
            &["verify", "run", "--from", "7"],
            "--from 7: run/chain.jsonl goes from step 0 to 6",
        ),
        (
            &["verify", "run", "--to", "7"],
            "--to 7: run/chain.jsonl goes from step 0 to 6",
        ),
        (
            &["verify", "run", "--from", "4", "--to", "2"],
            "--from 4 is behind --to 2",
        ),
        (
            &["verify", "run", "--data", "other.jsonl"],
            "other.jsonl: is not the run's corpus",
        ),
        (
            &["verify", "run", "--data", "no.jsonl"],
            "no.jsonl: No such file",
        ),
        (&["verify"], "required"),
    ];
    for (arguments, words) in cases {
        let (code, _, stderr) = status(&place, arguments);
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
    let mut command = place.hlx(&["verify", "run"]);
    let output = command
        .env("HLX_DEVICE", "vulkan:99")
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(2));
    fs::rename(place.join("corpus.jsonl"), place.join("moved.jsonl")).expect("moves");
    let (code, _, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("--data says where") && stderr.contains("corpus.jsonl"),
        "{stderr}"
    );
    let moved = ["verify", "run", "--data", "moved.jsonl"];
    assert_eq!(status(&place, &moved).0, 0);
    let config = fs::read_to_string(place.join("run/config.toml")).expect("reads");
    fs::write(
        place.join("run/config.toml"),
        config.replace("seed = 7", "seed = 8"),
    )
    .expect("writes");
    let (code, _, stderr) = status(&place, &moved);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("config.toml is not what the run was made with"),
        "{stderr}"
    );
}
