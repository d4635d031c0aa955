//! How the ranks of `torchrun` find each other: rank 0 listens at `MASTER_ADDR`, the others connect, prove the secret
//! and say where they are, and each is told where all are, and a secret of this run alone.

use std::io::{Error, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::launch::{Launch, PORT};
use crate::links::hello::{Call, FIRST_LINE, Line, WELCOME, is_gone, next_line};
use crate::links::listener::Listener;
use crate::links::place::Place;
use crate::text::one_line;
use crate::{RankError, Result, Secret};

const REFUSED: &str = "refused ";
/// How long one address of rank 0 is tried.
const TRY: Duration = Duration::from_secs(5);
/// How long a rank that has come may take to read where all are.
const TAKE: Duration = Duration::from_secs(10);

impl Launch {
    /// Returns the places of all ranks, in order, and their secret.
    ///
    /// # Errors
    /// [`RankError::Start`].
    pub fn meet(&self, place: &Place) -> Result<(Vec<Place>, Secret)> {
        match self.rank {
            0 => self.host(self.listen()?, place),
            _ => self.visit(place),
        }
    }

    /// Listens at the addresses of `MASTER_ADDR`; at all addresses of the host where none of them is the host's own, or
    /// where it is the host's own name and resolved to its loopback, while ranks are on other hosts.
    fn listen(&self) -> Result<Listener> {
        let addresses = self.addresses()?;
        let may_be_all = self.leaves_host && !self.is_one_host;
        let listener = match may_be_all && self.is_own_name(&addresses) {
            true => Listener::everywhere(self.port),
            false => Listener::at(&addresses).or_else(|error| match error.kind() {
                ErrorKind::AddrNotAvailable if may_be_all => Listener::everywhere(self.port),
                _ => Err(error),
            }),
        };
        listener.map_err(|error: Error| match error.kind() {
            ErrorKind::AddrInUse => self.failed(format!("in use; {PORT} names another")),
            _ => self.failed(error),
        })
    }

    /// Rank 0: waits for all others, and tells each where all are.
    fn host(&self, mut listener: Listener, place: &Place) -> Result<(Vec<Place>, Secret)> {
        let mut ranks: Vec<Option<(Place, Line)>> = (0..self.n_ranks).map(|_| None).collect();
        let until = Instant::now() + self.limits.all;
        while let Some(missing) = missing(&mut ranks) {
            if Instant::now() > until {
                let strangers = match listener.n_refused() {
                    0 => String::new(),
                    n => format!("; {n} connections without this run's secret were refused"),
                };
                let seconds = self.limits.all.as_secs();
                let reason = format!("rank {missing} has not come within {seconds} s{strangers}");
                return Err(self.refuse(ranks, &reason));
            }
            for (line, connection) in listener.arrivals(&self.secret) {
                if let Err(reason) = self.admit(&mut ranks, &line, connection) {
                    return Err(self.refuse(ranks, &reason));
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let (theirs, connections): (Vec<Place>, Vec<Line>) = ranks.into_iter().flatten().unzip();
        let places = [vec![place.clone()], theirs].concat();
        let secret = Secret::random()?;
        for mut connection in connections {
            // Who does not take it is missed when ranks are linked.
            let _ = tell_all(&mut connection, &secret, &places);
        }
        Ok((places, secret))
    }

    /// Takes in a rank, which has proved the secret; one that cannot belong here ends the start.
    fn admit(
        &self,
        ranks: &mut [Option<(Place, Line)>],
        line: &str,
        mut connection: Line,
    ) -> Result<(), String> {
        let Some((n_ranks, rank, place)) = said(line) else {
            return Ok(());
        };
        let here = self.n_ranks;
        let named = format!("rank {rank} on {}", place.host);
        let is_free =
            |one: &Option<(Place, Line)>| one.as_ref().is_none_or(|(_, one)| is_gone(one));
        let reason = match ranks.get_mut(rank) {
            _ if n_ranks != here => {
                format!("{named}: WORLD_SIZE is {n_ranks} there and {here} on rank 0")
            }
            Some(free) if rank > 0 && is_free(free) => {
                if say(&mut connection, WELCOME).is_ok() {
                    *free = Some((place, connection));
                }
                return Ok(());
            }
            _ => format!("{named}: another process has this RANK"),
        };
        let _ = say(&mut connection, &format!("{REFUSED}{reason}"));
        Err(reason)
    }

    /// Tells all that have come why the run does not begin.
    fn refuse(&self, ranks: Vec<Option<(Place, Line)>>, reason: &str) -> RankError {
        for (_, mut connection) in ranks.into_iter().flatten() {
            let _ = say(&mut connection, &format!("{REFUSED}{reason}"));
        }
        self.failed(reason)
    }

    /// A rank other than 0: connects, and waits until all have come.
    fn visit(&self, place: &Place) -> Result<(Vec<Place>, Secret)> {
        let (mut connection, answer) = self.reach_first(place)?;
        if let Some(reason) = answer.strip_prefix(REFUSED) {
            return Err(self.failed(one_line(reason)));
        }
        let until = Instant::now() + self.limits.all + self.limits.answer;
        let wait = || {
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let mut next = || {
            let ended = |_| self.failed("rank 0 has ended before all ranks have come");
            next_line(&mut connection, wait).map_err(ended)
        };
        let wrong = || self.failed("rank 0 says other words than expected");
        let first = next()?;
        if let Some(reason) = first.strip_prefix(REFUSED) {
            return Err(self.failed(one_line(reason)));
        }
        let secret = Secret::from_text(&first).ok_or_else(wrong)?;
        let places = (0..self.n_ranks).map(|_| Place::from_line(&next()?).ok_or_else(wrong));
        Ok((places.collect::<Result<_>>()?, secret))
    }

    /// Connects to rank 0, which may start a little later, and proves the secret.
    fn reach_first(&self, place: &Place) -> Result<(Line, String)> {
        let line = format!("{} {} {}", self.n_ranks, self.rank, place.to_line());
        let until = Instant::now() + self.limits.first;
        // Until when what listens there may show that it is rank 0, which may send a guest away.
        let mut proved: Option<Instant> = None;
        loop {
            let addresses = self.addresses();
            let mut failure = match &addresses {
                Ok(_) => ErrorKind::AddrNotAvailable.into(),
                // A name may become known.
                Err(error) => Error::other(error.to_string()),
            };
            for address in addresses.unwrap_or_default() {
                match self.call(address, &line) {
                    Ok(found) => return Ok(found),
                    Err(error) => failure = error,
                }
            }
            let now = Instant::now();
            if is_connected(&failure) {
                let proved = *proved.get_or_insert(now + self.limits.answer);
                if now >= proved || failure.kind() == ErrorKind::InvalidData {
                    return Err(self.failed(format!(
                        "what listens there is not rank 0 of this run, or has another HLX_SECRET; {PORT} names \
                         another port"
                    )));
                }
            } else if now >= until {
                let seconds = self.limits.first.as_secs();
                let reason = format!("cannot be reached for {seconds} s: {failure}");
                return Err(self.failed(reason));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn call(&self, address: SocketAddr, line: &str) -> Result<(Line, String), Error> {
        let call = Call {
            secret: &self.secret,
            line,
            limits: (TRY, self.limits.answer),
            until: Instant::now() + TRY + self.limits.answer,
        };
        call.at(address, || true)
    }
}

/// Whether a call has failed after something had taken the connection.
fn is_connected(error: &Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
    let kind = error.kind();
    matches!(
        kind,
        BrokenPipe | ConnectionReset | InvalidData | UnexpectedEof
    )
}

/// The first rank that has not come, or has gone again. Those that have come are looked at once none is missing.
fn missing(ranks: &mut [Option<(Place, Line)>]) -> Option<usize> {
    let find =
        |ranks: &[Option<(Place, Line)>]| (1..ranks.len()).find(|&rank| ranks[rank].is_none());
    find(ranks).or_else(|| {
        ranks
            .iter_mut()
            .filter(|one| is_free(one))
            .for_each(|one| *one = None);
        find(ranks)
    })
}

/// Whether nobody has a rank's place.
fn is_free(place: &Option<(Place, Line)>) -> bool {
    place
        .as_ref()
        .is_none_or(|(_, connection)| is_gone(connection))
}

/// Sends a line that the connection takes at once, as a new one does.
fn say(connection: &mut Line, line: &str) -> Result<(), Error> {
    let mut end = line.len().min(FIRST_LINE);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    connection.write_all(&line.as_bytes()[..end])?;
    connection.flush()
}

/// Tells a rank where all are.
fn tell_all(connection: &mut Line, secret: &Secret, places: &[Place]) -> Result<(), Error> {
    connection.stream().set_nonblocking(false)?;
    connection.stream().set_write_timeout(Some(TAKE))?;
    connection.write_all(secret.to_text().as_bytes())?;
    for place in places {
        connection.write_all(place.to_line().as_bytes())?;
    }
    connection.flush()
}

/// What a rank says: how many ranks there are, which it is and where.
pub(crate) fn said(line: &str) -> Option<(usize, usize, Place)> {
    let mut words = line.splitn(3, ' ');
    let n_ranks = words.next()?.parse().ok()?;
    let rank = words.next()?.parse().ok()?;
    Some((n_ranks, rank, Place::from_line(words.next()?)?))
}
