//! What a rank does with messages that no rank sends.

use std::sync::Mutex;

use super::*;

/// A transport whose other rank sends what it is told, and at most this many bytes of a long message.
struct Script {
    n_ranks: usize,
    messages: Mutex<Vec<Vec<u8>>>,
    /// The largest buffer that was given for a message.
    largest: Mutex<usize>,
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
        let mut largest = self.largest.lock().expect("a lock");
        *largest = (*largest).max(into.len());
        let mut messages = self.messages.lock().expect("a lock");
        if messages.is_empty() || messages[0].len() != into.len() {
            let (rank, host) = (peer, self.host(peer));
            let reason = "sends no more".to_owned();
            return Err(RankError::Lost { rank, host, reason });
        }
        into.copy_from_slice(&messages.remove(0));
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

/// What a gather of rank 0 ends with, and the largest buffer that it has allocated.
fn gathers(n_ranks: usize, messages: &[&[u8]]) -> (Result<Vec<Vec<u8>>>, usize) {
    let script = Arc::new(Script {
        n_ranks,
        messages: Mutex::new(messages.iter().map(|one| one.to_vec()).collect()),
        largest: Mutex::new(0),
    });
    let gathered = Group::new(script.clone()).gather(b"mine");
    let largest = *script.largest.lock().expect("a lock");
    (gathered, largest)
}

/// Sixteen bytes ended rank 0: a length of 2^63, or of 2^40, was allocated.
#[test]
fn a_length_that_no_message_has_is_an_error() {
    for length in [u64::MAX, 1 << 63, 1 << 40, GATHERED as u64 + 9] {
        let (gathered, largest) = gathers(2, &[&length.to_le_bytes()]);
        let error = gathered.expect_err("is refused").to_string();
        let expected = format!("rank 1 on host: a message of {length} bytes, expected at most");
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(largest, 8);
    }
    // Three ranks gather through the first.
    let (gathered, _) = gathers(3, &[&u64::MAX.to_le_bytes()]);
    assert!(matches!(gathered, Err(RankError::TooLong { rank: 1, .. })));
}

/// A length that is possible was allocated before a byte of the message had come.
#[test]
fn memory_is_allocated_as_a_message_comes() {
    let (gathered, largest) = gathers(2, &[&(1_u64 << 30).to_le_bytes()]);
    assert!(matches!(gathered, Err(RankError::Lost { .. })));
    assert_eq!(largest, PIECE);
}

/// Blocks that are cut short were left out, and the rank that counted on them panicked.
#[test]
fn a_message_of_other_parts_is_an_error() {
    let block = |length: u64, bytes: &[u8]| [&length.to_le_bytes()[..], bytes].concat();
    for message in [
        block(5, b"four"),
        block(u64::MAX, b"four"),
        block(3, b"four"),
        b"short".to_vec(),
        Vec::new(),
        [block(1, b"a"), block(1, b"b")].concat(),
    ] {
        let length = (message.len() as u64).to_le_bytes();
        let messages: Vec<&[u8]> = match message.is_empty() {
            true => vec![&length],
            // Rank 0 sends 12 bytes: its own block.
            false => vec![&length, &message],
        };
        let (gathered, _) = gathers(2, &messages);
        let is_confused = matches!(gathered, Err(RankError::Confused { rank: 1, .. }));
        assert!(
            is_confused || message.is_empty() && gathered.is_err(),
            "{message:?}"
        );
    }
    let message = block(4, b"four");
    let (gathered, _) = gathers(2, &[&(message.len() as u64).to_le_bytes(), &message]);
    assert_eq!(gathered, Ok(vec![b"mine".to_vec(), b"four".to_vec()]));
}
