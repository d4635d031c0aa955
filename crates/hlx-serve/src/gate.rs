//! Who may ask, and how much they may send.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::LengthLimitError;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::wish::Sent;

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

/// Reads bodies, large ones a few at a time.
#[derive(Debug)]
pub(crate) struct Gate {
    limit: usize,
    patience: Duration,
    /// Room for the bodies that are large.
    room: Semaphore,
}

/// The bytes of a body that needs no room.
const SMALL: usize = 64 << 10;
/// Bodies of the largest size that are read at the same time.
const LARGE_BODIES: usize = 8;

impl Gate {
    pub fn new(limit: usize, patience: Duration) -> Self {
        let room = limit.div_ceil(SMALL).max(1) * LARGE_BODIES;
        Self {
            limit,
            patience,
            room: Semaphore::new(room.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Reads a body of JSON that came to a route.
    pub async fn read(
        &self,
        route: &str,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Fields, ApiError> {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let message = format!("content-type: is {kind:?}, expected application/json");
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > self.limit) {
            return Err(self.too_large());
        }
        let length = length.unwrap_or(self.limit);
        let reading = async {
            let _room = match length <= SMALL {
                true => None,
                // The room is never closed.
                false => self
                    .room
                    .acquire_many(length.div_ceil(SMALL) as u32)
                    .await
                    .ok(),
            };
            let bytes = to_bytes(body, self.limit).await;
            let bytes = bytes.map_err(|error| self.broken(&error))?;
            let sent = Sent::new(route, headers, &bytes)?;
            Ok(Fields::of_body(&bytes)?.with_sent(sent))
        };
        let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body takes too long");
        let read = tokio::time::timeout(self.patience, reading).await;
        read.map_err(late)?
    }

    fn too_large(&self) -> ApiError {
        let message = format!("the body has more than {} bytes", self.limit);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    fn broken(&self, error: &axum::Error) -> ApiError {
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(one) = cause {
            if one.is::<LengthLimitError>() {
                return self.too_large();
            }
            cause = one.source();
        }
        let message = format!("the body ends early: {error}");
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }
}
