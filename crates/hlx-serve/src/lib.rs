//! A model server: OpenAI's and Anthropic's interfaces over the engine of hlx-train. An answer is a function of the model and the request:
//! not of load, of other requests or of what was answered before.
//!
//! Requests are checked by name: a parameter that is not known here, or that would change an answer in a way that is not
//! known here, is refused.

mod anthropic;
mod error;
mod fields;
mod format;
mod gate;
mod messages;
mod metrics;
mod openai;
mod routes;
mod sampling;
mod served;
mod stream;
mod tools;
mod waiting;

pub use error::ApiError;
pub use routes::{Settings, router, serve};
pub use served::Served;
