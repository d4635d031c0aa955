//! An encrypted connection: bytes go as records, each with its length before it and a seal after.

use std::io::{Error, ErrorKind, Read, Result, Write};

use snow::TransportState;

use super::is_early;

/// Bytes before a record.
const HEAD: usize = 2;
/// Bytes of a seal.
const SEAL: usize = 16;
/// The most bytes of a sealed record.
const SEALED: usize = u16::MAX as usize;

/// A connection. It reads and writes as the stream below does, which may block or not.
pub(crate) struct Channel<S> {
    stream: S,
    keys: TransportState,
    /// The most bytes of a record.
    limit: usize,
    /// Sealed bytes that have come, as far as they are filled.
    incoming: Vec<u8>,
    filled: usize,
    /// An opened record, and how much of it was read.
    opened: Vec<u8>,
    taken: usize,
    /// A sealed record, and how much of it was written.
    outgoing: Vec<u8>,
    written: usize,
    /// An error after which a record still waits: the system reports it once.
    failed: Option<Error>,
    /// Sealed bytes that have gone and come.
    moved: u64,
}

impl<S> Channel<S> {
    pub fn new(stream: S, keys: TransportState) -> Self {
        Self {
            stream,
            keys,
            limit: SEALED - SEAL,
            incoming: Vec::new(),
            filled: 0,
            opened: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            failed: None,
            moved: 0,
        }
    }

    /// Refuses records of more bytes, and writes none.
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes.min(SEALED - SEAL);
        self
    }

    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The sealed bytes that the stream has taken and given: a part of a record, which a call returns nothing for, is
    /// progress, too.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether all that was written has gone to the stream.
    pub fn is_sent(&self) -> bool {
        self.written == self.outgoing.len()
    }

    /// The bytes of the record that is coming, with its head; `None` if its head is not here.
    fn coming(&self) -> Result<Option<usize>> {
        let Some((head, _)) = self.incoming[..self.filled].split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let sealed = usize::from(u16::from_le_bytes(*head));
        match (SEAL..=self.limit + SEAL).contains(&sealed) {
            true => Ok(Some(HEAD + sealed)),
            false => Err(broken()),
        }
    }

    /// Opens the record that is coming if it is whole.
    fn open(&mut self) -> Result<bool> {
        let Some(end) = self.coming()?.filter(|&end| end <= self.filled) else {
            return Ok(false);
        };
        self.opened.resize(end - HEAD - SEAL, 0);
        let sealed = &self.incoming[HEAD..end];
        let opened = self.keys.read_message(sealed, &mut self.opened);
        opened.map_err(|_| broken())?;
        self.taken = 0;
        self.incoming.copy_within(end..self.filled, 0);
        self.filled -= end;
        Ok(true)
    }
}

/// What somebody else than the other side has sent.
fn broken() -> Error {
    let what = "a message that fails its check: something on the network changes messages";
    Error::new(ErrorKind::InvalidData, what)
}

impl<S: Read> Channel<S> {
    /// Reads until a record is whole and opens it; `false` at the end of the stream between two records.
    fn next(&mut self) -> Result<bool> {
        while !self.open()? {
            // Room for this record; more is allocated once its length is known.
            let room = self.coming()?.unwrap_or(HEAD).max(1 << 10);
            if self.incoming.len() < room {
                self.incoming.resize(room, 0);
            }
            match self.stream.read(&mut self.incoming[self.filled..])? {
                0 if self.filled == 0 => return Ok(false),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => {
                    self.filled += n;
                    self.moved += n as u64;
                }
            }
        }
        Ok(true)
    }

    /// The next record as text; an error for one that would have to be waited for.
    ///
    /// # Errors
    /// Those of the stream, its end, and a record that is not text.
    pub fn line(&mut self) -> Result<String> {
        if !self.next()? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = std::mem::take(&mut self.opened);
        String::from_utf8(line).map_err(|_| broken())
    }
}

impl<S: Read> Read for Channel<S> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        // A record may be empty.
        while self.taken == self.opened.len() {
            if into.is_empty() || !self.next()? {
                return Ok(0);
            }
        }
        let rest = &self.opened[self.taken..];
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        self.taken += n;
        Ok(n)
    }
}

impl<S: Write> Write for Channel<S> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.flush()?;
        let n = bytes.len().min(self.limit);
        if n == 0 {
            return Ok(0);
        }
        let sealed = n + SEAL;
        self.outgoing.resize(HEAD + sealed, 0);
        let (head, body) = self.outgoing.split_at_mut(HEAD);
        head.copy_from_slice(&(sealed as u16).to_le_bytes());
        let written = self.keys.write_message(&bytes[..n], body);
        written.map_err(|error| Error::other(error.to_string()))?;
        self.written = 0;
        // What the stream does not take now goes with the next call, which also returns the error: the bytes are
        // sealed, and must not be given again.
        self.failed = self.flush().err().filter(|error| !is_early(error));
        Ok(n)
    }

    fn flush(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)?;
        while !self.is_sent() {
            match self.stream.write(&self.outgoing[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.moved += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
