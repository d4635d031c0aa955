//! Ranks that `mpirun` has started, by Open MPI and by MPICH where they are installed.

use std::process::{Command, Output};

use crate::common::{Scratch, proof, text};

const RUN: [&str; 4] = ["train", "config.toml", "--set", "train.shards=8"];

/// The launchers that are here.
fn launchers() -> Vec<&'static str> {
    let all = ["mpirun.openmpi", "mpirun.mpich"];
    let is_here = |name: &&str| {
        let here = Command::new(name).arg("--version").output();
        let here = here.is_ok_and(|output| output.status.success());
        if !here {
            hlx_core::testing::left_out(name, "it is not installed");
        }
        here
    };
    all.into_iter().filter(is_here).collect()
}

/// Runs the program as `n` ranks in a place, on the CPU device.
fn mpirun(place: &Scratch, launcher: &str, n: usize, arguments: &[&str]) -> Output {
    let mut command = Command::new(launcher);
    command
        .current_dir(&place.path)
        .args(["-n", &n.to_string()]);
    if launcher.ends_with("openmpi") {
        command.args(["--oversubscribe", "--allow-run-as-root"]);
    }
    command.arg(env!("CARGO_BIN_EXE_hlx")).args(arguments);
    command.env_remove("RUST_LOG").env("HLX_DEVICE", "cpu");
    hlx_core::testing::ran_on_cpu();
    command.output().expect("starts")
}

#[test]
fn ranks_of_mpirun_leave_the_digests_of_one_process() {
    let place = Scratch::new("ranks-mpi");
    place.succeeds(&[&RUN[..], &["--out", "whole"]].concat());
    for launcher in launchers() {
        for n in [1, 2, 4, 8] {
            let out = format!("{launcher}-{n}");
            let output = mpirun(&place, launcher, n, &[&RUN[..], &["--out", &out]].concat());
            assert!(
                output.status.success(),
                "{launcher} {n}: {}",
                text(&output.stderr)
            );
            assert_eq!(
                proof(&place.digests(&out)),
                proof(&place.digests("whole")),
                "{out}"
            );
        }
    }
}

#[test]
fn ranks_of_mpirun_that_cannot_begin_say_so_once() {
    let place = Scratch::new("ranks-mpi-refused");
    for launcher in launchers() {
        for (n, sets, expected) in [
            (3, &[][..], "3 ranks, expected a divisor of the 8 shards"),
            (2, &["--data", "none.jsonl"], "none.jsonl"),
            (
                2,
                &["--devices", "cpu"],
                "1 devices, expected one for each of the 2 ranks",
            ),
        ] {
            let arguments = [&RUN[..], &["--out", "run"], sets].concat();
            let output = mpirun(&place, launcher, n, &arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{launcher}: {said}");
            let lines = said.lines().filter(|line| line.starts_with("error: "));
            let lines: Vec<&str> = lines.collect();
            assert_eq!(lines.len(), 1, "{launcher}: {said}");
            assert!(lines[0].contains(expected), "{launcher}: {said}");
            assert!(!place.join("run").exists());
        }
    }
}

/// A library that is no MPI library, or none.
#[test]
fn an_unknown_library_is_refused_by_its_name() {
    let place = Scratch::new("ranks-mpi-library");
    for (library, expected) in [
        (
            "/nowhere/libmpi.so",
            "MPI: none of /nowhere/libmpi.so can be opened",
        ),
        ("libc.so.6", "libc.so.6: "),
    ] {
        let mut command = place.hlx(&[&RUN[..], &["--out", "run"]].concat());
        command
            .env("PMI_RANK", "0")
            .env("PMI_SIZE", "2")
            .env("HLX_MPI", library);
        let output = command.output().expect("starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&format!("error: {expected}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
