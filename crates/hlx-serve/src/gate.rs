//! Who may ask, and how much they may send.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::error::ApiError;

/// How long a body may take.
const LONGEST: Duration = Duration::from_secs(60);

/// The keys of those who may ask; without any, all may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(Vec<[u8; 32]>);

impl Keys {
    pub fn new(keys: &[String]) -> Self {
        Self(keys.iter().map(|key| digest(key)).collect())
    }

    /// Checks the key of a request: `Authorization: Bearer KEY`, or `x-api-key: KEY`.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION.as_str());
        let bearer = bearer.and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let refused = |message: &str| {
            let error = ApiError::new(StatusCode::UNAUTHORIZED, message);
            Err(error.with_code("invalid_api_key"))
        };
        let Some(key) = bearer.or_else(|| text("x-api-key")) else {
            return refused("an API key is needed: Authorization: Bearer KEY");
        };
        // Digests are compared: how long that takes says nothing of a key.
        match self.0.contains(&digest(key)) {
            true => Ok(()),
            false => refused("the API key is not known here"),
        }
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Reads a body of JSON.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<axum::body::Bytes, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let message = format!("content-type: is {kind:?}, expected application/json");
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let too_large = || {
        let message = format!("the body has more than {limit} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    match tokio::time::timeout(LONGEST, to_bytes(body, limit)).await {
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body takes too long",
        )),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(one) = cause {
                if one.to_string().contains("length limit exceeded") {
                    return Err(too_large());
                }
                cause = one.source();
            }
            Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                format!("the body ends early: {error}"),
            ))
        }
    }
}
