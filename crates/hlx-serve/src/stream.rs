//! Answers as server-sent events.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;

use crate::error::ApiError;

/// How long a stream is silent at most: readers and proxies tell from it that the server is there.
const SILENCE: Duration = Duration::from_secs(15);

/// A chunk of a stream.
#[derive(Debug)]
pub(crate) struct Chunk {
    name: Option<String>,
    json: String,
}

impl Chunk {
    /// A chunk that is written as JSON already.
    pub fn of_json(json: String) -> Self {
        Self { name: None, json }
    }

    /// A chunk whose name is its `type`.
    pub fn named(value: &Value) -> Self {
        Self {
            name: value["type"].as_str().map(str::to_owned),
            json: value.to_string(),
        }
    }
}

/// What makes the chunks of a stream, one after the other.
pub(crate) trait Chunks: Send + 'static {
    /// Whether each event has a name, its chunk's `type`; else the last one is `[DONE]`.
    const NAMED: bool = false;

    /// The next chunk; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Result<Chunk, ApiError>>> + Send;

    /// The chunk of an error, the last one.
    fn failed(&mut self, error: &ApiError) -> Value {
        error.body()
    }
}

/// A stream of chunks.
pub(crate) fn respond<C: Chunks>(chunks: C) -> Response {
    enum State<C> {
        Open(C),
        Last,
        Ended,
    }
    let events = stream::unfold(State::Open(chunks), |state| async move {
        let (event, state) = match state {
            State::Open(mut chunks) => match chunks.next().await {
                Some(Ok(chunk)) => (event(chunk), State::Open(chunks)),
                Some(Err(error)) => {
                    let failed = chunks.failed(&error);
                    let chunk = match C::NAMED {
                        true => Chunk::named(&failed),
                        false => Chunk::of_json(failed.to_string()),
                    };
                    (event(chunk), State::Last)
                }
                None if C::NAMED => return None,
                None => (done(), State::Ended),
            },
            State::Last if !C::NAMED => (done(), State::Ended),
            State::Last | State::Ended => return None,
        };
        Some((Ok::<_, Infallible>(event), state))
    });
    let alive = KeepAlive::new().interval(SILENCE);
    Sse::new(events).keep_alive(alive).into_response()
}

fn done() -> Event {
    Event::default().data("[DONE]")
}

/// JSON has no line ends, so that a chunk is one line.
fn event(chunk: Chunk) -> Event {
    let event = match chunk.name {
        Some(name) => Event::default().event(name),
        None => Event::default(),
    };
    event.data(chunk.json)
}
