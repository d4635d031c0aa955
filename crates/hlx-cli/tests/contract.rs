//! `hlx contract` and `hlx run`: the examples of the repository, and what is said of wrong ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PRODUCT: &str = "sha256:3f333f9d55efd46156a0eb1d2f6aa6b21cf2e847c6b4bcfe8e4725b6a8ab6eb9";
const SUM: &str = "sha256:8dda337b1d3f6afd2a502f23ff9cbc9a7ad39dbcbfadafec3f0bbcbdf6bda149";

/// A folder for a store and files, which goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hlx-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn hlx(&self, line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_hlx"))
            .args(line.split(' '))
            .current_dir(&self.0)
            .env("HLX_STORE", self.0.join("store"))
            .env_remove("HLX_DEVICE")
            .output()
            .expect("hlx runs")
    }

    /// What a call prints, which succeeds.
    fn says(&self, line: &str) -> String {
        let output = self.hlx(line);
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The error of a call, which fails.
    fn fails(&self, line: &str) -> String {
        let output = self.hlx(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/contracts")
        .join(name);
    std::fs::read_to_string(path).expect("an example")
}

#[test]
fn the_examples_are_what_their_commands_make_and_give_what_they_gave() {
    let folder = Folder::new("examples");
    folder.says("contract product --out product.json");
    folder.says("contract pipeline --out pipeline.json");
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).expect("written");
    assert_eq!(read("product.json"), example("product_1024.json"));
    assert_eq!(read("pipeline.json"), example("product_and_sum_64.json"));
    let said = folder.says("run product.json --device cpu");
    assert!(said.contains(&format!("result    {PRODUCT}")), "{said}");
    let said = folder.says("run pipeline.json --device cpu --repeat 3 --json");
    let value: serde_json::Value = serde_json::from_str(&said).expect("json");
    assert_eq!(value["result"], SUM);
    assert_eq!(value["outputs"][0]["shape"], serde_json::json!([64, 64]));
    // The handle names the same contract.
    let handle = folder.says("contract put pipeline.json");
    assert_eq!(value["contract"], handle.trim());
    assert!(
        folder
            .says(&format!("run {} --device cpu", handle.trim()))
            .contains(SUM)
    );
    assert_eq!(
        folder.says(&format!("contract show {}", handle.trim())),
        read("pipeline.json")
    );
    // The result is in the store.
    assert!(
        folder
            .says(&format!("store verify {SUM}"))
            .contains("is whole")
    );
}

#[test]
fn wrong_contracts_are_named() {
    let folder = Folder::new("wrong");
    std::fs::write(folder.0.join("product.json"), example("product_1024.json")).expect("written");
    let error = folder.fails("run product.json --device cpu");
    assert!(error.contains("binding 0 (a): sha256:57b2dfd7"), "{error}");
    assert!(error.contains("is not in the store"), "{error}");
    let wide = example("product_1024.json").replace("\"binding\": 3", "\"binding\": 7");
    std::fs::write(folder.0.join("wide.json"), wide).expect("written");
    let error = folder.fails("run wide.json --device cpu");
    assert!(
        error.contains("binding 3 (C): the shader has it"),
        "{error}"
    );
    std::fs::write(
        folder.0.join("cut.json"),
        &example("product_1024.json")[..300],
    )
    .expect("written");
    assert!(
        folder
            .fails("run cut.json --device cpu")
            .contains("no contract: EOF")
    );
    assert!(
        folder
            .fails("run none.json --device cpu")
            .contains("none.json")
    );
    std::fs::write(folder.0.join("bad.spv"), [3, 2, 35, 7, 0, 0, 0, 0]).expect("written");
    let error = folder.fails("contract shader bad.spv");
    assert!(
        error.contains("bad.spv") && error.contains("too few for a header"),
        "{error}"
    );
}

#[test]
fn a_shader_says_what_it_asks_for() {
    let folder = Folder::new("shader");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hlx-core/spv");
    std::fs::copy(
        root.join("examples/vector_add.spv"),
        folder.0.join("add.spv"),
    )
    .expect("copied");
    let said = folder.says("contract shader add.spv");
    for line in [
        "binding 2 `C`: f32, written",
        "push constants: [u32]",
        "[64, 1, 1]",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let handle = said.lines().next().unwrap_or_default();
    assert!(
        folder
            .fails(&format!("run {handle} --device cpu"))
            .contains("does nothing alone")
    );
}
