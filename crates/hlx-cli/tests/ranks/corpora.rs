//! A corpus that several ranks see is read by rank 0 alone: counted where the system counts what a thread reads.

use std::fs;

use hlx_data::{IdxArray, IdxValues, ImageSet, write_idx};
use hlx_train::task::Corpus;

use super::threads::{self, CPU, Run};
use super::{check, common::Scratch};

/// Bytes that this thread has read so far.
fn n_read() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").expect("counts");
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.expect("a count").parse().expect("a number")
}

/// What each of four ranks reads of its corpus, in bytes; all must have one digest.
fn reads(runs: &[Run]) -> Vec<u64> {
    let found = threads::each(runs.len(), |rank, group| {
        let Run {
            data_path, config, ..
        } = &runs[rank];
        let before = n_read();
        let corpus = Corpus::load_together(&group, data_path, config).expect("loads");
        (n_read() - before, corpus.digest().to_owned())
    });
    let alone = Corpus::load(&runs[0].data_path, &runs[0].config).expect("loads");
    for (_, digest) in &found {
        assert_eq!(digest, alone.digest());
    }
    found.into_iter().map(|(n_bytes, _)| n_bytes).collect()
}

/// Fails unless the ranks in `readers` have read a file of this size, and no other rank any part of it.
fn read_by(readers: &[usize], n_bytes: usize, counts: &[u64]) {
    for (rank, &count) in counts.iter().enumerate() {
        let expected = if readers.contains(&rank) {
            n_bytes as u64
        } else {
            0
        };
        // The system's counters, which are read too, have some hundred bytes.
        assert!(
            (expected..expected + 4096).contains(&count),
            "{rank}: {count} {expected}"
        );
    }
}

#[test]
fn pairs_in_one_file_are_read_once() {
    let place = Scratch::new("ranks-read-pairs");
    let corpus = "{\"input\": \"one\", \"output\": \"two\"}\n".repeat(20_000);
    place.write("corpus.jsonl", &corpus);
    let mut runs = vec![Run::new(&place, "run", &[]); 4];
    read_by(&[0], corpus.len(), &reads(&runs));
    // A rank with a file of its own, of equal bytes, reads that one.
    place.write("own.jsonl", &corpus);
    runs[2].data_path = place.join("own.jsonl");
    read_by(&[0, 2], corpus.len(), &reads(&runs));
}

#[test]
fn images_in_one_folder_are_read_once() {
    let place = Scratch::new("ranks-read-images");
    let drawn = ImageSet::drawn_digits(64, 3).expect("draws");
    let pixels = IdxValues::U8(drawn.all_pixels().to_vec());
    let pixels = IdxArray::new(&[64, 28, 28], pixels).expect("fits");
    let labels = drawn.labels().iter().map(|&label| label as u8).collect();
    let labels = IdxArray::new(&[64], IdxValues::U8(labels)).expect("fits");
    fs::create_dir(place.join("digits")).expect("made");
    let file = |name: &str| place.join("digits").join(name);
    write_idx(&file("train-images-idx3-ubyte.gz"), &pixels).expect("writes");
    write_idx(&file("train-labels-idx1-ubyte"), &labels).expect("writes");
    let config = "seed = 5\n\n[model]\nkind = \"mlp\"\nhidden = [8]\n\n[data]\nformat = \"idx\"\n\
                  path = \"digits\"\n\n[train]\nmax_steps = 3\nbatch_size = 8\n";
    place.write("config.toml", config);
    let counts = reads(&vec![Run::new(&place, "run", &[]); 4]);
    assert!(counts[0] > 4096);
    assert!(counts[1..].iter().all(|&count| count < 2048), "{counts:?}");
    check(&place, &[], &[&[CPU; 4]]);
}

/// The digest and the check of the characters read a text from end to end; the other ranks only open it.
#[test]
fn a_text_is_hashed_once() {
    let place = Scratch::new("ranks-read-text");
    let text = "the cat sat on the mat. ".repeat(100_000);
    place.write("once.txt", &text);
    let sets = ["data.path=once.txt", "data.format=text"];
    let runs = vec![Run::new(&place, "run", &sets); 4];
    read_by(&[0], text.len(), &reads(&runs));
    check(
        &place,
        &[&sets[..], &["train.max_steps=2"]].concat(),
        &[&[CPU; 2]],
    );
}

/// A file of nanoGPT has no index: its digest is over its bytes.
#[test]
fn a_file_of_tokens_is_hashed_once() {
    let place = Scratch::new("ranks-read-tokens");
    let tokens = (0..12_000_000_u32).flat_map(|at| ((at % 90) as u16).to_le_bytes());
    let tokens: Vec<u8> = tokens.collect();
    fs::write(place.join("once.bin"), &tokens).expect("writes");
    let config = super::SMALL_MODEL.replace("path = \"tokens\"", "path = \"once.bin\"");
    place.write("config.toml", &config);
    let runs = vec![Run::new(&place, "run", &[]); 4];
    read_by(&[0], tokens.len(), &reads(&runs));
}
