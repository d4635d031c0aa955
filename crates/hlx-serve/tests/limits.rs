//! Bodies, keys, queues, clients that leave, and the end of a server.

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::Server;
use hlx_serve::Settings;
use hlx_train::engine::Limits;
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn bodies_that_are_none_are_refused() {
    let settings = Settings {
        body_limit: 5000,
        ..Settings::default()
    };
    let server = Server::start(Limits::default(), settings);
    let path = "/v1/completions";
    for (headers, body, status) in [
        (JSON, &b"{"[..], 400),
        (JSON, b"[]", 400),
        (JSON, b"{\"model\": \"\xff\"}", 400),
        (JSON, b"", 400),
        ("content-type: text/plain\r\n", b"{}", 415),
        ("", b"{}", 415),
        (JSON, &[b' '; 5001], 413),
    ] {
        let reply = server.post_bytes(path, headers, body);
        assert_eq!(reply.status, status, "{}", reply.body);
        assert!(reply.json()["error"]["message"].is_string());
    }
    // Chunks without an end that is said before.
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(4096));
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\n{JSON}transfer-encoding: chunked\r\n\r\n{}",
        chunk.repeat(3)
    );
    assert_eq!(server.send(request.as_bytes()).status, 413);
    assert_eq!(server.get("/health").json()["status"], "ok");
}

#[test]
fn keys_and_origins_are_checked() {
    let settings = Settings {
        api_keys: vec!["first".to_owned(), "second".to_owned()],
        cors: vec!["https://example.org".to_owned()],
        ..Settings::default()
    };
    let server = Server::start(Limits::default(), settings);
    let ask = |header: &str| {
        let request =
            format!("GET /v1/models HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\n{header}\r\n");
        server.send(request.as_bytes())
    };
    for (header, status) in [
        ("", 401),
        ("authorization: Bearer third\r\n", 401),
        ("authorization: first\r\n", 401),
        ("authorization: Bearer first\r\n", 200),
        ("authorization: bearer second\r\n", 200),
        ("x-api-key: second\r\n", 200),
    ] {
        assert_eq!(ask(header).status, status, "{header}");
    }
    assert!(ask("").head.contains("www-authenticate: bearer"));
    assert_eq!(server.get("/health").status, 200);
    let allowed = |origin: &str| {
        let reply = ask(&format!("x-api-key: first\r\norigin: {origin}\r\n"));
        reply
            .head
            .contains("access-control-allow-origin: https://example.org")
    };
    assert!(allowed("https://example.org") && !allowed("https://example.com"));
    let wrong = Settings {
        cors: vec!["example".to_owned()],
        ..Settings::default()
    };
    assert!(hlx_serve::router(Vec::new(), &wrong).is_err());
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").body;
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{model=\"small\"}}")));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{name} in {text}"))
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_full_queue_is_said_and_nothing_of_it_is_taken() {
    let limits = Limits {
        places: 1,
        queue: 3,
        chunk: 1,
        ..Limits::default()
    };
    let server = Server::start(limits, Settings::default());
    let path = "/v1/completions";
    let ask = |n: usize| json!({"model": "small", "prompt": "a", "n": n, "max_tokens": 2});
    // More than may ever wait.
    let (status, param, message) = server.refused(path, &ask(4));
    assert_eq!((status, &param[..]), (400, "n"), "{message}");
    let mut busy = server.begin(
        path,
        &json!({"model": "small", "prompt": "a", "n": 3, "max_tokens": 150, "ignore_eos": true, "stream": true}),
    );
    wait_for("two answers wait", || {
        metric(&server, "hlx_requests_waiting") == 2
    });
    let reply = server.post(path, &ask(2));
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (429, &json!("queue_full"))
    );
    assert!(reply.head.contains("retry-after: 1"), "{}", reply.head);
    let mut rest = String::new();
    busy.read_to_string(&mut rest).expect("it is whole");
    assert_eq!(
        rest.matches("\"finish_reason\":\"length\"").count(),
        3,
        "{rest}"
    );
    server.answer(path, &ask(3));
}

