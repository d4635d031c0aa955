//! Environment variables whose value means nothing, and those that nothing reads.

use crate::common::{Scratch, failure, text};

#[test]
fn a_variable_with_nonsense_is_refused_in_one_line() {
    let place = Scratch::new("verbs-variables");
    for (name, value) in [
        ("HLX_THREADS", "nonsense"),
        ("HLX_THREADS", "0"),
        ("HLX_THREADS", "1000000000"),
        ("HLX_MEMORY_LIMIT", "8GB"),
        ("HLX_MEMORY_LIMIT", "-1"),
        ("HLX_SUBMISSION_MS", "soon"),
        ("HLX_SUBMISSION_MS", "-5"),
        ("HLX_EXCHANGE", "pigeons"),
        ("HLX_PORT", "99999"),
        ("HLX_VALIDATION", "yes"),
        ("HLX_TEST_DEVICES", "tpu"),
    ] {
        let mut command = place.hlx(&["train", "config.toml", "--out", "run"]);
        let line = failure(command.env(name, value).output().expect("starts"));
        assert!(
            line.starts_with(&format!("error: {name}={value}: expected ")),
            "{line}"
        );
    }
    assert!(!place.join("run").exists());
    // An empty variable is none, and help needs none.
    for (name, arguments) in [("", &["demo", "scalar"][..]), ("x", &["--help"])] {
        let mut command = place.hlx(arguments);
        let output = command
            .env("HLX_THREADS", name)
            .env("HLX_EXCHANGE", name)
            .output();
        assert!(output.expect("starts").status.success());
    }
}

#[test]
fn a_misspelt_variable_is_named_once() {
    let place = Scratch::new("verbs-misspelt");
    let mut command = place.hlx(&["demo", "scalar"]);
    command.env("HLX_THREAD", "4").env("HLX_DEVIC", "cpu");
    let output = command.output().expect("starts");
    assert!(output.status.success());
    let lines = text(&output.stderr);
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(
        lines.contains("HLX_DEVIC, HLX_THREAD: no environment variable of HLX"),
        "{lines}"
    );
}

#[cfg(unix)]
#[test]
fn a_device_that_is_no_text_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Scratch::new("verbs-no-text");
    let mut command = place.hlx(&["demo", "scalar"]);
    command.env("HLX_DEVICE", OsStr::from_bytes(b"cpu\xff"));
    let line = failure(command.output().expect("starts"));
    assert_eq!(
        line,
        "error: HLX_DEVICE=cpu\u{fffd}: expected text in UTF-8"
    );
}
