//! What may have become of a run's folder, and what each verb says of it: one line, and a status.

use std::fs;
use std::path::Path;

use hlx_core::digest::sha256_hex;

use super::{place, status, train};
use crate::common::{Scratch, contents, copy_folder};

/// Lines of standard error, without the one on a missing terminal.
fn lines(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines();
    lines
        .filter(|line| !line.contains("is no terminal"))
        .collect()
}

type Damage = fn(&Path);

fn edit(path: &Path, with: impl Fn(Vec<u8>) -> Vec<u8>) {
    let bytes = fs::read(path).expect("reads");
    fs::write(path, with(bytes)).expect("writes");
}

fn cut(path: &Path, n: usize) {
    edit(path, |mut bytes| {
        bytes.truncate(n);
        bytes
    });
}

fn noise(path: &Path) {
    let byte = |n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8;
    fs::write(path, (0..9000).map(byte).collect::<Vec<u8>>()).expect("writes");
}

fn folder_instead(path: &Path) {
    fs::remove_file(path).expect("removes");
    fs::create_dir(path).expect("makes");
}

/// The chain with its first record changed, as another version might have written it: every digest is right.
fn rewritten(run: &Path, from: &str, to: &str) {
    let path = run.join("chain.jsonl");
    let text = fs::read_to_string(&path).expect("reads");
    let (mut previous, mut written) = (String::new(), String::new());
    for (number, line) in text.lines().enumerate() {
        let (body, _) = line.rsplit_once(",\"digest\":").expect("a digest");
        let (head, _) = body.rsplit_once(",\"previous\":").expect("a link");
        let head = match number {
            0 => head.replace(from, to),
            _ => head.to_owned(),
        };
        let body = format!("{head},\"previous\":\"{previous}\"");
        previous = sha256_hex(format!("{body}}}").as_bytes());
        written += &format!("{body},\"digest\":\"{previous}\"}}\n");
    }
    fs::write(path, written).expect("writes");
}

/// What a folder suffers; the words that name it; whether the folder is a run no more; whether its chain cannot be
/// compared, or its log not be read.
struct Case {
    damage: Damage,
    words: &'static str,
    is_none: bool,
    without_chain: bool,
    without_log: bool,
}

const NONE: Case = Case {
    damage: |_| {},
    words: "",
    is_none: true,
    without_chain: true,
    without_log: true,
};
const CHAIN: Case = Case {
    is_none: false,
    without_log: false,
    ..NONE
};
const PART: Case = Case {
    without_chain: false,
    ..CHAIN
};

fn cases() -> Vec<Case> {
    let none = |words, damage| Case {
        damage,
        words,
        ..NONE
    };
    let chain = |words, damage| Case {
        damage,
        words,
        ..CHAIN
    };
    let part = |words, damage| Case {
        damage,
        words,
        ..PART
    };
    vec![
        none("x: is no run folder: config.toml is not there", |run| {
            fs::remove_file(run.join("config.toml")).expect("removes");
        }),
        none("x: is no run folder: config.toml is not there", |run| {
            folder_instead(&run.join("config.toml"));
        }),
        none("x: is no run folder: checkpoints/ is not there", |run| {
            fs::remove_dir_all(run.join("checkpoints")).expect("removes");
        }),
        none("x/config.toml:1: missing field", |run| {
            cut(&run.join("config.toml"), 0);
        }),
        none("x/config.toml: not UTF-8", |run| {
            noise(&run.join("config.toml"));
        }),
        none("x/config.toml:", |run| {
            cut(&run.join("config.toml"), 90);
        }),
        chain("x/chain.jsonl:1: is damaged: its SHA-256 is", |run| {
            edit(&run.join("chain.jsonl"), |mut bytes| {
                bytes[60] ^= 1;
                bytes
            });
        }),
        chain("x/chain.jsonl: holds no record", |run| {
            cut(&run.join("chain.jsonl"), 0);
        }),
        chain("x/chain.jsonl: holds no record", |run| {
            cut(&run.join("chain.jsonl"), 50);
        }),
        chain("x/chain.jsonl:3: names ", |run| {
            edit(&run.join("chain.jsonl"), |bytes| {
                let lines = bytes.split_inclusive(|&byte| byte == b'\n').enumerate();
                let others = lines.filter(|(number, _)| *number != 2);
                others.flat_map(|(_, line)| line.to_vec()).collect()
            });
        }),
        chain("x/chain.jsonl:", |run| noise(&run.join("chain.jsonl"))),
        chain("x/chain.jsonl: is a folder", |run| {
            folder_instead(&run.join("chain.jsonl"));
        }),
        chain("x/chain.jsonl:1: is of version 9 of the format", |run| {
            rewritten(run, "\"version\":2", "\"version\":9");
        }),
        part(
            "x/chain.jsonl: ends at step 4 and lacks the record of the checkpoint of step 6",
            |run| {
                edit(&run.join("chain.jsonl"), |bytes| {
                    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
                    lines.take(5).collect::<Vec<_>>().concat()
                });
            },
        ),
        part("lacks the record of the checkpoint of step 6", |run| {
            rewritten(run, "\"specification\":2", "\"specification\":1");
        }),
        part("x/run.json: is damaged", |run| {
            cut(&run.join("run.json"), 0);
        }),
        part("x/run.json: is damaged: its SHA-256", |run| {
            edit(&run.join("run.json"), |bytes| {
                let text = String::from_utf8(bytes).expect("text");
                text.replace("\"from_step\": 0", "\"from_step\": 1")
                    .into_bytes()
            });
        }),
        part("x/checkpoints/step-000006/digests.json", |run| {
            cut(&run.join("checkpoints/step-000006/digests.json"), 50);
        }),
        part("x: its log has no line, and the page no curves", |run| {
            fs::remove_file(run.join("metrics.jsonl")).expect("removes");
        }),
        Case {
            without_log: true,
            ..part("x/metrics.jsonl: is a folder", |run| {
                folder_instead(&run.join("metrics.jsonl"));
            })
        },
    ]
}

