//! Ranks that `mpirun` has started, by Open MPI and by MPICH where they are installed.

use std::process::{Command, Output};
#[cfg(target_os = "linux")]
use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use hlx_core::testing::cases;

use crate::common::{Scratch, proof, text};
#[cfg(target_os = "linux")]
use crate::{long, wait_until};

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
    mpirun_with(place, launcher, n, (&[], arguments))
        .output()
        .expect("starts")
}

/// As [`mpirun`], with options of the launcher, not started yet.
fn mpirun_with(
    place: &Scratch,
    launcher: &str,
    n: usize,
    (options, arguments): (&[&str], &[&str]),
) -> Command {
    let mut command = Command::new(launcher);
    command
        .current_dir(&place.path)
        .args(["-n", &n.to_string()]);
    if launcher.ends_with("openmpi") {
        command.args(["--oversubscribe", "--allow-run-as-root"]);
    }
    command.args(options);
    command.arg(env!("CARGO_BIN_EXE_hlx")).args(arguments);
    command.env_remove("RUST_LOG").env("HLX_DEVICE", "cpu");
    hlx_core::testing::ran_on_cpu();
    command
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

/// The run that ranks are killed in.
#[cfg(target_os = "linux")]
const LONG: [&str; 8] = long("train.max_steps=600");
/// How long ranks may take to come so far, on a busy machine.
#[cfg(target_os = "linux")]
const START: Duration = Duration::from_secs(60);

/// A fault: the launcher and its options, the signal, the rank that gets it, and how many of the three
/// others print a line at least before the launcher ends them.
#[cfg(target_os = "linux")]
type Fault = (
    &'static str,
    &'static [&'static str],
    &'static str,
    usize,
    usize,
);

#[cfg(target_os = "linux")]
const FAULTS: [Fault; 6] = [
    ("mpirun.openmpi", &[], "-KILL", 2, 3),
    ("mpirun.openmpi", &[], "-KILL", 0, 3),
    (
        "mpirun.openmpi",
        &["--mca", "orte_enable_recovery", "1"],
        "-KILL",
        1,
        3,
    ),
    ("mpirun.openmpi", &[], "-STOP", 3, 3),
    // MPICH's launcher kills the others at once when a process is killed, and its transport, UCX, ends a
    // process that reads memory of one that is gone.
    ("mpirun.mpich", &[], "-KILL", 1, 0),
    ("mpirun.mpich", &[], "-STOP", 0, 1),
];

/// The processes below a launcher that are ranks, with their numbers.
#[cfg(target_os = "linux")]
fn ranks_of(run: &str) -> Vec<(usize, u32)> {
    let pids = fs::read_dir("/proc").expect("reads").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let rank = |pid: u32| {
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let is_ours = arguments.split('\0').next() == Some(env!("CARGO_BIN_EXE_hlx"));
        if !is_ours || !arguments.split('\0').any(|argument| argument == run) {
            return None;
        }
        let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let variables = text(&variables);
        let number = |name: &str| {
            let values = variables.split('\0');
            values
                .filter_map(|one| one.strip_prefix(name))
                .next()?
                .parse()
                .ok()
        };
        let number = number("OMPI_COMM_WORLD_RANK=").or_else(|| number("PMI_RANK="))?;
        Some((number, pid))
    };
    pids.filter_map(rank).collect()
}

/// Kills or stops a rank of three others inside of a run under MPI: the others end within 30 s, each with
/// one line at most, which names the rank and its host; half as many ranks end in the undisturbed digest.
#[test]
#[cfg(target_os = "linux")]
fn ranks_of_mpirun_end_when_one_is_killed_or_stopped() {
    let place = Scratch::new("ranks-mpi-faults");
    place.succeeds(&[&LONG[..], &["--out", "whole"]].concat());
    let whole = proof(&place.digests("whole"));
    let here = launchers();
    let faults = cases(FAULTS.into_iter().enumerate(), 3);
    for (number, fault) in faults.filter(|(_, fault)| here.contains(&fault.0)) {
        let (launcher, options, signal, victim, n_lines) = fault;
        let out = place.join(&format!("run-{number}"));
        let out = out.to_str().expect("text");
        let arguments = [&LONG[..], &["--out", out]].concat();
        let mut command = mpirun_with(&place, launcher, 4, (options, &arguments));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let launched = command.spawn().expect("starts");
        let said = disturb(launched, out, (signal, victim));
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        let named = format!("error: rank {victim} on ");
        assert!(
            lines.iter().all(|line| line.starts_with(&named)),
            "{fault:?}: {said}"
        );
        assert!((n_lines..=3).contains(&lines.len()), "{fault:?}: {said}");
        let resume = [&LONG[..], &["--out", out, "--resume"]].concat();
        let output = mpirun(&place, launcher, 2, &resume);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(proof(&place.digests(out)), whole, "{fault:?}");
    }
}

/// Sends a signal to a rank after a checkpoint, and returns what all said once the others have ended.
#[cfg(target_os = "linux")]
fn disturb(launched: Child, out: &str, (signal, victim): (&str, usize)) -> String {
    wait_until("the ranks start", START, || ranks_of(out).len() == 4);
    let ranks = ranks_of(out);
    let pid = ranks
        .iter()
        .find(|(rank, _)| *rank == victim)
        .expect("it")
        .1
        .to_string();
    let checkpoints = std::path::Path::new(out).join("checkpoints");
    wait_until("a checkpoint", START, || {
        fs::read_dir(&checkpoints).is_ok_and(|mut entries| entries.next().is_some())
    });
    let kill = |signal: &str| Command::new("kill").args([signal, &pid]).output();
    let sent = kill(signal).expect("kill runs");
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let begun = Instant::now();
    let others = ranks.iter().filter(|(rank, _)| *rank != victim);
    for (rank, other) in others {
        let path = format!("/proc/{other}/cmdline");
        // A process that has ended and is not waited for has no command line.
        let is_gone = || fs::read(&path).map_or(true, |arguments| arguments.is_empty());
        wait_until(&format!("rank {rank} ends"), START, is_gone);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{signal} {victim}"
    );
    let _ = kill("-KILL");
    let ended = launched.wait_with_output().expect("ends");
    text(&ended.stderr)
}
