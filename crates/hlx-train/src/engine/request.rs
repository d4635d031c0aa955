//! What a request says, and what it gets.

use super::guide::Guides;
use super::watch::Watch;
use crate::sample::Sampling;

/// The largest number that may be added to a logit.
const LARGEST_BIAS: f32 = 100.0;
/// The largest penalty.
const LARGEST_PENALTY: f32 = 2.0;
/// Tokens whose log-probabilities are returned at most.
const MOST_LOGPROBS: usize = 100;

/// A prompt, and how it is to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The tokens to continue.
    pub prompt: Vec<u32>,
    /// Tokens of the answer at most; 0 reads the prompt alone.
    pub max_tokens: usize,
    /// How each is drawn.
    pub sampling: Sampling,
    /// The answer's number among those of one prompt and seed, which keys its draws.
    pub stream: u32,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<Vec<u8>>,
    /// Whether the model's own end tokens do not end the answer, but are tokens of it.
    pub ignores_end: bool,
    /// Whether the answer continues behind the model's positions, with the last tokens that they hold, which takes a
    /// whole pass a token.
    pub slides: bool,
    /// Subtracted from the logits of tokens that the answer has.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token for each time that the answer has it.
    pub frequency_penalty: f32,
    /// Added to the logits of tokens, before the penalties.
    pub logit_bias: Vec<(u32, f32)>,
    /// Says which tokens may come next, after bias and penalties; `None` lets all come.
    pub guides: Option<Guides>,
    /// Of each token the log-probabilities of itself and of this many of the likeliest; `None` computes none.
    pub logprobs: Option<usize>,
    /// The same of the prompt's tokens, from the second on.
    pub prompt_logprobs: Option<usize>,
    /// Special tokens that are part of the answer's text; others are not.
    pub marks: Vec<u32>,
    /// Whether the digests of logits are computed.
    pub digests: bool,
    /// Gets the logits behind tokens of the prompt.
    pub watch: Option<Watch>,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The argument.
    pub name: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl Fault {
    pub(super) fn new(name: &'static str, reason: String) -> Self {
        Self { name, reason }
    }
}

impl Request {
    /// The likeliest tokens after a prompt.
    pub fn new(prompt: Vec<u32>, max_tokens: usize) -> Self {
        Self {
            prompt,
            max_tokens,
            sampling: Sampling::default(),
            stream: 0,
            stop: Vec::new(),
            ignores_end: false,
            slides: false,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            guides: None,
            logprobs: None,
            prompt_logprobs: None,
            marks: Vec::new(),
            digests: false,
            watch: None,
        }
    }

    /// The first argument that is wrong, for a model with as many tokens and room for `capacity` of them.
    ///
    /// # Errors
    /// It, by name.
    pub fn fault(&self, vocabulary: usize, capacity: usize) -> Result<(), Fault> {
        let fault = |name, reason| Err(Fault::new(name, reason));
        let n_prompt = self.prompt.len();
        if n_prompt == 0 {
            return fault("prompt", "the prompt is empty".to_owned());
        }
        if n_prompt > capacity && !self.slides {
            let reason =
                format!("the prompt has {n_prompt} tokens, and the model takes {capacity}");
            return fault("prompt", reason);
        }
        let outside = |&&id: &&u32| id as usize >= vocabulary;
        if let Some(id) = self.prompt.iter().find(outside) {
            let reason = format!("the token {id} is outside of the vocabulary of {vocabulary}");
            return fault("prompt", reason);
        }
        if let Some((name, reason)) = self.sampling.fault() {
            return fault(name, reason);
        }
        for (name, penalty) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            if !(-LARGEST_PENALTY..=LARGEST_PENALTY).contains(&penalty) {
                let reason =
                    format!("{penalty} is not from -{LARGEST_PENALTY} to {LARGEST_PENALTY}");
                return fault(name, reason);
            }
        }
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocabulary {
                let reason = format!("the token {id} is outside of the vocabulary of {vocabulary}");
                return fault("logit_bias", reason);
            }
            if !(-LARGEST_BIAS..=LARGEST_BIAS).contains(&bias) {
                let reason = format!(
                    "{bias} of the token {id} is not from -{LARGEST_BIAS} to {LARGEST_BIAS}"
                );
                return fault("logit_bias", reason);
            }
        }
        for (name, n) in [
            ("logprobs", self.logprobs),
            ("prompt_logprobs", self.prompt_logprobs),
        ] {
            if let Some(n) = n.filter(|&n| n > MOST_LOGPROBS) {
                return fault(name, format!("{n} is not from 0 to {MOST_LOGPROBS}"));
            }
        }
        Ok(())
    }

    /// Whether the likeliest token is drawn from the model's own logits, which nobody else wants.
    pub(super) fn takes_likeliest(&self) -> bool {
        self.sampling.is_greedy() && !self.is_weighed() && self.logprobs.is_none() && !self.digests
    }

    /// Whether the logits behind all tokens of the prompt are wanted, which cached tokens do not have.
    pub(super) fn reads_whole_prompt(&self) -> bool {
        self.prompt_logprobs.is_some() || self.watch.is_some()
    }

    /// Whether logits are changed before they are drawn from.
    pub(super) fn is_weighed(&self) -> bool {
        let penalties = [self.presence_penalty, self.frequency_penalty];
        !self.logit_bias.is_empty() || penalties != [0.0; 2] || self.guides.is_some()
    }
}

