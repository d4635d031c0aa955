//! The transport through TCP alone, for ranks that `torchrun`, or what sets its variables, has started.
//!
//! It carries what ranks agree on and their life signs. Each pair that swaps has a connection of its own,
//! opened at its first message; a message is its length, then its bytes.

pub(crate) mod launch;
pub(crate) mod rendezvous;

use std::io::{Error, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use self::launch::Launch;
use crate::links::Links;
use crate::links::hello::Line;
use crate::links::place::Place;
use crate::pause::Pause;
use crate::transport::Transport;
use crate::watch::Watch;
use crate::{RankError, Result};

/// Bytes of a message's length.
const HEAD: usize = 8;
/// The most bytes that are copied after it.
const TOGETHER: usize = 1 << 14;

/// The connections of a rank.
pub struct Sockets {
    rank: usize,
    n_ranks: usize,
    local_rank: usize,
    links: Arc<Links>,
    _watch: Watch,
    /// By rank, as far as they are open.
    streams: Mutex<Vec<Option<Line>>>,
}

impl Sockets {
    /// Whether `torchrun` has started this process: its variables are set.
    pub fn is_launched() -> bool {
        launch::is_launched()
    }

    /// Whether `torchrun` is the launcher even where a launcher of MPI has set variables, too, such as
    /// that of Slurm which has started `torchrun` itself.
    pub fn is_innermost() -> bool {
        launch::is_launched() && launch::has_agent()
    }

    /// Meets the other ranks at `MASTER_ADDR` and links them. `when_lost` is called, on another thread, if
    /// a rank is lost and this one has not noticed it in a call for 10 s.
    ///
    /// # Errors
    /// [`RankError::Start`]: a variable that is not a number, a port in use, ranks that do not come;
    /// [`RankError::Lost`] for a rank that cannot be reached.
    pub fn start(when_lost: impl Fn(&RankError) + Send + 'static) -> Result<Self> {
        Self::launched(Launch::of(|name| std::env::var_os(name))?, when_lost)
    }

    fn launched(launch: Launch, when_lost: impl Fn(&RankError) + Send + 'static) -> Result<Self> {
        let (listener, place) = Place::listen(&launch.reach()?)?;
        let (places, secret) = match launch.n_ranks {
            1 => (vec![place], launch.secret),
            _ => launch.meet(&place)?,
        };
        let links = Arc::new(Links::connect(launch.rank, listener, places, secret)?);
        Ok(Self {
            rank: launch.rank,
            n_ranks: launch.n_ranks,
            local_rank: launch.local_rank,
            _watch: Watch::start(links.clone(), when_lost),
            links,
            streams: Mutex::new((0..launch.n_ranks).map(|_| None).collect()),
        })
    }

    /// What has ended a call.
    fn failed(&self, peer: usize, error: &Error) -> RankError {
        let reason = match error.kind() {
            ErrorKind::UnexpectedEof => "its process has ended".to_owned(),
            _ => error.to_string(),
        };
        self.links.check_after(self.links.lost_for(peer, reason))
    }

    fn length(&self, peer: usize, found: u64, expected: usize) -> RankError {
        RankError::Length {
            rank: peer,
            host: self.host(peer),
            found: found as usize,
            expected,
        }
    }
}

/// Both messages of a swap, as far as they are through.
struct Swap<'a> {
    out: &'a [u8],
    into: &'a mut [u8],
    /// The length, and the first bytes: a short message is one record.
    first: Vec<u8>,
    in_head: [u8; HEAD],
    sent: usize,
    received: usize,
}

impl<'a> Swap<'a> {
    fn new(out: &'a [u8], into: &'a mut [u8]) -> Self {
        Self {
            first: [
                &(out.len() as u64).to_le_bytes(),
                &out[..out.len().min(TOGETHER)],
            ]
            .concat(),
            out,
            into,
            in_head: [0; HEAD],
            sent: 0,
            received: 0,
        }
    }

    /// Whether both messages are through, except for what the connection has taken and not sent yet.
    fn is_done(&self) -> bool {
        self.sent == HEAD + self.out.len() && self.received == HEAD + self.into.len()
    }

    /// The length that the other rank sends, once it is here and another than expected.
    fn wrong_length(&self) -> Option<u64> {
        let found = u64::from_le_bytes(self.in_head);
        (self.received >= HEAD && found != self.into.len() as u64).then_some(found)
    }

    /// Writes what the connection takes and reads what is there.
    fn advance(&mut self, stream: &mut Line) -> Result<(), Error> {
        let left = match self.first.get(self.sent..) {
            Some(first) if !first.is_empty() => first,
            _ => &self.out[self.sent - HEAD..],
        };
        let n_out = match left {
            [] => some(stream.flush().map(|()| 1)).map(|_| 0)?,
            left => some(stream.write(left))?,
        };
        let room = match self.received {
            0..HEAD => &mut self.in_head[self.received..],
            _ => &mut self.into[self.received - HEAD..],
        };
        let n_in = if room.is_empty() {
            0
        } else {
            some(stream.read(room))?
        };
        self.sent += n_out;
        self.received += n_in;
        Ok(())
    }
}

/// The bytes of a call that does not block: 0 if it would, an error at the end of the connection.
fn some(done: Result<usize, Error>) -> Result<usize, Error> {
    match done {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        done => done,
    }
}

impl Transport for Sockets {
    fn rank(&self) -> usize {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    fn host(&self, rank: usize) -> String {
        self.links.host(rank)
    }

    fn swap(&self, peer: usize, out: &[u8], into: &mut [u8]) -> Result<()> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = match &mut streams[peer] {
            Some(stream) => stream,
            none => none.insert(self.links.data(peer)?),
        };
        let (mut swap, mut pause) = (Swap::new(out, into), Pause::default());
        while !swap.is_done() || !stream.is_sent() {
            let moved = stream.moved();
            swap.advance(stream)
                .map_err(|error| self.failed(peer, &error))?;
            if let Some(found) = swap.wrong_length() {
                return Err(self.length(peer, found, swap.into.len()));
            }
            if stream.moved() > moved {
                pause = Pause::default();
            } else if pause.wait() {
                self.links.check()?;
            }
        }
        Ok(())
    }

    fn carries_data(&self) -> bool {
        false
    }

    fn local_rank(&self) -> Option<usize> {
        Some(self.local_rank)
    }

    fn fail(&self, line: &str) {
        self.links.fail(line);
    }

    fn leave(&self) {
        self.links.leave();
        self.links.end();
    }

    fn lost(&self) -> Option<RankError> {
        self.links.lost()
    }
}

#[cfg(test)]
mod tests;
