//! Life signs over TCP between ranks of any hosts, outside of the calls that carry data.
//!
//! A rank is linked with rank 0 and with those that it exchanges data with (those whose numbers differ in
//! one bit): `log2 R + 1` links, and `R - 1` of rank 0. A closed link says that a process has ended, 10 s
//! without a beat that it, its machine or the network has stopped. What a rank notices it tells those that
//! it is linked with, and they tell others, so that all name the rank that was lost first. Of a network
//! that is cut in two each half names the lowest rank of the other half that it was linked with.

pub(crate) mod hello;
pub(crate) mod place;
mod wire;

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::hello::{Guest, Hello, Kind, Token};
use self::place::Place;
use self::wire::{Link, Message};
use crate::watch::{BEAT, Cause, LOOK, Life, SILENT};
use crate::{RankError, Result};

/// How long ranks may take to link.
const START: Duration = Duration::from_secs(60);
/// How long a silence waits for what others notice: all then name the lowest rank that is silent.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a rank that has failed goes on sending before its process may end.
const LINGER: Duration = Duration::from_millis(200);
/// Guests whose first line is awaited; more are sent away.
const GUESTS: usize = 256;

/// The links of a rank.
pub(crate) struct Links {
    rank: usize,
    places: Vec<Place>,
    token: Token,
    listener: TcpListener,
    state: Mutex<State>,
    noticed: AtomicBool,
    ended: AtomicBool,
}

struct State {
    /// By rank; `None` for those that this one is not linked with.
    links: Vec<Option<Link>>,
    /// Connections for data that other ranks have opened, until they are taken.
    data: Vec<Option<TcpStream>>,
    guests: Vec<Guest>,
    looked: Instant,
    beaten: Instant,
    /// The ranks that are silent, and since when one is known.
    silent: BTreeSet<usize>,
    silent_since: Option<Instant>,
    blamed: Option<(usize, Cause, String)>,
}

/// Whether two ranks are linked.
fn are_linked(one: usize, other: usize) -> bool {
    one != other && (one.min(other) == 0 || (one ^ other).is_power_of_two())
}

