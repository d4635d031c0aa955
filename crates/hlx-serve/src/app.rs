//! What a server is made of: its settings and its models.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use crate::cors::cors;
use crate::error::{ApiError, json_response};
use crate::gate::{Gate, Keys};
use crate::keeper::{Keeper, ReceiptSettings};
use crate::metrics::Metrics;
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
    /// How long a client may take to send the head of a request, or its body, and how long it may read nothing.
    pub patience: Duration,
    /// Receipts of answers; without it none are given.
    pub receipts: Option<ReceiptSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            cors: Vec::new(),
            body_limit: 10 << 20,
            grace: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            receipts: None,
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
    gate: Gate,
    keeper: Option<Keeper>,
}

impl Settings {
    /// Checks what takes no time to check.
    ///
    /// # Errors
    /// A text among `cors` that is no origin.
    pub fn check(&self) -> anyhow::Result<()> {
        cors(&self.cors).map(drop)
    }
}

impl Shared {
    /// # Errors
    /// A system without random numbers.
    pub fn new(models: Vec<Served>, settings: &Settings) -> anyhow::Result<Self> {
        let keeper = settings.receipts.as_ref().map(Keeper::new).transpose()?;
        Ok(Self(Arc::new(Inner {
            keeper,
            models,
            keys: Keys::new(&settings.api_keys),
            metrics: Metrics::default(),
            gate: Gate::new(settings.body_limit, settings.patience),
        })))
    }

    /// What makes receipts, if they are given.
    pub fn keeper(&self) -> Option<&Keeper> {
        self.0.keeper.as_ref()
    }

    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub fn gate(&self) -> &Gate {
        &self.0.gate
    }

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
        Ok(self.model_at(place))
    }

    /// The model at a place of [`Shared::models`].
    pub fn model_at(&self, place: usize) -> Model {
        Model {
            shared: self.clone(),
            place,
        }
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
    /// What makes receipts, if they are given.
    pub fn keeper(&self) -> Option<&Keeper> {
        self.shared.keeper()
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

/// A body of JSON.
pub(crate) fn respond(body: &Value) -> Response {
    json_response(StatusCode::OK, body)
}
