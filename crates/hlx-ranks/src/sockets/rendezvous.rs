//! How the ranks of `torchrun` find each other: rank 0 listens at `MASTER_ADDR`, the others connect and say
//! where they are, and each is told where all are.

use std::io::{Error, ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::launch::{Launch, PORT};
use crate::links::hello::{Token, read_line};
use crate::links::listener::Listener;
use crate::links::place::Place;
use crate::{RankError, Result};

const MAGIC: &str = "hlx-meet-1";
const REFUSED: &str = "refused ";
/// How long rank 0 may take to listen, and all ranks to come.
const FIRST: Duration = Duration::from_secs(60);
const ALL: Duration = Duration::from_secs(120);
/// How long what listens at the port may take to show that it is rank 0.
const ANSWER: Duration = Duration::from_secs(10);
/// How long one address of rank 0 is tried.
const TRY: Duration = Duration::from_secs(5);

impl Launch {
    /// Returns the places of all ranks, in order, and their token.
    ///
    /// # Errors
    /// [`RankError::Start`].
    pub fn meet(&self, place: &Place) -> Result<(Vec<Place>, Token)> {
        match self.rank {
            0 => self.host(self.listen()?, place),
            _ => self.visit(place),
        }
    }

    /// Listens at the address; at all addresses of the host where it is a name, or none of the host's own.
    fn listen(&self) -> Result<Listener> {
        let addresses = self.addresses()?;
        let listener = match self.names_a_host() {
            true => Listener::everywhere(self.port),
            false => Listener::at(&addresses).or_else(|error| match error.kind() {
                ErrorKind::AddrNotAvailable => Listener::everywhere(self.port),
                _ => Err(error),
            }),
        };
        listener.map_err(|error: Error| match error.kind() {
            ErrorKind::AddrInUse => self.failed(format!("in use; {PORT} names another")),
            _ => self.failed(error),
        })
    }

    /// Rank 0: waits for all others, and tells each where all are.
    fn host(&self, mut listener: Listener, place: &Place) -> Result<(Vec<Place>, Token)> {
        let mut ranks: Vec<Option<(Place, TcpStream)>> = (0..self.n_ranks).map(|_| None).collect();
        let until = Instant::now() + ALL;
        while let Some(missing) = (1..self.n_ranks).find(|&rank| ranks[rank].is_none()) {
            if Instant::now() > until {
                let reason = format!("rank {missing} has not come within {} s", ALL.as_secs());
                return Err(self.refuse(ranks, &reason));
            }
            for (line, stream) in listener.first_lines() {
                if let Err(reason) = self.admit(&mut ranks, &line, stream) {
                    return Err(self.refuse(ranks, &reason));
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let (theirs, streams): (Vec<Place>, Vec<TcpStream>) = ranks.into_iter().flatten().unzip();
        let places = [vec![place.clone()], theirs].concat();
        let token = Token::random();
        let lines = places.iter().map(|place| place.to_line() + "\n");
        let answer = format!("{}\n{}", token.0, lines.collect::<String>());
        for mut stream in streams {
            // Who does not take it is missed when ranks are linked.
            let _ = stream.write_all(answer.as_bytes());
        }
        Ok((places, token))
    }

    /// Takes a rank in; a stranger is sent away, and a rank that cannot belong here ends the start.
    fn admit(
        &self,
        ranks: &mut [Option<(Place, TcpStream)>],
        line: &str,
        mut stream: TcpStream,
    ) -> Result<(), String> {
        let Some((run, n_ranks, rank, place)) = said(line) else {
            return Ok(());
        };
        if run != self.run {
            return Ok(());
        }
        let accepted = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_write_timeout(Some(ANSWER)))
            .and_then(|()| stream.write_all(format!("{MAGIC}\n").as_bytes()));
        if accepted.is_err() {
            return Ok(());
        }
        let host = place.host.clone();
        let here = self.n_ranks;
        let reason = match ranks.get_mut(rank) {
            _ if n_ranks != here => {
                format!("rank {rank} on {host}: WORLD_SIZE is {n_ranks} there and {here} on rank 0")
            }
            Some(free @ None) if rank > 0 => {
                *free = Some((place, stream));
                return Ok(());
            }
            _ => format!("rank {rank} on {host}: another process has this RANK"),
        };
        let _ = stream.write_all(format!("{REFUSED}{reason}\n").as_bytes());
        Err(reason)
    }

    /// Tells all that have come why the run does not begin.
    fn refuse(&self, ranks: Vec<Option<(Place, TcpStream)>>, reason: &str) -> RankError {
        for (_, mut stream) in ranks.into_iter().flatten() {
            let _ = stream.write_all(format!("{REFUSED}{reason}\n").as_bytes());
        }
        self.failed(reason)
    }

    /// A rank but 0: connects, and waits until all have come.
    fn visit(&self, place: &Place) -> Result<(Vec<Place>, Token)> {
        let mut stream = self.reach()?;
        let (run, n, rank) = (&self.run, self.n_ranks, self.rank);
        let line = format!("{MAGIC} {run} {n} {rank} {}\n", place.to_line());
        let read = |stream: &mut TcpStream, until| read_line(stream, until, || true);
        let answer = stream
            .write_all(line.as_bytes())
            .and_then(|()| stream.set_nonblocking(true))
            .and_then(|()| read(&mut stream, Instant::now() + ANSWER));
        if !answer.is_ok_and(|line| line == MAGIC) {
            return Err(self.failed(format!(
                "what listens there is not rank 0 of this run; {PORT} names another port"
            )));
        }
        let until = Instant::now() + ALL + ANSWER;
        let mut next = || {
            let ended = |_| self.failed("rank 0 has ended before all ranks have come");
            read(&mut stream, until).map_err(ended)
        };
        let first = next()?;
        if let Some(reason) = first.strip_prefix(REFUSED) {
            return Err(self.failed(reason));
        }
        let places = (0..n).map(|_| {
            let place = Place::from_line(&next()?);
            place.ok_or_else(|| {
                self.failed("rank 0 says where a rank is in other words than expected")
            })
        });
        Ok((places.collect::<Result<_>>()?, Token(first)))
    }

    /// Connects to rank 0, which may start a little later.
    fn reach(&self) -> Result<TcpStream> {
        let until = Instant::now() + FIRST;
        loop {
            let addresses = self.addresses();
            let tried = addresses.and_then(|addresses| {
                let connect = |address| TcpStream::connect_timeout(address, TRY);
                let mut tried = addresses.iter().map(connect);
                let first = tried
                    .next()
                    .unwrap_or_else(|| Err(ErrorKind::AddrNotAvailable.into()));
                let any = first.or_else(|error| tried.find_map(Result::ok).ok_or(error));
                any.map_err(|error| {
                    self.failed(format!(
                        "cannot be reached for {} s: {error}",
                        FIRST.as_secs()
                    ))
                })
            });
            match tried {
                Ok(stream) => return Ok(stream),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

/// What a rank says: the run, how many ranks there are, which it is and where.
fn said(line: &str) -> Option<(&str, usize, usize, Place)> {
    let mut words = line.splitn(5, ' ');
    if words.next() != Some(MAGIC) {
        return None;
    }
    let run = words.next()?;
    let n_ranks = words.next()?.parse().ok()?;
    let rank = words.next()?.parse().ok()?;
    Some((run, n_ranks, rank, Place::from_line(words.next()?)?))
}
