//! Somebody who has connected, until the secret is proved and the first line said.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::Secret;
use crate::links::hello::{FIRST_LINE, Line};
use crate::secure::{Channel, FIRST, MAGIC, answer, is_early};

/// Somebody who has connected.
pub(super) struct Guest {
    pub from: SocketAddr,
    pub since: Instant,
    pub stage: Stage,
}

/// How far a guest is.
pub(super) enum Stage {
    /// It has sent a part of its first bytes.
    Unknown(TcpStream, Vec<u8>),
    /// Its first bytes, which may be a record of those of another, were sealed with the secret.
    Sealed(Box<Line>),
}

/// What a guest has done.
pub(super) enum Progress {
    Waits(Stage),
    /// It has proved the secret, and said its first line.
    Arrived(String, Box<Line>),
    Gone,
    Stranger(String),
}

impl Guest {
    pub fn new(stream: TcpStream, from: SocketAddr) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            from,
            since: Instant::now(),
            stage: Stage::Unknown(stream, Vec::with_capacity(FIRST)),
        })
    }
}

impl Stage {
    /// Reads what has come. Does not wait.
    pub fn advance(self, secret: &Secret) -> Progress {
        match self {
            Self::Unknown(stream, bytes) => read_first(stream, bytes, secret),
            Self::Sealed(line) => read_line(line),
        }
    }
}

/// Reads the first bytes, and answers once they are whole.
fn read_first(mut stream: TcpStream, mut bytes: Vec<u8>, secret: &Secret) -> Progress {
    let mut part = [0; FIRST];
    match stream.read(&mut part[bytes.len()..]) {
        Ok(0) => return Progress::Gone,
        Ok(n) => {
            let start = bytes.len();
            bytes.extend_from_slice(&part[start..start + n]);
        }
        Err(error) if is_early(&error) => {}
        Err(_) => return Progress::Gone,
    }
    let n = bytes.len().min(MAGIC.len());
    if bytes[..n] != MAGIC[..n] {
        let bytes = bytes.escape_ascii();
        return Progress::Stranger(format!("it begins with \"{bytes}\", which no rank sends"));
    }
    let Ok(first) = <&[u8; FIRST]>::try_from(&bytes[..]) else {
        return Progress::Waits(Stage::Unknown(stream, bytes));
    };
    let Ok((bytes, keys)) = answer(secret, first) else {
        return Progress::Stranger("it has another secret than this run, or none".to_owned());
    };
    // A new connection takes so few bytes at once.
    match stream.write(&bytes) {
        Ok(n) if n == bytes.len() => {
            read_line(Box::new(Channel::new(stream, keys).with_limit(FIRST_LINE)))
        }
        _ => Progress::Gone,
    }
}

/// Reads the first line. Bytes after it are a stranger's: a rank waits for its answer. At the end of the
/// connection the guest is gone: a rank that has given up connects again, and must not find its place taken.
fn read_line(mut connection: Box<Line>) -> Progress {
    let line = match connection.line() {
        Ok(line) => line,
        Err(error) if is_early(&error) => return Progress::Waits(Stage::Sealed(connection)),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return Progress::Stranger("it repeats what a rank of this run has sent".to_owned());
        }
        Err(_) => return Progress::Gone,
    };
    match connection.stream().peek(&mut [0]) {
        Err(error) if is_early(&error) => Progress::Arrived(line, connection),
        _ => Progress::Gone,
    }
}
