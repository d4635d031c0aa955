//! Answers to requests that come and go while others grow: one thread for each device reads prompts in pieces and grows all
//! of its answers by a token a step. Requests wait in one queue for all devices of a model.
//!
//! An answer (its text, tokens, log-probabilities and digests) is a function of the model and its [`Request`] alone: not
//! of other requests, of when it came, or of what earlier requests left in the cache.

mod counts;
mod draw;
mod embedding;
mod growing;
mod guide;
mod here;
mod lost;
mod memory;
mod pages;
mod queue;
mod reading;
mod remembered;
mod replay;
mod request;
mod running;
mod sequence;
mod sliding;
mod speaker;
mod stop;
mod taking;
mod turns;
mod watch;
mod work;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, ensure};
use hlx_nn::{CausalModel, PagePool};

pub use counts::{Counts, Snapshot};
pub use draw::log_probabilities;
pub use guide::{Guide, Guides, MakeGuide};
pub(crate) use here::answer_here;
pub(crate) use memory::Memory;
use queue::{Leaves, Queue};
pub use replay::{Ending, Replay, Replayed};
pub use request::{Event, Fault, Finish, Logprobs, Request, Token, Trace, Usage};
pub(crate) use sequence::NAN_LOGITS;
pub use speaker::TextModel;
pub(crate) use speaker::{Speaker, Spelling};
pub use watch::Watch;
use work::{Job, Work};
use worker::Worker;

/// What an engine has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answers that a step of each device appends to, and prompts that are read for a place.
    pub places: usize,
    /// Tokens that the cache of each device has room for, in whole pages; `None` for those of all places, as far as the
    /// device's memory holds them.
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

/// Gets what happens to an answer, on a thread of the engine: it must not wait.
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

/// A model that answers requests. When it is dropped, it takes no more, and the threads end with the last answer.
#[derive(Debug)]
pub struct Engine {
    text: Arc<TextModel>,
    capacity: usize,
    limit: usize,
    queue: Arc<Queue>,
    devices: Vec<Running>,
}

/// A device of an engine.
#[derive(Debug)]
struct Running {
    selector: String,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// What a device of an engine has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Its name, such as `vulkan:0`.
    pub device: String,
    /// Whether it takes requests: it does not once it is lost, or was withdrawn.
    pub is_open: bool,
    /// The counters of the device.
    pub counts: Snapshot,
}

impl Engine {
    /// As [`Engine::start_on`] with one device.
    ///
    /// # Errors
    /// As [`Engine::start_on`].
    pub fn start(text: Arc<TextModel>, limits: Limits) -> Result<Self> {
        Self::start_on(vec![text], limits)
    }

    /// Allocates the caches and starts a thread for each device: `texts` are one model, opened on each of them.
    ///
    /// # Errors
    /// No model at all, models of other vocabularies or positions, limits of 0 or beyond the model's positions, and a
    /// device without the memory.
    pub fn start_on(texts: Vec<Arc<TextModel>>, limits: Limits) -> Result<Self> {
        let text = texts.first().context("the engine needs a device")?;
        let text = Arc::clone(text);
        let sizes = |text: &TextModel| [text.model.vocabulary(), text.model.max_positions()];
        ensure!(
            texts.iter().all(|one| sizes(one) == sizes(&text)),
            "the devices of an engine have models of different vocabularies or positions"
        );
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
        let n_pages = texts
            .iter()
            .map(|text| n_pages(text, &limits, context))
            .collect::<Result<Vec<_>>>()?;
        let fewest = n_pages.iter().copied().min().unwrap_or(0);
        // Every request fits by itself, on every device.
        let capacity = context.min(fewest * PagePool::PAGE);
        let remembers = match limits.reuses_prefixes {
            true => fewest * PagePool::PAGE,
            false => 0,
        };
        let queue = Queue::new(texts.len(), limits.places, remembers, limits.queue);
        let mut engine = Self {
            text,
            capacity,
            limit: limits.queue,
            queue: Arc::new(queue),
            devices: Vec::new(),
        };
        let texts = texts.into_iter().zip(n_pages);
        let waits: Vec<_> = texts
            .map(|(text, n_pages)| engine.start_device(text, limits, n_pages))
            .collect::<Result<_>>()?;
        for made in waits {
            made.recv().context("a thread of the engine has ended")??;
        }
        Ok(engine)
    }

