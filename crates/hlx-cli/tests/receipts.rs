//! Receipts from the command line: keys, a server that signs, and the recomputation of its answers.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use common::forms::{Forms, add, check};
use common::{SMALL_MODEL, Scratch, status, text};
use serde_json::{Value, json};

/// A server that ends with its value.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(place: &Scratch, arguments: &[&str]) -> Self {
        let mut command = place.hlx(&[&["serve", "--port", "0"], arguments].concat());
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut seen = Vec::new();
        let address = loop {
            let line = lines
                .next()
                .unwrap_or_else(|| panic!("{seen:?}"))
                .expect("a line");
            if let Some((_, address)) = line.split_once("listening at http://") {
                break address.trim().to_owned();
            }
            seen.push(line);
        };
        // What else it says must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn ask(&self, body: &Value) -> Value {
        let body = body.to_string();
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).expect("connects");
        stream.write_all((head + &body).as_bytes()).expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("is answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn trained(name: &str) -> Scratch {
    let place = Scratch::new(name);
    place.write("config.toml", SMALL_MODEL);
    place.prepare_tokens();
    place.succeeds(&["train", "config.toml", "--out", "run"]);
    place.succeeds(&["key", "new", "server.key"]);
    place
}

/// Verifies with this exit status, and returns what is printed.
fn verified(place: &Scratch, arguments: &[&str], device: &str, status: i32) -> String {
    let mut command = place.hlx(&[&["verify", "--receipt"], arguments].concat());
    let found = command
        .env("HLX_DEVICE", device)
        .output()
        .expect("the program starts");
    let printed = text(&found.stdout);
    assert_eq!(
        found.status.code(),
        Some(status),
        "{printed}{}",
        text(&found.stderr)
    );
    printed
}

