//! Ranks with the variables that `torchrun` sets, started by the test itself.

use std::net::TcpListener;
use std::process::{Child, Output, Stdio};

use hlx_ranks::testing::free_port;

use crate::common::{Scratch, text};

/// Starts `n` ranks, and returns how each ends.
fn launch(place: &Scratch, n: usize, port: u16, arguments: &[&str]) -> Vec<Output> {
    let start = |rank: usize| {
        let mut command = place.hlx(arguments);
        for (name, value) in [
            ("RANK", rank),
            ("WORLD_SIZE", n),
            ("LOCAL_RANK", rank),
            ("MASTER_PORT", usize::from(port)),
        ] {
            command.env(name, value.to_string());
        }
        command
            .env("MASTER_ADDR", "127.0.0.1")
            .env("HLX_DEVICE", "cpu");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("starts")
    };
    hlx_core::testing::ran_on_cpu();
    let children: Vec<Child> = (0..n).map(start).collect();
    let ended = children.into_iter().map(Child::wait_with_output);
    ended.map(|output| output.expect("ends")).collect()
}

/// The ranks find each other: they agree on what is wrong, rank 0 says it, and all have status 2.
#[test]
fn ranks_of_torchrun_that_cannot_begin_say_so_once() {
    let place = Scratch::new("ranks-torchrun");
    let counts = "3 ranks, expected a divisor of the 4 shards";
    for (n, data, expected) in [(3, "corpus.jsonl", counts), (2, "none.jsonl", "none.jsonl")] {
        let arguments = ["train", "config.toml", "--out", "run", "--data", data];
        let outputs = launch(&place, n, free_port().expect("a free port"), &arguments);
        for (rank, output) in outputs.iter().enumerate() {
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{rank}: {said}");
            assert_eq!(
                said.lines().count(),
                usize::from(rank == 0),
                "{rank}: {said}"
            );
            assert!(rank > 0 || said.contains(expected), "{said}");
        }
        assert!(!place.join("run").exists());
    }
}

/// On devices that are no GPUs of NVIDIA.
#[test]
fn ranks_of_torchrun_on_other_devices_are_told_that_they_need_mpi() {
    let place = Scratch::new("ranks-torchrun-nccl");
    let arguments = ["train", "config.toml", "--out", "run"];
    let outputs = launch(&place, 2, free_port().expect("a free port"), &arguments);
    let expected = "error: rank 0 on ";
    let end = ": cpu is no NVIDIA GPU: ranks that torchrun starts exchange from GPU to GPU; others need MPI (mpirun)\n";
    for (rank, output) in outputs.iter().enumerate() {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{rank}: {said}");
        let is_told = said.starts_with(expected) && said.ends_with(end);
        assert!(if rank == 0 { is_told } else { said.is_empty() }, "{said}");
    }
    assert!(!place.join("run").exists());
}

#[test]
fn a_port_in_use_and_a_wrong_number_are_status_2() {
    let place = Scratch::new("ranks-torchrun-port");
    let taken = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = taken.local_addr().expect("an address").port();
    std::thread::spawn(move || taken.incoming().flatten().for_each(drop));
    let outputs = launch(&place, 2, port, &["train", "config.toml", "--out", "run"]);
    for output in &outputs {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let named = format!("error: MASTER_PORT {port} on 127.0.0.1: ");
        assert!(
            said.starts_with(&named) && said.lines().count() == 1,
            "{said}"
        );
    }
    assert!(text(&outputs[0].stderr).contains("in use"));
    let mut wrong = place.hlx(&["train", "config.toml", "--out", "run"]);
    wrong.envs([("RANK", "2"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")]);
    wrong.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")]);
    let output = wrong.output().expect("starts");
    let expected = "error: RANK 2: expected a number less than 2\n";
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(2), expected)
    );
}
