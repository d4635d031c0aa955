//! The routes, and the server around them.

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

use crate::anthropic;
use crate::app::{Settings, Shared};
use crate::cors::cors;
use crate::error::{ApiError, json_response};
use crate::openai::{chat, completions, embeddings, models, responses};
use crate::page::page;
use crate::receipts;
use crate::served::Served;

/// The routes over models.
///
/// # Errors
/// An origin that is none.
pub fn router(models: Vec<Served>, settings: &Settings) -> anyhow::Result<Router> {
    let shared = Shared::new(models, settings)?;
    let guarded = Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(posted!(chat::answer)))
        .route("/v1/completions", post(posted!(completions::answer)))
        .route("/v1/embeddings", post(posted!(embeddings::answer)))
        .route("/v1/responses", post(posted!(responses::answer)))
        .route("/v1/messages", post(posted!(anthropic::answer)))
        .route("/v1/messages/count_tokens", post(posted!(anthropic::count)))
        .route("/v1/receipts/key", get(receipts::key))
        .route("/v1/receipts/verify", post(posted!(receipts::verify)))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(shared.clone(), check_key));
    let mut all = guarded
        .route("/health", get(health))
        .merge(page())
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
        |State(shared): State<Shared>, route: MatchedPath, headers: HeaderMap, body: Body| async move {
            let fields = shared.gate().read(route.as_str(), &headers, body).await?;
            $answer(shared, fields).await
        }
    };
}
use posted;

async fn check_key(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.keys().check(request.headers()) {
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
    shared.metrics().count(&route, response.status().as_u16());
    response
}

async fn health() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok"}))
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, shared.metrics().text(shared.models())).into_response()
}

async fn unknown(method: Method, uri: Uri) -> ApiError {
    let message = format!("{method} {} is not known here", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, message).with_code("unknown_url")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} is not asked by {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).with_code("method_not_supported")
}
