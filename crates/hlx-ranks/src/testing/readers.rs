//! Every reader of what comes over the network or lies in shared memory, on any bytes: for fuzzing.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::links::hello::{FIRST_LINE, Hello};
use crate::links::place::Place;
use crate::links::wire::Message;
use crate::secure::{Caller, Channel, FIRST, answer, call};
use crate::shared::memory::{Chunk, Memory};
use crate::sockets::launch::Launch;
use crate::sockets::rendezvous::said;
use crate::{Group, RankError, Result, Secret, Transport};

/// Reads bytes as what the first of them says: both sides of a handshake, records, lines, life signs, messages of a
/// group, a launcher's variables. What is read must hold.
pub fn read_wire(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 8 {
        0 => {
            _ = call(Given::new(data), &secret(), || {
                Err(ErrorKind::TimedOut.into())
            })
        }
        1 => handshake(data),
        2 => records(data),
        3 => lines(data),
        4 => life_signs(data),
        5 => gathered(data),
        6 => blocks(data),
        _ => variables(data),
    }
}

fn secret() -> Secret {
    Secret::from_text(&"5e".repeat(32)).expect("a secret")
}

/// A stream from which given bytes come, and then nothing.
struct Given<'a>(&'a [u8]);

impl<'a> Given<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl Read for Given<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Given<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first bytes of a stranger: those who do not know the secret are refused, and so is a change of those who do.
fn handshake(data: &[u8]) {
    if let Some(first) = data.first_chunk::<FIRST>() {
        assert!(answer(&secret(), first).is_err(), "a stranger is admitted");
    }
    let (caller, mut first) = Caller::new(&secret()).expect("random numbers");
    let changes = first.iter_mut().zip(data);
    changes.for_each(|(byte, change)| *byte ^= change);
    let is_changed = data.iter().take(FIRST).any(|byte| *byte != 0);
    let answered = answer(&secret(), &first);
    assert_eq!(answered.is_err(), is_changed);
    let Ok((mut second, _)) = answered else {
        return;
    };
    let rest = data.get(FIRST..).unwrap_or_default();
    let changes = second.iter_mut().zip(rest);
    changes.for_each(|(byte, change)| *byte ^= change);
    let is_changed = rest.iter().take(second.len()).any(|byte| *byte != 0);
    assert_eq!(caller.finish(&second).is_err(), is_changed);
}

/// Records of one who has no keys.
fn records(data: &[u8]) {
    let (_, first) = Caller::new(&secret()).expect("random numbers");
    let (_, keys) = answer(&secret(), &first).expect("answers");
    let mut channel = Channel::new(Given::new(data), keys).with_limit(FIRST_LINE);
    assert!(channel.line().is_err(), "a record without keys opens");
}

/// First lines, answers, places and secrets of one who has keys.
fn lines(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for line in text.split('\n') {
        if let Some(place) = Place::from_line(line) {
            assert_eq!(Place::from_line(&place.to_line()), Some(place));
        }
        if let Some((_, _, place)) = said(line) {
            assert!(place.to_line().len() < FIRST_LINE);
        }
        assert!(Hello::of(line, 3).is_none_or(|hello| hello.to == 3));
        if let Some(secret) = Secret::from_text(line) {
            assert!(line.eq_ignore_ascii_case(&secret.to_text()));
        }
    }
}

fn life_signs(mut data: &[u8]) {
    while let Ok(Some((message, n))) = Message::of(data) {
        if let Message::Lost(_, _, line) = &message {
            assert!(!line.contains(char::is_control), "{line:?}");
        }
        data = &data[n..];
    }
}

/// A transport whose other ranks send given bytes.
struct Script {
    n_ranks: usize,
    bytes: Mutex<Vec<u8>>,
}

impl Transport for Script {
    fn rank(&self) -> usize {
        0
    }

    fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    fn host(&self, _: usize) -> String {
        "host".to_owned()
    }

    fn swap(&self, peer: usize, _: &[u8], into: &mut [u8]) -> Result<()> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < into.len() {
            let (rank, host) = (peer, self.host(peer));
            let reason = "has ended".to_owned();
            return Err(RankError::Lost { rank, host, reason });
        }
        let rest = bytes.split_off(into.len());
        into.copy_from_slice(&std::mem::replace(&mut *bytes, rest));
        Ok(())
    }

    fn carries_data(&self) -> bool {
        true
    }

    fn fail(&self, _: &str) {}

    fn leave(&self) {}

    fn lost(&self) -> Option<RankError> {
        None
    }
}

/// What rank 0 of up to five gathers, and agrees on.
fn gathered(data: &[u8]) {
    let Some((n, data)) = data.split_first() else {
        return;
    };
    let n_ranks = 2 + usize::from(n % 4);
    let group = || {
        let bytes = Mutex::new(data.to_vec());
        Group::new(Arc::new(Script { n_ranks, bytes }))
    };
    let all = group().gather(b"mine");
    assert!(all.is_ok_or_has(|all| all.len() == n_ranks));
    let agreed = group().agree(Ok(b"mine"));
    assert!(agreed.is_ok_or_has(|agreed| { agreed.is_ok_or_has(|all| all.len() == n_ranks) }));
    let _ = group().from_first(b"mine");
}

/// Whether a result is an error, or has a value for which something holds.
trait Holds<T> {
    fn is_ok_or_has(&self, holds: impl Fn(&T) -> bool) -> bool;
}

impl<T, E> Holds<T> for std::result::Result<T, E> {
    fn is_ok_or_has(&self, holds: impl Fn(&T) -> bool) -> bool {
        self.as_ref().map_or(true, holds)
    }
}

fn blocks(data: &[u8]) {
    let Some((n, data)) = data.split_first() else {
        return;
    };
    let n = usize::from(*n);
    if let Some(blocks) = crate::group::unpack(data, n) {
        let bytes: usize = blocks.iter().map(Vec::len).sum();
        assert!(blocks.len() == n && bytes + 8 * n == data.len());
    }
}

/// Lines `NAME=VALUE`: no name of a file among them.
fn variables(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let found = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| *key == name && name != "HLX_SECRET_FILE");
        let usual = (name == "HLX_SECRET").then_some("a secret of some length");
        let found = found
            .map(|(_, value)| value)
            .filter(|value| !value.is_empty());
        found.or(usual).map(OsString::from)
    };
    match Launch::of(found) {
        Ok(launch) => assert!(launch.rank < launch.n_ranks && launch.local_rank < launch.n_ranks),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
}

/// The first bytes of a memory of two ranks that read each other's words, for [`read_memory`] to begin with.
///
/// # Errors
/// The system's.
pub fn memory_bytes(path: &Path) -> io::Result<Vec<u8>> {
    Memory::create(path, 2, &secret())?;
    let mut bytes = vec![0; 4096];
    std::fs::File::open(path)?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file as the memory of ranks: all that one rank reads of another.
pub fn read_memory(path: &Path) {
    let Ok(memory) = Memory::open(path, &secret()) else {
        return;
    };
    let mut into = vec![0; 3 * memory.slot_bytes()];
    for rank in 0..memory.n_ranks().min(4) {
        let _ = (memory.state(rank), memory.has_proved(rank, &secret()));
        assert!(!memory.line(rank).contains(char::is_control));
        for number in 0..3 {
            let taken = memory.take(rank, Chunk { to: 0, number }, &mut into);
            assert!(taken.is_ok_or_has(|n| *n <= memory.slot_bytes()));
        }
    }
    assert!(
        memory
            .blamed()
            .is_none_or(|(rank, _)| rank < memory.n_ranks())
    );
}
