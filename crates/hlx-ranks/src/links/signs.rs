//! What a rank knows of the others' lives by its links, and what it tells them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::wire::{Link, Message};
use crate::watch::{BEAT, Cause, LOOK, SILENT};

/// How long a silence waits for what others notice: all then name the lowest rank that is silent.
const SETTLE: Duration = Duration::from_secs(1);

/// The links of a rank, and what is known by them.
pub(super) struct Signs {
    /// By rank; `None` for those that this one is not linked with.
    links: Vec<Option<Link>>,
    looked: Instant,
    beaten: Instant,
    /// The ranks that are silent, and since when one is known.
    silent: BTreeSet<usize>,
    silent_since: Option<Instant>,
    /// The rank that was lost first, why, and the line of one that has failed.
    blamed: Option<(usize, Cause, String)>,
}

impl Signs {
    pub fn new(n_ranks: usize) -> Self {
        let now = Instant::now();
        Self {
            links: (0..n_ranks).map(|_| None).collect(),
            looked: now,
            beaten: now,
            silent: BTreeSet::new(),
            silent_since: None,
            blamed: None,
        }
    }

    pub fn is_linked(&self, rank: usize) -> bool {
        self.links[rank].is_some()
    }

    /// Watches a rank from now on.
    pub fn link(&mut self, rank: usize, link: Link) {
        self.links[rank] = Some(link);
    }

    pub fn blamed(&self) -> Option<&(usize, Cause, String)> {
        self.blamed.as_ref()
    }

    fn linked(&mut self) -> impl Iterator<Item = (usize, &mut Link)> {
        let links = self.links.iter_mut().enumerate();
        links.filter_map(|(rank, link)| Some((rank, link.as_mut()?)))
    }

    pub fn tell(&mut self, message: &Message) {
        self.linked().for_each(|(_, link)| link.send(message));
    }

    /// Whether all that was told is on its way.
    pub fn is_sent(&mut self) -> bool {
        self.linked().all(|(_, link)| link.is_sent())
    }

    /// Tells the others that this rank lives, where it is time to.
    pub fn beat(&mut self) {
        if self.beaten.elapsed() >= BEAT {
            self.beaten = Instant::now();
            self.tell(&Message::Beat);
        }
    }

    /// Reads, and writes what waits.
    pub fn exchange(&mut self) {
        let mut messages = Vec::new();
        for (_, link) in self.linked() {
            link.flush();
            for message in link.receive() {
                match message {
                    Message::Beat => {}
                    Message::Left => link.has_left = true,
                    lost @ Message::Lost(..) => messages.push(lost),
                }
            }
        }
        messages.into_iter().for_each(|lost| self.note(lost));
    }

    /// Notes that a rank is lost and tells others, unless another was noted before: those that end
    /// because of it are not what ended the run.
    pub fn note(&mut self, message: Message) {
        let Message::Lost(rank, cause, line) = &message else {
            return;
        };
        if *rank >= self.links.len() || self.blamed.is_some() {
            return;
        }
        if *cause == Cause::Silent {
            if self.silent.insert(*rank) {
                self.silent_since.get_or_insert_with(Instant::now);
                self.tell(&message);
            }
        } else if self.silent_since.is_none() {
            self.blamed = Some((*rank, *cause, line.clone()));
            self.tell(&message);
        }
    }

    /// Looks at every link.
    pub fn judge(&mut self) {
        let passed = self.looked.elapsed().min(LOOK);
        self.looked = Instant::now();
        let mut lost = Vec::new();
        for (rank, link) in self.linked().filter(|(_, link)| !link.has_left) {
            let is_silent = link.pass(passed) > SILENT;
            let (cause, line) = match (&link.broken, link.is_closed) {
                (Some(why), _) => (Some(Cause::Failed), why.clone()),
                (None, true) => (Some(Cause::Ended), String::new()),
                (None, false) => (is_silent.then_some(Cause::Silent), String::new()),
            };
            lost.extend(cause.map(|cause| Message::Lost(rank, cause, line)));
        }
        lost.into_iter().for_each(|lost| self.note(lost));
        let since = self.silent_since;
        let has_settled = since.is_some_and(|since| since.elapsed() > SETTLE);
        if has_settled && self.blamed.is_none() {
            let lowest = self.silent.first();
            self.blamed = lowest.map(|rank| (*rank, Cause::Silent, String::new()));
        }
    }
}
