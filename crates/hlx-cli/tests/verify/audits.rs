//! `hlx audit`: certificates of honest runs hold, and forged runs and certificates are found.

use std::fs;
use std::path::Path;

use hlx_core::Device;
use hlx_receipt::{Certificate, SigningKey, chance_of_passing};
use hlx_train::audit::{AuditOptions, Auditing, Expected, Fault, check};
use hlx_train::run::{Checkpoint, Digests, State};
use serde_json::Value;

use crate::common::{Scratch, status};
use crate::tampering::{rechain, records, relink, tamper};
use crate::{checkpoint, cpu, run};

/// The stretches of [`run`]: 0 to 2, 2 to 4 and 4 to 6.
const N: u64 = 3;

fn key() -> SigningKey {
    SigningKey::of_seed(&[7; 32])
}

fn audit(device: &Device, run: &Path, k: u64, seed: &str) -> Result<Option<Fault>, String> {
    let options = AuditOptions {
        stretches: Some(k),
        seed: seed.to_owned(),
        data_path: None,
        micro_batch_size: None,
    };
    let auditing = Auditing::new(run, &options).map_err(|error| format!("{error:#}"))?;
    let outcome = auditing
        .run(device, &mut |_| {})
        .map_err(|error| format!("{error:#}"))?;
    let statement = auditing.statement(&outcome, device);
    let signed = auditing.certify(statement, &key());
    assert_eq!(signed.is_ok(), outcome.fault.is_none());
    Ok(outcome.fault)
}

/// A certificate of a run's folder.
fn certificate(place: &Scratch) -> Vec<u8> {
    let options = AuditOptions {
        stretches: Some(2),
        seed: "7".to_owned(),
        data_path: None,
        micro_batch_size: None,
    };
    let auditing = Auditing::new(&place.join("run"), &options).expect("can be audited");
    let outcome = auditing.run(&cpu(), &mut |_| {}).expect("audits");
    let statement = auditing.statement(&outcome, &cpu());
    auditing.certify(statement, &key()).expect("signs")
}

/// How many of the seeds 0 to 29 an audit of one stretch passes with.
fn n_passed(place: &Scratch) -> usize {
    let passes = |seed: &u32| {
        let found = audit(&cpu(), &place.join("run"), 1, &seed.to_string());
        found.expect("audits").is_none()
    };
    (0..30).filter(passes).count()
}

/// Seeds out of 30 that pass where one of three stretches is right: the expected number is 10, and its standard
/// deviation 2.6.
fn is_a_third(n: usize) -> bool {
    assert_eq!(chance_of_passing(N, 2, 1), 1.0 / 3.0);
    (3..=17).contains(&n)
}

#[test]
fn honest_runs_pass_on_every_device_and_their_certificates_hold() {
    let place = run();
    for device in hlx_core::testing::own_devices() {
        for (k, seed) in [(1, "1"), (2, "a word"), (3, "3")] {
            let found = audit(&device, &place.join("run"), k, seed).expect("audits");
            assert!(found.is_none(), "{found:?}");
        }
    }
    place.succeeds(&["key", "new", "auditor.key"]);
    let arguments = ["audit", "run", "--stretches", "2", "--seed", "7"];
    let line = place.succeeds(&[&arguments[..], &["--json", "--key", "auditor.key"]].concat());
    let said: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&said["kind"], &said["equal"]),
        (&"audit".into(), &true.into())
    );
    let (method, work) = (&said["audit"]["method"], &said["audit"]["work"]);
    assert_eq!(
        (&method["n_stretches"], &method["n_checked"]),
        (&3.into(), &2.into())
    );
    assert_eq!(
        (&work["steps"], &work["stored_states"]),
        (&4.into(), &3.into())
    );
    assert_eq!(work["initial_state"], true);
    let first = &said["audit"]["chances"][0];
    assert_eq!(first["wrong_steps"], 1);
    assert_eq!(first["passes"], chance_of_passing(3, 1, 2));
    let bytes = fs::read(place.join("run/audit.json")).expect("reads");
    assert!(bytes.len() < 10_000, "{} bytes", bytes.len());
    let read = Certificate::open(&bytes).expect("holds");
    assert_eq!(said["certificate"]["sha256"], read.sha256.to_string());
    let held = [
        "audit",
        "run",
        "--check",
        "run/audit.json",
        "--key",
        "auditor.key.pub",
    ];
    let text = place.succeeds(&held);
    for words in [
        "chain      4 records up to step 6",
        "states     3 checkpoints",
        "rests on   ",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // The run goes on, and its corpus is gone: the records that were audited are still there.
    fs::remove_file(place.join("corpus.jsonl")).expect("removes");
    let text = place.succeeds(&held);
    assert!(text.contains("the data are not at hand"), "{text}");
}