#[test]
fn every_damage_is_one_line_and_the_right_status() {
    let place = place("damage");
    train(&place, "run", &[]);
    for (number, case) in cases().into_iter().enumerate() {
        let Case {
            damage,
            words,
            is_none,
            without_chain,
            without_log,
        } = case;
        let _ = fs::remove_dir_all(place.join("x"));
        copy_folder(&place.join("run"), &place.join("x"));
        damage(&place.join("x"));
        let before = contents(&place.join("x"));
        let says = |arguments: &[&str], expected: i32, is_said: bool| {
            let (code, stdout, stderr) = status(&place, arguments);
            let lines = lines(&stderr);
            let name = format!("case {number}, {words}: {arguments:?}: {stdout}{stderr}");
            assert_eq!(
                (code, lines.len()),
                (expected, usize::from(is_said)),
                "{name}"
            );
            assert!(!is_said || lines[0].contains(words), "{name}");
        };
        says(
            &["report", "x", "--out", "x.html"],
            i32::from(is_none),
            true,
        );
        let is_compared = !without_chain;
        for pair in [["x", "run"], ["run", "x"]] {
            let compare = ["compare", pair[0], pair[1]];
            says(&compare, if is_compared { 0 } else { 2 }, !is_compared);
        }
        says(&["watch", "x"], i32::from(without_log), without_log);
        says(
            &["watch", "x", "--json"],
            i32::from(without_log),
            without_log,
        );
        let listed = place.succeeds(&["list", "x"]);
        let is_fault = listed.starts_with("x: cannot be read: ");
        assert!(is_fault || !is_none, "{words}: {listed}");
        assert!(!is_fault || listed.contains(words), "{words}: {listed}");
        assert!(listed.lines().count() <= 2, "{words}: {listed}");
        assert_eq!(
            contents(&place.join("x")),
            before,
            "{words}: nothing is touched"
        );
    }
}

#[test]
fn a_log_or_a_list_of_verdicts_of_noise_is_a_few_lines() {
    let place = place("noise");
    train(&place, "run", &[]);
    let many: String = (0..300).map(|n| format!("{{\"kind\": {n}}}\n")).collect();
    for name in ["metrics.jsonl", "verified.jsonl"] {
        copy_folder(&place.join("run"), &place.join(name));
        fs::write(place.join(name).join(name), &many).expect("writes");
        for verb in [
            &["report", name, "--out", "x.html"][..],
            &["watch", name],
            &["list", name],
        ] {
            let (code, _, stderr) = status(&place, verb);
            let lines = lines(&stderr);
            assert!(code == 0 && lines.len() <= 10, "{verb:?}: {stderr}");
            let is_read = verb[0] == "report" || name == "metrics.jsonl";
            let counted = format!("{name}: 292 more lines are damaged and left out");
            assert_eq!(
                lines.iter().any(|line| line.contains(&counted)),
                is_read,
                "{stderr}"
            );
        }
    }
}

#[test]
fn names_with_spaces_and_letters_of_any_script_are_names() {
    let place = place("names");
    let name = "ein Lauf, größer: 走";
    train(&place, &format!("alle läufe/{name}"), &[]);
    let run = format!("alle läufe/{name}");
    let out = "der bericht ü.html";
    let printed = place.succeeds(&["report", &run, "--out", out]);
    assert_eq!(printed, "der bericht ü.html\nder bericht ü.md\n");
    let page = fs::read_to_string(place.join(out)).expect("a page");
    assert!(page.contains(&format!("<title>{name}</title>")));
    assert!(
        page.contains(&format!("hlx train '{run}/config.toml' ")),
        "quoted for a shell"
    );
    let listed = place.succeeds(&["list", "alle läufe"]);
    assert!(listed.contains(name), "{listed}");
    assert!(
        place
            .succeeds(&["compare", &run, &run])
            .contains("result     equal")
    );
    assert!(place.succeeds(&["watch", &run]).contains("finished"));
}

