//! Receipts of the server's answers: who gets one, what it says, and whether recomputing on another device agrees.

mod common;

use std::path::PathBuf;

use common::{Server, text_model};
use hlx_core::Device;
use hlx_receipt::{Receipt, Sha256, SigningKey, check_chains};
use hlx_serve::{ReceiptSettings, Settings, guides_to};
use hlx_train::engine::Limits;
use hlx_train::receipts::{Check, Checker, digests_of};
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";

fn key() -> SigningKey {
    SigningKey::of_seed(&[3; 32])
}

fn settings(folder: Option<PathBuf>) -> Settings {
    let key = key();
    Settings {
        receipts: Some(ReceiptSettings { key, folder }),
        ..Settings::default()
    }
}

fn start() -> Server {
    Server::start(Limits::default(), settings(None))
}

/// All checks of a receipt by the model on a device.
fn checks(device: &Device, receipts: &[Receipt]) -> Vec<Vec<Check>> {
    let text = text_model(device);
    let mut digests = digests_of(&text, Vec::new(), None).expect("are computed");
    digests.chat_template_sha256 = receipts[0].body.model.chat_template_sha256;
    let guides = guides_to(&text);
    let checker = Checker::new(&text, &digests, &guides).expect("is made");
    let mut all: Vec<Vec<Check>> = receipts
        .iter()
        .map(|receipt| checker.check_model(&receipt.body))
        .collect();
    // Those that are of another model, or that no request can be of, are not recomputed.
    let open = |at: &usize| all[*at].iter().all(|check| check.ok);
    let open: Vec<usize> = (0..receipts.len()).filter(open).collect();
    let bodies: Vec<_> = open.iter().map(|&at| &receipts[at].body).collect();
    let found = checker
        .recompute(&bodies, &mut |_| {})
        .expect("is computed");
    for (at, found) in open.into_iter().zip(found) {
        all[at].extend(found);
    }
    all
}

fn failures(checks: &[Check]) -> Vec<&str> {
    let failed = checks.iter().filter(|check| !check.ok);
    failed.map(|check| &*check.detail).collect()
}

fn receipt_of(body: &Value) -> Receipt {
    Receipt::of_value(&body["receipt"]).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn completion(extra: &Value) -> Value {
    let mut body = json!({
        "model": "small", "prompt": "the river", "seed": 12, "max_tokens": 24, "receipt": {"nonce": "n-7"},
    });
    for (name, value) in extra.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// Requests of every kind: what is drawn, penalties, stops, grammars, end tokens that count, no token at all.
fn requests() -> Vec<(&'static str, Value)> {
    let chat = |extra: &Value| {
        let mut body = completion(extra);
        body.as_object_mut().expect("an object").remove("prompt");
        body["messages"] = json!([{"role": "user", "content": "light"}]);
        body
    };
    let schema = json!({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"enum": ["x", "y"]}},
        "required": ["b", "a"], "additionalProperties": false});
    vec![
        ("/v1/completions", completion(&json!({}))),
        (
            "/v1/completions",
            completion(&json!({"temperature": 0.0, "max_tokens": 100})),
        ),
        (
            "/v1/completions",
            completion(
                &json!({"temperature": 1.7, "top_p": 0.9, "top_k": 50, "min_p": 0.01,
                "repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": -0.3,
                "logit_bias": {"65": 2.5, "7": -100}, "seed": u64::MAX}),
            ),
        ),
        (
            "/v1/completions",
            completion(&json!({"stop": ["\u{e}", "e", "a"], "max_tokens": 200})),
        ),
        (
            "/v1/completions",
            completion(&json!({"max_tokens": 0, "echo": true, "logprobs": 2})),
        ),
        (
            "/v1/completions",
            completion(&json!({"max_tokens": 4000, "ignore_eos": true})),
        ),
        (
            "/v1/chat/completions",
            chat(&json!({"logprobs": true, "top_logprobs": 3})),
        ),
        (
            "/v1/chat/completions",
            chat(
                &json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
                "max_tokens": 60}),
            ),
        ),
        (
            "/v1/messages",
            json!({"model": "small", "max_tokens": 20, "seed": 5, "receipt": true,
                "messages": [{"role": "user", "content": "light"}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "small", "max_output_tokens": 20, "seed": 5, "receipt": true, "input": "light"}),
        ),
    ]
}