#[test]
fn a_servers_receipts_are_recomputed_and_its_weights_found_in_the_chain_of_their_run() {
    let place = trained("receipts");
    {
        let server = Server::start(
            &place,
            &["run", "--key", "server.key", "--receipts", "receipts"],
        );
        for number in 0..5 {
            let body = json!({"model": "run", "prompt": "the river of", "seed": number, "max_tokens": 12,
                "temperature": 0.9, "receipt": {"nonce": number.to_string()}});
            let answer = server.ask(&body);
            assert_eq!(answer["receipt"]["body"]["nonce"], number.to_string());
        }
        server.ask(&json!({"model": "run", "prompt": "light", "stop": ["e"], "logprobs": 1}));
    }
    let all = ["receipts", "--model", "run", "--key", "server.key.pub"];
    for device in hlx_core::testing::selectors() {
        let printed = verified(&place, &all, &device, 0);
        let record = fs::read_to_string(place.join("run/chain.jsonl")).expect("a chain");
        let last: Value =
            serde_json::from_str(record.lines().last().expect("a record")).expect("JSON");
        let expected = format!(
            "trained    3 steps, record {}",
            last["digest"].as_str().expect("a digest")
        );
        assert!(printed.contains(&expected), "{printed}");
        assert!(
            printed.contains("\nequal      6 of 6 receipts, "),
            "{printed}"
        );
        assert!(printed.contains("6 receipts, from 0 to 5\n"), "{printed}");
    }
    let mut files: Vec<String> = fs::read_dir(place.join("receipts"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path().display().to_string())
        .collect();
    files.sort();
    // One receipt, with all that was checked of it.
    let one = verified(&place, &[&files[2], "--model", "run"], "cpu", 0);
    for line in [
        "receipts 0 to 1 were not given",
        "signature  by the key ",
        "tokens     12 tokens follow",
    ] {
        assert!(one.contains(line), "{line}: {one}");
    }
    let shown = place.succeeds(&["key", "show", "server.key.pub"]);
    assert!(one.contains(shown.trim()), "{one}");
    // Changed in a byte, of another key, of another model.
    let bytes = fs::read_to_string(&files[1]).expect("a receipt");
    place.write(
        "changed.json",
        &bytes.replacen("\"nonce\":\"1\"", "\"nonce\":\"2\"", 1),
    );
    place.write("cut.json", &bytes[..bytes.len() - 9]);
    place.succeeds(&["key", "new", "other.key"]);
    place.succeeds(&["train", "config.toml", "--set", "seed=8", "--out", "other"]);
    for (arguments, expected) in [
        (
            &["changed.json", "--model", "run"][..],
            "changed.json: the signature is not that of the key ",
        ),
        (
            &["cut.json", "--model", "run"],
            "cut.json: the receipt is damaged: ",
        ),
        (&["none.json", "--model", "run"], "none.json: No such file"),
        (
            &[&files[1], "--model", "run", "--key", "other.key"],
            "the receipt is signed by the key ",
        ),
        (
            &[&files[1], "--model", "other"],
            "the receipt is of another model: its weights_sha256 is ",
        ),
    ] {
        let printed = verified(&place, arguments, "cpu", 1);
        let differs: Vec<&str> = printed
            .lines()
            .filter(|line| line.starts_with("differs "))
            .collect();
        assert!(
            differs.len() == 1 && differs[0].contains(expected),
            "{printed}"
        );
    }
    let mixed = [
        "receipts",
        "cut.json",
        "changed.json",
        "--model",
        "run",
        "--json",
    ];
    let printed = verified(&place, &mixed, "cpu", 1);
    let found: Value = serde_json::from_str(&printed).expect("one line of JSON");
    let mut forms = Forms::new();
    add(&mut forms, "receipts", &found);
    check(&forms);
    let valid = found["receipts"].as_array().expect("receipts").iter();
    assert_eq!(valid.filter(|one| one["valid"] == true).count(), 6);
    assert_eq!(
        (&found["equal"], &found["training"]["step"]),
        (&json!(false), &json!(3))
    );
    // What cannot be checked at all.
    for (arguments, expected) in [
        (&["receipts", "--model", "nowhere"][..], "nowhere"),
        (
            &["tokens", "--model", "run", "--key", "nowhere"],
            "nowhere: ",
        ),
        (
            &["run/checkpoints", "--model", "run"],
            "holds no receipt (*.json)",
        ),
    ] {
        let found = place
            .hlx(&[&["verify", "--receipt"], arguments].concat())
            .output();
        let found = found.expect("the program starts");
        let line = text(&found.stderr);
        assert_eq!(found.status.code(), Some(2), "{line}");
        assert!(
            line.contains(expected) && line.lines().count() == 1,
            "{line}"
        );
    }
}

/// The chain says what the weights were; a checkpoint that was made to fit another one is found.
#[test]
fn answers_of_a_gguf_file_are_recomputed_from_its_blocks() {
    let place = Scratch::new("receipts-gguf");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixture = folder.join("../hlx-gguf/tests/fixtures/models/llama.gguf");
    fs::copy(fixture, place.join("floats.gguf")).expect("copied");
    for (to, file) in [("q8_0", "m.gguf"), ("q4_0", "other.gguf")] {
        place.succeeds(&["quantize", "floats.gguf", "--to", to, "--out", file]);
    }
    place.succeeds(&["import", "m.gguf", "--out", "blocks"]);
    place.succeeds(&["import", "m.gguf", "--widen", "--out", "widened"]);
    {
        let server = Server::start(
            &place,
            &["m.gguf", "--receipts", "receipts", "--device", "cpu"],
        );
        let body = json!({"model": "m", "prompt": "Hello", "max_tokens": 6, "receipt": true});
        let answer = server.ask(&body);
        let model = &answer["receipt"]["body"]["model"];
        assert_eq!(
            (&model["dtype"], &answer["receipt"]["body"]["arithmetic"]),
            (&json!("blocks"), &json!("integer"))
        );
        assert_eq!(model["files"][0]["name"], "gguf/tensors");
    }
    for device in hlx_core::testing::selectors() {
        for model in ["m.gguf", "blocks"] {
            let printed = verified(&place, &["receipts", "--model", model], &device, 0);
            assert!(
                printed.contains("\nequal      6 tokens and their logits"),
                "{printed}"
            );
        }
    }
    let refused = |model: &str| verified(&place, &["receipts", "--model", model], "cpu", 1);
    let printed = refused("widened");
    assert!(
        printed.contains("its dtype is blocks, this model's is f32"),
        "{printed}"
    );
    let printed = refused("other.gguf");
    assert!(
        printed.contains("the receipt is of another model: its weights_sha256 is"),
        "{printed}"
    );
}

#[test]
fn receipts_name_the_audit_of_the_run_that_has_trained_the_weights() {
    let place = trained("receipts-audit");
    place.succeeds(&["train", "config.toml", "--set", "seed=8", "--out", "other"]);
    for run in ["run", "other"] {
        place.succeeds(&["audit", run, "--stretches", "1", "--key", "server.key"]);
    }
    {
        let server = Server::start(
            &place,
            &["run", "--receipts", "receipts", "--audit", "run/audit.json"],
        );
        server.ask(&json!({"model": "run", "prompt": "light", "max_tokens": 4}));
    }
    let of = |audit| ["receipts", "--model", "run", "--audit", audit];
    let printed = verified(&place, &of("run/audit.json"), "cpu", 0);
    assert!(
        printed.contains("audit      of 3 steps, by the key "),
        "{printed}"
    );
    let printed = verified(&place, &of("other/audit.json"), "cpu", 1);
    assert!(
        printed.contains("the receipt names the certificate "),
        "{printed}"
    );
    // A certificate of another run is not served.
    let serve = ["serve", "run", "--port", "0", "--audit", "other/audit.json"];
    let (code, _, stderr) = status(&place, &serve);
    let line = stderr.lines().last().unwrap_or_default();
    let expected = "error: other/audit.json: is not of the training";
    assert!(code == 1 && line.starts_with(expected), "{stderr}");
}

#[test]
fn weights_that_are_not_in_the_chain_are_found() {
    let place = trained("receipts-chain");
    place.succeeds(&["train", "config.toml", "--set", "seed=8", "--out", "other"]);
    {
        let server = Server::start(&place, &["other", "--receipts", "receipts"]);
        server.ask(&json!({"model": "other", "prompt": "light", "max_tokens": 4}));
    }
    verified(&place, &["receipts", "--model", "other"], "cpu", 0);
    // The chain of another run beside the checkpoint.
    fs::copy(
        place.join("run/chain.jsonl"),
        place.join("other/chain.jsonl"),
    )
    .expect("copied");
    let found = place
        .hlx(&["verify", "--receipt", "receipts", "--model", "other"])
        .output();
    let line = text(&found.expect("the program starts").stderr);
    assert!(
        line.contains("chain.jsonl: has no record of step 3"),
        "{line}"
    );
}

#[test]
fn keys_are_shown_and_open_ones_are_refused() {
    let place = Scratch::new("keys");
    let made = place.succeeds(&["key", "new", "a.key"]);
    let shown = place.succeeds(&["key", "show", "a.key"]);
    assert!(
        made.contains(shown.trim()) && shown.trim().len() == 64,
        "{made}{shown}"
    );
    assert_eq!(place.succeeds(&["key", "show", "a.key.pub"]), shown);
    let pem = place.succeeds(&["key", "show", "a.key", "--pem"]);
    assert_eq!(
        pem,
        fs::read_to_string(place.join("a.key.pub")).expect("a key")
    );
    assert!(
        place
            .fails(&["key", "new", "a.key"])
            .ends_with("is there already")
    );
    assert!(
        place
            .fails(&["key", "show", "config.toml"])
            .ends_with("holds no Ed25519 key (PEM)")
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(place.join("a.key"), open).expect("are set");
        let line = place.fails(&["serve", "run", "--key", "a.key"]);
        assert!(
            line.contains("a.key: other users can read this private key"),
            "{line}"
        );
    }
}
