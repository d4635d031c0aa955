//! `hlx tokenizer` and `hlx data` as a user runs them, kills included.

mod common;

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Scratch, contents};

const LINE: &str = "the river of light, 12 of them; it's lighter than the last one\n";

#[test]
fn a_tokenizer_is_trained_and_a_corpus_prepared() {
    let place = Scratch::new("corpora");
    place.write("a.txt", &LINE.repeat(200));
    place.write("b.jsonl", "{\"input\": \"light\", \"output\": \"river\"}\n");
    let train = ["tokenizer", "train", "--vocab", "280", "a.txt", "b.jsonl"];
    let said = place.succeeds(&train);
    assert!(
        said.starts_with("tokenizer.json: 280 tokens from "),
        "{said}"
    );
    let prepare = [
        "data",
        "prepare",
        "--tokenizer",
        "tokenizer.json",
        "-o",
        "tokens",
        "a.txt",
        "b.*",
    ];
    let said = place.succeeds(&prepare);
    assert!(said.contains(" in 2 documents, vocabulary 280; "), "{said}");
    let said = place.succeeds(&["data", "verify", "tokens"]);
    assert!(said.starts_with("tokens is whole: "), "{said}");
    let line = place.fails(&prepare);
    assert_eq!(line, "error: tokens: holds token shards already");
    let characters = [
        "data",
        "prepare",
        "--tokenizer",
        "characters",
        "-o",
        "chars",
        "a.txt",
    ];
    let said = place.succeeds(&characters);
    assert!(said.contains("in 1 documents, vocabulary 21; "), "{said}");
    let path = place.join("tokens/shard-00000.bin");
    let mut bytes = fs::read(&path).expect("a shard");
    bytes[0] ^= 1;
    fs::write(&path, bytes).expect("written");
    let line = place.fails(&["data", "verify", "tokens"]);
    assert!(line.contains("shard-00000.bin: has the SHA-256"), "{line}");
    let line = place.fails(&["tokenizer", "train", "--vocab", "100", "a.txt"]);
    assert!(
        line.contains("a vocabulary of 100 tokens is too small"),
        "{line}"
    );
}

#[test]
fn a_killed_preparation_goes_on_and_leaves_the_same_files() {
    let place = Scratch::new("killed-corpora");
    for number in 0..24 {
        let text = format!("{number} {}", LINE.repeat(12_000));
        place.write(&format!("in-{number:02}.txt"), &text);
    }
    let prepare = |out: &'static str| {
        let size = ["--shard-tokens", "500000"];
        [&["data", "prepare", "-o", out, "in-*.txt"][..], &size].concat()
    };
    place.succeeds(&prepare("whole"));
    let mut kills = 0;
    while !place.join("killed/index.json").exists() {
        let mut child = place.hlx(&prepare("killed")).spawn().expect("starts");
        // Killed soon after its next shard.
        let start = Instant::now();
        // Files come and go meanwhile, so that they are only counted.
        let n_files = || fs::read_dir(place.join("killed")).map_or(0, Iterator::count);
        let before = n_files();
        loop {
            let ended = child.try_wait().expect("a child").is_some();
            let has_more = n_files() > before + 4;
            if ended || has_more || start.elapsed() > Duration::from_secs(100) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.kill().is_ok() {
            kills += 1;
        }
        child.wait().expect("waited for");
        assert!(kills < 60, "no progress");
    }
    // A kill after the index leaves these, which the next call removes.
    for left in ["killed/progress.json", "killed/lock"] {
        fs::write(place.join(left), "").expect("written");
    }
    let text = place.fails(&prepare("killed"));
    assert!(text.contains("holds token shards already"), "{text}");
    let files = |folder: &str| {
        let root = place.join(folder);
        let all = contents(&root).into_iter();
        all.map(|(path, bytes)| {
            let name = path.strip_prefix(&root).map(ToOwned::to_owned);
            (name.unwrap_or(path), bytes)
        })
        .collect::<Vec<_>>()
    };
    assert!(files("killed") == files("whole"), "after {kills} kills");
}

/// As `hlx data ascii-pairs | head -1` does.
#[test]
fn pairs_end_quietly_where_nobody_reads_on() {
    let place = Scratch::new("pairs-pipe");
    let mut program = place.hlx(&["data", "ascii-pairs", "--count", "20000"]);
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = program.spawn().expect("the program starts");
    let mut first = [0; 10];
    let mut out = program.stdout.take().expect("a pipe");
    out.read_exact(&mut first).expect("pairs come");
    assert_eq!(&first, b"{\"input\":\"");
    drop(out);
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(common::text(&output.stderr), "");
    assert!(output.status.success());
}
