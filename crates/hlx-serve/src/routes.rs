//! The routes, and the server around them.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hlx_text::ChatInput;
use hlx_train::engine::Guides;
use serde_json::{Value, json};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use crate::anthropic;
use crate::error::{ApiError, json_response};
use crate::fields::Fields;
use crate::format::Form;
use crate::gate::{Keys, read};
use crate::metrics::Metrics;
use crate::openai::{chat, completions, embeddings, models, responses};
use crate::served::Served;

/// What a server takes and from whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The keys of those who may ask; without any, all may.
    pub api_keys: Vec<String>,
    /// Origins of pages that may ask, such as `https://example.org`; `*` for all.
    pub cors: Vec<String>,
    /// The bytes of a body at most.
    pub body_limit: usize,
    /// How long answers may take once the server is to end.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            cors: Vec::new(),
            body_limit: 10 << 20,
            grace: Duration::from_secs(30),
        }
    }
}

/// What all routes share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    models: Vec<Served>,
    keys: Keys,
    metrics: Metrics,
    body_limit: usize,
}

impl Shared {
    pub fn models(&self) -> &[Served] {
        &self.0.models
    }

    /// The model of a name, with the place that it has.
    pub fn model(&self, id: &str) -> Result<Model, ApiError> {
        let place = self.models().iter().position(|model| model.id == id);
        let place = place.ok_or_else(|| {
            let message = format!("model: {id:?} is not served here; GET /v1/models lists what is");
            let error = ApiError::new(StatusCode::NOT_FOUND, message).with_code("model_not_found");
            ApiError {
                param: Some("model".to_owned()),
                ..error
            }
        })?;
        Ok(Model {
            shared: self.clone(),
            place,
        })
    }
}

/// A model of the server.
#[derive(Clone)]
pub(crate) struct Model {
    shared: Shared,
    place: usize,
}

impl std::ops::Deref for Model {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.shared.0.models[self.place]
    }
}

impl Model {
    /// The tokens of a conversation, up to where the answer begins.
    pub async fn chat_prompt(&self, input: ChatInput) -> Result<Vec<u32>, ApiError> {
        let model = self.clone();
        // A template is a program, and may take its time.
        let work = tokio::task::spawn_blocking(move || model.encode_chat(&input));
        let done = work.await;
        done.map_err(|error| ApiError::internal(error.to_string()))?
    }

    /// What restricts answers to a form.
    pub async fn guides(&self, form: Option<Form>) -> Result<Option<Guides>, ApiError> {
        let Some(form) = form else {
            return Ok(None);
        };
        let model = self.clone();
        let work = tokio::task::spawn_blocking(move || model.formats()?.guides(form));
        let done = work.await;
        done.map_err(|error| ApiError::internal(error.to_string()))?
            .map(Some)
    }

    /// Fails for more answers than may ever wait.
    pub fn check_number(&self, n_prompts: usize, n: usize) -> Result<(), ApiError> {
        let (all, most) = (n_prompts.saturating_mul(n), self.engine.queue());
        if all <= most {
            return Ok(());
        }
        let reason = format!("{n} answers to each of {n_prompts} prompts, expected at most {most}");
        Err(ApiError::of_parameter("n", reason))
    }

    /// The tokens that an answer has room for: the last position predicts one more.
    pub fn room_behind(&self, prompt: &[u32]) -> usize {
        self.engine.capacity() + 1 - prompt.len()
    }
}

/// The routes over models.
///
/// # Errors
/// An origin that is none.
pub fn router(models: Vec<Served>, settings: &Settings) -> anyhow::Result<Router> {
    let shared = Shared(Arc::new(Inner {
        models,
        keys: Keys::new(&settings.api_keys),
        metrics: Metrics::default(),
        body_limit: settings.body_limit,
    }));
    let guarded = Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(posted!(chat::answer)))
        .route("/v1/completions", post(posted!(completions::answer)))
        .route("/v1/embeddings", post(posted!(embeddings::answer)))
        .route("/v1/responses", post(posted!(responses::answer)))
        .route("/v1/messages", post(posted!(anthropic::answer)))
        .route("/v1/messages/count_tokens", post(posted!(anthropic::count)))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(shared.clone(), check_key));
    let mut all = guarded
        .route("/health", get(health))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(shared.clone(), count));
    if !settings.cors.is_empty() {
        all = all.layer(cors(&settings.cors)?);
    }
    Ok(all.with_state(shared))
}

/// A route that reads an object.
macro_rules! posted {
    ($answer:path) => {
        |State(shared): State<Shared>, headers: HeaderMap, body: Body| async move {
            let bytes = read(&headers, body, shared.0.body_limit).await?;
            $answer(shared, Fields::of_body(&bytes)?).await
        }
    };
}
use posted;

fn cors(origins: &[String]) -> anyhow::Result<CorsLayer> {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(Any);
    if origins.iter().any(|origin| origin == "*") {
        return Ok(layer.allow_origin(Any));
    }
    let origins = origins.iter().map(|origin| {
        let value = HeaderValue::from_str(origin)
            .ok()
            .filter(|_| origin.contains("://"));
        value.ok_or_else(|| anyhow::anyhow!("{origin:?} is no origin, such as https://example.org"))
    });
    let origins = origins.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(layer.allow_origin(AllowOrigin::list(origins)))
}

async fn check_key(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.0.keys.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn count(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("unknown", MatchedPath::as_str).to_owned();
    let is_message = request.uri().path().starts_with("/v1/messages");
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>()
        && is_message
    {
        response = error.response(&error.message_body());
    }
    shared.0.metrics.count(&route, response.status().as_u16());
    response
}

async fn health() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok"}))
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, shared.0.metrics.text(shared.models())).into_response()
}

async fn unknown(method: Method, uri: Uri) -> ApiError {
    let message = format!("{method} {} is not known here", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, message).with_code("unknown_url")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} is not asked by {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).with_code("method_not_supported")
}

/// Answers requests until `ends` is done; answers that grow then have the settings' grace.
///
/// # Errors
/// What the system says of the listener.
pub async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    grace: Duration,
    ends: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (told, mut ended) = tokio::sync::watch::channel(false);
    let signal = async move {
        ends.await;
        // The receiver is below.
        let _ = told.send(true);
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(signal);
    let late = async {
        // The sender lives as long as the server.
        let _ = ended.wait_for(|ended| *ended).await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = serving => served,
        () = late => Ok(()),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A body of JSON.
pub(crate) fn respond(body: &Value) -> Response {
    json_response(StatusCode::OK, body)
}
