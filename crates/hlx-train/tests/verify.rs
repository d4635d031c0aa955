//! `hlx verify RUN`: equal on every device, the first difference by name, and no silent pass.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Scratch, status};
use hlx_core::Context;
use hlx_kernels::tree_digest::ListDigest;
use hlx_nn::{StateDigest, Transformer};
use hlx_train::config::Config;
use hlx_train::run::{Bits, Chain, ChainRecord, Checkpoint, Digests, State};
use hlx_train::verify::{Report, Source, Verification, VerifyOptions};

const SETS: [&str; 1] = ["train.checkpoint_every=2"];
const TENSOR: &str = "blocks.1.feed_forward.up.weight";

/// A run of 6 steps on the CPU device with checkpoints and records of the steps 2, 4 and 6.
fn run() -> Scratch {
    let place = Scratch::new("verify");
    place.train(&cpu(), "run", &SETS);
    place
}

fn cpu() -> Context {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn verify(ctx: &Context, place: &Scratch, options: &VerifyOptions) -> Report {
    let verification = Verification::new(ctx, &place.join("run"), options).expect("can be checked");
    let (from, _) = verification.steps();
    let mut last = from;
    let report = verification.run(&mut |step| {
        assert_eq!(step, last + 1);
        last = step;
    });
    report.expect("verifies")
}

fn checkpoint(place: &Scratch, step: u64) -> PathBuf {
    place.join(&format!("run/checkpoints/step-{step:06}"))
}

#[test]
fn every_device_verifies_the_runs_of_every_other() {
    let devices = hlx_core::testing::own_contexts();
    for trained_on in &devices {
        let place = Scratch::new("verify");
        place.train(trained_on, "run", &SETS);
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

/// Reads the chain's records.
fn records(place: &Scratch) -> Vec<ChainRecord> {
    let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
    chain
        .links()
        .iter()
        .map(|link| link.record.clone())
        .collect()
}

/// Writes records as a chain whose links are right; returns their digests.
fn rechain(place: &Scratch, mut records: Vec<ChainRecord>) -> Vec<String> {
    let (mut text, mut digests) = (String::new(), vec![String::new()]);
    for record in &mut records {
        record.previous = digests.last().expect("one").clone();
        let (line, digest) = record.seal().expect("seals");
        text.push_str(&line);
        text.push('\n');
        digests.push(digest);
    }
    fs::write(place.join("run/chain.jsonl"), text).expect("writes");
    digests.split_off(1)
}

/// The tree digest of a state with other parameters than a record says.
fn state_of(model: &Transformer, saved: &State) -> StateDigest {
    use hlx_kernels::tree_digest::{TensorRoot, tree_digest_f32};
    let store = model.store();
    let values = store.download(store.values()).expect("downloads");
    let parameters = store.parameters().iter().zip(values);
    let parameters = parameters.map(|(parameter, values)| TensorRoot {
        name: parameter.name().to_owned(),
        shape: parameter.shape().to_vec(),
        root: tree_digest_f32(&values),
    });
    let parameters = ListDigest::new(parameters.collect());
    let root = |name: String| {
        let tensor = saved
            .optimizer
            .tensors
            .iter()
            .find(|tensor| tensor.name == name);
        let tensor = tensor.expect("a tensor");
        TensorRoot {
            name,
            shape: tensor.shape.clone(),
            root: tree_digest_f32(&tensor.values),
        }
    };
    let names = |buffer: &'static str| {
        let parameters = store.parameters().iter();
        parameters.map(move |parameter| format!("{buffer}/{}", parameter.name()))
    };
    let optimizer = names("mean").chain(names("square")).map(root).collect();
    StateDigest {
        parameters,
        optimizer: ListDigest::new(optimizer),
    }
}

/// Flips a bit of a parameter in the checkpoint of step 4, and makes every digest that covers it
/// anew: the checkpoint's, and with `chain` the record's and those behind it.
fn tamper(place: &Scratch, chain: bool) -> (u32, u32) {
    let path = checkpoint(place, 4);
    let old = Checkpoint::open(&path).expect("opens");
    let config = Config::load(&place.join("run/config.toml"), &[]).expect("loads");
    let model = Transformer::zeroed(&cpu(), &config.transformer()).expect("makes");
    let store = model.store();
    let files = ["model.safetensors", "config.json", "state.bin"];
    let mut files = files.map(|name| (name, old.file(name).expect("a file").to_vec()));
    store.load_safetensors(&files[0].1).expect("loads");
    let parameter = store.get(TENSOR).expect("a parameter");
    let place_of = parameter.tensor().expect("built").buffer().slice(7, 1);
    let place_of = place_of.expect("an element");
    let word = cpu_word(&model, &place_of, None);
    cpu_word(&model, &place_of, Some(word ^ 1));
    files[0].1 = store.to_safetensors().expect("writes");
    let mut digests = Digests {
        parameters: store.digest().expect("digests"),
        ..old.digests.clone()
    };
    let mut records = records(place);
    if chain {
        let state = State::from_bytes(&files[2].1).expect("a state");
        let at = records
            .iter()
            .position(|record| record.step == 4)
            .expect("a record");
        let old = records[at].clone();
        let state = state_of(&model, &state);
        records[at] = ChainRecord::new(old.step, old.epoch, old.batch_idx, &state);
        records[at].losses = old.losses;
        records[at].norms = old.norms;
        let sealed = rechain(place, records);
        digests.record.clone_from(&sealed[at]);
        relink(place, 6, &sealed[at + 1]);
    }
    fs::remove_dir_all(&path).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
    (word ^ 1, word)
}

/// Reads or replaces a word of a model on the CPU device.
fn cpu_word(model: &Transformer, place: &hlx_core::Buffer, new: Option<u32>) -> u32 {
    let ctx = model.store().context();
    if let Some(word) = new {
        ctx.upload_u32(place, &[word]).expect("uploads");
    }
    ctx.download_u32(place).expect("downloads")[0]
}

/// Makes a checkpoint name another record.
fn relink(place: &Scratch, step: u64, record: &str) {
    let path = checkpoint(place, step);
    let old = Checkpoint::open(&path).expect("opens");
    let files = ["model.safetensors", "config.json", "state.bin"];
    let files = files.map(|name| (name, old.file(name).expect("a file").to_vec()));
    let digests = Digests {
        record: record.to_owned(),
        ..old.digests.clone()
    };
    fs::remove_dir_all(&path).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
}

#[test]
fn a_parameter_changed_under_new_digests_is_named() {
    for (chain, source) in [(true, Source::Chain), (false, Source::Checkpoint)] {
        let place = run();
        let (recorded, recomputed) = tamper(&place, chain);
        for device in hlx_core::testing::own_contexts() {
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
        // From the changed checkpoint on, the run does not follow from it; or it is no state of
        // the chain's at all.
        let (code, _, stderr) = status(&place, &["verify", "run", "--from", "4"]);
        assert_eq!(code, if chain { 1 } else { 2 }, "{stderr}");
        let (code, stdout, _) = status(&place, &["verify", "run"]);
        assert_eq!(code, 1);
        assert!(
            stdout.contains(TENSOR) && stdout.contains("differs    at step 4"),
            "{stdout}"
        );
    }
}

/// Flips a bit of a parameter's element behind a step, as a fault of the hardware would.
struct Fault {
    ctx: Context,
    element: hlx_core::Buffer,
    step: u64,
}

impl hlx_train::train::Observer for Fault {
    fn step(&mut self, step: u64, _total_steps: u64) {
        if step == self.step {
            let word = self.ctx.download_u32(&self.element).expect("downloads")[0];
            self.ctx
                .upload_u32(&self.element, &[word ^ (1 << 20)])
                .expect("uploads");
        }
    }
}

/// Trains with a fault behind step 2, in records of the steps 0, 5 and 6, and returns what is
/// found of it.
fn faulty(tensor: &str, element: usize) -> hlx_train::verify::Difference {
    let place = Scratch::new("fault");
    let ctx = cpu();
    let mut trainer = place.trainer(&ctx, "run", &["train.log_every=5"]);
    let parameter = trainer.model().store().get(tensor).expect("a parameter");
    let buffer = parameter.tensor().expect("built").buffer();
    let mut fault = Fault {
        element: buffer.slice(element, 1).expect("an element"),
        ctx,
        step: 2,
    };
    trainer.run(&mut fault).expect("trains");
    let report = verify(&cpu(), &place, &VerifyOptions::default());
    assert_eq!((report.equal_to, report.to), (Some(0), 6));
    report.difference.expect("differs")
}

#[test]
fn a_fault_between_two_records_is_named_by_the_first_loss_that_shows_it() {
    // The row of `4`, a byte of many outputs.
    let found = faulty("output.weight", 16 * usize::from(b'4'));
    assert_eq!((found.step, found.record), (3, 5));
    let names: Vec<&str> = found
        .mismatches
        .iter()
        .map(|found| found.what.as_str())
        .collect();
    let expected = [
        "loss of step 3",
        "gradient norm of step 3",
        "parameters",
        "optimizer",
    ];
    assert_eq!(names, expected);
    // The whole model has learnt from it since; its first tensor is named.
    assert_eq!(
        found.tensor.expect("a tensor").name,
        "token_embedding.weight"
    );
}

#[test]
fn a_fault_that_no_loss_shows_is_named_by_its_tensor() {
    // The row of a byte that the corpus does not hold.
    let found = faulty("token_embedding.weight", 255 * 16);
    assert_eq!((found.step, found.record), (5, 5));
    let names: Vec<&str> = found
        .mismatches
        .iter()
        .map(|found| found.what.as_str())
        .collect();
    assert_eq!(names, ["parameters"]);
    let tensor = found.tensor.expect("a tensor");
    assert_eq!(tensor.name, "token_embedding.weight");
    assert!(
        tensor.element.is_none(),
        "no checkpoint holds the values of step 5"
    );
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
        origin.specification = 2;
    }
    let sealed = rechain(&chain, records);
    for (step, digest) in [2, 4, 6].into_iter().zip(&sealed[1..]) {
        relink(&chain, step, digest);
    }
    let saved = run();
    respecify(&saved, 6, 2);
    for (place, file) in [(&chain, "chain.jsonl"), (&saved, "step-000006")] {
        let before = common::contents(&place.join("run"));
        let (code, stdout, stderr) = status(place, &["verify", "run"]);
        assert_eq!(code, 2, "{stdout}{stderr}");
        let words = "follows specification 2 of the arithmetic, and this HLX follows 1";
        assert!(stderr.contains(words) && stderr.contains(file), "{stderr}");
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
        assert!(line.contains(words) && line.contains(file), "{line}");
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
            body = body.replace("\"version\":2,\"specification\":1,", "\"version\":1,");
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
