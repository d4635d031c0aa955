//! The requests that have been begun: those that are being read, those that grow, and those that wait for pages.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use hlx_nn::Piece;

use super::counts::Counts;
use super::pages::{Held, Pages};
use super::reading::{Reading, Running};
use super::sequence::Sequence;

/// All of them, with the pages that they have.
pub(super) struct All<'m> {
    pub pages: Pages,
    /// In the order in which they are read.
    pub readings: Vec<Reading<'m>>,
    /// The answers that grow, in the rows of a step.
    pub places: Vec<Option<Running<'m>>>,
    /// Those that have given their pages back, by their age.
    pub preempted: BTreeMap<u64, Sequence<'m>>,
    n_begun: u64,
}

impl<'m> All<'m> {
    pub fn new(n_places: usize, pages: Pages) -> Self {
        Self {
            pages,
            readings: Vec::new(),
            places: (0..n_places).map(|_| None).collect(),
            preempted: BTreeMap::new(),
            n_begun: 0,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.readings.is_empty() && self.preempted.is_empty() && self.n_growing() == 0
    }

    /// The answers that grow.
    pub fn n_growing(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// The requests that can be read for a place.
    pub fn n_free(&self) -> usize {
        self.places.len() - self.readings.len() - self.n_growing()
    }

    /// Whether one more request can be read for a place.
    pub fn has_place(&self) -> bool {
        self.n_free() > 0
    }

    /// The age of a request that begins now.
    pub fn next_age(&mut self) -> u64 {
        self.n_begun += 1;
        self.n_begun
    }

    /// Whether there are pages for these tokens and the next, some of which they may share if they may `reuse` them, or
    /// nothing else has any.
    pub fn has_pages_for(&self, ids: &[u32], reuses: bool) -> bool {
        let has_none = self.readings.is_empty() && self.n_growing() == 0;
        has_none || self.pages.n_missing(ids, reuses) == 0
    }

    /// Begins to read the tokens of a request, behind those that pages hold if it `reuses` them.
    pub fn begin(&mut self, sequence: Sequence<'m>, age: u64, reuses: bool) {
        let mut held = match reuses {
            true => self.pages.beginning_of(&sequence.ids),
            false => Held::default(),
        };
        if self.pages.extend(&mut held, sequence.ids.len()) {
            let running = Running {
                sequence,
                held,
                age,
            };
            self.readings.push(Reading::new(running));
        } else {
            self.pages.release(&mut held);
            self.preempted.insert(age, sequence);
        }
    }

    /// Puts an answer in the first free place.
    pub fn grow(&mut self, running: Running<'m>) {
        let free = self.places.iter_mut().find(|place| place.is_none());
        debug_assert!(free.is_some(), "a place is counted for each reading");
        if let Some(place) = free {
            *place = Some(running);
        }
    }

    /// Takes back the pages of a request that has ended.
    pub fn release(&mut self, mut running: Running<'m>) -> Sequence<'m> {
        self.pages.release(&mut running.held);
        running.sequence
    }

    /// Gives every answer a page for its next token, the oldest first; where there is none, the youngest request gives
    /// its pages back.
    pub fn make_room(&mut self, counts: &Counts) {
        self.close_gaps();
        let mut by_age: Vec<(u64, usize)> = self
            .places
            .iter()
            .enumerate()
            .filter_map(|(place, one)| Some((one.as_ref()?.age, place)))
            .collect();
        by_age.sort_unstable();
        for (age, place) in by_age {
            while let Some(Some(one)) = self.places.get_mut(place) {
                if one.age != age || self.pages.extend(&mut one.held, one.sequence.ids.len()) {
                    break;
                }
                self.preempt_youngest(counts);
            }
        }
    }

    /// Moves the last answers to free places before them, as a step computes the rows up to the last one.
    fn close_gaps(&mut self) {
        for last in (0..self.places.len()).rev() {
            let free = self.places.iter().position(Option::is_none);
            match free {
                Some(free) if free < last => self.places.swap(free, last),
                _ => return,
            }
        }
    }

    fn preempt_youngest(&mut self, counts: &Counts) {
        let of_readings = self.readings.iter().map(|one| one.running.age);
        let of_places = self.places.iter().flatten().map(|one| one.age);
        let youngest = of_readings.chain(of_places).max();
        let is_youngest = |one: &Running<'_>| Some(one.age) == youngest;
        let reading = self
            .readings
            .iter()
            .position(|one| is_youngest(&one.running));
        let taken = match reading {
            Some(at) => Some(self.readings.remove(at).running),
            None => {
                let mut places = self.places.iter_mut();
                let place = places.find(|place| place.as_ref().is_some_and(is_youngest));
                place.and_then(Option::take)
            }
        };
        if let Some(taken) = taken {
            let age = taken.age;
            let sequence = self.release(taken);
            self.preempted.insert(age, sequence);
            counts.preempted.fetch_add(1, Relaxed);
        }
    }

    /// Takes out all requests for which `ends` says so.
    pub fn take_where(&mut self, ends: impl Fn(&Sequence<'m>) -> bool) -> Vec<Sequence<'m>> {
        let mut taken = Vec::new();
        for at in (0..self.readings.len()).rev() {
            if ends(&self.readings[at].running.sequence) {
                taken.push(self.readings.remove(at).running);
            }
        }
        for place in &mut self.places {
            if place.as_ref().is_some_and(|one| ends(&one.sequence)) {
                taken.extend(place.take());
            }
        }
        let mut sequences: Vec<_> = taken.into_iter().map(|one| self.release(one)).collect();
        let waiting = std::mem::take(&mut self.preempted);
        for (age, sequence) in waiting {
            match ends(&sequence) {
                true => sequences.push(sequence),
                false => _ = self.preempted.insert(age, sequence),
            }
        }
        sequences
    }

    /// The last token of each answer, up to the last place that has one.
    pub fn last_tokens(&self) -> Vec<Option<Piece<'_>>> {
        let all = self.places.iter().map(|one| {
            let one = one.as_ref()?;
            let held = one.held.n_tokens;
            Some(Piece {
                ids: &one.sequence.ids[held..],
                held,
                pages: &one.held.pages,
            })
        });
        let mut all: Vec<_> = all.collect();
        let n = all
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        all.truncate(n);
        all
    }

    /// Publishes how the pages are used.
    pub fn count(&self, counts: &Counts) {
        counts.free_pages.store(self.pages.n_free(), Relaxed);
        counts.shared_pages.store(self.pages.n_shared(), Relaxed);
    }
}
