//! One process at a time writes to a run folder, and a run that is ended early is not lost.

mod common;

use std::fs;

use common::{Scratch, contents, proof};
use hlx_train::run::{RunFolder, RunLock};

const TRAIN: [&str; 4] = ["train", "config.toml", "--out", "run"];
const RESUME: [&str; 5] = ["train", "config.toml", "--out", "run", "--resume"];

#[test]
fn a_second_resume_is_refused_and_touches_nothing() {
    let place = Scratch::new("second");
    place.succeeds(&TRAIN);
    let lock = RunLock::acquire(&place.join("run")).expect("locks");
    let before = contents(&place.join("run"));
    let line = place.fails(&RESUME);
    let holder = format!("run: is in use by process {} on ", std::process::id());
    assert!(
        line.contains(&holder) && line.contains(" since 2"),
        "{line}"
    );
    assert_eq!(contents(&place.join("run")), before);
    // Readers need no lock.
    place.succeeds(&["digest", "run"]);
    place.succeeds(&["verify", "run"]);
    drop(lock);
    place.succeeds(&RESUME);
}

#[test]
fn two_processes_that_begin_one_run_do_not_mix() {
    let place = Scratch::new("race");
    let whole = place.succeeds(&[&TRAIN[..3], &["whole"]].concat());
    assert!(whole.contains("parameters "));
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = place.hlx(&TRAIN);
            command.stdout(std::process::Stdio::null());
            command.stderr(std::process::Stdio::null());
            command.spawn().expect("starts")
        })
        .collect();
    let statuses = children
        .into_iter()
        .map(|mut child| child.wait().expect("a child"));
    assert_eq!(statuses.filter(|status| status.success()).count(), 1);
    assert_eq!(proof(&place.digests("run")), proof(&place.digests("whole")));
    place.succeeds(&["verify", "run"]);
}

#[test]
fn a_run_killed_before_its_first_file_is_begun() {
    let whole = Scratch::new("unstarted");
    whole.succeeds(&TRAIN);
    let leftovers: [&[&str]; 4] = [
        &[],
        &["lock"],
        &["lock", "lock-holder", ".config.toml.77-0.tmp"],
        &["lock", "checkpoints/"],
    ];
    for left in leftovers {
        for arguments in [&TRAIN[..], &RESUME] {
            let place = Scratch::new("unstarted");
            fs::create_dir(place.join("run")).expect("makes");
            for name in left {
                let path = place.join("run").join(name);
                match name.ends_with('/') {
                    true => fs::create_dir(path).expect("makes"),
                    false => fs::write(path, "").expect("writes"),
                }
            }
            place.succeeds(arguments);
            assert_eq!(
                proof(&place.digests("run")),
                proof(&whole.digests("run")),
                "{left:?}"
            );
            let run = contents(&place.join("run"));
            let temporaries = run.iter().filter(|(path, _)| path.ends_with(".tmp"));
            assert_eq!(temporaries.count(), 0);
        }
    }
}

#[test]
fn a_folder_of_other_files_is_refused() {
    let place = Scratch::new("foreign");
    fs::create_dir(place.join("run")).expect("makes");
    fs::write(place.join("run/thesis.tex"), "years of work").expect("writes");
    for arguments in [&TRAIN[..], &RESUME] {
        let line = place.fails(arguments);
        assert!(line.starts_with("error: run: "), "{line}");
    }
    assert_eq!(contents(&place.join("run")).len(), 1);
    assert!(!RunFolder::is_unstarted(&place.join("run")));
    // Files of a user under the names that a run gives to its own.
    for name in ["lock", "lock-holder", ".notes.tmp"] {
        fs::remove_dir_all(place.join("run")).expect("removed");
        fs::create_dir(place.join("run")).expect("makes");
        fs::write(place.join("run").join(name), "years of work").expect("writes");
        let before = contents(&place.join("run"));
        place.fails(&TRAIN);
        assert_eq!(contents(&place.join("run")), before);
    }
}

#[test]
fn runs_without_out_take_the_next_free_number() {
    let place = Scratch::new("numbers");
    let short = ["train", "config.toml", "--set", "train.max_steps=1"];
    place.succeeds(&short);
    fs::create_dir(place.join("runs/config-2")).expect("makes");
    place.succeeds(&short);
    place.succeeds(&short);
    for name in ["config", "config-2", "config-3"] {
        assert!(
            place.join("runs").join(name).join("run.json").exists(),
            "{name}"
        );
    }
    // A run killed before its first file is the newest, and is begun by its resumption.
    fs::create_dir(place.join("runs/config-4")).expect("makes");
    place.succeeds(&[&short[..], &["--resume"]].concat());
    assert!(place.join("runs/config-4/run.json").exists());
}

#[test]
fn run_json_keeps_every_stretch_and_a_damaged_one_is_refused() {
    let place = Scratch::new("stretches");
    place.succeeds(&[&TRAIN[..], &["--set", "train.checkpoint_every=2"]].concat());
    fs::remove_dir_all(place.join("run/checkpoints/step-000006")).expect("removes");
    place.succeeds(&RESUME);
    let path = place.join("run/run.json");
    let text = fs::read_to_string(&path).expect("reads");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let stretches = manifest["stretches"].as_array().expect("a list");
    let steps: Vec<_> = stretches
        .iter()
        .map(|at| at["from_step"].as_u64())
        .collect();
    assert_eq!(steps, [Some(0), Some(4)]);
    for stretch in stretches {
        assert_eq!(stretch["hlx"], env!("CARGO_PKG_VERSION"));
        assert_eq!(stretch["specification"], hlx_core::SPECIFICATION);
        assert_eq!(stretch["shaders"].as_str().map(str::len), Some(64));
    }
    fs::write(&path, text.replace("\"from_step\": 4", "\"from_step\": 5")).expect("writes");
    let before = contents(&place.join("run"));
    let line = place.fails(&RESUME);
    assert!(line.contains("run.json: is damaged"), "{line}");
    assert_eq!(contents(&place.join("run")), before);
    // Without the file the run continues, and begins another.
    fs::remove_file(&path).expect("removes");
    place.succeeds(&RESUME);
}

