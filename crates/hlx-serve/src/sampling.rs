//! The parameters of generation that the interfaces share.

use std::ops::RangeInclusive;

use hlx_train::engine::Request;
use hlx_train::sample::Sampling;
use serde_json::Value;

use crate::conversation::Laid;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::random::random_word;
use crate::wish::Wish;

/// Answers for a prompt at most.
const MOST_ANSWERS: u64 = 128;
/// Texts that end an answer at most, and their bytes.
const MOST_STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;
/// Tokens of an answer, and those that a token is drawn from.
const TOKENS: RangeInclusive<u64> = 0..=1 << 24;

/// How answers are made.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    /// A request without prompt and tokens.
    request: Request,
    /// Answers for each prompt.
    pub n: usize,
    /// The seed, which is returned.
    pub seed: u64,
    /// Whether answers are sent while they grow, and with how many tokens they had.
    pub streams: bool,
    pub includes_usage: bool,
    /// What is wanted of a receipt.
    pub wish: Wish,
}

impl Drawing {
    /// Takes the fields of one answer that all interfaces have, with HLX's own.
    pub fn take_one(fields: &mut Fields) -> Result<Self, ApiError> {
        let streams = fields.flag("stream")?.unwrap_or(false);
        let sampling = sampling(fields)?;
        let digests = fields.flag("logit_digests")?.unwrap_or(false);
        Ok(Self {
            n: 1,
            seed: sampling.seed,
            streams,
            includes_usage: false,
            wish: fields.take_wish()?,
            request: Request {
                sampling,
                ignores_end: fields.flag("ignore_eos")?.unwrap_or(false),
                digests,
                ..Request::new(Vec::new(), 0)
            },
        })
    }

    /// The same with texts that end an answer.
    #[must_use]
    pub fn with_stops(mut self, stops: Vec<Vec<u8>>) -> Self {
        self.request.stop = stops;
        self
    }

    /// The same for a conversation, whose prompt is taken.
    #[must_use]
    pub fn of(mut self, laid: &mut Laid) -> Self {
        self.request.guides = laid.guides.take();
        self.request.marks = std::mem::take(&mut laid.marks);
        self
    }

    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        self.request.sampling
    }

    /// Takes the fields from a request's object.
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let streams = fields.flag("stream")?.unwrap_or(false);
        let mut includes_usage = false;
        if let Some(mut options) = fields.object("stream_options")? {
            if !streams {
                return Err(ApiError::of_parameter(
                    "stream_options",
                    "needs stream: true",
                ));
            }
            includes_usage = options.flag("include_usage")?.unwrap_or(false);
            options.pass(&["include_obfuscation"]);
            options.finish()?;
        }
        let sampling = sampling(fields)?;
        let digests = fields.flag("logit_digests")?.unwrap_or(false);
        let request = Request {
            sampling,
            stop: stops(fields, "stop")?,
            ignores_end: fields.flag("ignore_eos")?.unwrap_or(false),
            presence_penalty: fields.number("presence_penalty")?.unwrap_or(0.0),
            frequency_penalty: fields.number("frequency_penalty")?.unwrap_or(0.0),
            logit_bias: biases(fields)?,
            digests,
            ..Request::new(Vec::new(), 0)
        };
        Ok(Self {
            request,
            n: fields.whole("n", 1..=MOST_ANSWERS)?.unwrap_or(1) as usize,
            seed: sampling.seed,
            streams,
            includes_usage,
            wish: fields.take_wish()?,
        })
    }

    /// The requests of a prompt.
    pub fn requests(
        &self,
        prompt: &[u32],
        max_tokens: usize,
        logprobs: Option<usize>,
    ) -> Vec<Request> {
        let requests = (0..self.n as u32).map(|stream| Request {
            prompt: prompt.to_vec(),
            max_tokens,
            stream,
            logprobs,
            ..self.request.clone()
        });
        requests.collect()
    }
}

/// The number of tokens that a field says.
pub(crate) fn max_tokens(fields: &mut Fields, name: &str) -> Result<Option<usize>, ApiError> {
    let found = fields.whole(name, TOKENS)?;
    Ok(found.map(|n| n as usize))
}

fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let seed = match seed(fields)? {
        Some(seed) => seed,
        // 53 bits: every client reads it back as it is.
        None => random_word()? >> 11,
    };
    Ok(Sampling {
        temperature: fields.number("temperature")?.unwrap_or(1.0),
        top_p: fields.number("top_p")?.unwrap_or(1.0),
        top_k: fields.whole("top_k", TOKENS)?.unwrap_or(0) as usize,
        min_p: fields.number("min_p")?.unwrap_or(0.0),
        repetition_penalty: fields.number("repetition_penalty")?.unwrap_or(1.0),
        seed,
    })
}

/// The seed: any whole number of 64 bits; negative ones count from 2^64 down.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.take("seed") else {
        return Ok(None);
    };
    let negative = || value.as_i64().map(|seed| seed as u64);
    match value.as_u64().or_else(negative) {
        Some(seed) => Ok(Some(seed)),
        None => Err(wrong(
            &fields.path("seed"),
            &value,
            "a whole number of 64 bits",
        )),
    }
}

/// Texts that end an answer.
pub(crate) fn stops(fields: &mut Fields, name: &str) -> Result<Vec<Vec<u8>>, ApiError> {
    let path = fields.path(name);
    let all = match fields.take(name) {
        None => return Ok(Vec::new()),
        Some(Value::String(one)) => vec![Value::String(one)],
        Some(Value::Array(all)) => all,
        Some(other) => return Err(wrong(&path, &other, "a string or an array of them")),
    };
    if all.len() > MOST_STOPS {
        let reason = format!("has {} texts, expected at most {MOST_STOPS}", all.len());
        return Err(ApiError::of_parameter(&path, reason));
    }
    let read = |(at, value): (usize, &Value)| match value.as_str() {
        Some(text) if (1..=LONGEST_STOP).contains(&text.len()) => Ok(text.as_bytes().to_vec()),
        Some(text) => {
            let reason = format!("has {} bytes, expected 1 to {LONGEST_STOP}", text.len());
            Err(ApiError::of_parameter(&format!("{path}[{at}]"), reason))
        }
        None => Err(wrong(&format!("{path}[{at}]"), value, "a string")),
    };
    all.iter().enumerate().map(read).collect()
}

fn biases(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(biases) = fields.object("logit_bias")? else {
        return Ok(Vec::new());
    };
    let all = biases.into_rest().into_iter().map(|(token, bias)| {
        let path = format!("logit_bias.{token}");
        let Ok(id) = token.parse() else {
            return Err(ApiError::of_parameter(&path, "is no token's number"));
        };
        match bias.as_f64() {
            Some(bias) => Ok((id, bias as f32)),
            None => Err(wrong(&path, &bias, "a number")),
        }
    });
    let mut all: Vec<(u32, f32)> = all.collect::<Result<_, _>>()?;
    // "7" and "07" are one token: their order counts, and is not that of the text.
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    Ok(all)
}
