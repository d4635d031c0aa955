//! Bad input ends in one clear line and a non-zero exit, and loses nothing.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, contents, failure};

const TRAIN: [&str; 4] = ["train", "config.toml", "--out", "run"];

/// Trains with the configuration changed and returns the line that it fails with.
fn with_config(change: impl Fn(String) -> String) -> String {
    let place = Scratch::new("config");
    let config = fs::read_to_string(place.join("config.toml")).expect("reads");
    place.write("config.toml", &change(config));
    let line = place.fails(&TRAIN);
    assert!(!place.join("run").exists(), "{line}");
    line
}

/// Trains on a corpus of these bytes and returns the line that it fails with.
fn with_corpus(bytes: &[u8]) -> String {
    let place = Scratch::new("corpus");
    fs::write(place.join("corpus.jsonl"), bytes).expect("writes");
    let line = place.fails(&TRAIN);
    assert!(!place.join("run").exists(), "{line}");
    line
}

#[test]
fn a_configuration_is_refused_with_its_key_and_line() {
    let place = Scratch::new("missing");
    let line = place.fails(&["train", "no.toml"]);
    assert!(line.starts_with("error: no.toml: No such file"), "{line}");
    let line = with_config(|config| config.replace("seed = 7", "seed = = 7"));
    assert!(line.starts_with("error: config.toml:1: "), "{line}");
    let line = with_config(|config| config.replace("batch_size", "batch_sise"));
    assert!(
        line.starts_with("error: config.toml:16: train.batch_sise: unknown field"),
        "{line}"
    );
    let line = with_config(|config| config.replace("= 8", "= \"eight\""));
    assert!(
        line.starts_with("error: config.toml:16: train.batch_size: invalid type"),
        "{line}"
    );
    let line = with_config(|config| config.replace("n_heads = 2", "n_heads = 3"));
    assert_eq!(
        line,
        "error: config.toml:6: model.n_heads: 3 does not divide width 16"
    );
    let line = place.fails(&["train", "config.toml", "--set", "train.steps=3"]);
    assert!(
        line.starts_with("error: --set train.steps=3: unknown field"),
        "{line}"
    );
}

#[test]
fn a_corpus_is_refused_with_its_line() {
    assert_eq!(with_corpus(b""), "error: corpus.jsonl: holds no data");
    assert_eq!(
        with_corpus(b"{\"a\xff"),
        "error: corpus.jsonl:1: not UTF-8 at byte 3"
    );
    let line = with_corpus(b"{\"input\": \"a\", \"output\": \"b\"}\n{\"input\": 3}\n");
    assert!(
        line.starts_with("error: corpus.jsonl:2: malformed pair: invalid type"),
        "{line}"
    );
    let line = with_corpus(b"{\"input\": \"sixteen characters\", \"output\": \"[1,2,3]\"}\n");
    assert!(
        line.starts_with("error: corpus.jsonl:1: the pair takes 26 positions"),
        "{line}"
    );
    let line = with_config(|config| config.replace("corpus.jsonl", "no.jsonl"));
    assert!(line.starts_with("error: no.jsonl: No such file"), "{line}");
}

/// Trains, damages a file of the checkpoint, and returns the lines that all readers fail with.
fn with_damage(name: &str, damage: impl Fn(&mut Vec<u8>)) -> Vec<String> {
    let place = Scratch::new("damage");
    place.succeeds(&TRAIN);
    let file = place.join("run/checkpoints/step-000006").join(name);
    let mut bytes = fs::read(&file).expect("reads");
    damage(&mut bytes);
    fs::write(&file, &bytes).expect("writes");
    let before = contents(&place.join("run"));
    let readers: [&[&str]; 4] = [
        &["train", "config.toml", "--out", "run", "--resume"],
        &["digest", "run"],
        &["eval", "run", "--data", "corpus.jsonl"],
        &["generate", "run", "--prompt", "one"],
    ];
    let lines = readers
        .iter()
        .map(|arguments| place.fails(arguments))
        .collect();
    assert_eq!(contents(&place.join("run")), before, "nothing is touched");
    lines
}

#[test]
fn a_damaged_checkpoint_is_found_by_its_digest() {
    for name in ["model.safetensors", "state.bin", "config.json"] {
        for line in with_damage(name, |bytes| bytes.truncate(bytes.len() / 2)) {
            assert!(
                line.contains(&format!("{name}: is truncated or tampered with")),
                "{line}"
            );
        }
        let flip = |bytes: &mut Vec<u8>| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        };
        for line in with_damage(name, flip) {
            assert!(
                line.contains(&format!("{name}: is truncated or tampered with")),
                "{line}"
            );
        }
    }
    for line in with_damage("digests.json", |bytes| bytes.truncate(40)) {
        assert!(line.contains("digests.json: EOF"), "{line}");
    }
}