#[test]
fn a_damaged_line_of_the_metrics_costs_no_other() {
    let place = Scratch::new("metrics");
    let all = [
        "--set",
        "train.checkpoint_every=2",
        "--set",
        "train.log_every=1",
    ];
    place.succeeds(&[&TRAIN[..], &all].concat());
    fs::remove_dir_all(place.join("run/checkpoints/step-000006")).expect("removes");
    let path = place.join("run/metrics.jsonl");
    let mut bytes = fs::read(&path).expect("reads");
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    assert_eq!(lines.len(), 7, "six steps and the evaluation at the end");
    let (second, n_left) = (lines[0].len() + 3, lines[..4].concat().len());
    // A byte of the second line, and a last line that is cut short.
    bytes[second] = 0xff;
    bytes.truncate(bytes.len() - 4);
    fs::write(&path, &bytes).expect("writes");
    let warning =
        "run/metrics.jsonl:2: is damaged and left out, but kept in the file: not UTF-8 at byte 4";
    let warns = |arguments: &[&str]| {
        let output = place.hlx(arguments).output().expect("starts");
        let stderr = common::text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(
            stderr.trim_end().ends_with(warning),
            "{arguments:?}: {stderr}"
        );
    };
    warns(&["plot", "run"]);
    warns(&[&RESUME[..], &all].concat());
    let resumed = fs::read(&path).expect("reads");
    assert_eq!(resumed[..n_left], bytes[..n_left]);
    assert_eq!(resumed.split(|&byte| byte == b'\n').count(), 8);
    warns(&["plot", "run"]);
}

/// Signals, sent to the real program.
#[cfg(unix)]
mod signals {
    use std::io::Read;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::common::{Scratch, proof, text};

    const LONG: [&str; 8] = [
        "train",
        "config.toml",
        "--set",
        "train.max_steps=400",
        "--set",
        "train.log_every=1",
        "--out",
        "run",
    ];

    fn send(signal: &str, child: &Child) {
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill").success());
    }

    /// Starts a run, and waits until it has logged a step.
    fn started(place: &Scratch, arguments: &[&str]) -> Child {
        let mut command = place.hlx(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let metrics = place.join("run/metrics.jsonl");
        while std::fs::metadata(&metrics).map_or(0, |file| file.len()) == 0 {
            assert!(child.try_wait().expect("a child").is_none(), "ended early");
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    /// Waits for the end, and returns the status and what was printed.
    fn ended(mut child: Child) -> (Option<i32>, String, String) {
        let status = child.wait().expect("a child");
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let pipes = (child.stdout.take(), child.stderr.take());
        pipes
            .0
            .expect("piped")
            .read_to_end(&mut stdout)
            .expect("reads");
        pipes
            .1
            .expect("piped")
            .read_to_end(&mut stderr)
            .expect("reads");
        (status.code(), text(&stdout), text(&stderr))
    }

    #[test]
    fn an_interrupted_run_saves_says_how_to_go_on_and_loses_no_bit() {
        let whole = Scratch::new("whole");
        whole.succeeds(&LONG);
        for signal in ["INT", "TERM"] {
            let place = Scratch::new("interrupted");
            let child = started(&place, &LONG);
            // Some send one to the program and one to its group.
            send(signal, &child);
            send(signal, &child);
            let (code, stdout, stderr) = ended(child);
            assert_eq!(code, Some(130), "{stdout}{stderr}");
            // `checkpoint_every` is 0: the interruption alone has saved this one.
            let saved = place.digests("run").step;
            assert!(saved > 0 && saved < 400, "{saved}");
            let words = format!("interrupted after step {saved} of 400");
            assert!(stdout.contains(&words), "{stdout}");
            let resume = stdout
                .lines()
                .find_map(|line| line.strip_prefix("go on with  "));
            let resume = resume.expect("a command");
            assert!(resume.contains("--set train.max_steps=400"), "{resume}");
            let mut shell = Command::new("sh");
            shell.args(["-c", resume]).current_dir(&place.path);
            let output = shell.env("HLX_DEVICE", "cpu").output().expect("starts");
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(proof(&place.digests("run")), proof(&whole.digests("run")));
            place.succeeds(&["verify", "run"]);
        }
    }

    #[test]
    fn a_second_signal_ends_the_program_at_once() {
        let place = Scratch::new("twice");
        // Steps of about a second: both signals arrive within one.
        let sets = [
            "model.width=256",
            "train.batch_size=256",
            "train.max_steps=3",
        ];
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        let slow: Vec<&str> = LONG.into_iter().chain(sets).collect();
        let child = started(&place, &slow);
        send("INT", &child);
        std::thread::sleep(Duration::from_millis(150));
        send("TERM", &child);
        let (code, stdout, stderr) = ended(child);
        assert_eq!(code, Some(130), "{stdout}{stderr}");
        assert!(!stdout.contains("go on with"), "{stdout}");
        assert_eq!(super::contents(&place.join("run/checkpoints")), []);
        place.succeeds(&[&slow[..], &["--resume"]].concat());
    }
}
