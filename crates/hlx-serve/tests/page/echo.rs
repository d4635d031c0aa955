//! A server that has the page, and answers each message with that message, in pieces: what a hostile model might write.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};

/// A receipt, as far as the page knows one.
pub fn receipt() -> Value {
    json!({"version": 1, "body": {"seed": "7", "output_tokens": [1, 2, 3]}, "signature": "<b>c2ln</b>"})
}

type Asked = Arc<Mutex<Vec<Value>>>;

/// A server that ends with its value.
pub struct Echo {
    pub address: SocketAddr,
    asked: Asked,
    _runtime: tokio::runtime::Runtime,
}

impl Echo {
    pub fn start() -> Self {
        let asked = Asked::default();
        let models = json!({"object": "list", "data": [{"id": "echo", "max_model_len": 4096}]});
        let verdict = json!({
            "valid": false,
            "checks": [
                {"name": "signature", "ok": true, "detail": ""},
                {"name": "logits", "ok": false, "detail": "step 2"},
            ],
            "message": "The receipt is of another model.",
        });
        let router = Router::new()
            .merge(hlx_serve::page())
            .route("/v1/models", get(move || async move { object(&models) }))
            .route(
                "/v1/receipts/key",
                get(|| async { object(&json!({"key": "k"})) }),
            )
            .route(
                "/v1/receipts/verify",
                post(move |_: Bytes| async move { object(&verdict) }),
            )
            .route("/v1/chat/completions", post(answer))
            .with_state(asked.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)));
        let listener = listener.expect("listens");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            asked,
            _runtime: runtime,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The bodies of the requests so far.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("no test panics with it").clone()
    }
}

fn object(value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}

/// Answers with the last message. One that begins with `busy` is refused for the first time; one with `slow` takes a
/// long time; one with `gone` breaks off in the middle.
async fn answer(State(asked): State<Asked>, bytes: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&bytes).expect("the page sends JSON");
    let said = body["messages"].as_array().and_then(|all| all.last());
    let text = said
        .and_then(|last| last["content"].as_str())
        .unwrap_or_default()
        .to_owned();
    let before = {
        let mut asked = asked.lock().expect("no test panics with it");
        let same = asked
            .iter()
            .filter(|other| other["messages"] == body["messages"]);
        let before = same.count();
        asked.push(body.clone());
        before
    };
    if text.starts_with("busy") && before == 0 {
        let error =
            json!({"error": {"message": "8 requests wait, and no more may", "code": "queue_full"}});
        return (StatusCode::TOO_MANY_REQUESTS, object(&error)).into_response();
    }
    let seed = body["seed"].as_u64().unwrap_or(100 + before as u64);
    let chunk = |choices: Value| json!({"seed": seed, "choices": choices});
    let pause = Duration::from_millis(if text.starts_with("slow") { 100 } else { 1 });
    let characters: Vec<char> = text.chars().collect();
    let mut chunks: Vec<Value> = Vec::new();
    for (at, piece) in characters.chunks(3).enumerate() {
        let piece: String = piece.iter().collect();
        let logprobs = body["logprobs"] == true;
        let logprobs = logprobs.then(|| {
            let top = json!([{"token": piece, "logprob": -0.5}, {"token": "<i>", "logprob": -1.0 - at as f64}]);
            json!({"content": [{"token": piece, "logprob": -0.5, "top_logprobs": top}]})
        });
        chunks.push(chunk(
            json!([{"delta": {"content": piece}, "logprobs": logprobs, "finish_reason": null}]),
        ));
    }
    let is_cut = text.starts_with("gone");
    if is_cut {
        chunks.truncate(chunks.len() / 2);
    } else {
        chunks.push(chunk(json!([{"delta": {}, "finish_reason": "stop"}])));
        let usage = json!({"prompt_tokens": 3, "completion_tokens": characters.len().div_ceil(3)});
        chunks.push(json!({"choices": [], "usage": usage}));
        if body["receipt"] == true {
            chunks.push(json!({"choices": [], "receipt": receipt()}));
        }
    }
    let mut events: Vec<String> = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    if !is_cut {
        events.push("data: [DONE]\n\n".to_owned());
    }
    let events = stream::unfold(events.into_iter(), move |mut events| async move {
        let event = events.next()?;
        tokio::time::sleep(pause).await;
        Some((Ok::<_, Infallible>(event), events))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::from_stream(events)).into_response()
}
