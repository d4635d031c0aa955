//! `/v1/receipts/key` and `/v1/receipts/verify`.

use std::sync::mpsc::sync_channel;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hlx_nn::CausalModel;
use hlx_receipt::{ALGORITHM, Receipt};
use hlx_train::engine::{Request, Watch};
use hlx_train::receipts::{Check, Checker, Verdict};
use serde_json::{Value, json};

use crate::app::{Model, Shared, respond};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::keeper::Keeper;
use crate::waiting::Answers;

/// The key that signs.
pub(crate) async fn key(State(shared): State<Shared>) -> Result<Response, ApiError> {
    let public = keeper(&shared)?.public();
    let pem = public.to_pem();
    let pem = pem.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(respond(&json!({
        "algorithm": ALGORITHM,
        "public_key": public.to_string(),
        "pem": pem,
    })))
}

fn keeper(shared: &Shared) -> Result<&Keeper, ApiError> {
    shared.keeper().ok_or_else(|| {
        let error = ApiError::new(StatusCode::NOT_FOUND, "this server gives no receipts");
        error.with_code("no_receipts")
    })
}

/// Recomputes the answer of a receipt: the body, or its field `receipt`.
pub(crate) async fn verify(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    keeper(&shared)?;
    let mut value = fields.shown();
    if value["type"].is_null() && value["receipt"].is_object() {
        value = value["receipt"].take();
    }
    let verdict = match Receipt::of_value(&value) {
        Ok(receipt) => verdict(&shared, receipt).await?,
        Err(error) => Verdict::of_damage(error),
    };
    let body = serde_json::to_value(verdict);
    Ok(respond(
        &body.map_err(|error| ApiError::internal(error.to_string()))?,
    ))
}

async fn verdict(shared: &Shared, receipt: Receipt) -> Result<Verdict, ApiError> {
    let own = keeper(shared)?.public();
    let found = receipt.signature.public_key;
    let whose = match found == *own {
        true => format!("by the key of this server, {found}"),
        false => format!("by the key {found}, which is not that of this server"),
    };
    let mut checks = vec![Check::of(
        "signature",
        receipt.check_signature().map(|()| whose),
    )];
    let (model, of_model) = model_of(shared, &receipt).await?;
    checks.extend(of_model);
    if checks.iter().all(|check| check.ok) {
        let _room = keeper(shared)?.room().await;
        checks.extend(recompute(model, receipt.clone()).await?);
    }
    let n = receipt.body.token_ids.len();
    Ok(Verdict::new(checks, || {
        format!("recomputed: {n} tokens and their logits are those of this model")
    }))
}

/// The model of a receipt with what was checked of it; the first of the server if it is none of them.
async fn model_of(shared: &Shared, receipt: &Receipt) -> Result<(Model, Vec<Check>), ApiError> {
    let mut first = None;
    for place in 0..shared.models().len() {
        let model = shared.model_at(place);
        let (held, body) = (model.clone(), receipt.body.clone());
        // A grammar takes its time.
        let work = tokio::task::spawn_blocking(move || {
            let guides = |grammar: &_| held.guides_to(grammar);
            let checker = Checker::new(held.text(), held.digests(), &guides)?;
            Ok::<_, anyhow::Error>(checker.check_model(&body))
        });
        let done = work
            .await
            .map_err(|error| ApiError::internal(error.to_string()))?;
        let checks = done.map_err(|error| ApiError::internal(format!("{error:#}")))?;
        let is_of_model = checks
            .iter()
            .all(|check| check.ok || check.name == "request");
        if is_of_model {
            return Ok((model, checks));
        }
        first.get_or_insert((model, checks));
    }
    first.ok_or_else(|| ApiError::internal("no model is served"))
}

/// Reads prompt and answer by the engine, beside other requests, and draws the tokens again.
async fn recompute(model: Model, receipt: Receipt) -> Result<Vec<Check>, ApiError> {
    let (tokens, from) = Checker::pass_of(&receipt.body);
    // The engine waits for the digests of a piece before it reads the next but one, so that memory is bounded.
    let (sender, rows) = sync_channel::<Vec<f32>>(1);
    let watch = Watch::new(from, move |logits| _ = sender.send(logits.to_vec()));
    let request = Request {
        watch: (!receipt.body.token_ids.is_empty()).then_some(watch),
        ..Request::new(tokens, 0)
    };
    let answers = Answers::start_plain(&model, vec![request])?;
    let work = tokio::task::spawn_blocking(move || {
        let guides = |grammar: &_| model.guides_to(grammar);
        let checker = Checker::new(model.text(), model.digests(), &guides)?;
        let mut replay = checker.replay(&receipt.body)?;
        let vocabulary = model.text().model.vocabulary();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // It ends with the request.
        for logits in rows {
            replay.take(&logits, vocabulary, cores);
        }
        Ok::<_, anyhow::Error>(checker.checks(&receipt.body, &replay.finish()))
    });
    answers.collect().await?;
    let done = work
        .await
        .map_err(|error| ApiError::internal(error.to_string()))?;
    done.map_err(|error| ApiError::internal(format!("{error:#}")))
}

/// The body of a verdict without a model, for what is no receipt.
pub(crate) fn check(fields: &Fields) -> Result<(), ApiError> {
    let value: Value = fields.shown();
    let read = Receipt::of_value(&value);
    read.map(drop)
        .map_err(|error| ApiError::of_parameter("receipt", error))
}