#[test]
fn receipts_of_every_kind_are_recomputed_on_every_device() {
    let server = start();
    let mut receipts = Vec::new();
    for (path, body) in requests() {
        let answer = server.answer(path, &body);
        let receipt = receipt_of(&answer);
        assert_eq!(receipt.check_signature(), Ok(()), "{path}");
        assert_eq!(
            receipt.body.request_sha256,
            Sha256::of(body.to_string().as_bytes())
        );
        assert_eq!(
            (&*receipt.information.route, &*receipt.information.model),
            (path, "small")
        );
        let nonce = body["receipt"]["nonce"].as_str();
        assert_eq!(receipt.body.nonce.as_deref(), nonce);
        assert_eq!(
            answer["logits_sha256"],
            Value::Null,
            "nobody has asked for it"
        );
        receipts.push(receipt);
    }
    // The same text that the client has.
    let answer = server.answer(
        "/v1/completions",
        &completion(&json!({"logit_digests": true})),
    );
    let receipt = receipt_of(&answer);
    let text = answer["choices"][0]["text"].as_str().expect("a text");
    assert_eq!(receipt.body.response_sha256, Sha256::of(text.as_bytes()));
    let digest = receipt.body.logits_sha256.to_string();
    assert_eq!(answer["choices"][0]["logits_sha256"], digest);
    let body = &receipt.body;
    assert_eq!(body.token_ids.len(), body.step_logits_sha256.len());
    receipts.push(receipt);
    let kinds: Vec<_> = receipts.iter().map(|one| one.body.finish_reason).collect();
    assert!(
        kinds.iter().any(|kind| *kind != kinds[0]),
        "answers end in both ways"
    );
    let found = check_chains(&receipts).expect("are checked");
    assert_eq!(
        (found.len(), found[0].range.1),
        (1, receipts.len() as u64 - 1)
    );
    assert!(found[0].faults.is_empty());
    for device in hlx_core::testing::own_devices() {
        for (receipt, checks) in receipts.iter().zip(checks(&device, &receipts)) {
            assert_eq!(checks.len(), 5);
            assert!(failures(&checks).is_empty(), "{checks:?} of {receipt:?}");
        }
    }
}

#[test]
fn a_body_is_the_same_on_every_device_and_beside_others() {
    let requests = requests();
    let bodies = |device: &Device, limits: Limits| -> Vec<Sha256> {
        let server = Server::start_on(device, limits, settings(None));
        let digest = |(path, body): &(&str, Value)| {
            let receipt = receipt_of(&server.answer(path, body));
            receipt.body.sha256().expect("is written")
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = requests
                .iter()
                .map(|one| scope.spawn(move || digest(one)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("ends"))
                .collect()
        })
    };
    let alone = Limits {
        places: 1,
        reuses_prefixes: false,
        ..Limits::default()
    };
    let expected = bodies(&hlx_core::testing::cpu().expect("opens"), alone);
    for device in hlx_core::testing::own_devices() {
        assert_eq!(
            bodies(&device, Limits::default()),
            expected,
            "{}",
            device.info()
        );
    }
}

