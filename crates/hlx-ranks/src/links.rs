//! Life signs over TCP between ranks of any hosts, outside of the calls that carry data.
//!
//! A rank is linked with rank 0 and with those that it exchanges data with (those whose numbers differ in
//! one bit): `log2 R + 1` links, and `R - 1` of rank 0. A closed link says that a process has ended, 10 s
//! without a beat that it, its machine or the network has stopped. What a rank notices it tells those that
//! it is linked with, and they tell others, so that all name the rank that was lost first. Of a network
//! that is cut in two each half names the lowest rank of the other half that it was linked with.

pub(crate) mod hello;
pub(crate) mod listener;
pub(crate) mod place;
pub(crate) mod reach;
mod signs;
pub(crate) mod wire;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::hello::{Hello, Kind, Line, WELCOME, is_gone};
use self::listener::Listener;
use self::place::Place;
use self::signs::Signs;
use self::wire::{Link, Message};
use crate::watch::{Cause, Life};
use crate::{RankError, Result, Secret};

/// How long ranks may take to link.
const START: Duration = Duration::from_secs(60);
/// How long a rank that ends goes on sending before its process may end.
const LINGER: Duration = Duration::from_millis(200);

/// The links of a rank.
pub(crate) struct Links {
    rank: usize,
    places: Vec<Place>,
    secret: Secret,
    state: Mutex<State>,
    noticed: AtomicBool,
    ended: AtomicBool,
}

struct State {
    /// `None` once all have connected: nobody else has a reason to.
    listener: Option<Listener>,
    signs: Signs,
    /// For each rank after this one: the connection for data that it has opened.
    data: Vec<Data>,
}

/// A connection for data that another rank opens.
enum Data {
    None,
    Waits(Box<Line>),
    Taken,
}

