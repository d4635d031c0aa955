//! What a receipt says of an answer: a function of the model, the request and the seed.

use serde::{Deserialize, Serialize};

use crate::digest::{Sha256, StepDigest};
use crate::number::Whole;
use crate::place::Place;

/// An answer, with all that it is a function of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The number of the specification of HLX's arithmetic.
    pub specification: u32,
    /// The arithmetic of products: `portable`, `integer`, `fast` or `fast_f16`.
    pub arithmetic: String,
    /// Where it was computed, of an arithmetic whose bits depend on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The model.
    pub model: ModelDigests,
    /// SHA-256 of the request's bytes as they came.
    pub request_sha256: Sha256,
    /// What the client has given to tell this receipt from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub nonce: Option<String>,
    /// How the tokens were drawn.
    pub sampling: Sampling,
    /// The prompt's tokens.
    pub prompt_token_ids: Vec<u32>,
    /// The tokens that were drawn, also one that ended the answer.
    pub token_ids: Vec<u32>,
    /// Why the answer has ended.
    pub finish_reason: FinishReason,
    /// SHA-256 of the answer's text in UTF-8, as the model wrote it: before calls of functions are taken out of it.
    pub response_sha256: Sha256,
    /// SHA-256 over the steps' SHA-256, 32 bytes each, in order.
    pub logits_sha256: Sha256,
    /// For each token the first 8 bytes of the SHA-256 of the logits that it was drawn from: V words of f32,
    /// little-endian, before bias, penalties and grammar.
    pub step_logits_sha256: Vec<StepDigest>,
}

/// A model by its digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelDigests {
    /// HLX's tree digest over all tensors by name, shape and values, as they are held in memory.
    pub weights_sha256: Sha256,
    /// SHA-256 of the model's sizes and constants, as HLX writes them to a `config.json` of its own.
    pub config_sha256: Sha256,
    /// The type of the matrices: `f32`, `f16` or `bf16`.
    pub dtype: String,
    /// The files that the weights were read from, sorted by name.
    pub files: Vec<NamedFile>,
    /// SHA-256 of the tokenizer's JSON.
    pub tokenizer_sha256: Sha256,
    /// SHA-256 of the chat template's text, if the model has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub chat_template_sha256: Option<Sha256>,
}

/// A file by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedFile {
    /// Its name in the model's folder.
    pub name: String,
    /// Its SHA-256.
    pub sha256: Sha256,
}

/// How tokens are drawn; the names are those of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Keys the draws.
    pub seed: Whole,
    /// The answer's number among those of one prompt, from 0.
    pub index: u32,
    /// Tokens at most: what the request says, or what the server had room for, if that is less.
    pub max_tokens: Whole,
    /// Divides the logits; 0 takes the likeliest token.
    pub temperature: f64,
    /// As in requests.
    pub top_p: f64,
    /// As in requests; 0 for all tokens.
    pub top_k: Whole,
    /// As in requests.
    pub min_p: f64,
    /// As in requests.
    pub repetition_penalty: f64,
    /// As in requests.
    pub presence_penalty: f64,
    /// As in requests.
    pub frequency_penalty: f64,
    /// Tokens and what is added to their logits, in this order.
    pub logit_bias: Vec<(u32, f64)>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Tokens that end the answer: those of the model, none with `ignore_eos`.
    pub stop_token_ids: Vec<u32>,
    /// What the answer had to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub grammar: Option<Grammar>,
}

/// What an answer had to follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grammar {
    /// The language that it is written in.
    pub kind: GrammarKind,
    /// Its text.
    pub text: String,
}

/// The language of a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrammarKind {
    /// JSON schema; the order of members counts.
    JsonSchema,
    /// Lark, as the crate llguidance reads it.
    Lark,
}

/// Why an answer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end token was drawn, the text has reached a stop, or the grammar has no more.
    Stop,
    /// It has as many tokens as it may have.
    Length,
}