/// Connections that say nothing, and readers that do not read, stop nobody.
#[test]
fn a_thousand_connections_that_say_nothing_stop_nobody() {
    let server = Server::start(Limits::default(), Settings::default());
    let silent: Vec<_> = (0..1000).map_while(|_| server.try_connect()).collect();
    assert!(silent.len() > 200, "{} connections", silent.len());
    let body = json!({"model": "small", "prompt": "a", "max_tokens": 100, "ignore_eos": true, "stream": true, "n": 8});
    let slow: Vec<_> = (0..8)
        .map(|_| server.begin("/v1/completions", &body))
        .collect();
    let found = server.answer(
        "/v1/completions",
        &json!({"model": "small", "prompt": "the", "max_tokens": 5}),
    );
    assert!(found["choices"][0]["text"].is_string());
    wait_for("the slow ones are answered, too", || {
        metric(&server, "hlx_requests_answered_total") == 65
    });
    drop((silent, slow));
}

/// A client that leaves ends its answers, those that stream and those that don't.
#[test]
fn a_client_that_leaves_ends_its_answer() {
    let limits = Limits {
        places: 1,
        chunk: 1,
        ..Limits::default()
    };
    let server = Server::start(limits, Settings::default());
    for streams in [true, false] {
        // Many answers one after the other: they outlast the client.
        let body = json!({
            "model": "small", "prompt": "a", "max_tokens": 150, "ignore_eos": true, "stream": streams, "n": 100,
        });
        let before = metric(&server, "hlx_requests_cancelled_total");
        let mut stream = server.begin("/v1/completions", &body);
        if streams {
            stream.read_exact(&mut [0; 64]).expect("it has begun");
        }
        wait_for("the answer grows", || {
            metric(&server, "hlx_requests_running") == 1
        });
        drop(stream);
        wait_for("it is cancelled", || {
            metric(&server, "hlx_requests_cancelled_total") > before
        });
        wait_for("nothing runs", || {
            metric(&server, "hlx_requests_running") + metric(&server, "hlx_requests_waiting") == 0
        });
    }
}

/// What was taken before the end is answered.
#[test]
fn a_server_ends_with_its_answers() {
    let server = Server::start(Limits::default(), Settings::default());
    let body = json!({"model": "small", "prompt": "a", "max_tokens": 150, "ignore_eos": true, "stream": true});
    let mut stream = server.begin("/v1/completions", &body);
    let mut begun = [0; 64];
    stream.read_exact(&mut begun).expect("it has begun");
    drop(server);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("it is whole");
    assert!(
        rest.contains("\"finish_reason\":\"length\"") && rest.contains("[DONE]"),
        "{rest}"
    );
}

/// Requests of many clients at once are answered as each is alone.
#[test]
fn a_flood_of_clients_gets_what_each_gets_alone() {
    let flooded = Limits {
        places: 5,
        chunk: 7,
        ..Limits::default()
    };
    let alone = Limits {
        places: 1,
        reuses_prefixes: false,
        ..Limits::default()
    };
    let bodies: Vec<(&str, Value)> = (0..48)
        .map(|at| {
            let text = ["the river", "the river of", "light", "l"][at % 4].repeat(1 + at % 3);
            let more = json!({
                "model": "small", "seed": at % 5, "temperature": ([0.0, 1.0, 1.5][at % 3]), "max_tokens": 5 + at * 7 % 60,
                "logit_digests": true, "presence_penalty": ([0.0, 0.7][at % 2]), "n": 1 + at % 2,
            });
            let mut body = more;
            match at % 2 {
                0 => {
                    body["prompt"] = json!(text);
                    body["logprobs"] = json!(at % 4);
                    body["echo"] = json!(at % 4 == 0);
                    ("/v1/completions", body)
                }
                _ => {
                    body["messages"] = json!([{"role": "user", "content": text}]);
                    body["logprobs"] = json!(at % 3 == 0);
                    body["stop"] = json!(["e", "\n\n"]);
                    ("/v1/chat/completions", body)
                }
            }
        })
        .collect();
    let server = Server::start(alone, Settings::default());
    let expected: Vec<Value> = bodies
        .iter()
        .map(|(path, body)| server.answer(path, body))
        .collect();
    drop(server);
    let server = Server::start(flooded, Settings::default());
    let found: Vec<Value> = std::thread::scope(|scope| {
        let asked = bodies
            .iter()
            .map(|(path, body)| scope.spawn(|| server.answer(path, body)));
        let asked: Vec<_> = asked.collect();
        asked
            .into_iter()
            .map(|one| one.join().expect("is answered"))
            .collect()
    });
    for ((found, expected), body) in found.iter().zip(&expected).zip(&bodies) {
        assert_eq!(found["choices"], expected["choices"], "{body:?}");
    }
    assert!(metric(&server, "hlx_reused_tokens_total") > 0);
    assert!(metric(&server, "hlx_step_tokens_total") > metric(&server, "hlx_steps_total"));
}
