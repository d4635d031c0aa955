//! An answer that grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use super::counts::Counts;
use super::draw::{digest_of, log_probabilities, weighed};
use super::growing::Growing;
use super::guide::{Guide, Guides};
use super::request::{Event, Finish, Logprobs, Request, Token, Trace, Usage};
use super::speaker::{Decoder, Speaker};
use super::stop::Stops;
use super::work::{Hear, Job, Work};

/// The error of an answer that cannot be continued.
pub(crate) const NAN_LOGITS: &str =
    "the model's logits are NaN: its weights are damaged, or the run has diverged";

/// What is known of an answer's next token.
pub(super) enum Next<'a> {
    /// The logits that it is drawn from.
    Logits(&'a [f32]),
    /// The likeliest token; without one a logit is NaN.
    Likeliest(Option<u32>),
}

/// Who gets what happens to an answer.
pub(super) struct Listener {
    hear: Hear,
    is_cancelled: Arc<AtomicBool>,
    /// What has happened.
    n_events: usize,
    /// What is known already.
    n_known: usize,
}

impl Listener {
    /// One that has been told the first `n_known` events.
    pub fn new(hear: Hear, is_cancelled: Arc<AtomicBool>, n_known: usize) -> Self {
        Self {
            hear,
            is_cancelled,
            n_events: 0,
            n_known,
        }
    }

    fn tell(&mut self, event: Event<Vec<u8>>) {
        self.n_events += 1;
        if self.n_events > self.n_known {
            (self.hear)(event);
        }
    }
}

/// A request with its answer so far.
pub(super) struct Sequence<'m> {
    request: Request,
    listener: Listener,
    counts: &'m Counts,
    /// Those of the prompt and of the answer.
    pub ids: Vec<u32>,
    end_tokens: &'m [u32],
    /// `None` once the answer has ended.
    decoder: Option<Decoder<'m>>,
    text: Growing,
    /// Bytes that the decoder has returned.
    n_decoded: usize,
    /// Bytes that the listener has.
    n_told: usize,
    /// Tokens that the listener does not have, each with the place where its text begins.
    waiting: Vec<(usize, Token)>,
    n_draws: u32,
    last_drawn: Option<u32>,
    n_times: BTreeMap<u32, u32>,
    guide: Option<Box<dyn Guide>>,
    digests: Sha256,
    trace: Trace,
    n_reused: usize,
    /// Whether the prompt was read.
    is_read: bool,
    /// The one that has ended the answer.
    end_token: Option<Token>,
}

impl<'m> Sequence<'m> {
    pub fn new(
        speaker: &Speaker<'m>,
        request: Request,
        listener: Listener,
        counts: &'m Counts,
    ) -> Self {
        let decoder = speaker.spelling.after(&request.prompt, &request.marks);
        let mut new = Self {
            ids: request.prompt.clone(),
            end_tokens: match request.ignores_end {
                true => &[],
                false => speaker.end_tokens,
            },
            request,
            listener,
            counts,
            decoder: None,
            text: Growing::default(),
            n_decoded: 0,
            n_told: 0,
            waiting: Vec::new(),
            n_draws: 0,
            last_drawn: None,
            n_times: BTreeMap::new(),
            guide: None,
            digests: Sha256::new(),
            trace: Trace::default(),
            n_reused: 0,
            is_read: false,
            end_token: None,
        };
        let guide = new.request.guides.as_ref().map(Guides::make).transpose();
        match (decoder, guide) {
            (Ok(decoder), Ok(guide)) => (new.decoder, new.guide) = (Some(decoder), guide),
            (Err(error), _) => new.fail(&error.to_string()),
            (_, Err(reason)) => new.fail(&reason),
        }
        new
    }

