//! The golden runs: one list of digests for every device and every path of the CPU device.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, status, text};
use hlx_train::golden::{GoldenFile, GoldenRun};
use serde_json::Value;

const GOLDEN: [&str; 2] = ["verify", "--golden"];

#[test]
fn every_device_gives_the_golden_digests() {
    let expected = GoldenFile::expected().expect("reads");
    for device in hlx_core::testing::own_devices() {
        for run in GoldenRun::ALL {
            let found = run.train(&device).expect("trains");
            assert_eq!(found, *expected.of(run), "{run:?} on {}", device.info());
        }
    }
}

#[test]
fn every_path_of_the_cpu_device_gives_the_golden_digests() {
    let place = Scratch::new("paths");
    let mut tried = Vec::new();
    for path in ["portable", "avx2", "avx512"] {
        for threads in ["1", "3"] {
            let mut command = place.hlx(&[&GOLDEN[..], &["--json"]].concat());
            command.env("HLX_SIMD", path).env("HLX_THREADS", threads);
            let output = command.output().expect("starts");
            let stdout = text(&output.stdout);
            let report: Value = serde_json::from_str(&stdout).expect("JSON");
            assert_eq!(output.status.code(), Some(0), "{path}: {stdout}");
            let driver = report["devices"][0]["driver"].as_str().expect("a driver");
            // A path that the processor lacks is replaced by its best, which has been tried.
            if driver.contains(&format!("({path}, {threads} threads)")) {
                tried.push(path);
            }
        }
    }
    assert!(tried.starts_with(&["portable", "portable"]), "{tried:?}");
    #[cfg(target_arch = "x86_64")]
    for (path, there) in [
        (
            "avx2",
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        ),
        (
            "avx512",
            is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512bw"),
        ),
    ] {
        assert_eq!(tried.contains(&path), there, "{path}: {tried:?}");
    }
}

#[test]
fn a_digest_that_differs_is_named_with_both_values() {
    let place = Scratch::new("differs");
    let written = ["--write", "golden.json"];
    let (code, stdout, stderr) = status(&place, &[&GOLDEN[..], &written].concat());
    assert_eq!(code, 0, "{stdout}{stderr}");
    let file = fs::read_to_string(place.join("golden.json")).expect("reads");
    assert_eq!(
        file,
        include_str!("../../hlx-train/golden.json"),
        "the file in the repository"
    );
    let expected = GoldenFile::expected().expect("reads");
    let digest = &expected.of(GoldenRun::Perceptron).optimizer;
    let other = digest.chars().rev().collect::<String>();
    place.write("other.json", &file.replace(digest, &other));
    let against = [&GOLDEN[..], &["--against", "other.json"]].concat();
    let (code, stdout, _) = status(&place, &against);
    assert_eq!(code, 1, "{stdout}");
    let lines: Vec<&str> = stdout.lines().map(str::trim).collect();
    assert!(lines[1].starts_with("transformer  equal"), "{stdout}");
    assert!(lines[2].starts_with("integer      equal"), "{stdout}");
    assert!(lines[3].starts_with("perceptron   differs"), "{stdout}");
    assert_eq!(lines[4], format!("optimizer  expected {other}"));
    assert_eq!(lines[5], format!("found    {digest}"));
    assert!(lines[6].starts_with("scalar       equal"), "{stdout}");
    let (code, stdout, _) = status(&place, &[&against[..], &["--json"]].concat());
    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (&report["kind"], &report["equal"]),
        (&"golden".into(), &false.into())
    );
    let run = &report["devices"][0]["runs"][2];
    assert_eq!(
        (&run["name"], &run["equal"]),
        (&"perceptron".into(), &false.into())
    );
    assert_eq!(run["expected"]["optimizer"], other.as_str());
    assert_eq!(run["found"]["optimizer"], digest.as_str());
}

#[test]
fn what_cannot_be_checked_has_status_2() {
    let place = Scratch::new("cannot");
    place.write("bad.json", "{\"version\": 1}");
    let golden = |arguments: &[&str]| status(&place, &[&GOLDEN[..], arguments].concat());
    let (code, _, stderr) = golden(&["--against", "bad.json"]);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("error: bad.json: is no list of golden digests"),
        "{stderr}"
    );
    let (code, _, stderr) = golden(&["--against", "none.json"]);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("error: none.json: No such file"),
        "{stderr}"
    );
    let mut command = place.hlx(
        &[
            &GOLDEN[..],
            &["--device", "cpu", "--device", "vulkan:77", "--json"],
        ]
        .concat(),
    );
    let output = command.env_remove("HLX_DEVICE").output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(
        stderr.starts_with("error: vulkan:77: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
    let report: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(report["equal"], false);
    assert!(report["devices"][0]["runs"].is_array());
    assert!(report["devices"][1]["error"].is_string());
    let (code, _, stderr) = golden(&["--write", "no/such/folder/golden.json"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot be written"), "{stderr}");
}

#[test]
fn the_page_shows_the_golden_digests() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproducibility.md");
    let page = fs::read_to_string(page).expect("reads");
    let expected = GoldenFile::expected().expect("reads");
    for run in GoldenRun::ALL {
        for (name, digest) in expected.of(run).named() {
            let row = format!("| {} | {name} | `{digest}` |", run.name());
            assert!(page.contains(&row), "docs/reproducibility.md lacks: {row}");
        }
    }
}
