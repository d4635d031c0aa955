//! `hlx list`: a line for each run, whatever it is doing, and for what was one.

use std::fs;

use hlx_train::run::RunLock;
use serde_json::Value;

use super::{place, train};

#[test]
fn runs_are_listed_with_their_state_and_damaged_ones_with_why() {
    let place = place("list");
    train(&place, "runs/done", &[]);
    train(&place, "runs/more/going", &["train.max_steps=3"]);
    train(&place, "runs/cut", &[]);
    let path = place.join("runs/cut/config.toml");
    let longer = fs::read_to_string(&path)
        .expect("reads")
        .replace("max_steps = 6", "max_steps = 9");
    fs::write(&path, longer).expect("writes");
    train(&place, "runs/broken", &[]);
    fs::remove_file(place.join("runs/broken/config.toml")).expect("removes");
    fs::create_dir(place.join("runs/notes")).expect("makes");
    let _lock = RunLock::acquire(&place.join("runs/more/going")).expect("locks");
    let line = place.succeeds(&["list", "--json", "--sort", "name"]);
    let listed: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&listed["kind"], &listed["version"]),
        (&"list".into(), &1.into())
    );
    let runs = listed["runs"].as_array().expect("a list");
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["broken", "cut", "done", "more/going"]);
    let expected = [
        Value::Null,
        "stopped".into(),
        "finished".into(),
        "running".into(),
    ];
    assert_eq!(of("state"), expected);
    assert_eq!(of("step"), [Value::Null, 6.into(), 6.into(), 3.into()]);
    assert_eq!(
        of("planned_steps"),
        [Value::Null, 9.into(), 6.into(), 3.into()]
    );
    assert!(
        runs[0]["fault"]
            .as_str()
            .expect("why")
            .contains("is no run folder")
    );
    assert!(runs.iter().all(|run| run["bytes"].as_u64() > Some(1000)));
    let text = place.succeeds(&["list", "runs", "--sort", "loss"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("name") && lines.len() == 5, "{text}");
    assert!(lines[4].starts_with("broken: cannot be read: "), "{text}");
    let empty = place.succeeds(&["list", "runs/notes"]);
    assert!(
        empty.starts_with("runs/notes: no run lies below it; "),
        "{empty}"
    );
    // A run folder itself.
    assert!(place.succeeds(&["list", "runs/done"]).lines().count() == 2);
}
