//! Clients that others have written, where they are installed.

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use common::Server;
use hlx_core::testing::left_out;
use hlx_serve::Settings;
use hlx_train::engine::Limits;

/// Runs a script with the Python that `HLX_CLIENTS_PYTHON` names; says so where a package lacks.
fn check(package: &str, path: &str) {
    let python = std::env::var("HLX_CLIENTS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    // The harness asks servers by these.
    let needed: &[&str] = match package {
        "lm_eval" => &["lm_eval", "tenacity", "aiohttp"],
        _ => &[package],
    };
    for package in needed {
        let import = format!("import {package}");
        let has = Command::new(&python).args(["-c", &import]).output();
        if !has.is_ok_and(|has| has.status.success()) {
            left_out(
                &format!("{package} as a client"),
                "Python has no such package",
            );
            return;
        }
    }
    let server = Server::start(Limits::default(), Settings::default());
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/clients/check_{package}.py"));
    let url = format!("http://{}{path}", server.address);
    let ran = Command::new(&python)
        .arg(script)
        .args([&url, "small"])
        .output();
    let ran = ran.expect("runs");
    let [out, err] =
        [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(ran.status.success(), "{out}{err}");
    say(&out);
}

/// Runs a script with node in the folder that `HLX_CLIENTS_NODE` names, which has the packages in `node_modules`.
fn check_with_node(package: &str) {
    let folder = std::env::var("HLX_CLIENTS_NODE").unwrap_or_else(|_| ".".to_owned());
    if !Path::new(&folder)
        .join("node_modules")
        .join(package)
        .is_dir()
    {
        left_out(
            &format!("{package} as a client of JavaScript"),
            "node has no such package",
        );
        return;
    }
    let server = Server::start(Limits::default(), Settings::default());
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/clients/check_{package}.mjs"));
    let url = format!("http://{}/v1", server.address);
    let mut node = Command::new("node");
    let ran = node.arg(script).args([&url, "small"]).current_dir(folder);
    let ran = ran.output().expect("runs");
    let [out, err] =
        [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(ran.status.success(), "{out}{err}");
    say(&out);
}

/// Says a line where it is seen.
fn say(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{}", line.trim());
}

#[test]
fn openai_s_client_is_answered() {
    check("openai", "/v1");
}

#[test]
fn anthropic_s_client_is_answered() {
    check("anthropic", "");
}

#[test]
fn langchain_is_answered() {
    check("langchain_openai", "/v1");
}

#[test]
fn the_program_llm_is_answered() {
    check("llm", "/v1");
}

#[test]
fn lm_evaluation_harness_is_answered() {
    check("lm_eval", "/v1");
}

#[test]
fn openai_s_client_in_javascript_is_answered() {
    check_with_node("openai");
}
