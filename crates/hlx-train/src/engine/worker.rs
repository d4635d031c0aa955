//! The loop of the thread that owns the model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};

use anyhow::Result;
use hlx_autograd::{Tensor, no_grad};
use hlx_core::Device;
use hlx_nn::{CausalLm, CausalModel, KvCache, Slots};

use super::counts::Counts;
use super::embedding::embedding;
use super::places::{Beginning, Places};
use super::reading::Reading;
use super::request::{Event, Finish, Request};
use super::sequence::{Next, Sequence};
use super::{Embedded, Limits, Listen};
use crate::generate::TextModel;

/// What a thread gets.
pub(super) struct Work {
    pub is_cancelled: Arc<AtomicBool>,
    pub job: Job,
}

/// What is to be done.
pub(super) enum Job {
    Answer(Box<Request>, Listen),
    Embed(Vec<u32>, Embedded),
}

/// The state of the loop.
pub(super) struct Worker<'m> {
    text: &'m TextModel,
    model: &'m CausalLm,
    device: Device,
    limits: Limits,
    inbox: Receiver<Work>,
    counts: &'m Counts,
    waiting: VecDeque<Work>,
    reading: Option<Reading<'m>>,
    /// The cache of the prompt that is being read.
    prompt: KvCache,
    slots: Slots,
    places: Places<'m>,
}

impl<'m> Worker<'m> {
    pub fn new(
        text: &'m TextModel,
        limits: Limits,
        capacity: usize,
        inbox: Receiver<Work>,
        counts: &'m Counts,
    ) -> Result<Self> {
        let model: &CausalLm = &text.model;
        let device = model.device()?;
        Ok(Self {
            text,
            model,
            prompt: model.cache(&device, 1, capacity)?,
            slots: Slots::new(model, &device, limits.places, capacity)?,
            device,
            limits,
            inbox,
            counts,
            waiting: VecDeque::new(),
            reading: None,
            places: Places::new(limits.places),
        })
    }

    /// Answers requests until there are no more.
    pub fn run(&mut self) {
        while self.receive() {
            no_grad(|| self.round());
        }
    }

