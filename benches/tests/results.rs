//! The files of a device's results, measured without PyTorch: what is not there is left out.

use std::path::Path;
use std::process::{Command, Output};

fn results(out: &Path, more: &[&str]) -> Output {
    hlx_core::testing::ran_on_cpu();
    Command::new(env!("CARGO_BIN_EXE_hlx-bench"))
        .args([
            "results",
            "--quick",
            "--device",
            "cpu",
            "--python",
            "no-such-python",
            "--out",
        ])
        .arg(out)
        .args(more)
        .env_remove("HLX_DEVICE")
        .output()
        .expect("starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sections_write_their_files_and_are_measured_once() {
    let out = std::env::temp_dir().join(format!("hlx-results-test-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    let sections = ["--only", "gemm,handles,memory,peers,cpu"];
    let first = results(&out, &sections);
    let message = said(&first);
    assert!(first.status.success(), "{message}");
    assert!(
        message.contains("[5/5] cpu.csv: this device has nothing"),
        "{message}"
    );
    assert!(message.contains("NumPy is left out"), "{message}");
    let text = |name: &str| std::fs::read_to_string(out.join(name)).expect("a file");
    let gemm = text("gemm.csv");
    let row = gemm
        .lines()
        .find(|line| line.starts_with("HLX,10,"))
        .expect("a row");
    assert_eq!(row.split(',').next_back().map(str::len), Some(64), "{row}");
    assert_eq!(
        text("gemm-runs.csv")
            .lines()
            .filter(|line| line.starts_with("HLX,"))
            .count(),
        10
    );
    // One handle of all runs.
    let handles = text("handles.csv");
    assert!(
        handles.contains("\n128,20,") && handles.ends_with('\n'),
        "{handles}"
    );
    assert!(handles.contains("# kind: cpu\n"), "{handles}");
    assert!(text("memory.csv").contains("\nmini,HLX,"));
    let heads = text("heads.csv");
    assert!(
        heads.contains("\nHLX,step mlp,") && heads.contains(",rows,"),
        "{heads}"
    );
    let second = said(&results(&out, &sections));
    assert!(second.contains("[1/5] gemm.csv: is there"), "{second}");
    // A section that fails is named, and leaves the file that was there.
    let failed = results(&out, &["--only", "steps,handles", "--again"]);
    assert!(!failed.status.success() && said(&failed).contains("not measured: steps.csv"));
    assert!(out.join("handles.csv").is_file());
    let partial = std::fs::read_dir(&out).expect("a folder").flatten();
    let partial = partial.filter(|entry| entry.file_name().to_string_lossy().ends_with(".partial"));
    assert_eq!(partial.count(), 0);
    std::fs::remove_dir_all(&out).expect("removed");
}
