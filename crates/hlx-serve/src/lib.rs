//! A model server: OpenAI's and Anthropic's interfaces over the engine of hlx-train. An answer is a function of the model and the request:
//! not of load, of other requests or of what was answered before.
//!
//! Requests are checked by name: a parameter that is not known here, or that would change an answer in a way that is not
//! known here, is refused.

mod anthropic;
mod app;
pub mod bench;
mod clock;
mod conversation;
mod cors;
mod error;
mod fields;
mod format;
mod gate;
mod keeper;
mod listen;
mod messages;
mod metrics;
mod openai;
mod page;
mod pending;
mod prompts;
mod random;
mod receipts;
mod routes;
mod sampling;
mod served;
mod stream;
mod tools;
mod unique;
mod waiting;
mod wish;

pub use app::Settings;
pub use error::ApiError;
pub use format::guides_to;
pub use keeper::ReceiptSettings;
pub use listen::serve;
pub use page::page;
pub use routes::router;
pub use served::Served;
pub use tools::{N_CALL_FORMS, check_calls};

/// Checks the body of a request to a route, as far as it can be without a model.
///
/// # Errors
/// What is wrong with it, and another route than those that read a body.
pub fn check_body(route: &str, body: &[u8]) -> Result<(), ApiError> {
    let fields = fields::Fields::of_body(body)?;
    match route {
        "/v1/chat/completions" => openai::chat::read(fields).map(drop),
        "/v1/completions" => openai::completions::read(fields).map(drop),
        "/v1/embeddings" => openai::embeddings::read(fields).map(drop),
        "/v1/responses" => openai::responses::read(fields).map(drop),
        "/v1/messages" => anthropic::read(fields).map(drop),
        "/v1/receipts/verify" => receipts::check(&fields),
        "/v1/messages/count_tokens" => anthropic::read_counted(fields).map(drop),
        _ => Err(ApiError::of_parameter("route", "reads no body")),
    }
}
