//! Bytes that are no requests, clients that are silent, and schemas without an end.

mod common;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use common::{Reply, Server};
use hlx_serve::Settings;
use hlx_train::engine::Limits;
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";
const ROUTES: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
];

/// The message of an error, which has the form of the route's interface.
fn message(route: &str, reply: &Reply) -> String {
    let body = reply.json();
    match route.starts_with("/v1/messages") {
        true => assert_eq!(body["type"], "error", "{reply:?}"),
        false => assert!(body["error"].get("param").is_some(), "{reply:?}"),
    }
    assert!(body["error"]["type"].is_string(), "{reply:?}");
    let text = body["error"]["message"].as_str().expect("a message");
    assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
    text.to_owned()
}

#[test]
fn every_interface_says_what_is_wrong_in_its_form() {
    let server = Server::start(Limits::default(), Settings::default());
    let nested = "[".repeat(200_000);
    let deep = format!("{{\"model\": {}1{}}}", "[".repeat(120), "]".repeat(120));
    let cases: [(&[u8], u16, &str); 16] = [
        (b"", 400, "no JSON"),
        (b"{", 400, "no JSON"),
        (b"{}", 400, "model: is missing"),
        (b"null", 400, "expected an object"),
        (b"{\"model\": \"\xff\xfe\"}", 400, "no JSON"),
        (b"{\"model\": \"\\ud800\"}", 400, "no JSON"),
        (b"{\"model\": \"a\x01\"}", 400, "no JSON"),
        (b"{\"model\": NaN}", 400, "no JSON"),
        (b"{\"model\": 1e400}", 400, "no JSON"),
        (
            b"{\"model\": -0.5}",
            400,
            "model: is -0.5, expected a string",
        ),
        (
            b"{\"model\": \"small\", \"model\": \"plain\"}",
            400,
            "the key \"model\" is there twice",
        ),
        (
            b"{\"model\": {\"a\": 1, \"a\": 1}}",
            400,
            "the key \"a\" is there twice",
        ),
        (b"{\"model\": \"small\"} {}", 400, "no JSON"),
        (b"{\"model\": \"none\"", 400, "no JSON"),
        (nested.as_bytes(), 400, "no JSON"),
        (
            deep.as_bytes(),
            400,
            "model: is an array, expected a string",
        ),
    ];
    for route in ROUTES {
        for (body, status, expected) in &cases {
            let reply = server.post_bytes(route, JSON, body);
            let text = message(route, &reply);
            assert_eq!(reply.status, *status, "{route}: {text}");
            assert!(
                text.contains(expected),
                "{route}: {text}, expected {expected}"
            );
        }
        let reply = server.post_bytes(route, "content-type: text/html\r\n", b"{}");
        assert_eq!(
            (reply.status, message(route, &reply).is_empty()),
            (415, false)
        );
        let reply = server.post(
            route,
            &json!({"model": "none", "prompt": "a", "input": "a", "max_tokens": 1,
            "messages": [{"role": "user", "content": "a"}]}),
        );
        // Each route has names of its own: the first that it doesn't know, or the model.
        assert!([400, 404].contains(&reply.status), "{reply:?}");
        message(route, &reply);
    }
    // What is not here is named.
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let image = json!([{"type": "image_url", "image_url": {"url": "data:"}}]);
    let picture = json!([{"type": "image", "source": {}}]);
    for (route, body, name) in [
        (
            ROUTES[0],
            json!({"messages": user(image)}),
            "messages[0].content[0].type",
        ),
        (ROUTES[0], json!({"messages": []}), "messages"),
        (
            ROUTES[0],
            json!({"messages": user(json!("a")), "max_tokens": 1.5}),
            "max_tokens",
        ),
        (
            ROUTES[0],
            json!({"messages": user(json!("a")), "max_tokens": -1}),
            "max_tokens",
        ),
        (
            ROUTES[0],
            json!({"messages": user(json!("a")), "functions": []}),
            "functions",
        ),
        (
            ROUTES[0],
            json!({"messages": user(json!("a")), "verbosity": "low"}),
            "verbosity",
        ),
        (ROUTES[1], json!({"prompt": ""}), "prompt"),
        (ROUTES[1], json!({"prompt": []}), "prompt"),
        (ROUTES[1], json!({"prompt": [-1]}), "prompt[0]"),
        (ROUTES[1], json!({"prompt": [1.0]}), "prompt[0]"),
        (ROUTES[2], json!({"input": [""]}), "input[0]"),
        (
            ROUTES[2],
            json!({"input": "a", "dimensions": 3}),
            "dimensions",
        ),
        (
            ROUTES[3],
            json!({"input": "a", "previous_response_id": "x"}),
            "previous_response_id",
        ),
        (
            ROUTES[3],
            json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
            "input[0].content[0].type",
        ),
        (
            ROUTES[4],
            json!({"messages": user(json!("a"))}),
            "max_tokens",
        ),
        (
            ROUTES[4],
            json!({"messages": user(picture), "max_tokens": 1}),
            "messages[0].content[0].type",
        ),
        (
            ROUTES[5],
            json!({"messages": user(json!("a")), "temperature": 0}),
            "temperature",
        ),
    ] {
        let mut body = body;
        body["model"] = json!("small");
        let reply = server.post(route, &body);
        assert_eq!(reply.status, 400, "{reply:?}");
        let text = message(route, &reply);
        assert!(text.starts_with(name), "{text}, expected {name}");
    }
}

