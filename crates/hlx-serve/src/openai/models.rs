//! `/v1/models`.

use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};

use crate::app::{Shared, respond};
use crate::error::ApiError;
use crate::served::Served;

pub(crate) async fn list(State(shared): State<Shared>) -> Response {
    let all: Vec<Value> = shared.models().iter().map(shown).collect();
    respond(&json!({"object": "list", "data": all}))
}

pub(crate) async fn one(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let model = shared.model(&id)?;
    Ok(respond(&shown(&model)))
}

fn shown(model: &Served) -> Value {
    json!({
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": "hlx",
        "max_model_len": model.engine.capacity(),
    })
}
