//! The first words of a connection between ranks that have proved their secret to each other.

use std::io::{Error, ErrorKind, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::place::Place;
use crate::Secret;
use crate::secure::{Channel, call, is_early};

/// A secure connection by TCP.
pub(crate) type Line = Channel<TcpStream>;

/// The most bytes of a first line, and of the answer to it.
pub(crate) const FIRST_LINE: usize = 4096;
/// What a first line that is accepted is answered with.
pub(crate) const WELCOME: &str = "welcome";
/// How long one address is tried.
const TRY: Duration = Duration::from_secs(2);
/// How long whoever listens at an address may take to show that it is a rank of this run. A firewall or a
/// proxy may take the connection and then say nothing, and the rank's next address still has to be tried. A
/// rank answers within [`TRY`], or is found again in the next round.
const ANSWER: Duration = Duration::from_secs(5);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Life signs.
    Life,
    /// The bytes of swaps.
    Data,
}

/// The first line of the rank that connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
}

impl Hello {
    fn to_line(&self) -> String {
        format!("{:?} {} {}", self.kind, self.from, self.to)
    }

    /// The hello of a line, if it is one to this rank.
    pub fn of(line: &str, to: usize) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, from, their_to] = words[..] else {
            return None;
        };
        let kind = match kind {
            "Life" => Kind::Life,
            "Data" => Kind::Data,
            _ => return None,
        };
        let from = from.parse().ok()?;
        (their_to.parse() == Ok(to)).then_some(Self { from, to, kind })
    }

    /// Connects to a rank, at any of its addresses, until a moment. The connection then never blocks.
    ///
    /// `goes_on` is called at least every 2 s, so that the caller lives for the other ranks meanwhile; where it
    /// returns `false`, nothing more is tried.
    pub fn connect(
        &self,
        me: &Place,
        to: &Place,
        secret: &Secret,
        until: Instant,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Line> {
        loop {
            let mut failure = Error::from(ErrorKind::AddrNotAvailable);
            for address in to.towards(me) {
                if !goes_on() {
                    return Err(failure);
                }
                let call = Call {
                    secret,
                    line: &self.to_line(),
                    limits: (TRY, ANSWER),
                    until,
                };
                match call.at(address, &mut goes_on) {
                    Ok((line, answer)) if answer == WELCOME => return Ok(line),
                    Ok(_) => failure = Error::new(ErrorKind::InvalidData, "answers wrongly"),
                    Err(error) => failure = Error::new(error.kind(), format!("{address}: {error}")),
                }
            }
            if Instant::now() >= until {
                return Err(failure);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What one side does to be connected.
pub(crate) struct Call<'a> {
    pub secret: &'a Secret,
    /// The first line, in no more than [`FIRST_LINE`] bytes.
    pub line: &'a str,
    /// How long the connection, and the answer to the line, may take.
    pub limits: (Duration, Duration),
    /// When all has to be done.
    pub until: Instant,
}

impl Call<'_> {
    /// Connects to an address, proves the secret and says the line; returns the connection, which never blocks,
    /// and the answer. It is waited for while `goes_on`.
    pub fn at(
        &self,
        address: SocketAddr,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(Line, String)> {
        let left = self.until.saturating_duration_since(Instant::now());
        // A limit of 0 is an error of the call.
        let limit = left.clamp(Duration::from_millis(1), self.limits.0);
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let answered = self.until.min(Instant::now() + self.limits.1);
        let mut wait = || {
            if Instant::now() >= answered || !goes_on() {
                // Unlike an address that takes no connection.
                return Err(Error::new(ErrorKind::UnexpectedEof, "has not answered"));
            }
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let stranger = |error: Error| match error.kind() {
            ErrorKind::InvalidData => Error::new(
                error.kind(),
                "is no rank of this run, or has another secret",
            ),
            _ => error,
        };
        let line = call(stream, self.secret, &mut wait).map_err(stranger)?;
        let mut line = line.with_limit(FIRST_LINE);
        line.write_all(self.line.as_bytes())?;
        let answer = next_line(&mut line, wait)?;
        Ok((line, answer))
    }
}

/// The next record of a connection that does not block; `wait` is called between the tries.
pub(crate) fn next_line(line: &mut Line, mut wait: impl FnMut() -> Result<()>) -> Result<String> {
    loop {
        match line.line() {
            Err(error) if is_early(&error) => wait()?,
            done => return done,
        }
    }
}

/// Whether the other side has closed a connection.
pub(crate) fn is_gone(line: &Line) -> bool {
    line.stream().peek(&mut [0]).is_ok_and(|n| n == 0)
}