    /// Starts the thread of a device, and returns where it says that it has its memory.
    fn start_device(
        &mut self,
        text: Arc<TextModel>,
        limits: Limits,
        n_pages: usize,
    ) -> Result<Receiver<Result<()>>> {
        let number = self.devices.len();
        let selector = text.model.device()?.info().selector.clone();
        let counts = Arc::new(Counts::default());
        let (ready, made) = channel();
        let (queue, capacity) = (Arc::clone(&self.queue), self.capacity);
        let run = {
            let counts = Arc::clone(&counts);
            move || {
                let _leaves = Leaves(&queue, number);
                let speaker = text.speaker();
                let sizes = [limits.places, capacity];
                let memory = Memory::new(speaker.model, sizes, n_pages, limits.reuses_prefixes);
                let worker = memory.and_then(|memory| {
                    Worker::new(speaker, limits, memory, (&queue, number), &counts)
                });
                match worker {
                    Ok(mut worker) => {
                        let _ = ready.send(Ok(()));
                        worker.run();
                    }
                    Err(error) => _ = ready.send(Err(error)),
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("hlx-engine-{number}"));
        self.devices.push(Running {
            selector,
            counts,
            thread: Some(thread.spawn(run).context("a thread of the engine")?),
        });
        Ok(made)
    }

    /// The model with its tokenizer, on the first device.
    pub fn text(&self) -> &Arc<TextModel> {
        &self.text
    }

    /// Tokens of a prompt and its answer at most: no more than the caches have room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Requests that may wait.
    pub fn queue(&self) -> usize {
        self.limit
    }

    /// What has happened so far on all devices.
    pub fn counts(&self) -> Snapshot {
        let devices = self.devices.iter().map(|one| one.counts.snapshot());
        let all = devices.fold(Snapshot::default(), Snapshot::plus);
        let (waiting, cancelled) = self.queue.counts();
        Snapshot {
            waiting,
            cancelled: all.cancelled + cancelled,
            ..all
        }
    }

    /// What has happened so far on each device.
    pub fn devices(&self) -> Vec<DeviceCounts> {
        let devices = self.devices.iter().enumerate();
        let counts = devices.map(|(number, one)| DeviceCounts {
            device: one.selector.clone(),
            is_open: self.queue.is_open(number),
            counts: one.counts.snapshot(),
        });
        counts.collect()
    }

    /// Takes a device out of service, if another one is left: it takes no more requests, and others answer those that it
    /// has, from their beginnings. Nothing is told twice, and no answer changes. A device that is lost is taken out by
    /// itself. Returns whether it is out.
    pub fn withdraw(&self, device: usize) -> bool {
        self.queue.withdraw(device)
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The first argument that is wrong, by name.
    pub fn check(&self, request: &Request) -> Result<(), Fault> {
        let (vocabulary, positions) = (
            self.text.model.vocabulary(),
            self.text.model.max_positions(),
        );
        request.fault(vocabulary, self.capacity)?;
        if request.slides && self.capacity < positions {
            let reason = format!(
                "{} tokens are held of {positions}, expected all",
                self.capacity
            );
            return Err(Fault::new("slides", reason));
        }
        Ok(())
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
        let jobs = requests.into_iter().map(|(request, mut listen)| {
            let hear = move |event: Event<Vec<u8>>| listen(event.into_characters());
            Job::Answer(Box::new(request), Box::new(hear))
        });
        self.add(jobs.collect())
    }

    /// Computes the embedding of a text: the mean over its tokens of what the model's projection to logits reads,
    /// divided by its Euclidean norm.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn embed(&self, tokens: Vec<u32>, embedded: Embedded) -> Result<Ticket, Refused> {
        let request = Request::new(tokens, 0);
        self.check(&request).map_err(Refused::Fault)?;
        let mut tickets = self.add(vec![Job::Embed(request.prompt, embedded)])?;
        tickets.pop().ok_or(Refused::Ended)
    }

    /// Takes no more requests; those that were taken are answered.
    pub fn end(&self) {
        self.queue.close();
    }

    fn add(&self, jobs: Vec<Job>) -> Result<Vec<Ticket>, Refused> {
        let (mut tickets, mut work) = (Vec::new(), Vec::new());
        for job in jobs {
            let is_cancelled = Arc::new(AtomicBool::new(false));
            tickets.push(Ticket(Arc::clone(&is_cancelled)));
            work.push(Work::new(is_cancelled, job));
        }
        match self.queue.add(work) {
            Ok(()) => Ok(tickets),
            Err(Some(waiting)) => Err(Refused::Busy { waiting }),
            Err(None) => Err(Refused::Ended),
        }
    }
}

/// The pages of a device's cache.
fn n_pages(text: &TextModel, limits: &Limits, context: usize) -> Result<usize> {
    let Some(n_tokens) = limits.cache_tokens else {
        return Memory::n_pages(&text.model, limits.places, context);
    };
    ensure!(
        n_tokens >= PagePool::PAGE,
        "the cache has room for {n_tokens}, expected at least {} tokens",
        PagePool::PAGE
    );
    Ok(n_tokens / PagePool::PAGE)
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
        for thread in self.devices.iter_mut().filter_map(|one| one.thread.take()) {
            // A panic of a thread has been printed, and its requests have ended without an event.
            let _ = thread.join();
        }
    }
}
