//! A client that notes when tokens arrive.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use axum::body::{Body, Bytes};
use axum::http::{Request, Uri, header};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::requests::Api;

/// Connections to a server.
pub struct Client {
    base: String,
    key: Option<String>,
    api: Api,
    timeout: Duration,
    connections: Connections<HttpConnector, Body>,
}

/// An answer as it arrived.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the request to the first text.
    pub first: Duration,
    /// From the first text to the last.
    pub rest: Duration,
    /// From the request to the end.
    pub whole: Duration,
    /// Between two chunks with text.
    pub gaps: Vec<Duration>,
    pub n_prompt: u64,
    pub n_tokens: u64,
    /// Whether the server has not counted: a chunk is taken for a token.
    pub is_guess: bool,
}

impl Client {
    pub fn new(url: &str, key: Option<&str>, api: Api, timeout: Duration) -> Result<Self> {
        let base = url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        let uri: Uri = base.parse().with_context(|| url.to_owned())?;
        ensure!(
            uri.scheme_str() == Some("http"),
            "{url}: expected http://HOST:PORT"
        );
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Self {
            base,
            key: key.map(str::to_owned),
            api,
            timeout,
            connections: Connections::builder(TokioExecutor::new()).build(connector),
        })
    }

    fn request(&self, path: &str, body: Option<&str>) -> Result<Request<Body>> {
        let mut request = Request::builder().uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        Ok(match body {
            None => request.body(Body::empty())?,
            Some(body) => request
                .method("POST")
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_owned()))?,
        })
    }

    /// The first model that the server lists.
    pub async fn first_model(&self) -> Result<String> {
        let request = self.request("/v1/models", None)?;
        let response = self.connections.request(request).await;
        let response = response.with_context(|| self.base.clone())?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        ensure!(
            status.is_success(),
            "/v1/models: {status}: {}",
            shown(&bytes)
        );
        let list: Value = serde_json::from_slice(&bytes).context("/v1/models")?;
        let id = list["data"][0]["id"].as_str();
        Ok(id.context("/v1/models: lists no model")?.to_owned())
    }

    /// Sends a request that is streamed.
    pub async fn ask(&self, body: &str) -> Result<Measured> {
        let asked = tokio::time::timeout(self.timeout, self.ask_for_long(body)).await;
        asked.with_context(|| format!("no end after {} s", self.timeout.as_secs()))?
    }

    async fn ask_for_long(&self, body: &str) -> Result<Measured> {
        let request = self.request(self.api.path(), Some(body))?;
        let begun = Instant::now();
        let response = self.connections.request(request).await;
        let response = response.with_context(|| self.base.clone())?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let bytes = body.collect().await?.to_bytes();
            bail!("{status}: {}", shown(&bytes));
        }
        let mut lines = Lines::default();
        let mut times: Vec<Duration> = Vec::new();
        let mut usage = Value::Null;
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame?.into_data() else {
                continue;
            };
            let now = begun.elapsed();
            for chunk in lines.push(&bytes)? {
                ensure!(chunk["error"].is_null(), "{}", chunk["error"]["message"]);
                if !chunk["usage"].is_null() {
                    usage = chunk["usage"].clone();
                }
                if self.api.text(&chunk).is_some_and(|text| !text.is_empty()) {
                    times.push(now);
                }
            }
        }
        let whole = begun.elapsed();
        let first = *times.first().context("the answer has no text")?;
        let last = *times.last().unwrap_or(&first);
        let counted = usage["completion_tokens"].as_u64();
        Ok(Measured {
            first,
            rest: last - first,
            whole,
            gaps: times.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            n_prompt: usage["prompt_tokens"].as_u64().unwrap_or(0),
            n_tokens: counted.unwrap_or(times.len() as u64),
            is_guess: counted.is_none(),
        })
    }
}

fn shown(bytes: &Bytes) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}

/// Server-sent events whose data are JSON.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Value>> {
        self.rest.extend_from_slice(bytes);
        let mut chunks = Vec::new();
        let whole = self.rest.iter().rposition(|&byte| byte == b'\n');
        let rest = self.rest.split_off(whole.map_or(0, |at| at + 1));
        let whole = std::mem::replace(&mut self.rest, rest);
        for line in whole.split(|&byte| byte == b'\n') {
            let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
            if let Some(data) = data.filter(|data| *data != b"[DONE]") {
                chunks.push(serde_json::from_slice(data).context("an event")?);
            }
        }
        Ok(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_wherever_pieces_end() {
        let whole =
            b": hi\n\ndata: {\"a\": 1}\n\nevent: x\r\ndata:{\"a\": 2}\r\n\r\ndata: [DONE]\n\n";
        for n in [1, 2, 7, 1000] {
            let mut lines = Lines::default();
            let pieces = whole
                .chunks(n)
                .map(|piece| lines.push(piece).expect("events"));
            let found: Vec<Value> = pieces.flatten().collect();
            let numbers: Vec<Option<u64>> = found.iter().map(|one| one["a"].as_u64()).collect();
            assert_eq!(numbers, [Some(1), Some(2)]);
        }
        assert!(Lines::default().push(b"data: {\n").is_err());
    }
}
