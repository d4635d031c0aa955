//! An answer that was given, made again from logits that one pass over prompt and answer has computed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::counts::Counts;
use super::draw::digest_of;
use super::request::{Event, Finish, Request};
use super::sequence::{Listener, Next, Sequence};
use super::speaker::TextModel;

/// Draws the tokens of an answer again, from logits that are given row by row.
pub struct Replay<'m> {
    sequence: Sequence<'m>,
    told: Arc<Mutex<Told>>,
    /// The answer's tokens.
    expected: Vec<u32>,
    steps: Vec<[u8; 32]>,
    ending: Ending,
}

/// What the sequence has told.
#[derive(Default)]
struct Told {
    text: String,
    finish: Option<Finish>,
}

/// How an answer's tokens follow from the logits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// All of them, and nothing follows the last one.
    Whole {
        /// The answer's text.
        text: String,
        /// Why it has ended.
        finish: Option<Finish>,
    },
    /// At a step another token is drawn.
    Other {
        /// The step, from 0.
        step: usize,
        /// The token that is drawn.
        drawn: u32,
    },
    /// The answer has ended before a step.
    Early {
        /// The step, from 0.
        step: usize,
    },
    /// The answer goes on behind its last token.
    #[default]
    Open,
    /// Nothing can be drawn at a step.
    Failed {
        /// The step, from 0.
        step: usize,
        /// Why.
        reason: String,
    },
}

/// An answer that was replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The SHA-256 of each step's logits.
    pub steps: Vec<[u8; 32]>,
    /// What was drawn from them.
    pub ending: Ending,
}

impl<'m> Replay<'m> {
    /// Begins with the request, and the tokens that were drawn for it. `counts` are those of no engine.
    pub fn new(
        text: &'m TextModel,
        request: Request,
        expected: Vec<u32>,
        counts: &'m Counts,
    ) -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        let listener = Arc::clone(&told);
        let hear = Box::new(move |event: Event<Vec<u8>>| {
            let mut told = listener.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Prompt { .. } => {}
                Event::Piece { text, .. } => told.text += &String::from_utf8_lossy(&text),
                Event::End { finish, .. } => told.finish = Some(finish),
            }
        });
        counts.running.fetch_add(1, Relaxed);
        let (goes_on, is_empty) = (Arc::new(AtomicBool::new(false)), request.max_tokens == 0);
        let listener = Listener::new(hear, goes_on, 0);
        let mut sequence = Sequence::new(&text.speaker(), request, listener, counts);
        if is_empty && !sequence.has_ended() {
            sequence.end(Finish::Length);
        }
        Self {
            sequence,
            told,
            steps: Vec::with_capacity(expected.len()),
            expected,
            ending: Ending::Open,
        }
    }

    /// The tokens whose logits have not been given.
    pub fn n_open(&self) -> usize {
        self.expected.len() - self.steps.len()
    }

    /// Takes the logits of the next steps, \[rows, V\], whose digests are computed by several threads; rows behind the last
    /// token are left out.
    pub fn take(&mut self, logits: &[f32], vocabulary: usize, n_threads: usize) {
        let rows: Vec<&[f32]> = logits
            .chunks_exact(vocabulary)
            .take(self.n_open())
            .collect();
        let mut digests = vec![[0; 32]; rows.len()];
        let size = rows.len().div_ceil(n_threads.max(1)).max(1);
        let digest = |(digest, row): (&mut [u8; 32], &&[f32])| *digest = digest_of(row);
        match rows.len() <= size {
            true => digests.iter_mut().zip(&rows).for_each(digest),
            false => std::thread::scope(|scope| {
                for (rows, digests) in rows.chunks(size).zip(digests.chunks_mut(size)) {
                    scope.spawn(move || digests.iter_mut().zip(rows).for_each(digest));
                }
            }),
        }
        for (row, digest) in rows.iter().zip(digests) {
            self.draw(row);
            self.steps.push(digest);
        }
    }

    /// Draws the next token, as long as all have been those of the answer.
    fn draw(&mut self, logits: &[f32]) {
        if self.ending != Ending::Open {
            return;
        }
        let step = self.steps.len();
        let had_ended = self.sequence.has_ended();
        if !had_ended {
            // The request's number of tokens ends it.
            self.sequence.advance(&Next::Logits(logits), usize::MAX);
        }
        let failure = self.failure();
        self.ending = match (failure, self.sequence.last_drawn()) {
            (Some(reason), _) => Ending::Failed { step, reason },
            _ if had_ended => Ending::Early { step },
            (None, Some(drawn)) if drawn != self.expected[step] => Ending::Other { step, drawn },
            _ => Ending::Open,
        };
    }

    fn failure(&self) -> Option<String> {
        match &self.told().finish {
            Some(Finish::Failed(reason)) => Some(reason.clone()),
            _ => None,
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found.
    pub fn finish(mut self) -> Replayed {
        if self.ending == Ending::Open && self.sequence.has_ended() && self.n_open() == 0 {
            let told = std::mem::take(&mut *self.told());
            self.ending = match told.finish {
                Some(Finish::Failed(reason)) => Ending::Failed { step: 0, reason },
                finish => Ending::Whole {
                    text: told.text,
                    finish,
                },
            };
        }
        Replayed {
            steps: self.steps,
            ending: self.ending,
        }
    }
}
