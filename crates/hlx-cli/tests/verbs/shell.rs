//! `hlx completions` and `hlx man`: both know every verb.

use std::fs;

use crate::common::{Scratch, text};

/// The verbs that help lists.
fn verbs(place: &Scratch) -> Vec<String> {
    let help = place.succeeds(&["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = lines.take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let verbs = verbs.filter(|verb| !verb.is_empty() && *verb != "help");
    verbs.map(str::to_owned).collect()
}

#[test]
fn every_shell_completes_every_verb() {
    let place = Scratch::new("completions");
    let verbs = verbs(&place);
    assert!(verbs.len() > 20, "{verbs:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.succeeds(&["completions", shell]);
        for verb in &verbs {
            assert!(script.contains(verb.as_str()), "{shell}: {verb}");
        }
    }
    let wrong = place.hlx(&["completions", "cmd"]).output().expect("starts");
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
}

#[test]
fn the_manual_has_a_page_for_every_verb_and_the_same_bytes_twice() {
    let place = Scratch::new("manual");
    place.succeeds(&["man", "one/man1"]);
    place.succeeds(&["man", "two"]);
    for verb in verbs(&place) {
        let name = format!("hlx-{verb}.1");
        let page = fs::read(place.join("one/man1").join(&name)).expect("a page");
        assert_eq!(
            page,
            fs::read(place.join("two").join(&name)).expect("a page"),
            "{name}"
        );
        // roff's hyphens that are no places to break a line.
        let page = text(&page).replace("\\-", "-");
        assert!(
            page.contains(".SH NAME") && page.contains(&format!("hlx {verb}")),
            "{name}"
        );
    }
    place.write("file", "text");
    let wrong = place.hlx(&["man", "file"]).output().expect("starts");
    assert_eq!(text(&wrong.stderr), "error: file: is no folder\n");
}