#[test]
fn what_is_changed_is_named_by_its_step_and_its_token() {
    let server = start();
    let receipt =
        receipt_of(&server.answer("/v1/completions", &completion(&json!({"max_tokens": 9}))));
    let device = hlx_core::testing::cpu().expect("opens");
    let found = |change: &dyn Fn(&mut Receipt)| {
        let mut changed = receipt.clone();
        change(&mut changed);
        // Whoever has the key can sign what is not so.
        let Receipt {
            body,
            link,
            information,
            ..
        } = changed;
        let changed = Receipt::sign(&key(), body, link, information).expect("is signed");
        let verdict = server.answer(
            "/v1/receipts/verify",
            &serde_json::to_value(&changed).expect("JSON"),
        );
        assert_eq!(verdict["valid"], false);
        let message = verdict["message"].as_str().expect("a line").to_owned();
        let checks = checks(&device, &[changed]);
        assert!(
            failures(&checks[0]).contains(&&*message),
            "{message}: {checks:?}"
        );
        message
    };
    let other = |id: u32| if id == 65 { 66 } else { 65 };
    let token = found(&|one| one.body.token_ids[5] = other(one.body.token_ids[5]));
    assert!(
        token.contains("the logits differ at step 6, token "),
        "{token}"
    );
    let token = found(&|one| one.body.token_ids[8] = other(one.body.token_ids[8]));
    assert!(
        token.contains("another token follows from logits, seed and parameters at step 8, token "),
        "{token}"
    );
    let seed = found(&|one| one.body.sampling.seed.0 += 1);
    assert!(seed.contains("another token follows"), "{seed}");
    let logits = found(&|one| one.body.step_logits_sha256[3] = [1; 8].into());
    assert!(
        logits.starts_with("the logits differ at step 3, token "),
        "{logits}"
    );
    assert!(
        logits.contains("recorded 0101010101010101, recomputed "),
        "{logits}"
    );
    let all = found(&|one| one.body.logits_sha256 = Sha256::of(b""));
    assert!(
        all.starts_with("the digest over all logits differs"),
        "{all}"
    );
    let text = found(&|one| one.body.response_sha256 = Sha256::of(b""));
    assert!(text.starts_with("the text differs"), "{text}");
    let cut = found(&|one| {
        one.body.token_ids.pop();
        one.body.step_logits_sha256.pop();
    });
    assert!(
        cut.starts_with("the digest over all logits differs"),
        "{cut}"
    );
    let longer = found(&|one| one.body.sampling.max_tokens.0 += 1);
    assert_eq!(longer, "the answer goes on behind its 9 tokens");
    let prompt = found(&|one| one.body.prompt_token_ids[0] += 1);
    assert!(prompt.contains("the logits differ at step 0"), "{prompt}");
    let model = found(&|one| one.body.model.weights_sha256 = Sha256::of(b""));
    assert!(
        model.starts_with("the receipt is of another model: its weights_sha256 is e3b0c442"),
        "{model}"
    );
    let arithmetic = found(&|one| one.body.arithmetic = "integer".to_owned());
    assert!(
        arithmetic.ends_with("its arithmetic is integer, this model's is portable"),
        "{arithmetic}"
    );
    let law = found(&|one| one.body.specification += 1);
    assert!(
        law.starts_with("the receipt follows specification "),
        "{law}"
    );
    let outside = found(&|one| one.body.token_ids[0] = 70_000);
    assert_eq!(
        outside,
        "the token 70000 is outside of the vocabulary of 256"
    );
    let long = found(&|one| one.body.prompt_token_ids = vec![65; 300]);
    assert!(long.ends_with("and the model has 256 positions"), "{long}");
    let bias = found(&|one| one.body.sampling.temperature = -1.0);
    assert!(bias.starts_with("temperature: "), "{bias}");
}

#[test]
fn the_server_shows_its_key_and_recomputes_receipts() {
    let server = start();
    let shown = server.get("/v1/receipts/key").json();
    assert_eq!(shown["public_key"], key().public().to_string());
    assert!(
        shown["pem"]
            .as_str()
            .expect("a text")
            .starts_with("-----BEGIN PUBLIC KEY-----\n")
    );
    let answer = server.answer("/v1/completions", &completion(&json!({})));
    for body in [
        answer["receipt"].clone(),
        json!({"receipt": answer["receipt"]}),
    ] {
        let verdict = server.answer("/v1/receipts/verify", &body);
        let names: Vec<&str> = verdict["checks"]
            .as_array()
            .expect("checks")
            .iter()
            .filter_map(|check| check["name"].as_str())
            .collect();
        let expected = [
            "signature",
            "specification",
            "model",
            "request",
            "logits",
            "tokens",
        ];
        assert_eq!(
            (&verdict["valid"], &names[..]),
            (&json!(true), &expected[..])
        );
        assert_eq!(
            verdict["message"],
            "recomputed: 24 tokens and their logits are those of this model"
        );
    }
    // Every member of a receipt is signed.
    for path in [
        "/body/nonce",
        "/information/created",
        "/link/chain",
        "/body/sampling/seed",
    ] {
        let mut changed = answer["receipt"].clone();
        *changed.pointer_mut(path).expect("is there") = match path {
            "/information/created" | "/body/sampling/seed" => json!(1),
            "/link/chain" => json!("0".repeat(32)),
            _ => json!("other"),
        };
        let verdict = server.answer("/v1/receipts/verify", &changed);
        let message = verdict["message"].as_str().expect("a line");
        assert!(
            message.starts_with("the signature is not that of the key "),
            "{message}"
        );
    }
    for (body, expected) in [
        (json!({}), "the receipt is damaged: missing field `type`"),
        (
            json!({"type": "hlx.receipt", "version": 9}),
            "the receipt has version 9, and this HLX knows version 1",
        ),
    ] {
        let verdict = server.answer("/v1/receipts/verify", &body);
        let message = verdict["message"].as_str().expect("a line");
        assert!(
            verdict["valid"] == false && message.starts_with(expected),
            "{message}"
        );
    }
    // The fingerprint has the model's digest and the specification.
    let fingerprint = answer["system_fingerprint"].as_str().expect("a text");
    let weights = answer["receipt"]["body"]["model"]["weights_sha256"]
        .as_str()
        .expect("a digest");
    assert!(fingerprint.ends_with(weights) && fingerprint.starts_with("hlx-specification-"));
}