impl Links {
    /// Links a rank with others: all do it at once. `places` are those of all ranks, in order.
    ///
    /// # Errors
    /// [`RankError::Lost`] for a rank that cannot be reached, or does not come, within 60 s.
    pub fn connect(
        rank: usize,
        listener: TcpListener,
        places: Vec<Place>,
        token: Token,
    ) -> Result<Self> {
        let n_ranks = places.len();
        let none = || (0..n_ranks).map(|_| None);
        let now = Instant::now();
        let state = State {
            links: none().collect(),
            data: none().map(|_: Option<Link>| None).collect(),
            guests: Vec::new(),
            looked: now,
            beaten: now,
            silent: BTreeSet::new(),
            silent_since: None,
            blamed: None,
        };
        let links = Self {
            rank,
            places,
            token,
            listener,
            state: Mutex::new(state),
            noticed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        // A rank connects to those before it, then waits for those after it: rank 0 waits at once.
        for before in (0..rank).filter(|&other| are_linked(rank, other)) {
            let stream = links.open(before, Kind::Life, now + START)?;
            links.lock().links[before] = Some(Link::new(stream));
        }
        for after in (rank + 1..n_ranks).filter(|&other| are_linked(rank, other)) {
            links.wait_for(after, now + START)?;
        }
        // From its first beat on a rank is watched.
        links.lock().tell(&Message::Beat);
        Ok(links)
    }

    fn wait_for(&self, other: usize, until: Instant) -> Result<()> {
        while self.lock().links[other].is_none() {
            self.check()?;
            if Instant::now() > until {
                let reason = format!("has not connected within {} s", START.as_secs());
                return Err(self.lost_for(other, reason));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn open(&self, to: usize, kind: Kind, until: Instant) -> Result<TcpStream> {
        let (token, from) = (self.token.clone(), self.rank);
        let hello = Hello {
            token,
            from,
            to,
            kind,
        };
        let places = (&self.places[from], &self.places[to]);
        let opened = hello.connect(places, until);
        opened.map_err(|error| self.lost_for(to, format!("cannot be reached: {error}")))
    }

    /// The connection for data with a rank: the later of the two opens it.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn data(&self, other: usize) -> Result<TcpStream> {
        let until = Instant::now() + START;
        if other < self.rank {
            return self.open(other, Kind::Data, until);
        }
        loop {
            if let Some(stream) = self.lock().data[other].take() {
                return Ok(stream);
            }
            self.check()?;
            if Instant::now() > until {
                return Err(self.lost_for(other, "has opened no connection".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// An error about a rank.
    pub fn lost_for(&self, rank: usize, reason: String) -> RankError {
        let host = self.host(rank);
        RankError::Lost { rank, host, reason }
    }

    pub fn host(&self, rank: usize) -> String {
        self.places[rank].host.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if a rank is lost, with the one that was lost first.
    pub fn check(&self) -> Result<()> {
        let lost = self.look();
        if lost.is_some() {
            self.noticed.store(true, Ordering::Release);
        }
        lost.map_or(Ok(()), Err)
    }

    /// As [`Links::check`], for a call that has failed: whatever ended it is noticed a little later.
    pub fn check_after(&self, failure: RankError) -> RankError {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if let Err(lost) = self.check() {
                return lost;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        failure
    }

    /// The rank that was noted as lost.
    pub fn lost(&self) -> Option<RankError> {
        let (rank, cause, line) = self.lock().blamed.clone()?;
        Some(self.lost_for(rank, cause.reason(|| line)))
    }

    /// Tells all ranks that this one ends with an error.
    pub fn fail(&self, line: &str) {
        let line = line.to_owned();
        self.lock()
            .note(Message::Lost(self.rank, Cause::Failed, line));
        let begun = Instant::now();
        while begun.elapsed() < LINGER {
            self.beat();
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
    }

    /// Tells all ranks that this one ends as it should.
    pub fn leave(&self) {
        self.lock().tell(&Message::Left);
    }

    /// Lets the process end without the watch.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Lets those in that have connected and are ranks of this run.
    fn admit(&self, state: &mut State) {
        while let Ok((stream, _)) = self.listener.accept() {
            if state.guests.len() < GUESTS {
                state.guests.extend(Guest::new(stream));
            }
        }
        for mut guest in std::mem::take(&mut state.guests) {
            match guest.line() {
                Ok(None) => state.guests.push(guest),
                Ok(Some(line)) => self.greet(state, &line, guest.stream),
                Err(_) => {}
            }
        }
    }

    fn greet(&self, state: &mut State, line: &str, mut stream: TcpStream) {
        let Some(hello) = Hello::of(line, &self.token, self.rank) else {
            return;
        };
        let from = hello.from;
        let is_after = (self.rank + 1..self.places.len()).contains(&from);
        let is_free = match hello.kind {
            Kind::Life => is_after && are_linked(from, self.rank) && state.links[from].is_none(),
            Kind::Data => is_after && state.data[from].is_none(),
        };
        if is_free && hello.accept(&mut stream).is_ok() {
            match hello.kind {
                Kind::Life => state.links[from] = Some(Link::new(stream)),
                Kind::Data => state.data[from] = Some(stream),
            }
        }
    }
}

impl State {
    fn linked(&mut self) -> impl Iterator<Item = (usize, &mut Link)> {
        let links = self.links.iter_mut().enumerate();
        links.filter_map(|(rank, link)| Some((rank, link.as_mut()?)))
    }

    fn tell(&mut self, message: &Message) {
        self.linked().for_each(|(_, link)| link.send(message));
    }

    /// Reads, and writes what waits.
    fn exchange(&mut self) {
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
    fn note(&mut self, message: Message) {
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
    fn judge(&mut self) {
        let passed = self.looked.elapsed().min(LOOK);
        self.looked = Instant::now();
        let mut lost = Vec::new();
        for (rank, link) in self.linked().filter(|(_, link)| !link.has_left) {
            let is_silent = link.pass(passed) > SILENT;
            let cause = match link.is_closed {
                true => Some(Cause::Ended),
                false => is_silent.then_some(Cause::Silent),
            };
            lost.extend(cause.map(|cause| Message::Lost(rank, cause, String::new())));
        }
        lost.into_iter().for_each(|lost| self.note(lost));
        let has_settled = self
            .silent_since
            .is_some_and(|since| since.elapsed() > SETTLE);
        if let Some(rank) = self
            .silent
            .first()
            .filter(|_| has_settled && self.blamed.is_none())
        {
            self.blamed = Some((*rank, Cause::Silent, String::new()));
        }
    }
}

impl Life for Links {
    fn beat(&self) {
        let mut state = self.lock();
        self.admit(&mut state);
        if state.beaten.elapsed() >= BEAT {
            state.beaten = Instant::now();
            state.tell(&Message::Beat);
        }
        state.exchange();
        state.judge();
    }

    fn look(&self) -> Option<RankError> {
        self.beat();
        self.lost()
    }

    fn has_noticed(&self) -> bool {
        self.noticed.load(Ordering::Acquire)
    }

    fn has_left(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
