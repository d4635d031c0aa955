//! Replays the fuzzers' corpora: every file that a target has stored, on stable Rust.

use std::path::Path;

#[test]
fn the_corpora_find_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, body) in fuzz_targets::TARGETS {
        let files = std::fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("fuzz/corpus/{name}: {error}"));
        let mut count = 0;
        for file in files.flatten() {
            body(&std::fs::read(file.path()).expect("an input"));
            count += 1;
        }
        assert!(count > 0, "fuzz/corpus/{name} holds no input");
    }
}
