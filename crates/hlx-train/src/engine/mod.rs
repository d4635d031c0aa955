//! Answers to requests that come and go while others grow: one thread owns the model, reads prompts in pieces and grows
//! all answers by a token a step.
//!
//! An answer (its text, tokens, log-probabilities and digests) is a function of the model and its [`Request`] alone: not
//! of other requests, of when it came, or of what earlier requests left in the cache.

mod counts;
mod draw;
mod embedding;
mod guide;
mod pages;
mod reading;
mod request;
mod running;
mod sequence;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, ensure};
use hlx_nn::{CausalModel, PagePool};

use crate::generate::TextModel;
pub use counts::{Counts, Snapshot};
pub use draw::log_probabilities;
pub use guide::{Guide, Guides, MakeGuide};
pub use request::{Event, Fault, Finish, Logprobs, Request, Token, Usage};
use worker::{Job, Work, Worker};

/// What an engine has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answers that a step appends to, and prompts that are read for a place.
    pub places: usize,
    /// Tokens that the cache has room for, in whole pages; `None` for those of all places, as far as the device's memory
    /// holds them.
    pub cache_tokens: Option<usize>,
    /// Tokens of a prompt and its answer; `None` for the model's positions.
    pub capacity: Option<usize>,
    /// Requests that wait for a place; others are refused.
    pub queue: usize,
    /// Tokens of prompts that are read between two steps.
    pub chunk: usize,
    /// Whether prompts begin with full pages that hold the same tokens.
    pub reuses_prefixes: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            places: 16,
            cache_tokens: None,
            capacity: None,
            queue: 256,
            chunk: 256,
            reuses_prefixes: true,
        }
    }
}

/// Why a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It can't be answered as it is.
    Fault(Fault),
    /// As many requests wait as may wait.
    Busy {
        /// The requests that wait.
        waiting: usize,
    },
    /// The engine has ended.
    Ended,
}

/// Gets what happens to an answer, on the engine's thread: it must not wait.
pub type Listen = Box<dyn FnMut(Event) + Send>;

/// Gets an embedding, or why there is none.
pub type Embedded = Box<dyn FnOnce(Result<Vec<f32>, String>) + Send>;

