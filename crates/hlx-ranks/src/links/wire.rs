//! A link: the life signs between two ranks, as messages over one connection.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use super::cut;
use super::hello::Line;
use crate::text::one_line;
use crate::watch::Cause;

/// The longest line that a rank fails with; a longer one is cut.
const LINE: usize = 1024;
/// Bytes that wait for a rank that reads none; more beats are left out.
const WAITING: usize = 1 << 14;
const BEAT: u8 = 1;
const LEFT: u8 = 2;
const LOST: u8 = 3;
/// The bytes of a [`LOST`] before its line: tag, cause, rank, length.
const LOST_HEAD: usize = 8;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The sender lives.
    Beat,
    /// The sender ends as it should.
    Left,
    /// A rank is lost, and why; the line of one that has failed.
    Lost(usize, Cause, String),
}

impl Message {
    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Beat => vec![BEAT],
            Self::Left => vec![LEFT],
            Self::Lost(rank, cause, line) => {
                let line = cut(line, LINE).as_bytes();
                let (rank, n) = (*rank as u32, line.len() as u16);
                let (rank, n) = (rank.to_le_bytes(), n.to_le_bytes());
                [&[LOST, *cause as u8][..], &rank, &n, line].concat()
            }
        }
    }

    /// The first message of the bytes and its length; `Ok(None)` if it is not whole.
    pub fn of(bytes: &[u8]) -> Result<Option<(Self, usize)>, ()> {
        match bytes {
            [] => Ok(None),
            [BEAT, ..] => Ok(Some((Self::Beat, 1))),
            [LEFT, ..] => Ok(Some((Self::Left, 1))),
            [LOST, cause, a, b, c, d, e, f, rest @ ..] => {
                let n = usize::from(u16::from_le_bytes([*e, *f]));
                if n > LINE {
                    return Err(());
                }
                let rank = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
                Ok(rest.get(..n).map(|line| {
                    let line = String::from_utf8_lossy(line);
                    (
                        Self::Lost(rank, Cause::of(*cause), one_line(&line)),
                        LOST_HEAD + n,
                    )
                }))
            }
            [LOST, ..] => Ok(None),
            _ => Err(()),
        }
    }
}

/// The connection to a rank.
pub(super) struct Link {
    stream: Line,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// For how long nothing has come.
    silent: Duration,
    /// Whether the network has failed since something came: an end of the connection is then not the other
    /// process'.
    has_failed: bool,
    /// Whether its process has closed the connection.
    pub is_closed: bool,
    /// Why what comes is not what the rank has sent.
    pub broken: Option<String>,
    /// Whether the rank has said that it ends.
    pub has_left: bool,
}

impl Link {
    pub fn new(stream: Line) -> Self {
        Self {
            stream,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            silent: Duration::ZERO,
            has_failed: false,
            is_closed: false,
            broken: None,
            has_left: false,
        }
    }

    /// Adds time that has passed; returns for how long nothing has come.
    pub fn pass(&mut self, time: Duration) -> Duration {
        self.silent += time;
        self.silent
    }

    /// Whether nothing waits to be written that still can be.
    pub fn is_sent(&self) -> bool {
        (self.outgoing.is_empty() && self.stream.is_sent()) || self.is_closed
    }

    /// Queues a message; a beat only where few bytes wait.
    pub fn send(&mut self, message: &Message) {
        if *message != Message::Beat || self.outgoing.len() < WAITING {
            self.outgoing.extend(message.to_bytes());
        }
        self.flush();
    }