    /// Takes what has come; waits where there is nothing to do. Returns false once nothing can come, and all is done.
    fn receive(&mut self) -> bool {
        let is_idle =
            self.waiting.is_empty() && self.reading.is_none() && !self.places.has_growing();
        if is_idle {
            match self.inbox.recv() {
                Ok(work) => self.waiting.push_back(work),
                Err(RecvError) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(work) => self.waiting.push_back(work),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
    }

    /// A piece of a prompt, or some short ones, and a token of every answer.
    fn round(&mut self) {
        self.drop_cancelled();
        // Short prompts share a round; a new one is not begun for a few tokens.
        let mut room = self.limits.chunk;
        while 2 * room >= self.limits.chunk.max(1) && room > 0 {
            if self.reading.is_none() {
                self.begin();
            }
            let Some(reading) = self.reading.take() else {
                break;
            };
            room -= self.read(reading, room);
        }
        if let Err(error) = self.step() {
            self.fail_all(&format!("{error:#}"));
        }
    }

    /// Ends what nobody waits for any more.
    fn drop_cancelled(&mut self) {
        let n_waiting = self.waiting.len();
        self.waiting
            .retain(|work| !work.is_cancelled.load(Ordering::Acquire));
        for _ in self.waiting.len()..n_waiting {
            self.counts.unqueue();
            self.counts.cancelled.fetch_add(1, Relaxed);
        }
        if self
            .reading
            .as_ref()
            .is_some_and(|one| one.sequence.is_cancelled())
            && let Some(reading) = self.reading.take()
        {
            self.places.all[reading.place].is_taken = false;
            self.counts.end(&self.counts.cancelled);
        }
        for place in 0..self.places.all.len() {
            let growing = self.places.all[place].growing.as_ref();
            if growing.is_some_and(Sequence::is_cancelled) {
                self.places.release(place);
                self.counts.end(&self.counts.cancelled);
            }
        }
    }

    /// Begins with what waits: an embedding, or the next prompt if there is a place for its answer.
    fn begin(&mut self) {
        let Some(Work { is_cancelled, job }) = self.waiting.pop_front() else {
            return;
        };
        match job {
            Job::Embed(tokens, embedded) => {
                self.begin_counting(tokens.len());
                let found = embedding(self.model, &self.device, &tokens);
                let counter = match &found {
                    Ok(_) => &self.counts.answered,
                    Err(_) => &self.counts.failed,
                };
                self.counts.end(counter);
                embedded(found.map_err(|error| format!("{error:#}")));
            }
            Job::Answer(request, listen) => {
                // Cached tokens have no logits.
                let wants_all = request.prompt_logprobs.is_some() || request.watch.is_some();
                let reuses = self.limits.reuses_prefixes && !wants_all;
                let beginning = match reuses {
                    true => self.places.beginning_of(&request.prompt, &self.slots),
                    false => None,
                };
                let Some(place) = self.places.free(beginning) else {
                    let job = Job::Answer(request, listen);
                    return self.waiting.push_front(Work { is_cancelled, job });
                };
                self.begin_counting(request.prompt.len());
                let (text, counts) = (self.text, self.counts);
                let sequence = Sequence::new(text, *request, listen, is_cancelled, counts);
                if !sequence.has_ended() {
                    self.begin_reading(sequence, place, beginning);
                }
            }
        }
    }

    /// Begins to read a prompt behind what the cache holds of it.
    fn begin_reading(
        &mut self,
        mut sequence: Sequence<'m>,
        place: usize,
        beginning: Option<Beginning>,
    ) {
        let copied = self
            .shelve(place, beginning)
            .and_then(|()| match beginning {
                Some(from) => {
                    let (slots, prompt) = (&self.slots, &mut self.prompt);
                    slots.copy_to(prompt, from.place, from.n_tokens)
                }
                None => self.prompt.truncate(&[0]),
            });
        if let Err(error) = copied {
            return sequence.fail(&error.to_string());
        }
        let n_reused = beginning.map_or(0, |from| from.n_tokens);
        if let Some(beginning) = beginning {
            self.places.note_copied(beginning, place);
        }
        let counter = &self.counts.reused_tokens;
        counter.fetch_add(n_reused as u64, Relaxed);
        sequence.note_reused(n_reused);
        self.places.all[place].is_taken = true;
        self.reading = Some(Reading::new(sequence, place));
    }

    /// Keeps what a place holds in one that holds something older.
    fn shelve(&mut self, place: usize, beginning: Option<Beginning>) -> hlx_nn::Result<()> {
        let shelf = self.places.shelf_for(place, beginning);
        let Some(shelf) = shelf.filter(|_| self.limits.reuses_prefixes) else {
            return Ok(());
        };
        let n_tokens = self.slots.lengths()[place];
        self.slots.copy_to(&mut self.prompt, place, n_tokens)?;
        self.slots.fill(shelf, &self.prompt)?;
        self.places.shelve(place, shelf);
        Ok(())
    }

    fn begin_counting(&self, n_prompt: usize) {
        self.counts.unqueue();
        self.counts.running.fetch_add(1, Relaxed);
        self.counts
            .prompt_tokens
            .fetch_add(n_prompt as u64, Relaxed);
    }

    /// Reads a piece of a prompt, of at most `room` tokens; behind the last one draws the answer's first token and puts
    /// the answer in its place. Returns how many tokens were read.
    fn read(&mut self, mut reading: Reading<'m>, room: usize) -> usize {
        let (model, device) = (self.model, &self.device);
        match reading.read(model, device, &mut self.prompt, room) {
            Ok((n, None)) => {
                self.reading = Some(reading);
                n
            }
            Ok((n, Some(logits))) => {
                self.begin_answer(reading, &logits);
                n
            }
            Err(error) => {
                self.fail(reading, &format!("{error:#}"));
                room
            }
        }
    }

    /// Draws the first token behind a prompt that was read.
    fn begin_answer(&mut self, mut reading: Reading<'m>, logits: &[f32]) {
        let (place, logprobs) = (reading.place, reading.take_logprobs());
        if let Err(error) = self.slots.fill(place, &self.prompt) {
            return self.fail(reading, &format!("{error:#}"));
        }
        let mut sequence = reading.sequence;
        sequence.tell(Event::Prompt { logprobs });
        match sequence.request().max_tokens {
            0 => sequence.end(Finish::Length),
            _ => self.advance(&mut sequence, &Next::Logits(logits)),
        }
        if sequence.has_ended() {
            let held = sequence.request().prompt.clone();
            self.places.hold(place, held);
            return;
        }
        self.places.fill(place, sequence);
    }

    fn fail(&mut self, mut reading: Reading<'m>, reason: &str) {
        self.places.all[reading.place].is_taken = false;
        self.forget();
        reading.sequence.fail(reason);
    }

    fn advance(&self, sequence: &mut Sequence<'m>, next: &Next<'_>) {
        if sequence.advance(next, self.slots.capacity()) {
            self.counts.answer_tokens.fetch_add(1, Relaxed);
        }
    }

    /// Appends the last token of every answer, and draws the next ones.
    fn step(&mut self) -> Result<()> {
        let ids = self.places.last_tokens();
        if ids.is_empty() {
            return Ok(());
        }
        let growing = self
            .places
            .all
            .iter()
            .filter_map(|one| one.growing.as_ref());
        let are_likeliest = growing.map(|one| one.request().takes_likeliest());
        let mut are_likeliest = are_likeliest.collect::<Vec<_>>().into_iter();
        let vocabulary = self.model.vocabulary();
        let (words, logits) = match are_likeliest.all(|one| one) {
            true => (
                self.slots.likeliest(self.model, &ids)?.to_vec::<u32>()?,
                Vec::new(),
            ),
            false => (
                Vec::new(),
                downloaded(&self.slots.logits(self.model, &ids)?)?,
            ),
        };
        let n_tokens = ids.iter().flatten().count();
        self.counts.steps.fetch_add(1, Relaxed);
        self.counts
            .computed_rows
            .fetch_add(n_tokens as u64, Relaxed);
        let mut growing: Vec<(Next<'_>, &mut Sequence<'m>)> = Vec::with_capacity(n_tokens);
        for (place, one) in self.places.all[..ids.len()].iter_mut().enumerate() {
            let next = match words.get(place) {
                Some(&id) => Next::Likeliest(((id as usize) < vocabulary).then_some(id)),
                None => Next::Logits(&logits[place * vocabulary..(place + 1) * vocabulary]),
            };
            growing.extend(one.growing.as_mut().map(|sequence| (next, sequence)));
        }
        let n_drawn = advance_all(growing, self.slots.capacity(), logits.len());
        let counter = &self.counts.answer_tokens;
        counter.fetch_add(n_drawn as u64, Relaxed);
        for place in 0..ids.len() {
            let growing = self.places.all[place].growing.as_ref();
            if growing.is_some_and(Sequence::has_ended) {
                self.places.release(place);
            }
        }
        Ok(())
    }

    /// Ends all answers, whose places may hold anything.
    fn fail_all(&mut self, reason: &str) {
        for place in 0..self.places.all.len() {
            if let Some(mut sequence) = self.places.release(place) {
                sequence.fail(reason);
            }
        }
        self.forget();
    }

    /// Forgets what is held of earlier answers.
    fn forget(&mut self) {
        self.places.forget();
    }
}

fn downloaded(logits: &Tensor) -> Result<Vec<f32>> {
    Ok(logits.to_vec::<f32>()?)
}

/// Draws the next token of each answer, those of many logits on several threads; returns how many were added.
fn advance_all(
    mut growing: Vec<(Next<'_>, &mut Sequence<'_>)>,
    capacity: usize,
    n_logits: usize,
) -> usize {
    /// Fewer logits are read before a thread has started.
    const LOGITS: usize = 1 << 17;
    let advance = |part: &mut [(Next<'_>, &mut Sequence<'_>)]| {
        let added = part
            .iter_mut()
            .map(|(next, one)| one.advance(next, capacity));
        added.filter(|&added| added).count()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let n_threads = cores.min(n_logits / LOGITS).min(growing.len());
    if n_threads < 2 {
        return advance(&mut growing);
    }
    let size = growing.len().div_ceil(n_threads);
    std::thread::scope(|scope| {
        let parts = growing.chunks_mut(size);
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| advance(part))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|n| n.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    })
}
