//! The run that the Python package trains, too: `python/tests/test_runs.py` has the same digest.

mod common;

use std::path::Path;

use common::Scratch;
use hlx_train::run::{Chain, RunFolder};

/// The digest of the chain's last record.
const DIGEST: &str = "23aaaccdf5f2b7f36f5b8587ed21bce90c469609c65071356c33224f4d3aecf9";

#[test]
fn the_program_writes_the_chain_that_python_writes() {
    let place = Scratch::new("trained-in-python");
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests/fixtures/run.toml");
    let config = fixture.to_string_lossy();
    place.succeeds(&["train", &config, "--out", "run", "--device", "cpu"]);
    let folder = RunFolder::open(&place.join("run")).expect("a run");
    let chain = Chain::read(&folder.chain_path()).expect("a chain");
    let last = chain.records().last().expect("records");
    assert_eq!(last.digest, DIGEST);
    let standing = folder.standing().expect("is read");
    assert_eq!((standing.saved_step, standing.holder), (Some(8), None));
    assert!(standing.has_ended);
}
