//! Answers of one request: several prompts, several answers for each, with their events in one channel.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use hlx_receipt::Receipt;
use hlx_train::engine::{Event, Finish, Listen, Logprobs, Request, Ticket, Token, Usage};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::app::Model;
use crate::error::ApiError;
use crate::pending::{Pending, Shown};
use crate::served::Served;
use crate::wish::Wish;

/// The answers to a request while they grow. When it is dropped, they end.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Numbers of answers with what happens to them.
    events: UnboundedReceiver<(usize, Event)>,
    backlog: Arc<Backlog>,
    /// What came behind pieces that were joined.
    next: Option<(usize, Event)>,
    n_open: usize,
    receipts: Option<Receipts>,
}

/// The receipts of answers.
struct Receipts {
    model: Model,
    wish: Wish,
    pending: Vec<Pending>,
    done: Vec<Option<Receipt>>,
}

/// What waits for a client that reads slowly, and how it ends.
#[derive(Debug, Default)]
struct Backlog {
    n_events: AtomicUsize,
    /// Whether there was no room for an event.
    is_full: AtomicBool,
    /// Ends the answers when they are dropped.
    tickets: Mutex<Vec<Ticket>>,
}

/// Events that wait for a client at most.
const LONGEST: usize = 1 << 16;

impl Backlog {
    /// Counts an event; returns whether there is room for it. Without room the answers end.
    fn add(&self) -> bool {
        if self.n_events.fetch_add(1, Relaxed) >= LONGEST {
            self.is_full.store(true, Relaxed);
        }
        let is_full = self.is_full.load(Relaxed);
        if is_full {
            self.end();
        }
        !is_full
    }

    fn end(&self) {
        let tickets = self.tickets.lock();
        tickets.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // The engine holds the backlog, too.
        self.backlog.end();
    }
}

/// A whole answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub text: String,
    pub tokens: Vec<Token>,
    pub prompt: Vec<Logprobs>,
    /// The end token that was drawn, if one was.
    pub end_token: Option<Token>,
    pub finish: Option<Finish>,
    pub usage: Usage,
    pub digest: Option<String>,
}

impl Answers {
    /// Gives requests to the engine of a model, and makes a receipt of each answer if it is to have one.
    pub fn start(model: &Model, mut requests: Vec<Request>, wish: &Wish) -> Result<Self, ApiError> {
        let receipts = match model.keeper() {
            None if wish.is_shown => {
                let reason = "this server gives no receipts";
                return Err(ApiError::unsupported("receipt", reason));
            }
            Some(keeper) if wish.is_shown || keeper.is_for_all() => Some(Receipts {
                model: model.clone(),
                wish: wish.clone(),
                pending: requests.iter_mut().map(Pending::note).collect(),
                done: vec![None; requests.len()],
            }),
            _ => None,
        };
        let mut answers = Self::start_plain(model, requests)?;
        answers.receipts = receipts;
        Ok(answers)
    }

    /// Gives requests to the engine of a model.
    pub fn start_plain(served: &Served, requests: Vec<Request>) -> Result<Self, ApiError> {
        let (sender, events) = unbounded_channel();
        let backlog = Arc::new(Backlog::default());
        let n_open = requests.len();
        let requests = requests.into_iter().enumerate().map(|(number, request)| {
            let (sender, backlog) = (sender.clone(), Arc::clone(&backlog));
            let listen: Listen = Box::new(move |event| {
                if backlog.add() {
                    // Nobody may listen any more.
                    let _ = sender.send((number, event));
                }
            });
            (request, listen)
        });
        let tickets = served.engine.submit_all(requests.collect())?;
        let held = backlog.tickets.lock();
        *held.unwrap_or_else(PoisonError::into_inner) = tickets;
        Ok(Self {
            events,
            backlog,
            next: None,
            n_open,
            receipts: None,
        })
    }

    /// What happens next; `None` once all answers have ended.
    pub async fn next(&mut self) -> Option<Result<(usize, Event), ApiError>> {
        if self.n_open == 0 {
            return None;
        }
        let received = match self.next.take() {
            Some(next) => Some(next),
            None => self.receive().await,
        };
        let Some((number, mut event)) = received else {
            self.n_open = 0;
            let reason = match self.backlog.is_full.load(Relaxed) {
                true => "the client reads too slowly",
                false => "the engine has ended before the answer",
            };
            return Some(Err(ApiError::internal(reason)));
        };
        // A client that reads more slowly than tokens come gets several at a time.
        while let Event::Piece { text, tokens } = &mut event
            && let Ok((other, next)) = self.events.try_recv()
        {
            self.backlog.n_events.fetch_sub(1, Relaxed);
            match next {
                Event::Piece {
                    text: more,
                    tokens: added,
                } if other == number => {
                    *text += &more;
                    tokens.extend(added);
                }
                next => {
                    self.next = Some((other, next));
                    break;
                }
            }
        }
        if let Event::End { finish, .. } = &event {
            self.n_open -= 1;
            if let Finish::Failed(reason) = finish {
                self.n_open = 0;
                return Some(Err(ApiError::internal(reason.clone())));
            }
        }
        if let Some(receipts) = &mut self.receipts
            && let Err(error) = receipts.add(number, &mut event).await
        {
            self.n_open = 0;
            return Some(Err(error));
        }
        Some(Ok((number, event)))
    }

    async fn receive(&mut self) -> Option<(usize, Event)> {
        let received = self.events.recv().await;
        if received.is_some() {
            self.backlog.n_events.fetch_sub(1, Relaxed);
        }
        received
    }

    /// The receipts that the answer shows, once all answers have ended.
    pub fn shown(&self) -> Result<Shown, ApiError> {
        match &self.receipts {
            Some(receipts) if receipts.wish.is_shown => Shown::of(&receipts.done),
            _ => Ok(Shown::default()),
        }
    }

    /// All of them, once they have ended.
    pub async fn collect(mut self) -> Result<(Vec<Answer>, Shown), ApiError> {
        let mut all = vec![Answer::default(); self.n_open];
        while let Some(event) = self.next().await {
            let (number, event) = event?;
            all[number].add(event);
        }
        let shown = self.shown()?;
        Ok((all, shown))
    }
}

impl Receipts {
    /// Notes what happens to an answer; the receipt of one that ends is there when this returns.
    async fn add(&mut self, number: usize, event: &mut Event) -> Result<(), ApiError> {
        let pending = &mut self.pending[number];
        match event {
            Event::Prompt { .. } => {}
            Event::Piece { text, .. } => pending.push(text),
            Event::End {
                finish,
                digest,
                trace,
                ..
            } => {
                let ended = (&*finish, digest, trace);
                self.done[number] = pending.end(&self.model, &self.wish, ended).await?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Receipts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receipts of {:?}", self.wish)
    }
}

impl Answer {
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Prompt { logprobs } => self.prompt = logprobs,
            Event::Piece { text, tokens } => {
                self.text += &text;
                self.tokens.extend(tokens);
            }
            Event::End {
                finish,
                end_token,
                usage,
                digest,
                ..
            } => {
                self.end_token = end_token;
                self.finish = Some(finish);
                self.usage = usage;
                self.digest = digest;
            }
        }
    }
}

/// The tokens of several answers; a prompt counts once for all of its answers.
pub(crate) fn all_usage(usages: &[Usage], n: usize) -> Usage {
    let mut all = Usage::default();
    for (at, one) in usages.iter().enumerate() {
        if at % n == 0 {
            all.prompt += one.prompt;
            all.reused += one.reused;
        }
        all.answer += one.answer;
    }
    all
}
