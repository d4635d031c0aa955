//! From an answer to the body of its receipt, and back to the request.

use anyhow::{Result, anyhow};
use hlx_core::SPECIFICATION;
use hlx_receipt::{
    Body, FinishReason, ModelDigests, Place, Sampling, Sha256, StepDigest, Whole, shortest,
};

use crate::engine::{Finish, Guides, Request, Trace};
use crate::sample;

/// What is known of a request besides what the engine gets.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The model.
    pub model: &'a ModelDigests,
    /// The arithmetic of its products.
    pub arithmetic: &'a str,
    /// Where it is computed, of an arithmetic whose bits depend on that.
    pub place: Option<&'a Place>,
    /// The model's own end tokens.
    pub end_tokens: &'a [u32],
    /// Tokens of a prompt and its answer at most.
    pub capacity: usize,
    /// SHA-256 of the request's bytes.
    pub request_sha256: Sha256,
    /// What the client has given.
    pub nonce: Option<&'a str>,
}

/// An answer that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// Its tokens, with the digests of their logits.
    pub trace: &'a Trace,
    /// The digest over all logits, as the engine gives it.
    pub digest: &'a str,
    /// Why it has ended.
    pub finish: &'a Finish,
    /// Its text.
    pub text: &'a str,
}

/// The body of an answer's receipt: a function of the model, the request and the seed.
///
/// # Errors
/// An answer that has failed.
pub fn body_of(request: &Request, asked: Asked<'_>, answered: Answered<'_>) -> Result<Body> {
    let finish_reason = match answered.finish {
        Finish::Stop(_) => FinishReason::Stop,
        Finish::Length => FinishReason::Length,
        Finish::Failed(reason) => return Err(anyhow!("the answer has failed: {reason}")),
    };
    let steps = answered.trace.steps.iter();
    Ok(Body {
        specification: SPECIFICATION,
        arithmetic: asked.arithmetic.to_owned(),
        place: asked.place.cloned(),
        model: asked.model.clone(),
        request_sha256: asked.request_sha256,
        nonce: asked.nonce.map(str::to_owned),
        sampling: sampling_of(request, asked),
        prompt_token_ids: request.prompt.clone(),
        token_ids: answered.trace.tokens.clone(),
        finish_reason,
        response_sha256: Sha256::of(answered.text.as_bytes()),
        logits_sha256: answered.digest.parse().map_err(anyhow::Error::msg)?,
        step_logits_sha256: steps.map(|&digest| StepDigest::from(digest)).collect(),
    })
}

fn sampling_of(request: &Request, asked: Asked<'_>) -> Sampling {
    let sample::Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        seed,
    } = request.sampling;
    // The last position predicts one more.
    let room = asked.capacity + 1 - request.prompt.len().min(asked.capacity);
    let biases = request.logit_bias.iter();
    let stops = request.stop.iter();
    Sampling {
        seed: Whole(seed),
        index: request.stream,
        max_tokens: Whole(request.max_tokens.min(room) as u64),
        temperature: shortest(temperature),
        top_p: shortest(top_p),
        top_k: Whole(top_k as u64),
        min_p: shortest(min_p),
        repetition_penalty: shortest(repetition_penalty),
        presence_penalty: shortest(request.presence_penalty),
        frequency_penalty: shortest(request.frequency_penalty),
        logit_bias: biases.map(|&(id, bias)| (id, shortest(bias))).collect(),
        stop: stops
            .map(|stop| String::from_utf8_lossy(stop).into_owned())
            .collect(),
        stop_token_ids: match request.ignores_end {
            true => Vec::new(),
            false => asked.end_tokens.to_vec(),
        },
        grammar: request
            .guides
            .as_ref()
            .map(|guides| guides.grammar().clone()),
    }
}

/// The request that a body is of, with what its answer had to follow.
///
/// # Errors
/// A number that no request can have, by name.
pub fn request_of(body: &Body, guides: Option<Guides>) -> Result<Request> {
    let sampling = &body.sampling;
    let count = |name: &str, number: Whole| {
        usize::try_from(number.0).map_err(|_| anyhow!("{name} is {}", number.0))
    };
    let biases = sampling.logit_bias.iter();
    Ok(Request {
        max_tokens: count("max_tokens", sampling.max_tokens)?,
        sampling: sample::Sampling {
            temperature: sampling.temperature as f32,
            top_k: count("top_k", sampling.top_k)?,
            top_p: sampling.top_p as f32,
            min_p: sampling.min_p as f32,
            repetition_penalty: sampling.repetition_penalty as f32,
            seed: sampling.seed.0,
        },
        stream: sampling.index,
        stop: sampling
            .stop
            .iter()
            .map(|stop| stop.clone().into_bytes())
            .collect(),
        ignores_end: sampling.stop_token_ids.is_empty(),
        presence_penalty: sampling.presence_penalty as f32,
        frequency_penalty: sampling.frequency_penalty as f32,
        logit_bias: biases.map(|&(id, bias)| (id, bias as f32)).collect(),
        guides,
        ..Request::new(body.prompt_token_ids.clone(), 0)
    })
}
