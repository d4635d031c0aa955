//! How the ranks of `torchrun` find each other: rank 0 listens at `MASTER_ADDR`, the others connect and say
//! where they are, and each is told where all are.

use std::io::{Error, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::links::hello::{Guest, LINE, Token, read_line};
use crate::links::place::Place;
use crate::{RankError, Result};

const MAGIC: &str = "hlx-meet-1";
const REFUSED: &str = "refused ";
/// The variables that all launchers of PyTorch's kind set.
const VARIABLES: [&str; 5] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
];
/// Set by `torchrun`, whose own process then listens at `MASTER_PORT`.
const AGENT_LISTENS: &str = "TORCHELASTIC_USE_AGENT_STORE";
const RUN_ID: &str = "TORCHELASTIC_RUN_ID";
/// The variable that names another port than the launcher's.
const PORT: &str = "HLX_PORT";
/// How long rank 0 may take to listen, and all ranks to come.
const FIRST: Duration = Duration::from_secs(60);
const ALL: Duration = Duration::from_secs(120);
/// How long what listens at the port may take to show that it is rank 0.
const ANSWER: Duration = Duration::from_secs(10);
/// The most ranks, and the most connections whose line is awaited.
const RANKS: usize = 1 << 16;
const GUESTS: usize = 256;

/// Whether the variables are set.
pub(super) fn is_launched() -> bool {
    VARIABLES
        .iter()
        .all(|name| std::env::var_os(name).is_some())
}

/// Whether `torchrun` itself has set them.
pub(super) fn has_agent() -> bool {
    std::env::var_os(RUN_ID).is_some()
}

/// What the launcher has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub rank: usize,
    pub n_ranks: usize,
    pub local_rank: usize,
    master: String,
    port: u16,
    /// The name of the variable that the port is of, for messages.
    port_name: String,
    run: String,
}