impl Data {
    /// Takes the connection, if it waits.
    fn take(&mut self) -> Option<Line> {
        match std::mem::replace(self, Self::Taken) {
            Self::Waits(line) => Some(*line),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Whether a rank may open it: also once more, where it has given up the one that waits.
    fn is_free(&self) -> bool {
        match self {
            Self::None => true,
            Self::Waits(line) => is_gone(line),
            Self::Taken => false,
        }
    }
}

/// Whether two ranks are linked.
fn are_linked(one: usize, other: usize) -> bool {
    one != other && (one.min(other) == 0 || (one ^ other).is_power_of_two())
}

/// The first bytes of a text, at most this many, without a part of a character.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Links {
    /// Links a rank with others: all do it at once. `places` are those of all ranks, in order; `secret` is this run's
    /// alone. The caller starts to watch the links at once: this rank's beats have begun.
    ///
    /// # Errors
    /// [`RankError::Lost`] for a rank that cannot be reached, or does not come, within 60 s.
    pub fn connect(
        rank: usize,
        listener: Listener,
        places: Vec<Place>,
        secret: Secret,
    ) -> Result<Self> {
        Self::connect_within(START, rank, listener, places, secret)
    }

    fn connect_within(
        limit: Duration,
        rank: usize,
        listener: Listener,
        places: Vec<Place>,
        secret: Secret,
    ) -> Result<Self> {
        let n_ranks = places.len();
        let state = State {
            listener: Some(listener),
            signs: Signs::new(n_ranks),
            data: (0..n_ranks).map(|_| Data::None).collect(),
        };
        let links = Self {
            rank,
            places,
            secret,
            state: Mutex::new(state),
            noticed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        let linked = links.link(limit);
        linked.inspect_err(|error| links.pass_on(error))?;
        Ok(links)
    }

    /// Connects to the ranks before this one, then waits for those after it: rank 0 waits at once.
    fn link(&self, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let (before, after) = (0..self.rank, self.rank + 1..self.places.len());
        for other in before.filter(|&other| are_linked(self.rank, other)) {
            let stream = self.open(other, Kind::Life, until)?;
            self.lock().signs.link(other, Link::new(stream));
        }
        for other in after.filter(|&other| are_linked(self.rank, other)) {
            while !self.lock().signs.is_linked(other) {
                self.check()?;
                if Instant::now() > until {
                    let reason = format!("has not connected within {} s", limit.as_secs());
                    return Err(self.lost_for(other, reason));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Tells others which rank could not be linked: they name it, and not this one, which ends because of it.
    fn pass_on(&self, error: &RankError) {
        if let RankError::Lost { rank, reason, .. } = error {
            self.fail_for(*rank, reason);
        }
    }

    /// Connects to a rank. Meanwhile this one takes the connections of others and gives signs of life.
    fn open(&self, to: usize, kind: Kind, until: Instant) -> Result<Line> {
        let from = self.rank;
        let hello = Hello { from, to, kind };
        let (me, there) = (&self.places[from], &self.places[to]);
        let opened = hello.connect(me, there, &self.secret, until, || self.check().is_ok());
        opened.map_err(|error| {
            let unreached = || self.lost_for(to, format!("cannot be reached: {error}"));
            self.check().err().unwrap_or_else(unreached)
        })
    }

    /// The connection for data with a rank: the later of the two opens it. The earlier waits for it as long
    /// as all ranks live: the other may be long in coming to the call.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn data(&self, other: usize) -> Result<Line> {
        if other < self.rank {
            let line = self.open(other, Kind::Data, Instant::now() + START)?;
            return Ok(line.with_limit(usize::MAX));
        }
        loop {
            if let Some(stream) = self.lock().data[other].take() {
                return Ok(stream);
            }
            self.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// An error about a rank.
    pub fn lost_for(&self, rank: usize, reason: String) -> RankError {
        let host = self.host(rank);
        RankError::Lost { rank, host, reason }
    }

    /// The addresses that this rank listens at.
    #[cfg(test)]
    pub fn own_addresses(&self) -> Vec<std::net::IpAddr> {
        let state = self.lock();
        let addresses = state.listener.as_ref().map(Listener::addresses);
        let addresses = addresses.unwrap_or_default();
        addresses.iter().map(|one| one.ip()).collect()
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
        let (rank, cause, line) = self.lock().signs.blamed()?.clone();
        Some(self.lost_for(rank, cause.reason(|| line)))
    }

    /// Tells all ranks that this one ends with an error.
    pub fn fail(&self, line: &str) {
        self.fail_for(self.rank, line);
        self.end();
    }

    fn fail_for(&self, rank: usize, line: &str) {
        let lost = Message::Lost(rank, Cause::Failed, line.to_owned());
        self.lock().signs.note(lost);
        self.linger(|_| false);
    }

    /// Tells all ranks that this one ends as it should.
    pub fn leave(&self) {
        self.lock().signs.tell(&Message::Left);
        self.linger(Signs::is_sent);
    }

    /// Sends and receives a little longer, until it is done.
    fn linger(&self, is_done: impl Fn(&mut Signs) -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < LINGER && !is_done(&mut self.lock().signs) {
            self.beat();
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lets the process end without the watch.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Lets those in that have connected and are ranks of this run.
    fn admit(&self, state: &mut State) {
        let Some(listener) = &mut state.listener else {
            return;
        };
        for (line, stream) in listener.arrivals(&self.secret) {
            self.greet(state, &line, stream);
        }
        let mut after =
            (self.rank + 1..self.places.len()).filter(|&one| are_linked(one, self.rank));
        let has_come = |one| state.signs.is_linked(one) && matches!(state.data[one], Data::Taken);
        if after.all(has_come) {
            state.listener = None;
        }
    }

    /// Closes the port, where no rank opens a connection for data: all are linked.
    #[cfg(unix)]
    pub fn stop_listening(&self) {
        self.lock().listener = None;
    }

    fn greet(&self, state: &mut State, line: &str, mut stream: Line) {
        let Some(hello) = Hello::of(line, self.rank) else {
            return;
        };
        let from = hello.from;
        let is_after = (self.rank + 1..self.places.len()).contains(&from);
        let is_free = match hello.kind {
            Kind::Life => is_after && are_linked(from, self.rank) && !state.signs.is_linked(from),
            Kind::Data => is_after && state.data[from].is_free(),
        };
        if is_free && stream.write_all(WELCOME.as_bytes()).is_ok() {
            match hello.kind {
                Kind::Life => state.signs.link(from, Link::new(stream)),
                Kind::Data => {
                    state.data[from] = Data::Waits(Box::new(stream.with_limit(usize::MAX)))
                }
            }
        }
    }
}

impl Life for Links {
    fn beat(&self) {
        let mut state = self.lock();
        self.admit(&mut state);
        state.signs.beat();
        state.signs.exchange();
        state.signs.judge();
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
