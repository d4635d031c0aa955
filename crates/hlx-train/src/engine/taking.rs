//! How a device takes requests from the queue, and gives them back when it is lost.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::Error;
use hlx_autograd::no_grad;

use super::lost::is_lost;
use super::queue::Taken;
use super::sequence::Sequence;
use super::work::Work;
use super::worker::Worker;

impl<'m> Worker<'m> {
    /// Answers requests until there are no more, or until the device is lost and others have its requests.
    pub fn run(&mut self) {
        while self.receive() {
            if let Err(error) = no_grad(|| self.round())
                && !self.withdraws(&error)
            {
                self.fail_all(&format!("{error:#}"));
            }
            self.all.count(self.counts);
        }
        if self.is_withdrawn {
            let unanswered = self.take_back();
            self.queue.give_back(unanswered);
        }
    }

    /// Waits where there is nothing to do. Returns whether there is something to do.
    pub fn receive(&mut self) -> bool {
        let is_idle = self.waiting.is_empty() && self.all.is_idle() && self.sliding.0.is_empty();
        if is_idle {
            let work = self.take(self.all.places.len(), true);
            self.waiting.extend(work);
            return !self.waiting.is_empty();
        }
        self.is_withdrawn = !self.queue.is_open(self.number);
        !self.is_withdrawn
    }

    /// The next of what waits; without room for an answer, an embedding alone.
    pub fn next(&mut self, has_room: bool) -> Option<Work> {
        let waits = !self.waiting.is_empty();
        let n_free = match has_room && !waits {
            true => self.all.n_free(),
            false => 0,
        };
        match (waits, has_room) {
            (true, true) => self.waiting.pop_front(),
            (true, false) => None,
            (false, _) => self.take(n_free, false),
        }
    }

    fn take(&mut self, n_free: usize, is_idle: bool) -> Option<Work> {
        let n_running = self.counts.running.load(Relaxed);
        match self.queue.take(self.number, n_free, n_running, is_idle) {
            Taken::Work(work) => Some(work),
            Taken::Withdrawn => {
                self.is_withdrawn = true;
                None
            }
            Taken::Nothing | Taken::End => None,
        }
    }

    /// Whether the device is lost and others take its requests.
    fn withdraws(&self, error: &Error) -> bool {
        let withdraws = is_lost(error) && self.queue.withdraw(self.number);
        if withdraws {
            tracing::error!("{error:#}: other devices answer its requests");
        }
        withdraws
    }

    /// All that was taken and not answered.
    fn take_back(&mut self) -> Vec<Work> {
        let begun = self.all.take_where(|_| true).into_iter();
        let begun = begun.chain(self.sliding.0.drain(..));
        let mut all: Vec<Work> = begun.map(Sequence::into_work).collect();
        let running = &self.counts.running;
        running.fetch_sub(all.len(), Relaxed);
        all.extend(self.waiting.drain(..));
        all
    }

    /// Ends all requests that have begun, whose pages may hold anything.
    fn fail_all(&mut self, reason: &str) {
        self.all.pages.forget();
        let begun = self.all.take_where(|_| true).into_iter();
        for mut sequence in begun.chain(self.sliding.0.drain(..)) {
            sequence.fail(reason);
        }
    }
}
