//! Pages of other origins.

use anyhow::{Result, anyhow};
use axum::http::{HeaderValue, Method};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// What pages of other origins may ask.
///
/// # Errors
/// A text that is no origin.
pub(crate) fn cors(origins: &[String]) -> Result<CorsLayer> {
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
        value.ok_or_else(|| anyhow!("--cors: {origin:?} is no origin, such as https://example.org"))
    });
    let origins = origins.collect::<Result<Vec<_>>>()?;
    Ok(layer.allow_origin(AllowOrigin::list(origins)))
}