#[test]
fn a_run_of_another_model_is_refused_and_stays_whole() {
    let place = Scratch::new("another");
    place.succeeds(&TRAIN);
    let before = contents(&place.join("run"));
    let resume = |set: &str| place.fails(&[&TRAIN[..], &["--resume", "--set", set]].concat());
    let line = resume("model.width=32");
    let expected = "error: run: is of another model: model.feed_forward_width is 64 there and 128";
    assert!(line.starts_with(expected), "{line}");
    assert!(resume("seed=8").contains("is of another run: seed is 7 there and 8 here"));
    let line = place.fails(&TRAIN);
    assert!(line.contains("run: already holds a run"), "{line}");
    let line = place.fails(&["train", "config.toml", "--out", "nowhere", "--resume"]);
    assert!(line.contains("nowhere: is no run folder"), "{line}");
    assert_eq!(contents(&place.join("run")), before);
    let corpus = fs::read_to_string(place.join("corpus.jsonl")).expect("reads");
    place.write("corpus.jsonl", &corpus.replace("one", "uno"));
    let line = place.fails(&[&TRAIN[..], &["--resume"]].concat());
    assert!(line.contains("was trained on another corpus"), "{line}");
    assert_eq!(contents(&place.join("run")), before);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let place = Scratch::new("device");
    for (device, expected) in [
        ("vulkan:99", "no device `vulkan:99` on this machine"),
        (
            "gpu",
            "device `gpu` is unknown: expected auto, cpu, vulkan or vulkan:N",
        ),
    ] {
        let mut command = place.hlx(&[&TRAIN[..], &["--device", device]].concat());
        let line = failure(command.env_remove("HLX_DEVICE").output().expect("starts"));
        assert!(line.contains(expected), "{line}");
        let line = failure(
            place
                .hlx(&TRAIN)
                .env("HLX_DEVICE", device)
                .output()
                .expect("starts"),
        );
        assert!(line.contains(expected), "{line}");
    }
    assert!(!place.join("run").exists());
}

#[test]
fn more_memory_than_the_device_has_is_refused() {
    let place = Scratch::new("memory");
    let sets = ["--set", "model.width=65536", "--set", "model.n_heads=1024"];
    let line = place.fails(&[&TRAIN[..], &sets].concat());
    assert!(line.contains("out of memory on"), "{line}");
    assert!(!place.join("run").exists());
    place.succeeds(&TRAIN);
    let before = contents(&place.join("run"));
    let mut command = place.hlx(&[&TRAIN[..], &["--resume"]].concat());
    let output = command
        .env("HLX_MEMORY_LIMIT", "10000")
        .output()
        .expect("starts");
    assert!(failure(output).contains("out of memory on"));
    assert_eq!(contents(&place.join("run")), before);
}

/// A file system of 1 MiB, where this user may mount one.
#[cfg(target_os = "linux")]
struct SmallDisk<'a>(&'a Path);

#[cfg(target_os = "linux")]
impl<'a> SmallDisk<'a> {
    fn mount(folder: &'a Path) -> Option<Self> {
        fs::create_dir_all(folder).expect("makes");
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(folder);
        let done = mount.output().is_ok_and(|output| output.status.success());
        done.then_some(Self(folder))
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0).output();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_checkpoints_before_it_whole() {
    let place = Scratch::new("disk");
    let folder = place.join("disk");
    let Some(disk) = SmallDisk::mount(&folder) else {
        return hlx_core::testing::left_out("a file system of 1 MiB", "mounting needs root");
    };
    let sets = [
        "--set",
        "train.checkpoint_every=1",
        "--set",
        "train.keep=100",
    ];
    let train = [
        "train",
        "config.toml",
        "--out",
        "disk/run",
        "--set",
        "train.max_steps=20",
    ];
    let line = place.fails(&[&train[..], &sets].concat());
    assert!(line.contains("cannot be written"), "{line}");
    assert!(line.contains("No space left on device"), "{line}");
    let digests = place.digests("disk/run");
    assert!(digests.step > 0 && digests.step < 20, "{}", digests.step);
    let left: Vec<_> = fs::read_dir(folder.join("run/checkpoints"))
        .expect("reads")
        .collect();
    assert_eq!(
        left.len() as u64,
        digests.step,
        "nothing is left half-written"
    );
    drop(disk);
}

#[test]
#[cfg(unix)]
fn a_file_that_cannot_grow_is_named() {
    let place = Scratch::new("limit");
    let program = env!("CARGO_BIN_EXE_hlx");
    let script = format!("trap '' XFSZ; ulimit -f 64; exec {program} \"$@\"");
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script, "sh"])
        .args(TRAIN)
        .current_dir(&place.path);
    let line = failure(shell.env("HLX_DEVICE", "cpu").output().expect("starts"));
    assert!(
        line.contains("step-000006: cannot be written: File too large"),
        "{line}"
    );
    assert_eq!(contents(&place.join("run/checkpoints")), Vec::new());
    // What was in the way is gone: the run continues from its beginning.
    place.succeeds(&[&TRAIN[..], &["--resume"]].concat());
}

#[test]
fn prompts_and_numbers_are_checked() {
    let place = Scratch::new("prompts");
    place.succeeds(&TRAIN);
    let ask = |arguments: &[&str]| place.fails(&[&["generate", "run"], arguments].concat());
    assert!(ask(&["--prompt", ""]).contains("the prompt is empty"));
    let long = "longer than the positions";
    assert!(ask(&["--prompt", long]).contains("the prompt takes 26 positions"));
    assert!(ask(&["--prompt", "a", "--top-p", "0"]).contains("--top-p: 0 is not above 0"));
    assert!(ask(&["--prompt", "a", "--temperature", "NaN"]).contains("--temperature"));
    assert!(
        place
            .fails(&["digest", "config.toml"])
            .contains("is no run folder")
    );
    // A run in the place of a configuration, and a folder that is not there.
    let line = place.fails(&["train", "run"]);
    let way = "`hlx train run/config.toml --out run --resume` goes on with it";
    assert!(
        line.contains("run: is a run, expected a configuration") && line.contains(way),
        "{line}"
    );
    let line = place.fails(&["list", "nowhere"]);
    assert!(
        line.contains("nowhere: is not there (`hlx train` makes runs/"),
        "{line}"
    );
}