/// The log-probability of a token, and those of the likeliest.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// The token.
    pub id: u32,
    /// Its log-probability.
    pub own: f32,
    /// The likeliest tokens with theirs, the likeliest first, the lower id first among equals.
    pub top: Vec<(u32, f32)>,
}

/// A token of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its log-probability and those of others, if they are wanted.
    pub logprobs: Option<Logprobs>,
}

/// What happens to a request. Text is characters, or bytes where tokens stand for them.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T = String> {
    /// The prompt was read.
    Prompt {
        /// The log-probabilities of its tokens from the second on, if they are wanted.
        logprobs: Vec<Logprobs>,
    },
    /// The answer's next characters, and the tokens that they begin in.
    Piece {
        /// Whole characters.
        text: T,
        /// Each token is in one event.
        tokens: Vec<Token>,
    },
    /// The answer has ended.
    End {
        /// Why.
        finish: Finish,
        /// The end token that was drawn, with what is wanted of it, if one was.
        end_token: Option<Token>,
        /// What was read and written.
        usage: Usage,
        /// SHA-256 over the digests of the logits that tokens were drawn from, the end's included, if it is wanted.
        digest: Option<String>,
        /// What a receipt says of its tokens, if digests are wanted.
        trace: Option<Trace>,
    },
}

/// The tokens of an answer and the digests of the logits that they were drawn from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The tokens, also one that has ended the answer.
    pub tokens: Vec<u32>,
    /// The first 8 bytes of the SHA-256 of each one's logits.
    pub steps: Vec<[u8; 8]>,
}

impl Event<Vec<u8>> {
    /// The same with its text as characters.
    pub(super) fn into_characters(self) -> Event {
        match self {
            Self::Prompt { logprobs } => Event::Prompt { logprobs },
            Self::Piece { text, tokens } => {
                let lossy = |error: std::string::FromUtf8Error| {
                    String::from_utf8_lossy(error.as_bytes()).into_owned()
                };
                let text = String::from_utf8(text).unwrap_or_else(lossy);
                Event::Piece { text, tokens }
            }
            Self::End {
                finish,
                end_token,
                usage,
                digest,
                trace,
            } => Event::End {
                finish,
                end_token,
                usage,
                digest,
                trace,
            },
        }
    }
}

/// Why an answer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token was drawn, or the text has reached a stop, which is given.
    Stop(Option<Vec<u8>>),
    /// It has as many tokens as it may have, or the model's positions have ended.
    Length,
    /// It cannot be continued.
    Failed(String),
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Those of the prompt.
    pub prompt: usize,
    /// Those of them that were in the cache.
    pub reused: usize,
    /// Those that were drawn, without one that ends the answer.
    pub answer: usize,
}