#[test]
fn without_receipts_all_is_refused() {
    let server = Server::start(Limits::default(), Settings::default());
    assert_eq!(server.get("/v1/receipts/key").status, 404);
    assert_eq!(server.post("/v1/receipts/verify", &json!({})).status, 404);
    let (status, param, message) = server.refused("/v1/completions", &completion(&json!({})));
    assert_eq!(
        (status, &*param, &*message),
        (400, "receipt", "receipt: this server gives no receipts")
    );
    let plain = server.answer("/v1/completions", &completion(&json!({"receipt": false})));
    assert_eq!(plain["receipt"], Value::Null);
}

#[test]
fn the_header_wants_a_receipt_and_its_nonce() {
    let server = start();
    let ask = |path: &str, header: &str, body: &Value| {
        let headers = format!("{JSON}x-hlx-receipt: {header}\r\n");
        server.post_bytes(path, &headers, body.to_string().as_bytes())
    };
    let plain = json!({"model": "small", "prompt": "light", "max_tokens": 3});
    let nonce = |header: &str, body: &Value| {
        let answer = ask("/v1/completions", header, body).json();
        (!answer["receipt"].is_null()).then(|| receipt_of(&answer).body.nonce)
    };
    assert_eq!(nonce("1", &plain), Some(None));
    assert_eq!(nonce("abc-9", &plain), Some(Some("abc-9".to_owned())));
    assert_eq!(nonce("0", &plain), None);
    let both = completion(&json!({"receipt": {"nonce": "field"}}));
    assert_eq!(nonce("header", &both), Some(Some("field".to_owned())));
    let embedding = ask(
        "/v1/embeddings",
        "1",
        &json!({"model": "small", "input": "light"}),
    );
    assert_eq!(embedding.status, 400);
    assert_eq!(
        embedding.json()["error"]["message"],
        "x-hlx-receipt: /v1/embeddings gives no receipts"
    );
    for (receipt, expected) in [
        (
            json!("yes"),
            "receipt: is a string, expected true, false or an object with a nonce",
        ),
        (
            json!({"nonce": ""}),
            "receipt.nonce: has 0 bytes, expected 1 to 256",
        ),
        (
            json!({"nonce": "x".repeat(257)}),
            "receipt.nonce: has 257 bytes, expected 1 to 256",
        ),
        (
            json!({"nonce": 7}),
            "receipt.nonce: is 7, expected a string",
        ),
        (json!({"none": "7"}), "receipt.none: is not known here"),
    ] {
        let (status, _, message) =
            server.refused("/v1/completions", &completion(&json!({"receipt": receipt})));
        assert_eq!((status, &*message), (400, expected));
    }
}

