//! The verbs that tell about runs, and what is said before a run's first step.

#[path = "../common/mod.rs"]
mod common;

mod bad_folders;
mod compare;
mod damage;
mod list;
mod memory;
mod report;
mod watch;

use std::fs;

use common::{Scratch, text};

/// Samples, evaluations and log lines: what a report has places for.
const WATCHED: &str = r#"
[sample]
prompts = ["one"]
"#;

/// A folder whose run of six steps is evaluated and writes samples twice.
fn place(name: &str) -> Scratch {
    let place = Scratch::new(name);
    let config = fs::read_to_string(place.join("config.toml")).expect("reads");
    let config = config.replace(
        "format = \"pairs\"",
        "format = \"pairs\"\neval_fraction = 0.2",
    );
    let config = config.replace("log_every = 2", "log_every = 1\neval_every = 3");
    place.write("config.toml", &(config + WATCHED));
    place
}

/// Trains a run with some values of the configuration replaced.
fn train(place: &Scratch, out: &str, sets: &[&str]) {
    let mut arguments = vec!["train", "config.toml", "--out", out];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    place.succeeds(&arguments);
}

/// The exit status, and what was printed on standard output and standard error.
fn status(place: &Scratch, arguments: &[&str]) -> (i32, String, String) {
    let output = place.hlx(arguments).output().expect("starts");
    let code = output.status.code().expect("an exit status");
    (code, text(&output.stdout), text(&output.stderr))
}
