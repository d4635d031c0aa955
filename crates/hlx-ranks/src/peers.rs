//! Copies between the GPUs of one host by their copy engines, which leave the processors to the device's own work.
//!
//! Each rank has windows of device memory that the others map and read; Vulkan writes them. What a rank has
//! written and what it has read it says over a connection to the other rank.

mod lines;

use std::fs::File;
use std::ops::Range;

pub use self::lines::Lines;
use crate::gpu::{CudaMemory, Gpu, Uuid};
use crate::group::Refusal;
use crate::{Group, RankError, Result};

/// The bytes of a message.
const MESSAGE: usize = 16;

/// The connected GPUs.
pub struct Peers {
    gpu: Gpu,
    group: Group,
    lines: Lines,
    /// For each rank: its windows; none of this rank.
    theirs: Vec<Vec<CudaMemory>>,
}

/// A window of this rank's that the others read, for Vulkan to import.
pub struct PeerWindow {
    /// An opaque descriptor of its memory.
    pub file: File,
    /// The bytes of the memory.
    pub bytes: u64,
}

/// What ranks tell each other about a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// The window of this number holds this many bytes.
    Written(usize, usize),
    /// The other's window has been read.
    Read,
}

impl Message {
    fn to_bytes(self) -> [u8; MESSAGE] {
        let words = match self {
            Self::Written(window, bytes) => [window as u64 + 1, bytes as u64],
            Self::Read => [0; 2],
        };
        let mut message = [0; MESSAGE];
        for (chunk, word) in message.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *chunk = word.to_le_bytes();
        }
        message
    }

    fn of(message: [u8; MESSAGE]) -> Self {
        let word = |at: usize| {
            let chunks = message.as_chunks::<8>().0;
            u64::from_le_bytes(chunks[at]) as usize
        };
        match word(0).checked_sub(1) {
            Some(window) => Self::Written(window, word(1)),
            None => Self::Read,
        }
    }
}

impl Peers {
    /// Connects ranks whose GPUs have these UUIDs, if each can read the memory of every other; all ranks call it.
    ///
    /// # Errors
    /// A rank that is lost. Inside: the first rank that cannot, and why.
    pub fn meet(gpu: &Gpu, group: &Group, uuids: &[Uuid]) -> Result<Result<Lines, Refusal>> {
        let mine = group.host(group.rank());
        let reaches = |rank: usize| match group.host(rank) == mine {
            true => gpu.check_reach(uuids[rank]).map_err(|e| e.to_string()),
            false => Err(format!("is not on the host of rank {rank}")),
        };
        let mut others = (0..group.n_ranks()).filter(|rank| *rank != group.rank());
        Lines::meet(group, others.try_for_each(reaches))
    }

    /// Makes `n_windows` windows of at least this many bytes, and maps those of the others; all ranks call it with
    /// the same numbers.
    ///
    /// # Errors
    /// What CUDA reports, and a rank that is lost.
    pub fn connect(
        gpu: Gpu,
        lines: Lines,
        group: &Group,
        n_windows: usize,
        bytes: u64,
    ) -> Result<(Self, Vec<PeerWindow>)> {
        let others = || (0..group.n_ranks()).filter(|rank| *rank != group.rank());
        let mut mine = Vec::new();
        for _ in 0..n_windows {
            let (memory, file) = gpu.allocate(bytes)?;
            let bytes = memory.bytes();
            for rank in others() {
                lines.send(rank, &bytes.to_le_bytes(), Some(&file))?;
            }
            mine.push(PeerWindow { file, bytes });
        }
        let mut theirs: Vec<Vec<CudaMemory>> = Vec::new();
        theirs.resize_with(group.n_ranks(), Vec::new);
        for rank in others() {
            for _ in 0..n_windows {
                let mut bytes = [0; 8];
                let file = lines.receive(rank, &mut bytes)?;
                let file = file.ok_or_else(|| RankError::start("CUDA", "no memory came"))?;
                let memory = gpu.import_allocated(&file, u64::from_le_bytes(bytes))?;
                theirs[rank].push(memory);
            }
        }
        let group = group.clone();
        let peers = Self {
            gpu,
            group,
            lines,
            theirs,
        };
        Ok((peers, mine))
    }

    /// The GPU that copies.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Says that the window of this number has this many bytes for a rank, and copies what that rank has to the
    /// range of `memory`. Returns when both ranks have what the other had; no work of the device may write the window
    /// or use the range meanwhile. The other rank calls it with the lengths swapped.
    ///
    /// # Errors
    /// A rank that is lost, another length, and what CUDA reports.
    pub fn swap(
        &self,
        peer: usize,
        window: usize,
        n_out: usize,
        memory: &CudaMemory,
        range: Range<usize>,
    ) -> Result<()> {
        self.send(peer, Message::Written(window, n_out))?;
        let Message::Written(window, found) = self.receive(peer)? else {
            return Err(self.confused(peer));
        };
        let expected = range.len();
        if found != expected {
            return Err(RankError::Length {
                rank: peer,
                host: self.group.host(peer),
                found,
                expected,
            });
        }
        if expected > 0 {
            let theirs = self.theirs[peer].get(window);
            let from = theirs.and_then(|theirs| theirs.address(&(0..expected)));
            let addresses = from.zip(memory.address(&range));
            let (from, to) = addresses.ok_or_else(|| self.confused(peer))?;
            // SAFETY: both ranges lie in memory that is mapped for good; the peer has written its window, and
            // nothing here uses the other, as the caller says.
            unsafe { self.gpu.copy(from, to, expected) }?;
            self.send(peer, Message::Read)?;
        }
        if n_out > 0 && self.receive(peer)? != Message::Read {
            return Err(self.confused(peer));
        }
        Ok(())
    }

    fn send(&self, to: usize, message: Message) -> Result<()> {
        self.lines.send(to, &message.to_bytes(), None)
    }

    fn receive(&self, from: usize) -> Result<Message> {
        let mut message = [0; MESSAGE];
        self.lines.receive(from, &mut message)?;
        Ok(Message::of(message))
    }

    fn confused(&self, peer: usize) -> RankError {
        RankError::Lost {
            rank: peer,
            host: self.group.host(peer),
            reason: "is not at the same swap".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_what_they_say() {
        for message in [
            Message::Written(0, 12),
            Message::Written(9, 0),
            Message::Read,
        ] {
            assert_eq!(Message::of(message.to_bytes()), message);
        }
    }
}
