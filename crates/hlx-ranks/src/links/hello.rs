//! The first lines of a connection: they show that both ends are ranks of the same run.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::place::Place;

/// What a connection of ranks begins with.
const MAGIC: &str = "hlx-rank-1";
/// The longest first line; a longer one is a stranger's.
pub(crate) const LINE: usize = 4096;
/// How long a guest may take for its first line.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one address is tried.
const TRY: Duration = Duration::from_secs(2);

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
    pub fn connect(&self, (me, to): (&Place, &Place), until: Instant) -> Result<TcpStream> {
        loop {
            let mut failure = Error::from(ErrorKind::AddrNotAvailable);
            for address in to.towards(me) {
                let connected = TcpStream::connect_timeout(&address, TRY);
                match connected.and_then(|stream| self.greet(stream, until)) {
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

    fn greet(&self, mut stream: TcpStream, until: Instant) -> Result<TcpStream> {
        stream.write_all(self.to_line().as_bytes())?;
        let answer = read_line(&mut stream, LINE, until)?;
        if answer != format!("{MAGIC} {}", self.to) {
            return Err(Error::new(ErrorKind::InvalidData, "is no rank of this run"));
        }
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// Reads a line of at most `most` bytes until a moment, without what follows it.
pub(crate) fn read_line(stream: &mut TcpStream, most: usize, until: Instant) -> Result<String> {
    let mut line = Vec::new();
    while line.len() < most {
        let left = until.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            let wrong = |_| Error::new(ErrorKind::InvalidData, "a line that is no text");
            return String::from_utf8(line).map_err(wrong);
        }
        line.push(byte[0]);
    }
    Err(Error::new(ErrorKind::InvalidData, "a line without an end"))
}

/// Somebody who has connected, and whose first line is not whole yet.
pub(crate) struct Guest {
    pub stream: TcpStream,
    bytes: Vec<u8>,
    since: Instant,
}

impl Guest {
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            bytes: Vec::new(),
            since: Instant::now(),
        })
    }

    /// The first line once it is whole; an error ends the guest. Bytes behind the line are an error:
    /// a rank waits for its answer.
    pub fn line(&mut self) -> Result<Option<String>> {
        let mut part = [0; 512];
        match self.stream.read(&mut part) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.bytes.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let stranger = || Error::from(ErrorKind::InvalidData);
        match self.bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) if end + 1 == self.bytes.len() => {
                self.bytes.pop();
                let line = String::from_utf8(std::mem::take(&mut self.bytes));
                line.map(Some).map_err(|_| stranger())
            }
            Some(_) => Err(stranger()),
            None if self.bytes.len() > LINE || self.since.elapsed() > PATIENCE => Err(stranger()),
            None => Ok(None),
        }
    }
}
