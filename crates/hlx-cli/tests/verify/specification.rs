//! Runs of another specification are refused; those of one with the same finite bits, and those from before its
//! number, continue.

use std::fs;

use hlx_core::SPECIFICATION;
use hlx_train::config::Config;
use hlx_train::run::{Bits, Checkpoint, Digests};

use super::common::{self, Scratch, status};
use super::tampering::{rechain, records, relink};
use super::{checkpoint, run};

/// Writes another version's numbers into the checkpoints.
fn respecify(place: &Scratch, step: u64, specification: u32) {
    let path = checkpoint(place, step);
    let old = Checkpoint::open(&path).expect("opens");
    let files = ["model.safetensors", "config.json", "state.bin"];
    let files = files.map(|name| (name, old.file(name).expect("a file").to_vec()));
    let digests = Digests {
        specification,
        ..old.digests.clone()
    };
    fs::remove_dir_all(&path).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
}

#[test]
fn a_run_of_another_specification_cannot_be_checked_nor_go_on() {
    let chain = run();
    let mut records = records(&chain);
    if let Some(origin) = &mut records[0].origin {
        origin.specification = SPECIFICATION + 1;
    }
    let sealed = rechain(&chain, records);
    for (step, digest) in [2, 4, 6].into_iter().zip(&sealed[1..]) {
        relink(&chain, step, digest);
    }
    let saved = run();
    respecify(&saved, 6, SPECIFICATION + 1);
    for (place, file) in [(&chain, "chain.jsonl"), (&saved, "step-000006")] {
        let before = common::contents(&place.join("run"));
        let (code, stdout, stderr) = status(place, &["verify", "run"]);
        assert_eq!(code, 2, "{stdout}{stderr}");
        let words = format!(
            "follows specification {} of the arithmetic, and this HLX follows {SPECIFICATION}",
            SPECIFICATION + 1
        );
        assert!(stderr.contains(&words) && stderr.contains(file), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let every = "train.checkpoint_every=2";
        let resume = [
            "train",
            "config.toml",
            "--out",
            "run",
            "--resume",
            "--set",
            every,
        ];
        let line = place.fails(&resume);
        assert!(line.contains(&words) && line.contains(file), "{line}");
        assert_eq!(common::contents(&place.join("run")), before);
    }
}

/// The bytes of a chain as HLX wrote them before the specification's number.
fn old_chain(place: &Scratch) -> Vec<String> {
    let config = Config::load(&place.join("run/config.toml"), &[]).expect("loads");
    let old = config.digest_before_identities().expect("digests");
    let (mut text, mut digests) = (String::new(), vec![String::new()]);
    for mut record in records(place) {
        record.previous = digests.last().expect("one").clone();
        let mut body = serde_json::to_string(&record).expect("JSON");
        if let Some(origin) = &record.origin {
            body = body.replace(&origin.config, &old);
            let numbered = format!("\"version\":2,\"specification\":{SPECIFICATION},");
            body = body.replace(&numbered, "\"version\":1,");
            body = body.replace("\"arithmetic\"", "\"profile\"");
        }
        let digest = hlx_core::digest::sha256_hex(body.as_bytes());
        body.pop();
        text.push_str(&format!("{body},\"digest\":\"{digest}\"}}\n"));
        digests.push(digest);
    }
    assert!(
        text.contains("\"version\":1,\"profile\":\"portable\""),
        "{text}"
    );
    fs::write(place.join("run/chain.jsonl"), text).expect("writes");
    digests.split_off(1)
}

#[test]
fn a_run_from_before_the_specifications_number_is_checked_and_goes_on() {
    let place = run();
    let sealed = old_chain(&place);
    fs::remove_dir_all(checkpoint(&place, 6)).expect("removes");
    for (step, digest) in [2, 4].into_iter().zip(&sealed[1..]) {
        relink(&place, step, digest);
        let listing = checkpoint(&place, step).join("digests.json");
        let text = fs::read_to_string(&listing).expect("reads");
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let members = value.as_object_mut().expect("an object");
        members.remove("specification");
        members.remove("seal");
        fs::write(&listing, serde_json::to_vec_pretty(&value).expect("JSON")).expect("writes");
    }
    let (code, stdout, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let every = "train.checkpoint_every=2";
    place.succeeds(&[
        "train",
        "config.toml",
        "--out",
        "run",
        "--resume",
        "--set",
        every,
    ]);
    let (code, stdout, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let whole = run();
    assert_eq!(
        common::proof(&place.digests("run")),
        common::proof(&whole.digests("run"))
    );
}

/// The golden digests of number 1 are those of number 2: a run whose values are finite loses nothing.
#[test]
fn a_run_of_the_first_specification_is_checked_and_told_where_it_may_differ() {
    let place = run();
    let mut records = records(&place);
    if let Some(origin) = &mut records[0].origin {
        origin.specification = 1;
    }
    let sealed = rechain(&place, records.clone());
    for (step, digest) in [2, 4, 6].into_iter().zip(&sealed[1..]) {
        relink(&place, step, digest);
    }
    let (code, stdout, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(!stdout.contains("specification"), "{stdout}");
    records[2].losses[0] = Bits(0);
    let sealed = rechain(&place, records);
    for (step, digest) in [2, 4, 6].into_iter().zip(&sealed[1..]) {
        relink(&place, step, digest);
    }
    let (code, stdout, stderr) = status(&place, &["verify", "run"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    let note = "note       the run follows specification 1, this HLX 2: they differ where a value is not finite";
    assert!(stdout.contains(note), "{stdout}");
}
