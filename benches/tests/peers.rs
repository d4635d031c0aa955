//! The program against itself: both sides of a comparison are HLX, so no PyTorch is needed.

use std::path::PathBuf;
use std::process::{Command, Output};

fn program(arguments: &[&str]) -> Output {
    hlx_core::testing::ran_on_cpu();
    Command::new(env!("CARGO_BIN_EXE_hlx-bench"))
        .args(arguments)
        .env_remove("HLX_DEVICE")
        .output()
        .expect("starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("hlx-bench-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn two_sides_are_measured_in_turns_and_end_in_tables() {
    let out = scratch("peers");
    let exe = env!("CARGO_BIN_EXE_hlx-bench");
    let folder = out.display().to_string();
    for kernel in ["gelu", "step", "start"] {
        let output = program(&[
            "peers",
            "--quick",
            "--device",
            "cpu",
            "--threads",
            "1",
            "--rounds",
            "2",
            "--kernel",
            kernel,
            "--peer",
            exe,
            "--out",
            &folder,
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let starts = std::fs::read_to_string(out.join("start.csv")).expect("start.csv");
    assert!(starts.contains("mini; HLX; cold,"), "{starts}");
    let peers = std::fs::read_to_string(out.join("peers.csv")).expect("peers.csv");
    assert!(peers.contains("1 threads"), "{peers}");
    let steps = std::fs::read_to_string(out.join("steps.csv")).expect("steps.csv");
    assert!(steps.contains("\nresnet-mini,"), "{steps}");
    let row = steps.lines().find(|line| line.starts_with("mini,"));
    let row = row.expect("a row");
    let fields: Vec<&str> = row.split(',').collect();
    assert_eq!(fields.len(), 12, "{row}");
    // In `portable` and `integer`, which the CPU measures. As a peer, HLX has none of PyTorch's modes: gaps.
    for ms in &fields[1..3] {
        assert!(ms.parse::<f64>().is_ok(), "{row}");
    }
    assert!(fields[3..9].iter().all(|field| field.is_empty()), "{row}");
    let _ = std::fs::remove_dir_all(&out);
}

#[test]
fn a_program_is_compared_with_another_of_its_kind() {
    let out = scratch("versus");
    std::fs::create_dir_all(&out).expect("folder");
    let csv = out.join("versus.csv").display().to_string();
    let exe = env!("CARGO_BIN_EXE_hlx-bench");
    let case = ["--case", "step mini", "--case", "no such", "--rounds", "2"];
    let rest = ["--device", "cpu", "--threads", "1", "--csv", &csv];
    let output = program(&[&["versus", exe][..], &case, &rest].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("no such                  not measured"));
    let rows = std::fs::read_to_string(&csv).expect("versus.csv");
    let row = rows.lines().find(|line| line.starts_with("step mini,"));
    let numbers = row.expect("a row").split(',').skip(1);
    let numbers: Vec<f64> = numbers
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert!(
        (numbers[1] / numbers[0] - numbers[2]).abs() < 1e-3,
        "{rows}"
    );
    assert!(numbers[3] <= numbers[4], "{rows}");
    let _ = std::fs::remove_dir_all(&out);
}

#[test]
fn what_is_wrong_is_one_line() {
    let cases: [(&[&str], &str); 4] = [
        (
            &["--kernel", "x", "--quick", "--device", "cpu"],
            "error: no kernel `x`; there are matmul,",
        ),
        (&["--device", "x"], "error: device `x` is unknown"),
        (&["--compare", "/nowhere.csv"], "error: /nowhere.csv: "),
        (
            &[
                "peers", "--quick", "--device", "cpu", "--kernel", "add", "--peer", "/nowhere",
            ],
            "error: unused",
        ),
    ];
    for (arguments, expected) in &cases[..3] {
        let output = program(arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success());
        assert!(
            said.starts_with(expected) && said.lines().count() == 1,
            "{said}"
        );
    }
    let output = program(cases[3].0);
    let said = text(&output.stderr);
    assert!(said.contains("error: cannot run /nowhere"), "{said}");
}

#[test]
fn a_csv_compares_with_itself_and_a_faster_past_fails() {
    let folder = scratch("compare");
    std::fs::create_dir_all(&folder).expect("folder");
    let path = folder.join("old.csv");
    let name = path.display().to_string();
    let ours = ["--quick", "--device", "cpu", "--kernel", "add"];
    let output = program(&[&ours[..], &["--csv", &name]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let csv = std::fs::read_to_string(&path).expect("csv");
    let row = csv.lines().last().expect("a row");
    let mut fields: Vec<&str> = row.split(',').collect();
    fields[3] = "1e30";
    std::fs::write(&path, csv.replace(row, &fields.join(","))).expect("write");
    let output = program(&[&ours[..], &["--compare", &name]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("1 of 1 cases are more than 5% slower"));
    let _ = std::fs::remove_dir_all(&folder);
}
