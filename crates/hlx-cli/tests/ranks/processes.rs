//! Ranks as processes, started by `hlx train --devices` or, to make them differ, by the test itself.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use hlx_core::testing::cases;
use hlx_train::ranks::{Secret, SharedMemory};

use crate::common::{Scratch, proof, text};

const RUN: [&str; 4] = ["train", "config.toml", "--set", "train.checkpoint_every=2"];

fn over<'a>(devices: &'a str, out: &'a str) -> Vec<&'a str> {
    [&RUN[..], &["--devices", devices, "--out", out]].concat()
}

#[test]
fn the_program_starts_its_ranks_and_says_where_they_run() {
    let place = Scratch::new("ranks-program");
    place.succeeds(&[&RUN[..], &["--out", "whole"]].concat());
    let said = place.succeeds(&over("cpu,cpu,cpu,cpu", "four"));
    assert!(said.starts_with("rank 0 "), "{said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.starts_with("rank "))
            .count(),
        4,
        "{said}"
    );
    assert_eq!(
        proof(&place.digests("four")),
        proof(&place.digests("whole"))
    );
    let manifest = fs::read_to_string(place.join("four/run.json")).expect("reads");
    assert_eq!(manifest.matches("\"host\"").count(), 4, "{manifest}");
    assert!(place.succeeds(&["verify", "four"]).contains("equal"));
    let more = ["--resume", "--set", "train.keep=9"];
    place.succeeds(&[&over("cpu,cpu", "four"), &more[..]].concat());
}

/// Fails with status 2 and one line, in which a text stands.
fn refused(place: &Scratch, arguments: &[&str], expected: &str) {
    refuses(&mut place.hlx(arguments), expected);
}

fn refuses(command: &mut Command, expected: &str) {
    let output = command.output().expect("starts");
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{command:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains(expected), "{line}");
}

/// What carries words from GPU to GPU alone is not for the CPU.
#[test]
#[cfg(target_os = "linux")]
fn exchanges_that_ranks_lack_are_refused() {
    let place = Scratch::new("ranks-exchange");
    let lacks = "cpu is no NVIDIA GPU";
    for (choice, expected) in [
        ("peers", &format!("HLX_EXCHANGE=peers: {lacks}")[..]),
        ("nccl", &format!("HLX_EXCHANGE=nccl: {lacks}")),
        (
            "fast",
            "HLX_EXCHANGE=fast: expected peers, nccl, host, or nothing",
        ),
    ] {
        let mut command = place.hlx(&over("cpu,cpu", "run"));
        refuses(command.env("HLX_EXCHANGE", choice), expected);
        assert!(!place.join("run").exists());
    }
}

#[test]
fn what_ranks_cannot_begin_with_is_one_line_and_status_2() {
    let place = Scratch::new("ranks-refused");
    let counts = "ranks, expected a divisor of the 4 shards (train.shards)";
    refused(&place, &over("cpu,cpu,cpu", "run"), &format!("3 {counts}"));
    let eight = ["cpu"; 8].join(",");
    refused(&place, &over(&eight, "run"), &format!("8 {counts}"));
    refused(
        &place,
        &over("cpu,,cpu", "run"),
        "--devices cpu,,cpu: a name is empty",
    );
    refused(&place, &over("cpu,gpu", "run"), "rank 1 on ");
    refused(&place, &over("cpu,vulkan:99", "run"), "vulkan:99");
    let missing = [&over("cpu,cpu", "run"), &["--data", "none.jsonl"][..]].concat();
    refused(&place, &missing, "none.jsonl");
    fs::create_dir_all(place.join("taken")).expect("made");
    place.write("taken/file", "x");
    refused(
        &place,
        &over("cpu,cpu", "taken"),
        "holds files that are not a run's",
    );
    assert!(!place.join("run").exists());
    if let Some(vulkan) = crate::threads::vulkan() {
        let both = format!("{vulkan},{vulkan}");
        let line = format!("is on {vulkan}, as rank 0 is; --share-devices");
        refused(&place, &over(&both, "run"), &line);
    }
}

/// Starts two ranks by hand, each with a program and arguments of its own.
fn by_hand(place: &Scratch, ranks: [(&std::path::Path, &[&str]); 2]) -> [Output; 2] {
    let secret = Secret::random().expect("random numbers");
    let folder = SharedMemory::create(2, &secret).expect("a folder");
    let start = |(rank, (program, arguments)): (usize, (&std::path::Path, &[&str]))| {
        let mut command = Command::new(program);
        command.current_dir(&place.path).args(arguments);
        command
            .env("HLX_RANK", rank.to_string())
            .env("HLX_RANK_FOLDER", &folder)
            .env("HLX_RANK_SECRET", secret.to_text());
        command
            .env("HLX_DEVICE", "cpu")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("starts")
    };
    let mut ranks = ranks.into_iter().enumerate();
    let children = [(); 2].map(|()| start(ranks.next().expect("two")));
    children.map(|child| child.wait_with_output().expect("ends"))
}