#[test]
fn a_swapped_checkpoint_is_found_by_every_audit() {
    let place = run();
    tamper(&place, false);
    for seed in 0..4 {
        let found = audit(&cpu(), &place.join("run"), 1, &seed.to_string());
        match found.expect("audits") {
            Some(Fault::OtherState(path)) => assert!(path.ends_with("step-000004")),
            other => panic!("{other:?}"),
        }
    }
    let (code, text, _) = status(&place, &["audit", "run", "--seed", "1"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("step-000004: is not the state"), "{text}");
    // Damage that its own digests show cannot be audited.
    fs::write(checkpoint(&place, 2).join("state.bin"), "x").expect("writes");
    let (code, _, stderr) = status(&place, &["audit", "run", "--seed", "1"]);
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
}

#[test]
fn a_chain_rewritten_around_a_changed_state_is_found_as_often_as_the_certificate_says() {
    let place = run();
    tamper(&place, true);
    // The step to the changed state is wrong, and so are those after it: two stretches of three.
    let n = n_passed(&place);
    assert!(is_a_third(n), "{n}");
    for device in hlx_core::testing::own_devices() {
        let found = audit(&device, &place.join("run"), N, "1").expect("audits");
        let Some(Fault::Steps(difference)) = found else {
            panic!("{found:?}")
        };
        assert_eq!((difference.step, difference.record), (4, 4));
    }
    place.succeeds(&["key", "new", "k"]);
    let (code, text, _) = status(&place, &["audit", "run", "--stretches", "3", "--key", "k"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("differs    at step 4"), "{text}");
    assert!(!place.join("run/audit.json").exists());
}

/// Makes the run say that steps 3 and 4 were done, which were skipped: its state of step 4 is that of step 2.
fn skip_steps(place: &Scratch) {
    let files = ["model.safetensors", "config.json", "state.bin"];
    let (old, early) = (checkpoint(place, 4), checkpoint(place, 2));
    let (old, early) = (
        Checkpoint::open(&old).expect("opens"),
        Checkpoint::open(&early).expect("opens"),
    );
    let state = |of: &Checkpoint| State::from_bytes(of.file("state.bin").expect("a file"));
    let mut skipped = state(&early).expect("a state");
    skipped.progress = state(&old).expect("a state").progress;
    skipped.optimizer.step = 4;
    let mut files = files.map(|name| (name, early.file(name).expect("a file").to_vec()));
    files[2].1 = skipped.to_bytes().expect("writes");
    let mut records = records(place);
    let early_record = records[1].clone();
    let late = &mut records[2];
    late.parameters = early_record.parameters;
    late.optimizer = early_record.optimizer;
    late.tensors = early_record.tensors;
    let sealed = rechain(place, records);
    let digests = Digests {
        step: 4,
        parameters: early.digests.parameters.clone(),
        optimizer: skipped.optimizer.digest(),
        record: sealed[2].clone(),
        ..old.digests.clone()
    };
    fs::remove_dir_all(old.path()).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
    relink(place, 6, &sealed[3]);
}

#[test]
fn skipped_steps_are_found_as_often_as_the_certificate_says() {
    let place = run();
    skip_steps(&place);
    let n = n_passed(&place);
    assert!(is_a_third(n), "{n}");
    let found = audit(&cpu(), &place.join("run"), N, "1").expect("audits");
    assert!(matches!(found, Some(Fault::Steps(one)) if one.record == 4));
}

#[test]
fn changed_data_are_found_also_under_their_own_digest() {
    let place = run();
    let text = fs::read_to_string(place.join("corpus.jsonl")).expect("reads");
    fs::write(place.join("corpus.jsonl"), text.replace("[3,9]", "[3,8]")).expect("writes");
    let error = audit(&cpu(), &place.join("run"), N, "1").expect_err("is refused");
    assert!(error.contains("is not the run's corpus"), "{error}");
    // The digest of the data is changed as well, and all that covers it.
    let data = error.split("its SHA-256 is ").nth(1).expect("a digest");
    let data = data[..64].to_owned();
    let mut records = records(&place);
    let origin = records[0].origin.as_mut().expect("an origin");
    origin.data.clone_from(&data);
    let sealed = rechain(&place, records);
    for (step, record) in [(2, &sealed[1]), (4, &sealed[2]), (6, &sealed[3])] {
        relink(&place, step, record);
        let path = checkpoint(&place, step);
        let listed = Checkpoint::open(&path).expect("opens");
        let files = ["model.safetensors", "config.json", "state.bin"];
        let files = files.map(|name| (name, listed.file(name).expect("a file").to_vec()));
        let digests = Digests {
            data: data.clone(),
            ..listed.digests.clone()
        };
        fs::remove_dir_all(&path).expect("removes");
        Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
    }
    let found = audit(&cpu(), &place.join("run"), N, "1").expect("audits");
    assert!(matches!(found, Some(Fault::Steps(_))), "{found:?}");
}

#[test]
fn a_schedules_state_changed_under_new_digests_is_found() {
    let place = Scratch::new("audit");
    let sets = [
        "train.checkpoint_every=3",
        "train.schedule=plateau",
        "schedule.patience=0",
        "schedule.threshold=0.5",
    ];
    place.train(&cpu(), "run", &sets);
    assert!(
        audit(&cpu(), &place.join("run"), 2, "1")
            .expect("audits")
            .is_none()
    );
    let path = checkpoint(&place, 3);
    let old = Checkpoint::open(&path).expect("opens");
    let files = [
        "model.safetensors",
        "config.json",
        "state.bin",
        "schedule.bin",
    ];
    let mut files = files.map(|name| (name, old.file(name).expect("a file").to_vec()));
    // The rate, an f64, is the state's first member.
    files[3].1[..8].copy_from_slice(&0.5_f64.to_le_bytes());
    fs::remove_dir_all(&path).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), old.digests.clone(), &files).expect("writes");
    let found = audit(&cpu(), &place.join("run"), 2, "1").expect("audits");
    let Some(Fault::Steps(difference)) = found else {
        panic!("{found:?}")
    };
    assert_eq!(difference.record, 3);
    assert_eq!(difference.mismatches[0].what, "schedule's state");
}

