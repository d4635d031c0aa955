//! Whether all ranks live: a heartbeat of each, and the lock that a process holds until it ends.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::memory::{Memory, State};
use crate::watch::{Cause, LOOK, Life, SILENT};
use crate::{RankError, Result};

/// What a rank knows of the others' lives.
pub(super) struct Liveness {
    rank: usize,
    host: String,
    memory: Arc<Memory>,
    locks: Vec<File>,
    seen: Mutex<Seen>,
    /// Whether a call has failed because a rank is lost.
    noticed: AtomicBool,
}

struct Seen {
    looked: Instant,
    /// For each rank: its last beat, and for how long it has been the same.
    beats: Vec<(u64, Duration)>,
}

impl Liveness {
    pub fn new(rank: usize, host: &str, memory: Arc<Memory>, locks: Vec<File>) -> Self {
        let beats = vec![(0, Duration::ZERO); memory.n_ranks()];
        let looked = Instant::now();
        Self {
            rank,
            host: host.to_owned(),
            memory,
            locks,
            seen: Mutex::new(Seen { looked, beats }),
            noticed: AtomicBool::new(false),
        }
    }

    /// Fails if a rank is lost, with the one that was lost first.
    pub fn check(&self) -> Result<()> {
        let lost = self.look();
        if lost.is_some() {
            self.noticed.store(true, Ordering::Release);
        }
        lost.map_or(Ok(()), Err)
    }

    /// The rank that was noted as lost.
    pub fn lost(&self) -> Option<RankError> {
        let (rank, cause) = self.memory.blamed()?;
        let reason = cause.reason(|| self.memory.line(rank));
        let host = self.host.clone();
        Some(RankError::Lost { rank, host, reason })
    }

    fn cause(&self, rank: usize, passed: Duration, beat: &mut (u64, Duration)) -> Option<Cause> {
        if self.memory.state(rank) != State::Connected {
            return None;
        }
        if self.locks[rank].try_lock_shared().is_ok() {
            let _ = self.locks[rank].unlock();
            // It may have left between the two looks.
            return (self.memory.state(rank) == State::Connected).then_some(Cause::Ended);
        }
        let found = self.memory.beat(rank);
        *beat = match found == beat.0 {
            true => (found, beat.1 + passed),
            false => (found, Duration::ZERO),
        };
        (beat.1 > SILENT).then_some(Cause::Silent)
    }
}

impl Life for Liveness {
    fn beat(&self) {
        self.memory.next_beat(self.rank);
    }

    fn look(&self) -> Option<RankError> {
        if self.memory.blamed().is_none() {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let passed = seen.looked.elapsed().min(LOOK);
            seen.looked = Instant::now();
            for rank in (0..self.memory.n_ranks()).filter(|&rank| rank != self.rank) {
                if let Some(cause) = self.cause(rank, passed, &mut seen.beats[rank]) {
                    self.memory.blame(rank, cause);
                }
            }
        }
        self.lost()
    }

    fn has_noticed(&self) -> bool {
        self.noticed.load(Ordering::Acquire)
    }

    fn has_left(&self) -> bool {
        self.memory.state(self.rank) == State::Left
    }
}