    /// Writes what the connection takes.
    pub fn flush(&mut self) {
        while !self.is_sent() {
            let written = match &self.outgoing[..] {
                [] => self.stream.flush().map(|()| 0),
                waiting => self.stream.write(waiting),
            };
            match written {
                Ok(n) => _ = self.outgoing.drain(..n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A closed one is noticed by reading, after all that was sent before.
                Err(error) => {
                    self.has_failed |= is_of_network(error.kind());
                    return;
                }
            }
        }
    }

    /// Reads what has come. A network's error is no end of the process: a silence follows it.
    pub fn receive(&mut self) -> Vec<Message> {
        let mut part = [0; 4096];
        let mut messages = Vec::new();
        while !self.is_closed {
            match self.stream.read(&mut part) {
                // The system reports an error once, and the end of the connection after that.
                Ok(0) if self.has_failed => break,
                Ok(0) => self.is_closed = true,
                Ok(n) => {
                    self.incoming.extend_from_slice(&part[..n]);
                    self.silent = Duration::ZERO;
                    self.has_failed = false;
                    self.take_messages(&mut messages);
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.is_closed = true,
                    // Within a message.
                    ErrorKind::UnexpectedEof if self.has_failed => break,
                    ErrorKind::UnexpectedEof => self.is_closed = true,
                    ErrorKind::InvalidData => {
                        self.broken = Some(error.to_string());
                        self.is_closed = true;
                    }
                    kind => {
                        self.has_failed |= is_of_network(kind);
                        break;
                    }
                },
            }
        }
        messages
    }

    fn take_messages(&mut self, messages: &mut Vec<Message>) {
        loop {
            match Message::of(&self.incoming) {
                Ok(Some((message, n))) => {
                    self.incoming.drain(..n);
                    messages.push(message);
                }
                Ok(None) => return,
                // No rank sends that.
                Err(()) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }
}

/// Whether an error of a connection is neither the other process' end nor a call that would block.
fn is_of_network(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
    !matches!(kind, BrokenPipe | ConnectionReset | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_through_their_bytes() {
        let lost = Message::Lost(70_000, Cause::Failed, "the disk is full".to_owned());
        for message in [Message::Beat, Message::Left, lost] {
            let bytes = message.to_bytes();
            let whole = Message::of(&[&bytes[..], &[9]].concat());
            assert_eq!(whole, Ok(Some((message.clone(), bytes.len()))));
            for n in 0..bytes.len() {
                assert_eq!(Message::of(&bytes[..n]), Ok(None), "{message:?} {n}");
            }
        }
        let long = Message::Lost(1, Cause::Ended, "x".repeat(5000)).to_bytes();
        assert_eq!(long.len(), LOST_HEAD + LINE);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let lost = Message::Lost(1, Cause::Failed, format!("x{}", "ä".repeat(LINE)));
        let (read, _) = Message::of(&lost.to_bytes())
            .expect("valid")
            .expect("whole");
        let expected = format!("x{}", "ä".repeat((LINE - 1) / 2));
        assert_eq!(read, Message::Lost(1, Cause::Failed, expected));
    }

    /// The end of a connection that the network broke was taken for that of the process.
    #[test]
    fn an_end_after_an_error_of_the_network_is_no_end_of_the_process() {
        let (ours, theirs) = crate::secure::tests::lines();
        let mut link = Link::new(ours);
        let mut other = Link::new(theirs);
        other.send(&Message::Beat);
        drop(other);
        link.has_failed = true;
        assert_eq!(link.receive(), [Message::Beat]);
        assert!(link.is_closed, "something has come since the error");
        (link.is_closed, link.has_failed) = (false, true);
        assert_eq!(link.receive(), []);
        assert!(!link.is_closed);
    }

    /// Somebody who changes the packets of a connection was able to say anything.
    #[test]
    fn a_message_that_the_network_has_changed_is_none() {
        let (ours, mut theirs) = crate::secure::tests::lines();
        let mut link = Link::new(ours);
        theirs.write_all(&[LEFT]).expect("writes");
        let mut raw = theirs.stream();
        raw.write_all(&[17, 0]).expect("writes");
        raw.write_all(&[LEFT; 17]).expect("writes");
        drop(theirs);
        assert_eq!(link.receive(), [Message::Left]);
        assert!(link.is_closed);
        let why = link.broken.expect("is broken");
        assert!(why.contains("fails its check"), "{why}");
    }

    #[test]
    fn what_no_rank_sends_is_an_error() {
        for wrong in [&[0][..], &[9], &[255, 1], &[LOST, 1, 0, 0, 0, 0, 255, 255]] {
            assert_eq!(Message::of(wrong), Err(()), "{wrong:?}");
        }
    }
}