#[test]
fn changed_and_foreign_certificates_are_refused() {
    let place = run();
    let bytes = certificate(&place);
    let folder = place.join("run");
    let public = key().public();
    let expected = Expected {
        key: Some(&public),
        data_path: None,
    };
    let failed = |bytes: &[u8], run: &Path| {
        let (_, checks) = check(bytes, run, &expected);
        checks.into_iter().find(|check| !check.ok)
    };
    assert_eq!(failed(&bytes, &folder), None);
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 7);
        assert!(failed(&changed, &folder).is_some(), "byte {at}");
        assert!(failed(&bytes[..at], &folder).is_some(), "{at} bytes");
    }
    let name = |found: Option<hlx_train::receipts::Check>| found.map(|check| check.name);
    // Signed by another key.
    let other = SigningKey::of_seed(&[8; 32]).public();
    let theirs = Expected {
        key: Some(&other),
        ..expected
    };
    let (_, checks) = check(&bytes, &folder, &theirs);
    let found = checks.into_iter().find(|check| !check.ok);
    assert_eq!(name(found), Some("key"));
    // Of another run: another seed, and the same run with fewer steps.
    for set in ["seed=8", "train.max_steps=4"] {
        place.train(&cpu(), "other", &["train.checkpoint_every=2", set]);
        assert_eq!(
            name(failed(&bytes, &place.join("other"))),
            Some("chain"),
            "{set}"
        );
        fs::remove_dir_all(place.join("other")).expect("removes");
    }
    // A run that was forged after it was audited.
    tamper(&place, false);
    assert_eq!(name(failed(&bytes, &folder)), Some("states"));
    let place = run();
    tamper(&place, true);
    assert_eq!(name(failed(&bytes, &place.join("run"))), Some("chain"));
}

#[test]
fn a_statement_that_contradicts_itself_is_refused_whoever_signs_it() {
    let place = run();
    let whole = Certificate::open(&certificate(&place)).expect("holds");
    let signed = |change: &dyn Fn(&mut hlx_receipt::Audit)| {
        let mut audit = whole.audit.clone();
        change(&mut audit);
        let bytes = Certificate::sign(&key(), audit, whole.subjects.clone()).expect("signs");
        Certificate::open(&bytes)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(signed(&|_| {}), Ok(()));
    let choice = "the stretches are not those that the seed chooses";
    type Change = fn(&mut hlx_receipt::Audit);
    let changes: [(Change, &str); 6] = [
        (|audit| audit.method.checked[0] = [2, 4], choice),
        (|audit| audit.method.n_stretches.0 = 9, choice),
        (|audit| audit.method.seed.push('x'), choice),
        (|audit| audit.work.steps.0 = 6, "its steps are not"),
        (|audit| audit.chances[0].passes = 0.0, "its result, chances"),
        (
            |audit| audit.result = "differs".to_owned(),
            "its result, chances",
        ),
    ];
    for (change, words) in changes {
        let error = signed(&change).expect_err("is refused");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_cannot_be_audited_has_status_2_and_a_line() {
    let place = run();
    place.succeeds(&["key", "new", "k"]);
    place.write("large", &"x".repeat(10_001));
    let long = "x".repeat(257);
    let cases: [(&[&str], &str); 9] = [
        (&["audit", "nothing"], "nothing: is no run folder"),
        (
            &["audit", "run", "--stretches", "4"],
            "4 stretches cannot be chosen of 3: expected 1 to 3",
        ),
        (&["audit", "run", "--stretches", "0"], "0 stretches cannot"),
        (&["audit", "run", "--seed", ""], "the seed is empty"),
        (&["audit", "run", "--seed", &long], "the seed has 257 bytes"),
        (&["audit", "run", "--key", "k.pub"], "k.pub: "),
        (&["audit", "run", "--check", "none"], "none: No such file"),
        (
            &["audit", "run", "--check", "large"],
            "large: more than 10000 bytes",
        ),
        (
            &["audit", "run", "--key", "k", "--out", "run/chain.jsonl"],
            "run/chain.jsonl: is the file that is read",
        ),
    ];
    for (arguments, words) in cases {
        let (code, _, stderr) = status(&place, arguments);
        assert_eq!(
            (code, stderr.lines().count()),
            (2, 1),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(words), "{stderr}");
    }
    let (code, text, _) = status(&place, &["audit", "run", "--check", "config.toml"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("form: the certificate is damaged: no envelope"),
        "{text}"
    );
}
