//! OpenAI's interface.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod embeddings;
pub(crate) mod models;
pub(crate) mod responses;

use hlx_train::engine::{Finish, Usage};
use serde_json::{Value, json};

use crate::app::Model;
use crate::clock::now;
use crate::error::ApiError;
use crate::random::random_word;
use crate::stream::Chunk;
use crate::waiting::Answers;

/// Fields that change no answer.
const HARMLESS: [&str; 5] = [
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
];

/// A new number of an answer.
fn new_id(prefix: &str) -> Result<String, ApiError> {
    Ok(format!(
        "{prefix}{:016x}{:016x}",
        random_word()?,
        random_word()?
    ))
}

/// What every body of an answer begins with.
struct Head {
    id: String,
    created: u64,
    seed: u64,
    model: Model,
}

impl Head {
    fn new(prefix: &str, model: Model, seed: u64) -> Result<Self, ApiError> {
        Ok(Self {
            id: new_id(prefix)?,
            created: now(),
            seed,
            model,
        })
    }

    /// A body with these choices; `usage` is left out where it is `None`.
    fn body(&self, kind: &str, choices: Value, usage: Option<Value>) -> Value {
        let mut body = json!({
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model.id,
            // What answers depend on besides the model and the request.
            "system_fingerprint": self.model.fingerprint(),
            "seed": self.seed,
        });
        body["choices"] = choices;
        if let Some(usage) = usage {
            body["usage"] = usage;
        }
        body
    }

    /// The chunk of a stream behind all others, with the receipts that it shows; `None` without any.
    fn last_chunk(&self, kind: &str, answers: &Answers) -> Option<Result<Chunk, ApiError>> {
        let shown = match answers.shown() {
            Ok(shown) if shown.is_empty() => return None,
            Ok(shown) => shown,
            Err(error) => return Some(Err(error)),
        };
        let mut body = self.body(kind, json!([]), None);
        shown.add_to(&mut body);
        Some(Ok(Chunk::of_json(body.to_string())))
    }
}

/// Chunks that differ in their choice alone: what is around it is written once.
struct Frame {
    before: String,
    behind: String,
}

impl Frame {
    fn new(head: &Head, kind: &str, usage: Option<Value>) -> Result<Self, ApiError> {
        const CHOICES: &str = "\"choices\":[";
        let body = head.body(kind, json!([]), usage).to_string();
        let place = body.find(CHOICES).map(|at| at + CHOICES.len());
        let place = place.ok_or_else(|| ApiError::internal("a body without choices"))?;
        let (before, behind) = body.split_at(place);
        Ok(Self {
            before: before.to_owned(),
            behind: behind.to_owned(),
        })
    }

    /// The chunk of a choice, which is JSON.
    fn chunk(&self, choice: &str) -> String {
        [&self.before, choice, &self.behind].concat()
    }
}

fn usage_of(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.answer,
        "total_tokens": usage.prompt + usage.answer,
        "prompt_tokens_details": {"cached_tokens": usage.reused},
    })
}

fn finish_reason(finish: Option<&Finish>) -> Value {
    match finish {
        Some(Finish::Stop(_)) => json!("stop"),
        Some(Finish::Length) => json!("length"),
        Some(Finish::Failed(_)) | None => Value::Null,
    }
}

/// The shortest decimal that gives an f32 back.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// A log-probability; one that is not finite as OpenAI writes it.
fn logprob(value: f32) -> Value {
    const LEAST: f64 = -9999.0;
    match value.is_finite() {
        true => json!(shortest(value)),
        false => json!(LEAST),
    }
}
