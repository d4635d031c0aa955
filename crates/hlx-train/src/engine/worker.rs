//! The loop of the thread that owns the model.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Result;
use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{CausalLm, CausalModel, PagePool, Slots};

use super::counts::Counts;
use super::embedding::embedding;
use super::memory::Memory;
use super::queue::Queue;
use super::reading::{Read, Reading, Running, read};
use super::request::Finish;
use super::running::All;
use super::sequence::{Next, Sequence};
use super::sliding::Sliding;
use super::speaker::Speaker;
use super::turns::Turns;
use super::work::{Job, Work};
use super::{Embedded, Limits};

/// The state of the loop.
pub(super) struct Worker<'m> {
    speaker: Speaker<'m>,
    model: &'m CausalLm,
    device: Device,
    turns: Turns,
    limits: Limits,
    pub(super) queue: &'m Queue,
    /// The device's number among those of the queue.
    pub(super) number: usize,
    pub(super) is_withdrawn: bool,
    pub(super) counts: &'m Counts,
    /// What was taken and could not begin.
    pub(super) waiting: VecDeque<Work>,
    slots: Slots,
    pub(super) all: All<'m>,
    pub(super) sliding: Sliding<'m>,
}

impl<'m> Worker<'m> {
    pub fn new(
        speaker: Speaker<'m>,
        limits: Limits,
        memory: Memory,
        (queue, number): (&'m Queue, usize),
        counts: &'m Counts,
    ) -> Result<Self> {
        let Memory { slots, pages } = memory;
        let all = All::new(limits.places, pages);
        counts.pages.store(slots.n_pages(), Relaxed);
        all.count(counts);
        let device = speaker.model.device()?;
        Ok(Self {
            speaker,
            model: speaker.model,
            turns: Turns::of(&device),
            device,
            limits,
            queue,
            number,
            is_withdrawn: false,
            counts,
            waiting: VecDeque::new(),
            slots,
            all,
            sliding: Sliding::default(),
        })
    }

    /// What it has read, once all is answered.
    pub fn into_memory(self) -> Memory {
        Memory {
            slots: self.slots,
            pages: self.all.pages,
        }
    }

    /// Begins with what waits, reads pieces of prompts, and draws a token of every answer.
    ///
    /// # Errors
    /// What the device reports; nothing is known then of any page.
    pub fn round(&mut self) -> Result<()> {
        self.drop_cancelled();
        let capacity = self.slots.capacity();
        let n_drawn = self
            .sliding
            .step(self.model, (&self.device, &self.turns), capacity)?;
        let counter = &self.counts.answer_tokens;
        counter.fetch_add(n_drawn as u64, Relaxed);
        self.passes()
    }

    /// The passes of a round: those that read prompts, and a step. A pass that does both takes twice the time of the two,
    /// as a step is recorded and downloads no logits where the likeliest tokens suffice (docs/serve.md).
    fn passes(&mut self) -> Result<()> {
        let mut room = self.limits.chunk;
        // Short prompts share a round; a new pass is not begun for a few tokens.
        while 2 * room >= self.limits.chunk && room > 0 {
            self.begin(room);
            if self.all.readings.is_empty() {
                break;
            }
            room -= self.read(room)?;
        }
        self.all.make_room(self.counts);
        self.step()
    }

    /// Ends what nobody waits for any more.
    fn drop_cancelled(&mut self) {
        let n_waiting = self.waiting.len();
        self.waiting
            .retain(|work| !work.is_cancelled.load(Ordering::Acquire));
        for _ in self.waiting.len()..n_waiting {
            self.counts.cancelled.fetch_add(1, Relaxed);
        }
        let begun = self.all.take_where(Sequence::is_cancelled);
        let n_sliding = self.sliding.0.len();
        self.sliding.0.retain(|one| !one.is_cancelled());
        for _ in 0..begun.len() + n_sliding - self.sliding.0.len() {
            self.counts.end(&self.counts.cancelled);
        }
    }

    /// Begins with what waits, as far as places, pages and `room` tokens of a pass reach: those first that have given
    /// their pages back.
    fn begin(&mut self, room: usize) {
        let n_left = |all: &All<'_>| all.readings.iter().map(Reading::n_left).sum::<usize>();
        loop {
            let mut has_room = self.all.has_place() && n_left(&self.all) < room;
            if let Some((&age, sequence)) = self.all.preempted.first_key_value() {
                if has_room && self.may_begin(&sequence.ids, reuses(sequence)) {
                    if let Some(sequence) = self.all.preempted.remove(&age) {
                        let reuses = reuses(&sequence);
                        self.all.begin(sequence, age, reuses);
                    }
                    match self.all.preempted.contains_key(&age) {
                        true => return,
                        false => continue,
                    }
                }
                has_room = false;
            }
            let Some(work) = self.next(has_room) else {
                return;
            };
            match work.job {
                // Embeddings need no place.
                Job::Embed(tokens, embedded) => return self.embed(&tokens, embedded),
                Job::Answer(..) => {
                    if let Some(work) = self.begin_request(work) {
                        return self.waiting.push_front(work);
                    }
                }
            }
        }
    }

    /// Begins with a request, or returns it if it has to wait.
    fn begin_request(&mut self, work: Work) -> Option<Work> {
        let Job::Answer(request, _) = &work.job else {
            return Some(work);
        };
        let slides = request.prompt.len() > self.slots.capacity();
        let may_begin = match slides {
            true => self.sliding.0.len() < self.limits.places,
            false => self.may_begin(&request.prompt, !request.reads_whole_prompt()),
        };
        if !may_begin {
            return Some(work);
        }
        self.begin_counting(request.prompt.len());
        let sequence = Sequence::of_work(&self.speaker, work, self.counts)?;
        match (sequence.has_ended(), slides) {
            (true, _) => {}
            (false, true) => self.slide(sequence),
            (false, false) => self.begin_answer(sequence),
        }
        None
    }

    /// Has an answer slide.
    fn slide(&mut self, mut sequence: Sequence<'m>) {
        if !sequence.is_read() {
            sequence.tell_prompt(Vec::new());
        }
        self.sliding.0.push(sequence);
    }

    /// Whether there are pages for a request of these tokens, and none is read that it will find more of them in.
    fn may_begin(&self, ids: &[u32], reuses: bool) -> bool {
        let reuses = reuses && self.limits.reuses_prefixes;
        let n_found = match reuses && !self.all.readings.is_empty() {
            true => self.all.pages.n_known(ids),
            false => 0,
        };
        let will_find = |one: &Reading<'_>| reuses && one.will_hold(ids, n_found);
        !self.all.readings.iter().any(will_find) && self.all.has_pages_for(ids, reuses)
    }

    fn begin_answer(&mut self, mut sequence: Sequence<'m>) {
        // Cached tokens have no logits.
        let (age, reuses) = (self.all.next_age(), reuses(&sequence));
        let n_reused = match reuses {
            true => self.all.pages.n_known(&sequence.ids) * PagePool::PAGE,
            false => 0,
        };
        sequence.note_reused(n_reused);
        let counter = &self.counts.reused_tokens;
        counter.fetch_add(n_reused as u64, Relaxed);
        self.all.begin(sequence, age, reuses);
    }

    fn embed(&self, tokens: &[u32], embedded: Embedded) {
        self.begin_counting(tokens.len());
        let found = {
            let _turn = self.turns.take();
            embedding(self.model, &self.device, tokens)
        };
        let counter = match &found {
            Ok(_) => &self.counts.answered,
            Err(_) => &self.counts.failed,
        };
        self.counts.end(counter);
        embedded(found.map_err(|error| format!("{error:#}")));
    }

    fn begin_counting(&self, n_prompt: usize) {
        self.counts.running.fetch_add(1, Relaxed);
        self.counts
            .prompt_tokens
            .fetch_add(n_prompt as u64, Relaxed);
    }

    /// Reads pieces of prompts in one pass, of at most `room` tokens, and draws the next tokens of those that are read.
    /// Returns how many tokens were read.
    fn read(&mut self, room: usize) -> Result<usize> {
        let (read, n_tokens) = {
            let _turn = self.turns.take();
            read(&self.all.readings, self.model, &self.slots, room)?
        };
        self.note_read(read);
        Ok(n_tokens)
    }

    fn note_read(&mut self, read: Vec<Read>) {
        let n = read.len();
        let rest = self.all.readings.split_off(n);
        let begun = std::mem::replace(&mut self.all.readings, rest);
        let mut unfinished = Vec::new();
        for (mut reading, mut read) in begun.into_iter().zip(read) {
            reading.note(&mut read);
            let Running { sequence, held, .. } = &mut reading.running;
            self.all.pages.note(held, &sequence.ids[..read.n_held]);
            match read.logits {
                Some(logits) => self.grow(reading, &logits),
                None => unfinished.push(reading),
            }
        }
        self.all.readings.splice(0..0, unfinished);
    }

    /// Draws the next token behind what was read.
    fn grow(&mut self, mut reading: Reading<'m>, logits: &[f32]) {
        let logprobs = reading.take_logprobs();
        let mut running = reading.running;
        let sequence = &mut running.sequence;
        if !sequence.is_read() {
            sequence.tell_prompt(logprobs);
        }
        match sequence.request().max_tokens {
            0 => sequence.end(Finish::Length),
            _ => {
                if sequence.advance(&Next::Logits(logits), self.slots.capacity()) {
                    self.counts.answer_tokens.fetch_add(1, Relaxed);
                }
            }
        }
        let is_outgrown = running.sequence.ids.len() > self.slots.capacity();
        match (running.sequence.has_ended(), is_outgrown) {
            (true, _) => drop(self.all.release(running)),
            (false, false) => self.all.grow(running),
            (false, true) => {
                let sequence = self.all.release(running);
                self.slide(sequence);
            }
        }
    }

    /// Appends the last token of every answer, for which there is room, and draws the next ones.
    fn step(&mut self) -> Result<()> {
        let tokens = self.all.last_tokens();
        if tokens.is_empty() {
            return Ok(());
        }
        let mut growing = self.all.places.iter().flatten();
        let are_likeliest = growing.all(|one| one.sequence.request().takes_likeliest());
        let turn = self.turns.take();
        let (words, logits) = match are_likeliest {
            true => (
                self.slots.likeliest(self.model, &tokens)?.to_vec::<u32>()?,
                Vec::new(),
            ),
            false => (
                Vec::new(),
                downloaded(&self.slots.logits(self.model, &tokens)?)?,
            ),
        };
        drop(turn);
        let n_places = tokens.len();
        self.draw(n_places, &words, &logits);
        Ok(())
    }

    /// Draws the next token of the answers in the first places, which a step has appended to: from the likeliest tokens or
    /// the logits, a row for each place.
    fn draw(&mut self, n_places: usize, words: &[u32], logits: &[f32]) {
        let vocabulary = self.model.vocabulary();
        let All { places, pages, .. } = &mut self.all;
        let n_tokens = places[..n_places].iter().flatten().count();
        if n_tokens == 0 {
            return;
        }
        self.counts.steps.fetch_add(1, Relaxed);
        self.counts
            .computed_rows
            .fetch_add(n_tokens as u64, Relaxed);
        let mut growing: Vec<(Next<'_>, &mut Sequence<'m>)> = Vec::with_capacity(n_tokens);
        for (place, one) in places[..n_places].iter_mut().enumerate() {
            let Some(Running { sequence, held, .. }) = one else {
                continue;
            };
            pages.note(held, &sequence.ids);
            let next = match words.get(place) {
                Some(&id) => Next::Likeliest(((id as usize) < vocabulary).then_some(id)),
                None => Next::Logits(&logits[place * vocabulary..][..vocabulary]),
            };
            growing.push((next, sequence));
        }
        let capacity = self.slots.capacity();
        let n_drawn = advance_all(growing, capacity, logits.len());
        let counter = &self.counts.answer_tokens;
        counter.fetch_add(n_drawn as u64, Relaxed);
        for ended in self.all.take_where(Sequence::has_ended) {
            self.queue.remember(self.number, &ended.ids);
        }
        let outgrown = self.all.take_where(|one| one.ids.len() > capacity);
        outgrown.into_iter().for_each(|one| self.slide(one));
    }
}

/// Whether a request may begin with what pages hold of it: cached tokens have no logits.
fn reuses(sequence: &Sequence<'_>) -> bool {
    sequence.is_read() || !sequence.request().reads_whole_prompt()
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