    /// The sequence of a request, if the work is one.
    pub fn of_work(speaker: &Speaker<'m>, work: Work, counts: &'m Counts) -> Option<Self> {
        let Job::Answer(request, hear) = work.job else {
            return None;
        };
        let listener = Listener::new(hear, work.is_cancelled, work.n_known);
        Some(Self::new(speaker, *request, listener, counts))
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    pub fn n_prompt(&self) -> usize {
        self.request.prompt.len()
    }

    pub fn is_cancelled(&self) -> bool {
        self.listener.is_cancelled.load(Ordering::Acquire)
    }

    /// The request, to be answered again: what was told is not told again.
    pub fn into_work(self) -> Work {
        let Listener {
            hear,
            is_cancelled,
            n_events,
            n_known,
        } = self.listener;
        Work {
            is_cancelled,
            job: Job::Answer(Box::new(self.request), hear),
            n_known: n_known.max(n_events),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.decoder.is_none()
    }

    /// The token that was drawn last, also one that has ended the answer.
    pub fn last_drawn(&self) -> Option<u32> {
        self.last_drawn
    }

    /// Notes how many tokens of the prompt were in the cache.
    pub fn note_reused(&mut self, n: usize) {
        self.n_reused = n;
    }

    /// Whether the prompt was read.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Tells that the prompt was read.
    pub fn tell_prompt(&mut self, logprobs: Vec<Logprobs>) {
        self.is_read = true;
        self.tell(Event::Prompt { logprobs });
    }

    fn tell(&mut self, event: Event<Vec<u8>>) {
        self.listener.tell(event);
    }

    /// Draws the next token and tells what is clear with it. The answer has ended then, or wants another token behind
    /// this one. Returns whether a token was added.
    pub fn advance(&mut self, next: &Next<'_>, capacity: usize) -> bool {
        let token = match self.draw(next) {
            Ok(token) => token,
            Err(reason) => {
                self.fail(&reason);
                return false;
            }
        };
        let id = token.id;
        self.last_drawn = Some(id);
        if self.end_tokens.contains(&id) {
            self.end_token = Some(token);
            self.end(Finish::Stop(None));
            return false;
        }
        self.ids.push(id);
        *self.n_times.entry(id).or_default() += 1;
        self.waiting.push((self.n_decoded, token));
        let piece = self.decoder.as_mut().map(|decoder| decoder.push(id));
        match piece.transpose() {
            Ok(piece) => self.grow(&piece.unwrap_or_default()),
            Err(error) => self.fail(&error.to_string()),
        }
        let n_answer = self.ids.len() - self.n_prompt();
        let guided = self.guide.as_mut().map_or(Ok(false), |guide| {
            guide.accept(id).map(|()| guide.has_ended())
        });
        match guided {
            Ok(true) if !self.has_ended() => self.end(Finish::Stop(None)),
            Err(reason) if !self.has_ended() => self.fail(&reason),
            Ok(_) | Err(_) => {}
        }
        let is_outgrown = self.ids.len() > capacity && !self.request.slides;
        let is_full = n_answer >= self.request.max_tokens || is_outgrown;
        if is_full && !self.has_ended() {
            self.end(Finish::Length);
        }
        true
    }

    /// The next token.
    ///
    /// # Errors
    /// A logit that is NaN, and that of the guide.
    fn draw(&mut self, next: &Next<'_>) -> Result<Token, String> {
        let draw = self.n_draws;
        self.n_draws += 1;
        let failure = || NAN_LOGITS.to_owned();
        let logits = match *next {
            Next::Likeliest(id) => {
                let token = id.map(|id| Token { id, logprobs: None });
                return token.ok_or_else(failure);
            }
            Next::Logits(logits) => logits,
        };
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(failure());
        }
        let request = &self.request;
        let digest = request.digests.then(|| digest_of(logits));
        let changed = request.is_weighed();
        let mut changed = changed.then(|| weighed(request, logits, &self.n_times));
        if let (Some(changed), Some(guide)) = (&mut changed, &mut self.guide) {
            guide.restrict(changed)?;
        }
        let from = changed.as_deref().unwrap_or(logits);
        let sampling = &request.sampling;
        let id = sampling.choose(from, &self.ids, request.stream, draw) as u32;
        let logprobs = request.logprobs;
        if let Some(digest) = digest {
            self.digests.update(digest);
            self.trace.tokens.push(id);
            self.trace.steps.push(std::array::from_fn(|at| digest[at]));
        }
        Ok(Token {
            id,
            logprobs: logprobs.map(|n_top| log_probabilities(logits, id, n_top)),
        })
    }

    /// Adds decoded text up to a stop, and tells what is clear.
    fn grow(&mut self, piece: &[u8]) {
        self.n_decoded += piece.len();
        let mut told = Vec::new();
        let stops = Stops::new(&self.request.stop);
        let mut tell = |new: &[u8]| {
            told.extend_from_slice(new);
            Ok(())
        };
        // The closure does not fail.
        let stopped = self.text.grow(piece, &stops, &mut tell).unwrap_or(false);
        let stop = self.text.stop().map(<[u8]>::to_vec);
        self.n_told += told.len();
        let is_spelt = self.decoder.as_ref().is_none_or(Decoder::is_spelt);
        self.tell_piece(told, !is_spelt);
        if stopped {
            self.finish(Finish::Stop(stop));
        }
    }

    /// Tells text with the tokens that begin in it; `all` tells those behind it, too.
    fn tell_piece(&mut self, told: Vec<u8>, all: bool) {
        let n_told = self.n_told;
        let is_clear = |(begin, _): &&(usize, Token)| all || *begin < n_told;
        let n_clear = self.waiting.iter().take_while(is_clear).count();
        if told.is_empty() && n_clear == 0 {
            return;
        }
        let tokens = self
            .waiting
            .drain(..n_clear)
            .map(|(_, token)| token)
            .collect();
        self.tell(Event::Piece { text: told, tokens });
    }

    /// Ends an answer that no stop has ended.
    pub fn end(&mut self, finish: Finish) {
        let rest = self.decoder.take().map(Decoder::finish);
        match rest.transpose() {
            Ok(rest) => self.grow(&rest.unwrap_or_default()),
            Err(error) => return self.fail(&error.to_string()),
        }
        if self.text.has_ended() {
            return;
        }
        let mut told = Vec::new();
        let rest = std::mem::take(&mut self.text).finish(&mut |new| {
            told.extend_from_slice(new);
            Ok(())
        });
        // The closure does not fail.
        let _ = rest;
        self.n_told += told.len();
        self.tell_piece(told, true);
        self.finish(finish);
    }

    /// Ends an answer that cannot be continued.
    pub fn fail(&mut self, reason: &str) {
        self.finish(Finish::Failed(reason.to_owned()));
    }

    fn finish(&mut self, finish: Finish) {
        self.decoder = None;
        self.counts.end(match &finish {
            Finish::Failed(_) => &self.counts.failed,
            _ => &self.counts.answered,
        });
        let digest = self.request.digests.then(|| {
            let digest = self.digests.clone().finalize();
            digest.iter().map(|byte| format!("{byte:02x}")).collect()
        });
        let usage = Usage {
            prompt: self.n_prompt(),
            reused: self.n_reused,
            answer: self.ids.len() - self.n_prompt(),
        };
        let end_token = self.end_token.take();
        let trace = std::mem::take(&mut self.trace);
        self.tell(Event::End {
            finish,
            end_token,
            usage,
            digest,
            trace: self.request.digests.then_some(trace),
        });
    }
}