impl Launch {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`RankError::Start`] with the variable and its value.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let text = |name: &str| variable(name).unwrap_or_default();
        let number = |name: &str, below: usize| {
            let value = text(name);
            let number = value.trim().parse().ok().filter(|&number| number < below);
            let expected = || {
                RankError::start(
                    format!("{name} {value}"),
                    format!("expected a number less than {below}"),
                )
            };
            number.ok_or_else(expected)
        };
        let n_ranks = number("WORLD_SIZE", RANKS)?;
        let agent_listens = matches!(text(AGENT_LISTENS).as_str(), "True" | "true" | "1");
        let own = variable(PORT).is_some_and(|port| !port.is_empty());
        let (name, port) = match (own, agent_listens) {
            (true, _) => (PORT.to_owned(), number(PORT, 1 << 16)?),
            (false, false) => ("MASTER_PORT".to_owned(), number("MASTER_PORT", 1 << 16)?),
            (false, true) => (
                "MASTER_PORT + 1 =".to_owned(),
                number("MASTER_PORT", (1 << 16) - 1)? + 1,
            ),
        };
        Ok(Self {
            rank: number("RANK", n_ranks)?,
            n_ranks,
            local_rank: number("LOCAL_RANK", n_ranks)?,
            master: text("MASTER_ADDR"),
            port: port as u16,
            port_name: name,
            run: variable(RUN_ID).map_or("-".to_owned(), |run| run.split_whitespace().collect()),
        })
    }

    fn failed(&self, reason: impl ToString) -> RankError {
        let (name, port, master) = (&self.port_name, self.port, &self.master);
        RankError::start(format!("{name} {port} on {master}"), reason)
    }

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

    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found = (self.master.as_str(), self.port).to_socket_addrs();
        let found = found
            .map_err(|error| RankError::start(format!("MASTER_ADDR {}", self.master), error))?;
        Ok(found.collect())
    }

    /// Listens at the address, or at all addresses of the host where it is none of the host's own.
    fn listen(&self) -> Result<TcpListener> {
        let any = [
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port)),
            (Ipv4Addr::UNSPECIFIED, self.port).into(),
        ];
        let listener =
            TcpListener::bind(&self.addresses()?[..]).or_else(|error| match error.kind() {
                ErrorKind::AddrNotAvailable => TcpListener::bind(&any[..]),
                _ => Err(error),
            });
        let failed = |error: Error| match error.kind() {
            ErrorKind::AddrInUse => self.failed(format!("in use; {PORT} names another")),
            _ => self.failed(error),
        };
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(listener)
    }

    /// Rank 0: waits for all others, and tells each where all are.
    fn host(&self, listener: TcpListener, place: &Place) -> Result<(Vec<Place>, Token)> {
        let mut ranks: Vec<Option<(Place, TcpStream)>> = (0..self.n_ranks).map(|_| None).collect();
        let (mut guests, until) = (Vec::new(), Instant::now() + ALL);
        while let Some(missing) = (1..self.n_ranks).find(|&rank| ranks[rank].is_none()) {
            if Instant::now() > until {
                let reason = format!("rank {missing} has not come within {} s", ALL.as_secs());
                return Err(self.refuse(ranks, &reason));
            }
            while let Ok((stream, _)) = listener.accept() {
                if guests.len() < GUESTS {
                    guests.extend(Guest::new(stream));
                }
            }
            for mut guest in std::mem::take(&mut guests) {
                match guest.line() {
                    Ok(None) => guests.push(guest),
                    Ok(Some(line)) => {
                        if let Err(reason) = self.admit(&mut ranks, &line, guest.stream) {
                            return Err(self.refuse(ranks, &reason));
                        }
                    }
                    Err(_) => {}
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let token = Token::random();
        let mut streams: Vec<TcpStream> = Vec::new();
        let mut places = vec![place.clone()];
        for (theirs, stream) in ranks.into_iter().flatten() {
            places.push(theirs);
            streams.push(stream);
        }
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
        let answer = stream.write_all(line.as_bytes());
        let answer = answer.and_then(|()| read_line(&mut stream, LINE, Instant::now() + ANSWER));
        if !answer.is_ok_and(|line| line == MAGIC) {
            return Err(self.failed(format!(
                "what listens there is not rank 0 of this run; {PORT} names another port"
            )));
        }
        let until = Instant::now() + ALL + ANSWER;
        let mut next = || {
            let line = read_line(&mut stream, LINE, until);
            line.map_err(|_| self.failed("rank 0 has ended before all ranks have come"))
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
                let connect = |address| TcpStream::connect_timeout(address, Duration::from_secs(5));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(changes: &[(&str, &str)]) -> Result<Launch> {
        let usual = [
            ("RANK", "1"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node"),
            ("MASTER_PORT", "29500"),
        ];
        let found = |name: &str| {
            let mut all = changes.iter().chain(&usual);
            all.find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Launch::of(found)
    }

    #[test]
    fn the_port_is_the_launchers_unless_its_own_process_listens_there() {
        let port = |changes: &[(&str, &str)]| launch(changes).expect("reads").port;
        assert_eq!(port(&[]), 29500);
        assert_eq!(port(&[(AGENT_LISTENS, "False")]), 29500);
        assert_eq!(port(&[(AGENT_LISTENS, "True")]), 29501);
        assert_eq!(port(&[(AGENT_LISTENS, "True"), (PORT, "7")]), 7);
    }

    #[test]
    fn a_variable_that_is_no_number_is_named() {
        for (name, value) in [
            ("RANK", "x"),
            ("RANK", "4"),
            ("WORLD_SIZE", "0x4"),
            ("LOCAL_RANK", ""),
            ("MASTER_PORT", "65536"),
            ("HLX_PORT", "-1"),
            ("WORLD_SIZE", "99999999"),
        ] {
            let error = launch(&[(name, value)])
                .expect_err("is refused")
                .to_string();
            assert!(
                error.starts_with(&format!("{name} {value}: expected a number less than ")),
                "{error}"
            );
        }
    }
}