#[test]
fn a_stream_ends_with_the_receipt_of_the_whole_answer() {
    let server = start();
    for (path, mut body) in requests() {
        let whole = receipt_of(&server.answer(path, &body));
        body["stream"] = json!(true);
        let last = match path {
            "/v1/messages" | "/v1/responses" => server.events(path, &body).pop().expect("events"),
            _ => server.stream(path, &body).pop().expect("chunks"),
        };
        let holder = if path == "/v1/responses" {
            &last["response"]
        } else {
            &last
        };
        let streamed = receipt_of(holder);
        assert_eq!(
            streamed.body.request_sha256,
            Sha256::of(body.to_string().as_bytes())
        );
        let mut alike = streamed.body;
        alike.request_sha256 = whole.body.request_sha256;
        assert_eq!(alike, whole.body, "{path}");
    }
    let mut body = completion(&json!({"stream": true, "stream_options": {"include_usage": true}}));
    let chunks = server.stream("/v1/completions", &body);
    let [.., usage, last] = &chunks[..] else {
        panic!("{chunks:?}");
    };
    assert!(usage["usage"].is_object() && last["receipt"].is_object());
    body["receipt"] = json!(false);
    assert!(
        server
            .stream("/v1/completions", &body)
            .iter()
            .all(|one| one["receipt"].is_null())
    );
}

#[test]
fn several_answers_have_several_receipts() {
    let server = start();
    let body = completion(&json!({"prompt": ["the river", "light"], "n": 2}));
    let answer = server.answer("/v1/completions", &body);
    let receipts = answer["receipts"].as_array().expect("receipts");
    let receipts: Vec<Receipt> = receipts
        .iter()
        .map(|one| Receipt::of_value(one).expect("a receipt"))
        .collect();
    assert_eq!(receipts.len(), 4);
    for (at, receipt) in receipts.iter().enumerate() {
        let text = answer["choices"][at]["text"].as_str().expect("a text");
        assert_eq!(
            receipt.body.response_sha256,
            Sha256::of(text.as_bytes()),
            "{at}"
        );
        assert_eq!(receipt.body.sampling.index, at as u32 % 2);
    }
    let device = hlx_core::testing::cpu().expect("opens");
    let all = checks(&device, &receipts);
    assert!(
        all.iter().all(|checks| failures(checks).is_empty()),
        "{all:?}"
    );
    assert!(
        check_chains(&receipts).expect("are checked")[0]
            .faults
            .is_empty()
    );
}

#[test]
fn a_folder_gets_the_receipt_of_every_answer() {
    let folder = std::env::temp_dir().join(format!("hlx-serve-receipts-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("is made");
    let server = Server::start(Limits::default(), settings(Some(folder.clone())));
    let shown = server.answer("/v1/completions", &completion(&json!({})));
    let plain = json!({"model": "small", "prompt": "light", "n": 3, "max_tokens": 5});
    let hidden = server.answer("/v1/completions", &plain);
    assert_eq!(
        (&hidden["receipt"], &hidden["receipts"]),
        (&Value::Null, &Value::Null)
    );
    let streamed = json!({"model": "small", "prompt": "light", "max_tokens": 5, "stream": true});
    server.stream("/v1/completions", &streamed);
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .expect("is read")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    let read =
        |path: &PathBuf| Receipt::parse(&std::fs::read(path).expect("is read")).expect("a receipt");
    let receipts: Vec<Receipt> = names.iter().map(read).collect();
    assert_eq!(receipts.len(), 5);
    assert!(
        names[0].to_string_lossy().ends_with("-000000000.json"),
        "{names:?}"
    );
    assert_eq!(receipts[0], receipt_of(&shown));
    assert!(
        check_chains(&receipts).expect("are checked")[0]
            .faults
            .is_empty()
    );
    // Without the folder an answer fails, and the chain has no gap.
    std::fs::remove_dir_all(&folder).expect("is removed");
    let failed = server.post("/v1/completions", &plain);
    assert_eq!(failed.status, 500);
    let message = failed.json()["error"]["message"].to_string();
    assert!(
        message.contains("the receipt: ") && message.contains(".json: "),
        "{message}"
    );
    std::fs::create_dir_all(&folder).expect("is made");
    let next = receipt_of(&server.answer("/v1/completions", &completion(&json!({}))));
    assert_eq!(next.link.sequence.0, 5);
    let _ = std::fs::remove_dir_all(&folder);
}
