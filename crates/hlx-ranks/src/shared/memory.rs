//! The mapped file: a page of control words for each rank, then two slots of each rank's messages.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::Secret;
use crate::text::one_line;
use crate::watch::Cause;

/// Slots of a rank: the next chunk is written while the one before is read.
pub(super) const SLOTS: usize = 2;
/// Bytes of a rank's control words, and of the page before them.
const PAGE: usize = 4096;
/// The largest slot; 64 MiB, what a container has by default, hold all slots.
const MAX_SLOT: usize = 1 << 20;
const ALL_SLOTS: usize = 32 << 20;
/// What the file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"hlxrank1");

/// The words of the first page.
const AT_MAGIC: usize = 0;
const AT_RANKS: usize = 1;
const AT_SLOT: usize = 2;
const AT_BLAMED: usize = 3;
/// Where, on a page, the four words are by which the ranks know each other.
const AT_PROOF: usize = 32;

/// The control words of a rank, then those of its slots, then the line that it failed with.
const AT_BEAT: usize = 0;
const AT_STATE: usize = 1;
const AT_LINE_LEN: usize = 2;
const AT_SLOTS: usize = 8;
const SLOT_WORDS: usize = 8;
const AT_LINE: usize = 1024;

/// The control words of a slot.
const WRITTEN: usize = 0;
const TAKEN: usize = 1;
const LEN: usize = 2;

/// How far a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting = 0,
    Connected = 1,
    Left = 2,
}

/// Which of a rank's chunks: the receiver looks for the very one that comes next, by one word, so that no
/// later one in the other slot is taken for it.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    /// The rank that it is for.
    pub to: usize,
    /// Its number among those between the two ranks, from 1.
    pub number: u64,
}

impl Chunk {
    fn word(self) -> u64 {
        self.number << 16 | self.to as u64
    }
}

/// What the first page's proof is of.
const MEMORY: &str = "memory";

/// A proof as it lies in the memory.
fn words(proof: [u8; 32]) -> [u64; 4] {
    let chunks = proof.as_chunks::<8>().0;
    [0, 1, 2, 3].map(|at| u64::from_ne_bytes(chunks[at]))
}

/// Creates a file that its user alone can open.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

/// The mapping.
pub(crate) struct Memory {
    map: MmapRaw,
    n_ranks: usize,
    slot_bytes: usize,
}

