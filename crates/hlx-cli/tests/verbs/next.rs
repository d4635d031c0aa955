//! What a user who has come this far is told to type next.

use crate::common::{SMALL_MODEL, Scratch};

/// The command line that a line names after the program, as arguments.
fn named(line: &str) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_hlx");
    let behind = line
        .split(program)
        .nth(1)
        .unwrap_or_else(|| panic!("no command in {line}"));
    let words = behind.trim().split(' ').map(|word| word.trim_matches('\''));
    words.map(str::to_owned).collect()
}

#[test]
fn a_run_just_trained_names_a_command_that_works() {
    let place = Scratch::new("next");
    let images = "seed = 1\n[model]\nkind = \"mlp\"\nhidden = [8]\n[data]\nformat = \"digits\"\n[train]\nmax_steps = 2\n";
    place.write("images.toml", images);
    for (config, verb) in [("config.toml", "generate"), ("images.toml", "eval")] {
        let run = config.trim_end_matches(".toml");
        let printed = place.succeeds(&["train", config, "--out", run, "--device", "cpu"]);
        let line = printed.lines().find(|line| line.starts_with("next "));
        let words = named(line.expect("the next command"));
        assert_eq!([&words[0], &words[1]], [verb, run]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        place.succeeds(&words);
    }
}

#[test]
fn an_error_names_the_next_command() {
    let place = Scratch::new("next-error");
    place.prepare_tokens();
    place.write("tokens.toml", SMALL_MODEL);
    place.succeeds(&["train", "tokens.toml", "--out", "run", "--device", "cpu"]);
    place.succeeds(&["export", "run", "hub"]);
    for (arguments, next) in [
        (&["generate", "run"][..], "generate run --prompt TEXT"),
        (
            &["chat", "hub"],
            "generate hub --prompt TEXT goes on from a text",
        ),
        (&["eval", "run", "--held-out"], "eval run measures the loss"),
        (
            &["eval", "hub"],
            "data prepare FILE --tokenizer hub --out TOKENS",
        ),
    ] {
        let line = place.fails(arguments);
        let next = format!("{} {next}", env!("CARGO_BIN_EXE_hlx"));
        assert!(line.contains(&next), "{line}");
    }
}
