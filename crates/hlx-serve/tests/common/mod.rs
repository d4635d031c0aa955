//! A server over a small model, and requests to it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hlx_core::Device;
use hlx_nn::{CausalConfig, CausalLm, Model};
use hlx_serve::{Served, Settings, router, serve};
use hlx_text::{Preparation, Tokenizer};
use hlx_train::engine::Limits;
use hlx_train::generate::TextModel;
use hlx_train::opening::Opened;
use serde_json::Value;

const TEMPLATE: &str = "\
    {% for t in tools or [] %}{{ t.function.name }}: <tool_call>{name, arguments}</tool_call>\n{% endfor %}\
    {% for m in messages %}{{ m.role }}: {% for c in m.tool_calls or [] %}{{ c.function.name }}\
    {{ c.function.arguments | tojson }}{% endfor %}{{ m.content }}\n{% endfor %}\
    {% if add_generation_prompt %}assistant:{% endif %}";

/// A model over bytes with 256 positions; the byte 0 ends a text.
pub fn text_model(device: &Device) -> TextModel {
    let config = CausalConfig {
        vocabulary: 256,
        width: 16,
        n_layers: 1,
        n_heads: 4,
        n_kv_heads: 2,
        head_width: 8,
        feed_forward_width: 24,
        max_positions: 256,
        ..CausalConfig::preset("qwen3").expect("a preset")
    };
    let model = Model::new(device, 5, |b| CausalLm::new(b, &config)).expect("built");
    let tokenizer = Tokenizer::bytes();
    TextModel {
        model: Opened::Whole(model.into()),
        preparation: Preparation::of(&tokenizer),
        end_tokens: vec![0],
        tokenizer,
    }
}

/// A server that ends with its value.
pub struct Server {
    pub address: SocketAddr,
    ends: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Serves the model `small`, and `plain` without a chat template, on the CPU device.
    pub fn start(limits: Limits, settings: Settings) -> Self {
        Self::start_on(&hlx_core::testing::cpu().expect("opens"), limits, settings)
    }

    /// The same with another chat template.
    pub fn start_with(template: &str) -> Self {
        let device = hlx_core::testing::cpu().expect("opens");
        Self::start_all(&device, template, Limits::default(), Settings::default())
    }

    pub fn start_on(device: &Device, limits: Limits, settings: Settings) -> Self {
        Self::start_all(device, TEMPLATE, limits, settings)
    }

    /// Serves the model `small` with a tokenizer of 256 tokens and a chat template.
    pub fn start_of(tokenizer: Tokenizer, template: &str) -> Self {
        let device = hlx_core::testing::cpu().expect("opens");
        let text = TextModel {
            preparation: Preparation::of(&tokenizer),
            tokenizer,
            ..text_model(&device)
        };
        let served = Served::start("small", text, Limits::default()).expect("starts");
        let served = served.with_template(template).expect("compiles");
        Self::start_models(vec![served], Settings::default())
    }

    fn start_all(device: &Device, template: &str, limits: Limits, settings: Settings) -> Self {
        let start =
            |id, device: &Device| Served::start(id, text_model(device), limits).expect("starts");
        let other = hlx_core::testing::cpu().expect("opens");
        let models = vec![
            start("small", device)
                .with_template(template)
                .expect("compiles"),
            start("plain", &other),
        ];
        Self::start_models(models, settings)
    }

    /// Serves these models.
    pub fn start_models(models: Vec<Served>, settings: Settings) -> Self {
        let router = router(models, &settings).expect("routes");
        let (ends, ended) = tokio::sync::oneshot::channel::<()>();
        let (told, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build();
            runtime.expect("threads").block_on(async move {
                let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
                let listener = listener.expect("listens");
                told.send(listener.local_addr().expect("an address"))
                    .expect("is told");
                let ended = async { _ = ended.await };
                serve(listener, router, &settings, ended).await;
            });
        });
        Self {
            address: address.recv().expect("starts"),
            ends: Some(ends),
            thread: Some(thread),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connects");
        let longest = Some(Duration::from_secs(120));
        stream.set_read_timeout(longest).expect("is set");
        stream
    }

    /// A connection, if the system has room for one.
    pub fn try_connect(&self) -> Option<TcpStream> {
        TcpStream::connect(self.address).ok()
    }

    /// Sends a request whose answer is read by the caller.
    pub fn begin(&self, path: &str, body: &Value) -> TcpStream {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sends");
        stream
    }

    /// Sends what a request is made of, and returns the whole answer.
    pub fn send(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect();
        // The server may answer, and close, before it has read all.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Reply::of(&bytes)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send(
            format!("GET {path} HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\n\r\n").as_bytes(),
        )
    }

    pub fn post_bytes(&self, path: &str, headers: &str, body: &[u8]) -> Reply {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        self.send(&[head.as_bytes(), body].concat())
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        let headers = "content-type: application/json\r\n";
        self.post_bytes(path, headers, body.to_string().as_bytes())
    }

    /// The object of a request that is answered.
    pub fn answer(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }

    /// The line of a request that is refused, as its status, its parameter and its message.
    pub fn refused(&self, path: &str, body: &Value) -> (u16, String, String) {
        let reply = self.post(path, body);
        let error = reply.json()["error"].clone();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (reply.status, text("param"), text("message"))
    }

    /// The events of a stream whose events have names.
    pub fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let events = reply.body.split("\n\n").filter(|event| !event.is_empty());
        let event = |event: &str| {
            let (name, json) = event.split_once("\ndata: ").expect("a name and data");
            let read: Value = serde_json::from_str(json).expect("an object");
            assert_eq!(name.strip_prefix("event: "), read["type"].as_str());
            read
        };
        events.map(event).collect()
    }

    /// The chunks of a stream.
    pub fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let mut lines: Vec<&str> = reply
            .body
            .split("\n\n")
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(lines.pop(), Some("data: [DONE]"));
        let chunk = |line: &str| {
            let json = line.strip_prefix("data: ").expect("an event");
            serde_json::from_str(json).expect("an object")
        };
        lines.into_iter().map(chunk).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// What a server answers.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        Self {
            status: status.unwrap_or(0),
            head: head.to_lowercase(),
            body: match is_chunked {
                true => unchunked(body),
                false => body.to_owned(),
            },
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn unchunked(mut body: &str) -> String {
    let mut all = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).expect("a length");
        all += rest.get(..length).unwrap_or(rest);
        body = rest.get(length + 2..).unwrap_or_default();
    }
    all
}