impl Memory {
    /// Writes the file, so that a lack of memory is an error here and no fault later.
    pub fn create(path: &Path, n_ranks: usize, secret: &Secret) -> io::Result<()> {
        let slot = (ALL_SLOTS / SLOTS / n_ranks.max(1) / PAGE * PAGE).clamp(PAGE, MAX_SLOT);
        let mut file = create_private(path)?;
        let mut first = vec![0; PAGE];
        for (at, word) in [
            (AT_MAGIC, MAGIC),
            (AT_RANKS, n_ranks as u64),
            (AT_SLOT, slot as u64),
        ] {
            first[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        first[8 * AT_PROOF..8 * AT_PROOF + 32].copy_from_slice(&secret.proof(MEMORY));
        file.write_all(&first)?;
        let zeros = vec![0; PAGE + SLOTS * slot];
        (0..n_ranks).try_for_each(|_| file.write_all(&zeros))
    }

    pub fn open(path: &Path, secret: &Secret) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let wrong = || Error::new(ErrorKind::InvalidData, "is no memory of ranks");
        let bytes = File::metadata(&file)?.len() as usize;
        if bytes < PAGE {
            return Err(wrong());
        }
        let map = MmapOptions::new().map_raw(&file)?;
        let mut memory = Self {
            map,
            n_ranks: 0,
            slot_bytes: 0,
        };
        let header =
            [AT_MAGIC, AT_RANKS, AT_SLOT].map(|at| memory.first(at).load(Ordering::Acquire));
        let [magic, n_ranks, slot] = header.map(u64::from_le);
        let slots = (PAGE as u64..=MAX_SLOT as u64).contains(&slot) && slot % PAGE as u64 == 0;
        if magic != MAGIC || !slots || n_ranks == 0 {
            return Err(wrong());
        }
        let expected = (n_ranks as usize)
            .checked_mul(PAGE + SLOTS * slot as usize)
            .and_then(|ranks| ranks.checked_add(PAGE));
        if expected != Some(bytes) {
            return Err(wrong());
        }
        (memory.n_ranks, memory.slot_bytes) = (n_ranks as usize, slot as usize);
        let proof = [0, 1, 2, 3].map(|at| memory.first(AT_PROOF + at).load(Ordering::Acquire));
        if proof != words(secret.proof(MEMORY)) {
            let what = "is the memory of ranks with another secret";
            return Err(Error::new(ErrorKind::PermissionDenied, what));
        }
        Ok(memory)
    }

    /// Shows that this rank knows the secret.
    pub fn prove(&self, rank: usize, secret: &Secret) {
        for (at, word) in words(secret.proof(&rank.to_string()))
            .into_iter()
            .enumerate()
        {
            self.of_rank(rank, AT_PROOF + at)
                .store(word, Ordering::Release);
        }
    }

    /// Whether a rank has shown that it knows the secret.
    pub fn has_proved(&self, rank: usize, secret: &Secret) -> bool {
        let shown =
            [0, 1, 2, 3].map(|at| self.of_rank(rank, AT_PROOF + at).load(Ordering::Acquire));
        shown == words(secret.proof(&rank.to_string()))
    }

    pub fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// A word of the mapping, by its number of bytes.
    fn word(&self, byte: usize) -> &AtomicU64 {
        assert!(byte.is_multiple_of(8) && byte + 8 <= self.map.len());
        // SAFETY: the mapping begins at a page, the word lies inside of it and is aligned, and all
        // processes access control words as atomics alone.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(byte).cast()) }
    }

    fn first(&self, at: usize) -> &AtomicU64 {
        self.word(8 * at)
    }

    fn page_of(&self, rank: usize) -> usize {
        assert!(rank < self.n_ranks);
        PAGE + rank * (PAGE + SLOTS * self.slot_bytes)
    }

    fn of_rank(&self, rank: usize, at: usize) -> &AtomicU64 {
        self.word(self.page_of(rank) + 8 * at)
    }

    fn of_slot(&self, rank: usize, slot: usize, at: usize) -> &AtomicU64 {
        self.of_rank(rank, AT_SLOTS + slot * SLOT_WORDS + at)
    }

    /// Where the bytes of a slot begin.
    fn bytes_of(&self, rank: usize, slot: usize) -> usize {
        assert!(slot < SLOTS);
        self.page_of(rank) + PAGE + slot * self.slot_bytes
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.map.len());
        // SAFETY: the range lies in the mapping; the protocol of the slots gives it to this rank until
        // it is published.
        unsafe {
            let target = self.map.as_mut_ptr().add(at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        assert!(at + into.len() <= self.map.len());
        // SAFETY: the range lies in the mapping; the protocol of the slots keeps its writer from it
        // until it is taken.
        unsafe {
            let source = self.map.as_ptr().add(at);
            source.copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
    }

    /// Whether a rank's slot has been taken, or never used.
    pub fn is_free(&self, rank: usize, slot: usize) -> bool {
        let word = |at| self.of_slot(rank, slot, at).load(Ordering::Acquire);
        word(WRITTEN) == word(TAKEN)
    }

    /// Publishes bytes in a free slot of this rank, as a chunk for another.
    pub fn publish(&self, rank: usize, slot: usize, chunk: Chunk, bytes: &[u8]) {
        self.write(self.bytes_of(rank, slot), bytes);
        let word = |at| self.of_slot(rank, slot, at);
        word(LEN).store(bytes.len() as u64, Ordering::Relaxed);
        word(WRITTEN).store(chunk.word(), Ordering::Release);
    }

    /// Takes a chunk of rank `from`, if it is published; returns its bytes, as an error if there are more
    /// than `into` has.
    pub fn take(&self, from: usize, chunk: Chunk, into: &mut [u8]) -> Result<usize, usize> {
        let word = chunk.word();
        let written = |slot: &usize| {
            let found = self.of_slot(from, *slot, WRITTEN);
            found.load(Ordering::Acquire) == word
        };
        let Some(slot) = (0..SLOTS).find(written) else {
            return Ok(0);
        };
        let n = self.of_slot(from, slot, LEN).load(Ordering::Relaxed) as usize;
        let Some(target) = into.get_mut(..n).filter(|_| n <= self.slot_bytes) else {
            return Err(n);
        };
        self.read(self.bytes_of(from, slot), target);
        self.of_slot(from, slot, TAKEN)
            .store(word, Ordering::Release);
        Ok(n)
    }

    pub fn state(&self, rank: usize) -> State {
        match self.of_rank(rank, AT_STATE).load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Connected,
            _ => State::Left,
        }
    }

    pub fn set_state(&self, rank: usize, state: State) {
        self.of_rank(rank, AT_STATE)
            .store(state as u64, Ordering::Release);
    }

    pub fn beat(&self, rank: usize) -> u64 {
        self.of_rank(rank, AT_BEAT).load(Ordering::Relaxed)
    }

    pub fn next_beat(&self, rank: usize) {
        self.of_rank(rank, AT_BEAT).fetch_add(1, Ordering::Relaxed);
    }

    /// States what this rank fails with; a long line is cut.
    pub fn set_line(&self, rank: usize, line: &str) {
        let bytes = &line.as_bytes()[..line.len().min(PAGE - AT_LINE)];
        self.write(self.page_of(rank) + AT_LINE, bytes);
        self.of_rank(rank, AT_LINE_LEN)
            .store(bytes.len() as u64, Ordering::Release);
    }

    pub fn line(&self, rank: usize) -> String {
        let n = self.of_rank(rank, AT_LINE_LEN).load(Ordering::Acquire) as usize;
        let mut bytes = vec![0; n.min(PAGE - AT_LINE)];
        self.read(self.page_of(rank) + AT_LINE, &mut bytes);
        one_line(&String::from_utf8_lossy(&bytes))
    }

    /// Notes that a rank is lost, unless another was noted before: those that end because of it are not
    /// what ended the run.
    pub fn blame(&self, rank: usize, cause: Cause) {
        let word = (rank as u64 + 1) << 8 | cause as u64;
        let _ =
            self.first(AT_BLAMED)
                .compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The rank that was lost first.
    pub fn blamed(&self) -> Option<(usize, Cause)> {
        let word = self.first(AT_BLAMED).load(Ordering::Acquire);
        let cause = Cause::of(word as u8);
        let rank = ((word >> 8) as usize).checked_sub(1)?;
        Some((rank.min(self.n_ranks.saturating_sub(1)), cause))
    }
}
