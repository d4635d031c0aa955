//! Folders that are no runs, are damaged, or are being written: a line each, and what can be read is.

use std::fs;

use hlx_train::run::RunLock;

use super::{place, status, train};
use crate::common::contents;

#[test]
fn a_folder_that_is_no_run_is_named_by_every_verb() {
    let place = place("no-run");
    fs::create_dir(place.join("empty")).expect("makes");
    let verbs: [(&[&str], i32); 5] = [
        (&["report", "empty"], 1),
        (&["report", "nowhere"], 1),
        (&["watch", "empty"], 1),
        (&["compare", "empty", "empty"], 2),
        (&["compare", "nowhere", "empty"], 2),
    ];
    for (arguments, expected) in verbs {
        let (code, _, stderr) = status(&place, arguments);
        assert_eq!(code, expected, "{arguments:?}");
        let named = format!(
            "error: {}: is no run folder (a run folder holds",
            arguments[1]
        );
        assert!(
            stderr.starts_with(&named) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
    assert!(
        place
            .fails(&["list", "nowhere"])
            .starts_with("error: nowhere: ")
    );
    assert_eq!(
        place.fails(&["report", "empty", "--out", "a.md"]),
        "error: --out a.md: is the name of the Markdown file, expected one that ends in .html"
    );
}

#[test]
fn what_is_damaged_is_said_and_the_rest_is_shown() {
    let place = place("damaged");
    train(&place, "run", &[]);
    let chain = place.join("run/chain.jsonl");
    let whole = fs::read(&chain).expect("reads");
    let mut bytes = whole.clone();
    bytes[40] ^= 1;
    fs::write(&chain, &bytes).expect("writes");
    let before = contents(&place.join("run"));
    let (code, _, stderr) = status(&place, &["report", "run", "--out", "a.html"]);
    assert!(
        code == 0 && stderr.contains("chain.jsonl:1: is damaged"),
        "{stderr}"
    );
    let page = fs::read_to_string(place.join("a.html")).expect("a page");
    assert!(page.contains("Not read:") && page.contains("no chain that can be read"));
    let (code, _, stderr) = status(&place, &["compare", "run", "run"]);
    assert!(
        code == 2 && stderr.contains("chain.jsonl:1: is damaged"),
        "{stderr}"
    );
    assert_eq!(contents(&place.join("run")), before, "nothing is touched");
    // As a process leaves it that is writing a record.
    fs::write(&chain, &whole[..whole.len() - 20]).expect("writes");
    place.succeeds(&["report", "run", "--out", "a.html"]);
    let page = fs::read_to_string(place.join("a.html")).expect("a page");
    assert!(page.contains("whole up to a last line that is cut short"));
    fs::remove_file(&chain).expect("removes");
    let (code, _, stderr) = status(&place, &["compare", "run", "run"]);
    assert!(
        code == 2 && stderr.contains("run: has no chain.jsonl"),
        "{stderr}"
    );
}

#[test]
fn a_run_without_a_line_yet_and_one_of_another_version() {
    let place = place("empty-log");
    train(&place, "run", &[]);
    let _lock = RunLock::acquire(&place.join("run")).expect("locks");
    for log in [None, Some(""), Some("{\"kind\":\"train\",\"st")] {
        let path = place.join("run/metrics.jsonl");
        match log {
            None => fs::remove_file(&path).expect("removes"),
            Some(text) => fs::write(&path, text).expect("writes"),
        }
        let (code, stdout, stderr) =
            status(&place, &["report", "run", "--out", "a.html", "--json"]);
        assert!(
            code == 0 && stderr.contains("run: its log has no line yet"),
            "{stderr}"
        );
        assert!(stdout.contains("\"state\":\"running\""), "{stdout}");
    }
    let config = place.join("run/config.toml");
    let text = fs::read_to_string(&config).expect("reads");
    fs::write(&config, text.replace("[train]", "[train]\nwarp = 9")).expect("writes");
    for arguments in [&["report", "run"][..], &["watch", "run"]] {
        let line = place.fails(arguments);
        assert!(
            line.contains("run/config.toml:") && line.contains("warp"),
            "{line}"
        );
    }
}
