//! Control characters of files, arguments and models: escaped wherever a person reads them.

use std::fs;
#[cfg(target_os = "linux")]
use std::process::Command;

use crate::common::{Scratch, text};

/// Clears the screen of a terminal, reverses the direction of what follows, and begins a sequence in one byte.
const HOSTILE: &str = "a\u{1b}[2J\u{202e}b\u{9b}\u{7}";
const ESCAPED: &str = r"a\u{1b}[2J\u{202e}b\u{9b}\u{7}";

fn is_harmless(line: &str) -> bool {
    let is_control = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    !line.contains(is_control)
}

/// The lines of a call that fails or warns, which must be harmless and name the hostile text.
fn said(place: &Scratch, arguments: &[&str], variable: (&str, &str)) -> String {
    let mut command = place.hlx(arguments);
    command.env(variable.0, variable.1);
    let output = command.output().expect("the program starts");
    let lines = text(&output.stderr);
    assert!(is_harmless(&lines), "{arguments:?}: {lines:?}");
    // A value of JSON is shown as JSON writes it.
    let is_named = lines.contains(ESCAPED) || lines.contains(r"a\u001b[2J");
    assert!(is_named, "{arguments:?}: {lines:?}");
    lines
}

#[test]
fn no_line_on_standard_error_has_a_control_character() {
    let place = Scratch::new("verbs-escapes");
    let none = ("HLX_DEVICE", "cpu");
    // Names of files and arguments.
    for arguments in [
        &["digest", HOSTILE][..],
        &["key", "show", HOSTILE],
        &[
            "verify",
            "--receipt",
            "none",
            "--model",
            "none",
            "--key",
            HOSTILE,
        ],
        &["train", HOSTILE],
        &["eval", HOSTILE],
        &["generate", HOSTILE, "--prompt", "a"],
        &["perplexity", HOSTILE, "--data", HOSTILE],
        &["import", HOSTILE],
        &["plot", HOSTILE],
        &["report", HOSTILE],
        &["compare", HOSTILE, "run"],
        &["list", HOSTILE],
        &["watch", HOSTILE],
        &["data", "verify", HOSTILE],
        &["data", "prepare", HOSTILE, "-o", "out"],
        &["tokenizer", "train", HOSTILE, "--vocab", "300"],
        &["run", HOSTILE, "--store", "s"],
        &["store", "put", HOSTILE, "--store", "s"],
        &["store", "get", HOSTILE, "--store", "s"],
        &["train", "config.toml", "--set", HOSTILE],
        &[
            "train",
            "config.toml",
            "--set",
            &format!("train.schedule={HOSTILE}"),
        ],
        &[
            "train",
            "config.toml",
            "--devices",
            &format!("cpu,{HOSTILE}"),
        ],
        &[HOSTILE],
        &["digest", "run", HOSTILE],
        &[&format!("--{HOSTILE}")],
        &["eval", "run", "--rows", HOSTILE],
        &["doctor", "--json", HOSTILE],
    ] {
        said(&place, arguments, none);
    }
    // Variables.
    said(&place, &["demo", "scalar"], ("HLX_DEVICE", HOSTILE));
    said(&place, &["demo", "scalar"], ("HLX_THREADS", HOSTILE));
    said(&place, &["demo", "scalar"], ("HLX_SIMD", HOSTILE));
    said(
        &place,
        &["demo", "scalar"],
        (&format!("HLX_{HOSTILE}"), "1"),
    );
    // Keys and values of files.
    let config = fs::read_to_string(place.join("config.toml")).expect("read");
    let escaped = r"a\u001b[2J\u202eb\u009b\u0007";
    for keys in [
        format!("\"{escaped}\" = 1\n{config}"),
        config.replace("corpus.jsonl", escaped),
        config.replace("format = \"pairs\"", &format!("format = \"{escaped}\"")),
        config.replace("width = 16", &format!("architecture = \"{escaped}\"")),
    ] {
        place.write("hostile.toml", &keys);
        said(&place, &["train", "hostile.toml", "--out", "out"], none);
    }
    fs::create_dir(place.join("hub")).expect("made");
    place.write(
        "folder.toml",
        "[model]\nconfig = \"hub\"\n[data]\npath = \"a\"\nformat = \"shards\"\n[train]\nmax_steps = 1\n",
    );
    for json in [
        format!("{{\"architectures\": [\"{escaped}\"]}}"),
        format!("{{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": \"{escaped}\"}}"),
        format!("{{\"architecture\": \"llama\", \"{escaped}\": 1}}"),
    ] {
        place.write("hub/config.json", &json);
        said(&place, &["train", "folder.toml", "--out", "out"], none);
    }
}

/// `script` runs a program on a terminal of its own.
#[cfg(target_os = "linux")]
fn on_a_terminal(place: &Scratch, arguments: &str) -> Option<Vec<u8>> {
    let program = env!("CARGO_BIN_EXE_hlx");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{program} {arguments}"), "/dev/null"]);
    command.current_dir(&place.path).env("HLX_DEVICE", "cpu");
    match command.stdin(std::process::Stdio::null()).output() {
        Ok(output) => Some(output.stdout),
        Err(error) => {
            hlx_core::testing::left_out("script", &error.to_string());
            None
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_escape_sequence_of_a_model_does_nothing_to_a_terminal() {
    let place = Scratch::new("verbs-terminal");
    // Learnt by heart: every output is ESC, a bell and a letter.
    let pair = |n: usize| format!("{{\"input\": \"{n}\", \"output\": \"\\u001b\\u0007x\"}}\n");
    place.write("corpus.jsonl", &(0..8).map(pair).collect::<String>());
    let config = fs::read_to_string(place.join("config.toml")).expect("read");
    let config = config
        .replace("dropout = 0.1", "dropout = 0.0")
        .replace("label_smoothing = 0.05", "")
        .replace("max_steps = 6", "max_steps = 60");
    place.write("config.toml", &config);
    place.succeeds(&["train", "config.toml", "--out", "run"]);
    let whole = place.hlx(&["generate", "run", "--prompt", "3"]).output();
    let whole = whole.expect("the program starts").stdout;
    assert_eq!(
        whole, b"\x1b\x07x\n",
        "through a pipe the bytes are the model's"
    );
    for arguments in [
        "generate run --prompt 3",
        "generate run --prompt 3 --samples 2",
    ] {
        let Some(shown) = on_a_terminal(&place, arguments) else {
            return;
        };
        let shown = text(&shown);
        assert!(shown.contains(r"\u{1b}\u{7}x"), "{shown:?}");
        assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    }
}