/// A request that was taken: when it is dropped, the request ends without further events.
#[derive(Debug)]
pub struct Ticket(Arc<AtomicBool>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A model that answers requests. When it is dropped, it takes no more, and the thread ends with the last answer.
#[derive(Debug)]
pub struct Engine {
    text: Arc<TextModel>,
    capacity: usize,
    queue: usize,
    counts: Arc<Counts>,
    work: Mutex<Option<Sender<Work>>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Allocates the cache and starts the thread.
    ///
    /// # Errors
    /// Limits of 0 or beyond the model's positions, and a device without the memory.
    pub fn start(text: Arc<TextModel>, limits: Limits) -> Result<Self> {
        let positions = text.model.max_positions();
        let context = limits.capacity.unwrap_or(positions);
        ensure!(
            (1..=positions).contains(&context),
            "the engine's capacity is {context} tokens, expected 1 to the model's {positions} positions"
        );
        ensure!(
            limits.places > 0 && limits.chunk > 0,
            "the engine needs at least 1 place, and reads at least 1 token at a time"
        );
        let n_pages = n_pages(&text, &limits, context)?;
        // Every request fits by itself.
        let capacity = context.min(n_pages * PagePool::PAGE);
        let counts = Arc::new(Counts::default());
        let (work, inbox) = channel();
        let (ready, made) = channel();
        let thread = {
            let (text, counts) = (Arc::clone(&text), Arc::clone(&counts));
            std::thread::Builder::new()
                .name("hlx-engine".to_owned())
                .spawn(move || {
                    match Worker::new(&text, limits, [capacity, n_pages], inbox, &counts) {
                        Ok(mut worker) => {
                            let _ = ready.send(Ok(()));
                            worker.run();
                        }
                        Err(error) => _ = ready.send(Err(error)),
                    }
                })
                .context("the engine's thread")?
        };
        made.recv().context("the engine's thread has ended")??;
        Ok(Self {
            text,
            capacity,
            queue: limits.queue,
            counts,
            work: Mutex::new(Some(work)),
            thread: Some(thread),
        })
    }

    /// The model with its tokenizer.
    pub fn text(&self) -> &Arc<TextModel> {
        &self.text
    }

    /// Tokens of a prompt and its answer at most: no more than the cache has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Requests that may wait.
    pub fn queue(&self) -> usize {
        self.queue
    }

    /// What has happened so far.
    pub fn counts(&self) -> Snapshot {
        self.counts.snapshot()
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The first argument that is wrong, by name.
    pub fn check(&self, request: &Request) -> Result<(), Fault> {
        request.check(self.text.model.vocabulary(), self.capacity)
    }

    /// Takes a request. `listen` gets what happens to it, [`Event::End`] last.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit(&self, request: Request, listen: Listen) -> Result<Ticket, Refused> {
        let mut tickets = self.submit_all(vec![(request, listen)])?;
        tickets.pop().ok_or(Refused::Ended)
    }

    /// Takes several requests, or none of them.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn submit_all(&self, requests: Vec<(Request, Listen)>) -> Result<Vec<Ticket>, Refused> {
        for (request, _) in &requests {
            self.check(request).map_err(Refused::Fault)?;
        }
        self.reserve(requests.len())?;
        let mut tickets = Vec::with_capacity(requests.len());
        for (request, listen) in requests {
            let is_cancelled = Arc::new(AtomicBool::new(false));
            tickets.push(Ticket(Arc::clone(&is_cancelled)));
            self.send(Work {
                is_cancelled,
                job: Job::Answer(Box::new(request), listen),
            })?;
        }
        Ok(tickets)
    }

    /// Computes the embedding of a text: the mean over its tokens of what the model's projection to logits reads,
    /// divided by its Euclidean norm.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn embed(&self, tokens: Vec<u32>, embedded: Embedded) -> Result<Ticket, Refused> {
        let request = Request::new(tokens, 0);
        self.check(&request).map_err(Refused::Fault)?;
        self.reserve(1)?;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let ticket = Ticket(Arc::clone(&is_cancelled));
        self.send(Work {
            is_cancelled,
            job: Job::Embed(request.prompt, embedded),
        })?;
        Ok(ticket)
    }

    /// Takes no more requests; those that were taken are answered.
    pub fn end(&self) {
        drop(self.sender().take());
    }

    fn reserve(&self, n: usize) -> Result<(), Refused> {
        match self.counts.queue(n, self.queue) {
            Ok(()) => Ok(()),
            Err(waiting) => Err(Refused::Busy { waiting }),
        }
    }

    fn send(&self, work: Work) -> Result<(), Refused> {
        let sender = self.sender();
        let sent = sender.as_ref().map(|sender| sender.send(work).is_ok());
        match sent {
            Some(true) => Ok(()),
            _ => {
                self.counts.unqueue();
                Err(Refused::Ended)
            }
        }
    }

    fn sender(&self) -> std::sync::MutexGuard<'_, Option<Sender<Work>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages of the cache.
fn n_pages(text: &TextModel, limits: &Limits, context: usize) -> Result<usize> {
    if let Some(n_tokens) = limits.cache_tokens {
        ensure!(
            n_tokens >= PagePool::PAGE,
            "the engine's cache has {n_tokens} tokens, expected at least {}",
            PagePool::PAGE
        );
        return Ok(n_tokens / PagePool::PAGE);
    }
    let wanted = limits.places.saturating_mul(PagePool::pages_of(context));
    let device = text.model.device()?;
    let free = device
        .info()
        .memory_bytes
        .saturating_sub(device.held_bytes());
    // The rest is what passes compute with.
    let room = free / 10 * 8 / text.model.page_bytes(&device).max(1);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    Ok(wanted.min(room).max(1))
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed, and its requests have ended without an event.
            let _ = thread.join();
        }
    }
}
