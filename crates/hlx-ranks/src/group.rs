//! A rank's handle of all: collective calls, which every rank makes in the same order.

use std::sync::Arc;

use crate::links::cut;
use crate::text::one_line;
use crate::transport::{Transport, host_name};
use crate::{RankError, Result};

/// The most bytes that a rank gives to a gather: a length beyond is an error, and not memory.
pub const GATHERED: usize = 1 << 31;
/// The most bytes of an answer that ranks agree on: a configuration, digests. A refusal is a line.
const AGREED: usize = 1 << 26;
const LINE: usize = 1 << 14;
/// Bytes that are allocated and swapped at once.
const PIECE: usize = 1 << 24;

/// The ranks of a run, as one of them sees them. Clones are the same rank.
#[derive(Clone, Default)]
pub struct Group {
    /// `None` for a process that is alone.
    transport: Option<Arc<dyn Transport>>,
}

impl Group {
    /// A process without others.
    pub fn alone() -> Self {
        Self::default()
    }

    /// The ranks that a transport connects.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport: Some(transport).filter(|transport| transport.n_ranks() > 1),
        }
    }

    /// Whether there are no others.
    pub fn is_alone(&self) -> bool {
        self.transport.is_none()
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.transport.as_ref().map_or(0, |one| one.rank())
    }

    /// Whether this is rank 0, which writes the run's files and prints.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// How many ranks there are.
    pub fn n_ranks(&self) -> usize {
        self.transport.as_ref().map_or(1, |one| one.n_ranks())
    }

    /// The host of a rank.
    pub fn host(&self, rank: usize) -> String {
        let transport = self.transport.as_ref();
        transport.map_or_else(host_name, |one| one.host(rank))
    }

    /// A rank and its host, as messages name it: `rank 3 on HOST`.
    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.host(rank))
    }

    /// Whether the transport is meant for the words of gradients and parameters: see
    /// [`Transport::carries_data`]. `true` for a process that is alone.
    pub fn carries_data(&self) -> bool {
        self.transport.as_ref().is_none_or(|one| one.carries_data())
    }

    /// The number of this rank among those of its host, where a launcher has said it.
    pub fn local_rank(&self) -> Option<usize> {
        self.transport.as_ref()?.local_rank()
    }

    /// Sends bytes to a rank and receives as many as `into` has: see [`Transport::swap`].
    ///
    /// # Errors
    /// Those of the transport.
    pub fn swap(&self, peer: usize, out: &[u8], into: &mut [u8]) -> Result<()> {
        match &self.transport {
            Some(transport) => transport.swap(peer, out, into),
            None => Ok(()),
        }
    }

    /// Swaps messages whose lengths the other rank does not know, of at most this many bytes. Memory is allocated as
    /// the bytes come.
    fn swap_any(&self, peer: usize, out: &[u8], most: usize) -> Result<Vec<u8>> {
        let mut length = [0; 8];
        self.swap(peer, &(out.len() as u64).to_le_bytes(), &mut length)?;
        let found = u64::from_le_bytes(length);
        let n = usize::try_from(found).ok().filter(|&n| n <= most);
        let n = n.ok_or_else(|| RankError::TooLong {
            rank: peer,
            host: self.host(peer),
            found,
            most: most as u64,
        })?;
        let mut into = Vec::new();
        let mut out = out.chunks(PIECE);
        // Both ranks know both lengths, so that they make the same pieces.
        loop {
            let here = into.len();
            let theirs = (n - here).min(PIECE);
            let mine = out.next().unwrap_or_default();
            if (mine.len(), theirs) == (0, 0) {
                return Ok(into);
            }
            into.resize(here + theirs, 0);
            self.swap(peer, mine, &mut into[here..])?;
        }
    }

    /// The blocks of a message from a rank, of which there must be this many.
    fn blocks(&self, from: usize, bytes: &[u8], n: usize) -> Result<Vec<Vec<u8>>> {
        unpack(bytes, n).ok_or_else(|| RankError::Confused {
            rank: from,
            host: self.host(from),
            what: format!("a message of other parts than those of {n} ranks"),
        })
    }

    /// Returns the bytes that each rank gives, in the order of the ranks; lengths may differ.
    ///
    /// For a power of two of ranks by recursive doubling: neighbours first; else through rank 0.
    ///
    /// # Errors
    /// Those of the transport; a rank that gives more than [`GATHERED`] bytes.
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.gather_up_to(GATHERED, bytes)
    }

    fn gather_up_to(&self, most: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (rank, n_ranks) = (self.rank(), self.n_ranks());
        if !n_ranks.is_power_of_two() {
            return self.gather_through_first(most, bytes);
        }
        let mut blocks = vec![bytes.to_vec()];
        for bit in (0..n_ranks.ilog2()).map(|level| 1 << level) {
            let n = blocks.len();
            let theirs = self.swap_any(rank ^ bit, &pack(&blocks), packed(most, n))?;
            let theirs = self.blocks(rank ^ bit, &theirs, n)?;
            blocks = match rank & bit {
                0 => [blocks, theirs].concat(),
                _ => [theirs, blocks].concat(),
            };
        }
        Ok(blocks)
    }

    fn gather_through_first(&self, most: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let n_ranks = self.n_ranks();
        if !self.is_first() {
            self.swap_any(0, bytes, 0)?;
            let all = self.swap_any(0, &[], packed(most, n_ranks))?;
            return self.blocks(0, &all, n_ranks);
        }
        let mut blocks = vec![bytes.to_vec()];
        for rank in 1..n_ranks {
            blocks.push(self.swap_any(rank, &[], most)?);
        }
        let all = pack(&blocks);
        for rank in 1..n_ranks {
            self.swap_any(rank, &all, 0)?;
        }
        Ok(blocks)
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn barrier(&self) -> Result<()> {
        self.gather(&[]).map(drop)
    }

    /// Returns what rank 0 gives.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn from_first(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let given: &[u8] = if self.is_first() { bytes } else { &[] };
        let mut all = self.gather(given)?;
        Ok(all.swap_remove(0))
    }

    /// Lets all ranks know what each made of the same question: `Ok` with the answers of all if each has
    /// one, else the first rank's error among those that failed, the same on every rank.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn agree(&self, answer: Result<&[u8], String>) -> Result<Result<Vec<Vec<u8>>, Refusal>> {
        let bytes = match &answer {
            Ok(bytes) => [&[0], *bytes].concat(),
            Err(line) => [&[1], cut(line, LINE).as_bytes()].concat(),
        };
        let answers = self.gather_up_to(AGREED, &bytes)?;
        let failed = |answer: &Vec<u8>| answer.first() != Some(&0);
        if let Some(rank) = answers.iter().position(failed) {
            let line = answers[rank].get(1..).unwrap_or_default();
            let line = one_line(&String::from_utf8_lossy(line));
            return Ok(Err(Refusal { rank, line }));
        }
        let of = |mut answer: Vec<u8>| answer.split_off(1);
        Ok(Ok(answers.into_iter().map(of).collect()))
    }

    /// Tells the others that this rank ends with an error; does nothing for a process that is alone.
    pub fn fail(&self, line: &str) {
        if let Some(transport) = &self.transport {
            transport.fail(line);
        }
    }

    /// The rank that was lost first, if one is: another than this one, unless this one has failed.
    pub fn lost(&self) -> Option<RankError> {
        self.transport.as_ref()?.lost()
    }

    /// Waits for all ranks, after which each may end.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn leave(&self) -> Result<()> {
        self.barrier()?;
        self.quit();
        Ok(())
    }

    /// Tells the others that this rank ends as all do, after a call in which they have agreed to.
    pub fn quit(&self) {
        if let Some(transport) = &self.transport {
            transport.leave();
        }
    }
}

/// What a rank could not agree to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The first rank that refused.
    pub rank: usize,
    /// Why, in one line.
    pub line: String,
}

/// Blocks one after another, each with its length.
fn pack(blocks: &[Vec<u8>]) -> Vec<u8> {
    let with_length = |block: &Vec<u8>| [&(block.len() as u64).to_le_bytes(), &block[..]].concat();
    blocks.iter().flat_map(with_length).collect()
}

/// The most bytes of this many blocks, one after another.
fn packed(most: usize, n: usize) -> usize {
    n.saturating_mul(most.saturating_add(8))
}

/// The blocks that [`pack`] joined; `None` for anything but this many whole ones.
pub(crate) fn unpack(mut bytes: &[u8], n: usize) -> Option<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    for _ in 0..n {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (block, rest) = rest.split_at_checked(length)?;
        blocks.push(block.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(blocks)
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.n_ranks())
    }
}

impl RankError {
    /// The rank that the error is about, if it is about one.
    pub fn rank(&self) -> Option<usize> {
        match self {
            Self::Lost { rank, .. }
            | Self::Length { rank, .. }
            | Self::TooLong { rank, .. }
            | Self::Confused { rank, .. } => Some(*rank),
            Self::Start { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
