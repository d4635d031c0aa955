//! The first lines of a connection: they show that both ends are ranks of the same run.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::place::Place;

/// What a connection of ranks begins with.
const MAGIC: &str = "hlx-rank-1";
/// The longest first line; a longer one is a stranger's.
pub(crate) const LINE: usize = 4096;
/// How long one address is tried.
const TRY: Duration = Duration::from_secs(2);
/// How long whoever listens at an address may take to show that it is a rank of this run. A firewall or a
/// proxy may take the connection and then say nothing, and the rank's next address still has to be tried. A
/// rank answers within [`TRY`], or is found again in the next round.
const ANSWER: Duration = Duration::from_secs(5);

/// What a run's ranks know and others do not. It keeps strangers out that connect by mistake; it is not
/// secret from those who read the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub String);

impl Token {
    /// A token that nobody can guess.
    pub fn random() -> Self {
        let word = || RandomState::new().build_hasher().finish();
        Self(format!("{:016x}{:016x}", word(), word()))
    }
}

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
    pub token: Token,
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
}

impl Hello {
    fn to_line(&self) -> String {
        let (token, from, to) = (&self.token.0, self.from, self.to);
        format!("{MAGIC} {token} {from} {to} {:?}\n", self.kind)
    }

    /// The hello of a line, if it is one with this token to this rank.
    pub fn of(line: &str, token: &Token, to: usize) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [MAGIC, their_token, from, their_to, kind] = words[..] else {
            return None;
        };
        let kind = match kind {
            "Life" => Kind::Life,
            "Data" => Kind::Data,
            _ => return None,
        };
        let is_ours = their_token == token.0 && their_to.parse() == Ok(to);
        let from = from.parse().ok()?;
        let token = token.clone();
        is_ours.then_some(Self {
            token,
            from,
            to,
            kind,
        })
    }

    /// Answers: the line that [`Hello::connect`] waits for.
    pub fn accept(&self, stream: &mut TcpStream) -> Result<()> {
        stream.write_all(format!("{MAGIC} {}\n", self.to).as_bytes())
    }

    /// Connects to a rank, at any of its addresses, until a moment. The stream then never blocks.
    ///
    /// `goes_on` is called at least every 2 s, so that the caller lives for the other ranks meanwhile; where it
    /// returns `false`, nothing more is tried.
    pub fn connect(
        &self,
        (me, to): (&Place, &Place),
        until: Instant,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<TcpStream> {
        loop {
            let mut failure = Error::from(ErrorKind::AddrNotAvailable);
            for address in to.towards(me) {
                if !goes_on() {
                    return Err(failure);
                }
                match self.connect_at(address, until, &mut goes_on) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failure = Error::new(error.kind(), format!("{address}: {error}")),
                }
            }
            if Instant::now() >= until {
                return Err(failure);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn connect_at(
        &self,
        address: SocketAddr,
        until: Instant,
        goes_on: impl FnMut() -> bool,
    ) -> Result<TcpStream> {
        let left = until.saturating_duration_since(Instant::now());
        // A limit of 0 is an error of the call.
        let limit = left.clamp(Duration::from_millis(1), TRY);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // A new connection takes a line without blocking.
        stream.write_all(self.to_line().as_bytes())?;
        let answered = until.min(Instant::now() + ANSWER);
        if read_line(&mut stream, answered, goes_on)? != format!("{MAGIC} {}", self.to) {
            return Err(Error::new(ErrorKind::InvalidData, "is no rank of this run"));
        }
        Ok(stream)
    }
}

/// Reads a line from a stream that does not block, without what follows it: until a moment, and while
/// `goes_on`.
pub(crate) fn read_line(
    stream: &mut TcpStream,
    until: Instant,
    mut goes_on: impl FnMut() -> bool,
) -> Result<String> {
    let mut line = Vec::new();
    while line.len() < LINE {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte == *b"\n" => {
                let wrong = |_| Error::new(ErrorKind::InvalidData, "a line that is no text");
                return String::from_utf8(line).map_err(wrong);
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() >= until || !goes_on() {
                    return Err(Error::new(ErrorKind::TimedOut, "has not answered"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::InvalidData, "a line without an end"))
}
