//! Whether an answer is what its receipt says: recomputed by one pass over prompt and answer.

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Arithmetic, Device, SPECIFICATION};
use hlx_nn::CausalModel;
use hlx_receipt::{Body, FinishReason, Grammar, ModelDigests, NamedFile, Sha256, StepDigest};
use sha2::Digest as _;

use super::model::{BLOCKS, TENSORS};
use super::prefill::{Wanted, logits_behind};
use super::statement::request_of;
use super::verdict::Check;
use crate::engine::{Counts, Ending, Finish, Guides, Replay, Replayed, Request};
use crate::generate::TextModel;
use crate::run::place;

/// Makes the guides to a grammar.
pub type MakeGuides<'m> = dyn Fn(&Grammar) -> Result<Guides, String> + Send + Sync + 'm;

/// Recomputes the answers of a model.
pub struct Checker<'m> {
    text: &'m TextModel,
    digests: &'m ModelDigests,
    arithmetic: Arithmetic,
    device: Device,
    counts: Counts,
    guides: &'m MakeGuides<'m>,
}

impl<'m> Checker<'m> {
    /// Prepares checks against a model with its digests.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(
        text: &'m TextModel,
        digests: &'m ModelDigests,
        guides: &'m MakeGuides<'m>,
    ) -> Result<Self> {
        Ok(Self {
            arithmetic: text.model.device()?.arithmetic(),
            device: text.model.device()?,
            counts: Counts::default(),
            text,
            digests,
            guides,
        })
    }

    /// Checks whether a receipt is one of this model, as far as that is said by digests.
    pub fn check_model(&self, body: &Body) -> Vec<Check> {
        let specification = match body.specification {
            SPECIFICATION => Ok(format!("{SPECIFICATION}")),
            other => Err(format!(
                "the receipt follows specification {other} of the arithmetic, and this HLX computes {SPECIFICATION}"
            )),
        };
        let mut checks = vec![
            Check::of("specification", specification),
            Check::of("model", self.model(body)),
        ];
        if checks.iter().all(|check| check.ok) {
            checks.push(Check::of("request", self.request(body)));
        }
        checks
    }

    fn model(&self, body: &Body) -> Result<String, String> {
        let (found, own) = (&body.model, self.digests);
        let digests = [
            ("weights_sha256", found.weights_sha256, own.weights_sha256),
            ("config_sha256", found.config_sha256, own.config_sha256),
            (
                "tokenizer_sha256",
                found.tokenizer_sha256,
                own.tokenizer_sha256,
            ),
        ];
        let texts = [
            ("dtype", &*found.dtype, &*own.dtype),
            ("arithmetic", &*body.arithmetic, self.arithmetic.name()),
        ];
        let digests = digests.map(|(name, found, own)| (name, found.to_string(), own.to_string()));
        let texts = texts.map(|(name, found, own)| (name, found.to_owned(), own.to_owned()));
        // The type and the arithmetic are said first: they change the weights' digest, and can be chosen.
        let all = texts.into_iter().chain(digests);
        for (name, found, own) in all {
            if found != own {
                return Err(format!(
                    "the receipt is of another model: its {name} is {found}, this model's is {own}"
                ));
            }
        }
        if let Some(what) = place::differs(self.arithmetic, body.place.as_ref(), &self.device) {
            return Err(format!("the receipt cannot be checked here: it was {what}"));
        }
        // What is computed of blocks depends on more than their values.
        let stored = |files: &[NamedFile]| {
            let found = files.iter().find(|file| file.name == TENSORS);
            found.map(|file| file.sha256.to_string())
        };
        if own.dtype == BLOCKS && stored(&found.files) != stored(&own.files) {
            return Err("the receipt is of a model with other blocks".to_owned());
        }
        let mut detail = format!("weights {}", own.weights_sha256);
        if found.files != own.files {
            detail += ", read from other files with equal tensors";
        }
        if found.chat_template_sha256 != own.chat_template_sha256 {
            detail += ", with another chat template";
        }
        Ok(detail)
    }

    /// Checks what the recomputation needs: known tokens, and as many positions as the model has.
    fn request(&self, body: &Body) -> Result<String> {
        let (vocabulary, positions) = (
            self.text.model.vocabulary(),
            self.text.model.max_positions(),
        );
        let all = body.prompt_token_ids.iter().chain(&body.token_ids);
        for id in all {
            ensure!(
                (*id as usize) < vocabulary,
                "the token {id} is outside of the vocabulary of {vocabulary}"
            );
        }
        let (n_prompt, n) = (body.prompt_token_ids.len(), body.token_ids.len());
        ensure!(
            n_prompt + n <= positions + 1,
            "{n_prompt} tokens of the prompt and {n} of the answer, and the model has {positions} positions"
        );
        let ends = &body.sampling.stop_token_ids;
        ensure!(
            ends.is_empty() || *ends == self.text.end_tokens,
            "the tokens that end an answer are {ends:?}, of this model {:?}",
            self.text.end_tokens
        );
        let guides = self.guides_of(body)?;
        let request = request_of(body, guides)?;
        let fault = request.fault(vocabulary, positions);
        if let Err(fault) = fault {
            anyhow::bail!("{}: {}", fault.name, fault.reason);
        }
        Ok(format!(
            "{n_prompt} tokens of the prompt, {n} of the answer"
        ))
    }

    fn guides_of(&self, body: &Body) -> Result<Option<Guides>> {
        let guides = body.sampling.grammar.as_ref().map(self.guides);
        let guides = guides.transpose().map_err(anyhow::Error::msg);
        guides.context("grammar")
    }

    /// Begins to make an answer again; its receipt has passed [`Checker::check_model`].
    ///
    /// # Errors
    /// A grammar that is none.
    pub fn replay(&self, body: &Body) -> Result<Replay<'_>> {
        let request: Request = request_of(body, self.guides_of(body)?)?;
        Ok(Replay::new(
            self.text,
            request,
            body.token_ids.clone(),
            &self.counts,
        ))
    }

    /// The tokens that a pass over prompt and answer reads, and behind which of them the answer's logits are.
    pub fn pass_of(body: &Body) -> (Vec<u32>, usize) {
        let n = body.token_ids.len();
        let answer = &body.token_ids[..n.saturating_sub(1)];
        let from = body.prompt_token_ids.len() - usize::from(n > 0);
        ([&body.prompt_token_ids, answer].concat(), from)
    }

    /// Recomputes answers whose receipts have passed [`Checker::check_model`], many in a pass. `told` gets the number
    /// of those that are done.
    ///
    /// # Errors
    /// What the device reports.
    pub fn recompute(
        &self,
        bodies: &[&Body],
        told: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Check>>> {
        let mut replays = Vec::with_capacity(bodies.len());
        let mut wanted = Vec::with_capacity(bodies.len());
        for body in bodies {
            replays.push(Some(self.replay(body)?));
            let (tokens, from) = Self::pass_of(body);
            wanted.push(Wanted { tokens, from });
        }
        let vocabulary = self.text.model.vocabulary();
        let mut n_done = 0;
        let mut found: Vec<Option<Replayed>> = bodies.iter().map(|_| None).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        logits_behind(&self.text.model, &wanted, &mut |parts| {
            let open = parts.iter().filter_map(|&(at, logits)| {
                let replay = replays[at].take()?;
                Some((at, replay, logits))
            });
            let mut open: Vec<_> = open.collect();
            let size = open.len().div_ceil(cores).max(1);
            // One long answer has all threads; many answers have one each.
            let n_threads = cores / open.len().clamp(1, cores);
            std::thread::scope(|scope| {
                for part in open.chunks_mut(size) {
                    scope.spawn(move || {
                        for (_, replay, logits) in part {
                            replay.take(logits, vocabulary, n_threads);
                        }
                    });
                }
            });
            for (at, replay, _) in open {
                match replay.n_open() {
                    0 => {
                        found[at] = Some(replay.finish());
                        n_done += 1;
                    }
                    _ => replays[at] = Some(replay),
                }
            }
            told(n_done);
        })?;
        let all = bodies.iter().zip(found).zip(replays);
        Ok(all
            .map(|((body, found), open)| {
                let found = found.or_else(|| open.map(Replay::finish));
                found.map_or_else(Vec::new, |found| self.checks(body, &found))
            })
            .collect())
    }

    /// Compares an answer that was made again with its receipt.
    pub fn checks(&self, body: &Body, found: &Replayed) -> Vec<Check> {
        vec![
            Check::of("logits", self.logits(body, &found.steps)),
            Check::of("tokens", self.tokens(body, &found.ending)),
        ]
    }

    fn logits(&self, body: &Body, steps: &[[u8; 32]]) -> Result<String, String> {
        let n = body.token_ids.len();
        for (step, (digest, recorded)) in steps.iter().zip(&body.step_logits_sha256).enumerate() {
            let recomputed = StepDigest::from(std::array::from_fn(|at| digest[at]));
            if recomputed != *recorded {
                return Err(format!(
                    "the logits differ at {}: recorded {recorded}, recomputed {recomputed}",
                    self.step(body, step)
                ));
            }
        }
        let mut all = sha2::Sha256::new();
        steps.iter().for_each(|digest| all.update(digest));
        let all = Sha256::from(<[u8; 32]>::from(all.finalize()));
        match all == body.logits_sha256 && steps.len() == n {
            true => Ok(format!("of {n} steps, {all}")),
            false => Err(format!(
                "the digest over all logits differs: recorded {}, recomputed {all}",
                body.logits_sha256
            )),
        }
    }

    fn tokens(&self, body: &Body, ending: &Ending) -> Result<String, String> {
        let n = body.token_ids.len();
        let (text, finish) = match ending {
            Ending::Whole { text, finish } => (text, finish),
            Ending::Other { step, drawn } => {
                return Err(format!(
                    "another token follows from logits, seed and parameters at {}: {}",
                    self.step(body, *step),
                    self.token(*drawn)
                ));
            }
            Ending::Early { step } => {
                return Err(format!(
                    "the answer has ended before {}",
                    self.step(body, *step)
                ));
            }
            Ending::Open => return Err(format!("the answer goes on behind its {n} tokens")),
            Ending::Failed { step, reason } => {
                return Err(format!("nothing can be drawn at step {step}: {reason}"));
            }
        };
        let reason = match finish {
            Some(Finish::Length) => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        if reason != body.finish_reason {
            return Err(format!(
                "finish_reason is {:?}, recomputed {reason:?}",
                body.finish_reason
            ));
        }
        let digest = Sha256::of(text.as_bytes());
        match digest == body.response_sha256 {
            true => Ok(format!(
                "{n} tokens follow from logits, seed and parameters"
            )),
            false => Err(format!(
                "the text differs: recorded {}, recomputed {digest}",
                body.response_sha256
            )),
        }
    }

    fn step(&self, body: &Body, step: usize) -> String {
        let id = body.token_ids.get(step).copied().unwrap_or(0);
        format!("step {step}, {}", self.token(id))
    }

    fn token(&self, id: u32) -> String {
        let text = self.text.tokenizer.decode_all(&[id]).unwrap_or_default();
        format!("token {id} {text:?}")
    }
}