#[test]
fn ranks_of_different_programs_and_folders_are_refused() {
    let place = Scratch::new("ranks-programs");
    let program = std::path::PathBuf::from(env!("CARGO_BIN_EXE_hlx"));
    hlx_core::testing::ran_on_cpu();
    let other = place.join("other");
    let mut bytes = fs::read(&program).expect("reads");
    bytes.push(0);
    fs::write(&other, bytes).expect("writes");
    fs::set_permissions(
        &other,
        fs::metadata(&program).expect("is there").permissions(),
    )
    .expect("may run");
    let run = [&RUN[..], &["--out", "run"]].concat();
    let check = |outputs: [Output; 2], expected: &str| {
        let lines = outputs.each_ref().map(|output| text(&output.stderr));
        for output in &outputs {
            assert_eq!(output.status.code(), Some(2), "{lines:?}");
        }
        assert!(
            lines[0].contains(expected) && lines[0].lines().count() == 1,
            "{lines:?}"
        );
        assert_eq!(lines[1], "", "one rank prints");
    };
    let outputs = by_hand(&place, [(&program, &run), (&other, &run)]);
    check(outputs, "runs another program: its SHA-256 is");
    let logs = [&run[..], &["--set", "train.log_every=5"]].concat();
    let outputs = by_hand(&place, [(&program, &run), (&program, &logs)]);
    check(outputs, "train.log_every is 5 there and 2 on rank 0");
    assert!(!place.join("run").exists());
}

/// The run that ranks are killed in: 60 steps with a checkpoint every second one.
const LONG: [&str; 6] = [
    "train",
    "config.toml",
    "--set",
    "train.max_steps=60",
    "--set",
    "train.checkpoint_every=2",
];

/// A signal to a process.
#[cfg(unix)]
fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success(), "{name} {pid}");
}

/// The processes that a process has started, in order.
#[cfg(target_os = "linux")]
fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let listed = fs::read_to_string(path).unwrap_or_default();
    listed
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// A signal to one rank stops all after the same step, with a checkpoint from which two continue.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_to_one_rank_stops_all_of_them() {
    let place = Scratch::new("ranks-stopped");
    place.succeeds(&[&LONG[..], &["--out", "whole"]].concat());
    for victim in [0, 2] {
        let out = format!("run-{victim}");
        let arguments = [&LONG[..], &["--devices", "cpu,cpu,cpu,cpu", "--out", &out]].concat();
        let mut command = place.hlx(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let first = command.spawn().expect("starts");
        let begun = Instant::now();
        let reached = place.join(&format!("{out}/checkpoints/step-000004"));
        while !reached.exists() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let pids = [&[first.id()], &children_of(first.id())[..]].concat();
        signal("-TERM", pids[victim]);
        let ended = first.wait_with_output().expect("ends");
        let said = text(&ended.stdout);
        assert_eq!(
            ended.status.code(),
            Some(130),
            "{said}{}",
            text(&ended.stderr)
        );
        assert!(said.contains("interrupted after step"), "{said}");
        place.succeeds(
            &[
                &LONG[..],
                &["--devices", "cpu,cpu", "--out", &out, "--resume"],
            ]
            .concat(),
        );
        assert_eq!(proof(&place.digests(&out)), proof(&place.digests("whole")));
    }
}

/// Kills or stops a rank of three others at moments spread over the run: the others end within 30 s and
/// name it; what continues from there with fewer ranks ends in the digests of the run left alone.
#[test]
#[cfg(target_os = "linux")]
fn a_rank_that_is_killed_or_stopped_ends_the_run_and_the_rest_goes_on() {
    let place = Scratch::new("ranks-killed");
    place.succeeds(&[&LONG[..], &["--out", "whole"]].concat());
    let whole = place.digests("whole");
    let victims = [
        ("-KILL", 2_usize, 6),
        ("-KILL", 0, 20),
        ("-STOP", 3, 12),
        ("-KILL", 1, 0),
    ];
    for (number, (name, victim, step)) in cases(victims.into_iter().enumerate(), 4) {
        let out = format!("run-{number}");
        let arguments = [&LONG[..], &["--devices", "cpu,cpu,cpu,cpu", "--out", &out]].concat();
        let mut command = place.hlx(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut first = command.spawn().expect("starts");
        let reached = place.join(&format!("{out}/checkpoints/step-{step:06}"));
        let has_begun = || place.join(&format!("{out}/config.toml")).exists();
        while !(reached.exists() || step == 0 && has_begun()) {
            assert!(
                first.try_wait().expect("a child").is_none(),
                "{out} has ended before"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let others = children_of(first.id());
        assert_eq!(others.len(), 3);
        let pid = [&[first.id()], &others[..]].concat()[victim];
        let begun = Instant::now();
        signal(name, pid);
        // Standard error ends when the last of them has ended.
        let ended = first.wait_with_output().expect("ends");
        assert!(begun.elapsed() < Duration::from_secs(30), "{name} {victim}");
        let said = text(&ended.stderr);
        let named = format!("error: rank {victim} on ");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines.iter().all(|line| line.starts_with(&named)), "{said}");
        place.succeeds(
            &[
                &LONG[..],
                &["--devices", "cpu,cpu", "--out", &out, "--resume"],
            ]
            .concat(),
        );
        assert_eq!(
            proof(&place.digests(&out)),
            proof(&whole),
            "{name} {victim}"
        );
    }
}