/// A body as large as it may be is read, and refused for its tokens.
#[test]
fn a_body_of_ten_megabytes_is_answered() {
    let server = Server::start(Limits::default(), Settings::default());
    let text = "light ".repeat((10 << 20) / 6 - 100);
    let chat = json!({"model": "small", "messages": [{"role": "user", "content": text}]});
    let reply = server.post("/v1/chat/completions", &chat);
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    let ids = vec![1; 5_000_000];
    let reply = server.post("/v1/completions", &json!({"model": "small", "prompt": ids}));
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    let reply = server.post_bytes("/v1/messages", JSON, &vec![b' '; (10 << 20) + 1]);
    assert_eq!(
        (reply.status, &reply.json()["error"]["type"]),
        (413, &json!("request_too_large"))
    );
}

fn impatient() -> Server {
    let settings = Settings {
        patience: Duration::from_millis(300),
        ..Settings::default()
    };
    Server::start(Limits::default(), settings)
}

#[test]
fn a_client_that_does_not_end_its_request_is_left() {
    let server = impatient();
    let mut rest = Vec::new();
    for head in ["", "POST /v1/comp", "GET /health HTTP/1.1\r\nhost: hlx\r\n"] {
        let mut stream = server.connect();
        stream.write_all(head.as_bytes()).expect("sends");
        stream
            .read_to_end(&mut rest)
            .expect("the server closes the connection");
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    }
    for (route, kind) in [
        ("/v1/completions", "invalid_request_error"),
        ("/v1/messages", "invalid_request_error"),
    ] {
        let reply = server.send(
            format!("POST {route} HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\n{JSON}content-length: 100\r\n\r\n{{\"a\"")
                .as_bytes(),
        );
        assert_eq!(reply.status, 408, "{reply:?}");
        assert_eq!(message(route, &reply), "the body takes too long");
        assert_eq!(reply.json()["error"]["type"], kind);
    }
    // Large bodies that come slowly leave room for small ones.
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = server.connect();
            let head = format!("POST /v1/completions HTTP/1.1\r\nhost: hlx\r\n{JSON}content-length: 10000000\r\n\r\n{{");
            stream.write_all(head.as_bytes()).expect("sends");
            stream
        })
        .collect();
    server.answer(
        "/v1/completions",
        &json!({"model": "small", "prompt": "a", "max_tokens": 1}),
    );
    drop(slow);
}

/// A client that reads nothing of a long answer ends it.
#[test]
fn a_client_that_reads_nothing_ends_its_answer() {
    let server = impatient();
    let body = json!({
        "model": "small", "prompt": "a", "n": 128, "max_tokens": 200, "ignore_eos": true, "stream": true,
        "logprobs": 100, "temperature": 1, "seed": 1,
    });
    let silent = server.begin("/v1/completions", &body);
    let begun = Instant::now();
    loop {
        let text = server.get("/metrics").body;
        let cancelled = text.lines().find_map(|line| {
            line.strip_prefix("hlx_requests_cancelled_total{model=\"small\"} ")?
                .parse::<u64>()
                .ok()
        });
        if cancelled.is_some_and(|n| n > 0) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(silent);
    server.answer(
        "/v1/completions",
        &json!({"model": "small", "prompt": "a", "max_tokens": 1}),
    );
}

/// Schemas that refer to themselves are followed; those that are too large are refused before the answer.
#[test]
fn schemas_without_an_end_are_bounded() {
    let server = Server::start(Limits::default(), Settings::default());
    let path = "/v1/chat/completions";
    let ask = |schema: Value| {
        json!({
            "model": "small", "messages": [{"role": "user", "content": "a"}], "seed": 1, "max_tokens": 30,
            "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}},
        })
    };
    let tree = json!({
        "type": "object", "properties": {"all": {"type": "array", "items": {"$ref": "#"}}}, "required": ["all"],
        "additionalProperties": false,
    });
    let found = server.answer(path, &ask(tree));
    let text = found["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text");
    assert!(text.trim_start().starts_with('{'), "{text}");
    // Those that never end, and one with a thousand million repetitions, are cut off or refused.
    let endless = json!({"type": "array", "minItems": 1, "items": {"$ref": "#"}});
    let long = json!({"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"});
    for schema in [endless, long] {
        let found = server.post(path, &ask(schema));
        assert!([200, 400].contains(&found.status), "{found:?}");
    }
    let wide: serde_json::Map<String, Value> = (0..20_000)
        .map(|n| (format!("property_{n}"), json!({"type": "string"})))
        .collect();
    for schema in [
        json!({"type": "object", "properties": wide}),
        json!({"type": "string", "pattern": "(a|b)*["}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": "http://example.org/schema.json"}),
        json!({"type": "string", "minLength": 2, "maxLength": 1}),
        json!(3),
    ] {
        let reply = server.post(path, &ask(schema.clone()));
        assert_eq!(reply.status, 400, "{schema:.200}: {reply:?}");
        let text = message(path, &reply);
        assert!(
            text.starts_with("response_format.json_schema.schema: "),
            "{text}"
        );
    }
}