#[test]
fn hundreds_of_runs_have_a_line_each() {
    let place = place("many");
    train(&place, "one", &[]);
    for number in 0..500 {
        copy_folder(
            &place.join("one"),
            &place.join(&format!("runs/{number:03}")),
        );
    }
    fs::remove_file(place.join("runs/250/config.toml")).expect("removes");
    let listed = place.succeeds(&["list", "--sort", "name"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 501);
    assert!(
        lines[1].starts_with("000 ") && lines[499].starts_with("499 "),
        "{}",
        lines[499]
    );
    assert!(
        lines[500].starts_with("250: cannot be read: "),
        "{}",
        lines[500]
    );
}

#[test]
fn models_that_differ_are_compared_from_their_first_step() {
    let place = place("models");
    train(&place, "a", &[]);
    train(&place, "b", &["model.width=32", "model.n_layers=1"]);
    let (code, stdout, stderr) = status(&place, &["compare", "a", "b"]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    for words in [
        "config     model.n_layers = 2 | 1",
        "equal      nothing",
        "differs    at step 0: parameters",
    ] {
        assert!(stdout.contains(words), "{stdout}");
    }
    let (code, _, stderr) = status(&place, &["report", "a", "b", "--out", "x.html"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}

/// `fixtures/packed_run`, which an earlier version wrote.
#[test]
fn an_older_run_is_shown_whole() {
    let place = Scratch::new("older-shown");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/packed_run/run");
    copy_folder(&fixture, &place.join("old"));
    train(&place, "new", &["train.max_steps=2"]);
    for arguments in [
        &["report", "old", "--out", "x.html"][..],
        &["compare", "old", "old"],
        &["list", "old"],
        &["watch", "old"],
    ] {
        let (code, stdout, stderr) = status(&place, arguments);
        assert!(
            code == 0 && lines(&stderr).is_empty(),
            "{arguments:?}: {stdout}{stderr}"
        );
    }
    let page = fs::read_to_string(place.join("x.html")).expect("a page");
    assert!(
        page.contains("whole")
            && page.contains("28266ecd0572644a4e265d1f965d69365647f9f7268d5bc6fe0527ad12770b2c")
    );
    assert_eq!(status(&place, &["compare", "old", "new"]).0, 1);
}

#[test]
fn a_run_that_is_being_written_is_read_without_a_word() {
    let place = place("written");
    let sets = [
        "train.max_steps=400",
        "train.checkpoint_every=1",
        "train.eval_every=0",
    ];
    let mut arguments = vec!["train", "config.toml", "--out", "run"];
    arguments.extend(sets.iter().flat_map(|set| ["--set", *set]));
    let mut training = place.hlx(&arguments);
    let mut training = training
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let chain = place.join("run/chain.jsonl");
    while fs::metadata(&chain).map_or(0, |file| file.len()) == 0 {
        assert!(
            training.try_wait().expect("a child").is_none(),
            "ended early"
        );
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let mut n = 0;
    while training.try_wait().expect("a child").is_none() || n == 0 {
        for (arguments, expected) in [
            (&["report", "run", "--out", "x.html"][..], 0),
            (&["compare", "run", "run"], 0),
            (&["list", "."], 0),
        ] {
            let (code, _, stderr) = status(&place, arguments);
            let lines = lines(&stderr);
            // Before the first period has ended.
            let is_empty = |line: &&str| line.contains("its log has no line yet");
            assert!(
                code == expected && lines.iter().all(is_empty),
                "{arguments:?}: {stderr}"
            );
        }
        n += 1;
    }
    assert!(training.wait().expect("ends").success());
}

#[cfg(unix)]
#[test]
fn what_may_not_be_read_is_named() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let place = place("forbidden");
    train(&place, "run", &[]);
    let folder = place.join("");
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("allowed");
    let denied = |arguments: &[&str]| {
        let mut command = place.hlx(arguments);
        if is_root {
            // Root may read everything.
            command.uid(65534).gid(65534);
        }
        let output = command
            .output()
            .expect("another user can start the program");
        let code = output.status.code().expect("a status");
        (code, String::from_utf8(output.stderr).expect("text"))
    };
    for (name, is_none, without_log) in [
        ("chain.jsonl", false, false),
        ("run.json", false, false),
        ("metrics.jsonl", false, true),
        ("checkpoints", false, true),
        ("config.toml", true, true),
        ("", true, true),
    ] {
        let path = place.join("run").join(name);
        let mode = fs::metadata(&path).expect("is there").permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).expect("allowed");
        let named = match name {
            "" => "run: Permission denied".to_owned(),
            name => format!("run/{name}: Permission denied"),
        };
        for (arguments, fails) in [
            (&["report", "run", "--out", "x.html"][..], is_none),
            (&["watch", "run"], without_log),
        ] {
            let (code, stderr) = denied(arguments);
            let lines = lines(&stderr);
            assert_eq!(code, i32::from(fails), "{name}: {arguments:?}: {stderr}");
            let is_silent = arguments[0] == "watch" && !fails;
            assert_eq!(
                lines.len(),
                usize::from(!is_silent),
                "{name}: {arguments:?}: {stderr}"
            );
            assert!(
                lines.iter().all(|line| line.contains(&named)),
                "{name}: {stderr}"
            );
        }
        fs::set_permissions(&path, mode).expect("allowed");
    }
}
