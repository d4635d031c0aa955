//! Receipts of answers: what one says of a model and an answer, and whether recomputing gives the same.
//!
//! `docs/receipts.md` says what a receipt proves.

mod check;
mod model;
mod prefill;
mod run;
mod statement;
mod verdict;

pub use check::{Checker, MakeGuides};
pub use model::{digests_of, files_of_model, weights_digest};
pub use run::{Training, training_of};
pub use statement::{Answered, Asked, body_of, request_of};
pub use verdict::{Check, Verdict};
