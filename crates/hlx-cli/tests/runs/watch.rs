//! `hlx watch` and `hlx train --tui` where there is no terminal: plain lines.

use std::fs;
use std::time::Duration;

use hlx_report::Follower;
use hlx_train::run::RunFolder;
use serde_json::Value;

use super::{place, status, train};

#[test]
fn without_a_terminal_lines_are_plain_and_one_says_so() {
    let place = place("watch");
    let (code, trained, stderr) =
        status(&place, &["train", "config.toml", "--out", "run", "--tui"]);
    assert_eq!(code, 0);
    assert_eq!(
        stderr
            .matches("standard output is no terminal: plain lines")
            .count(),
        1,
        "{stderr}"
    );
    let (code, watched, stderr) = status(&place, &["watch", "run"]);
    assert!(
        code == 0 && stderr.contains("standard output is no terminal: plain lines"),
        "{stderr}"
    );
    let lines: Vec<&str> = watched.lines().collect();
    let (last, lines) = lines.split_last().expect("lines");
    assert_eq!(*last, "finished, its newest checkpoint is of step 6");
    assert!(
        lines.len() >= 8 && lines.iter().all(|line| trained.contains(line)),
        "{watched}"
    );
    let (code, json, stderr) = status(&place, &["watch", "run", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let log = fs::read_to_string(place.join("run/metrics.jsonl")).expect("reads");
    let standing = json.strip_prefix(&log).expect("the log");
    let standing: Value = serde_json::from_str(standing).expect("JSON");
    assert_eq!(
        (&standing["kind"], &standing["state"]),
        (&"standing".into(), &"finished".into())
    );
}

#[test]
fn a_run_is_followed_to_its_end() {
    let place = place("follow");
    let steps = "train.max_steps=400";
    let mut training = place
        .hlx(&["train", "config.toml", "--out", "run", "--set", steps])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    while RunFolder::open(&place.join("run")).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let watched = place.succeeds(&["watch", "run"]);
    assert!(training.wait().expect("ends").success());
    // The one that looked before the run held its lock saw a run that does not train.
    if watched.contains("finished") {
        assert!(watched.contains("step    400  loss"), "{watched}");
    }
}

#[test]
fn a_log_that_grows_is_read_once_and_one_written_anew_from_its_start() {
    let place = place("follower");
    train(&place, "run", &[]);
    let folder = RunFolder::open(&place.join("run")).expect("a run");
    let log = fs::read_to_string(folder.metrics_path()).expect("reads");
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let mut follower = Follower::new(&folder);
    let mut look = |text: String| {
        fs::write(folder.metrics_path(), text).expect("writes");
        let news = follower.look().expect("looks");
        (news.begins_anew, news.metrics.len(), news.damaged)
    };
    // A line that is being written is none yet.
    assert_eq!(
        look(lines[..2].concat() + &lines[2][..9]),
        (false, 2, vec![])
    );
    assert_eq!(look(lines[..3].concat()), (false, 1, vec![]));
    assert_eq!(look(lines[..3].concat()), (false, 0, vec![]));
    assert_eq!(
        look(lines[..3].concat() + "{]\n" + lines[3]),
        (false, 1, vec![4])
    );
    assert_eq!(look(lines[..1].concat()), (true, 1, vec![]));
}
