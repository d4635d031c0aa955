//! Whether all ranks live: a heartbeat of each, and the lock that a process holds until it ends.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::memory::{Cause, Memory, State};
use crate::{RankError, Result};

/// Between two beats of a rank.
const BEAT: Duration = Duration::from_millis(100);
/// A rank without a beat for so long is lost: it is stopped, or its machine is.
const SILENT: Duration = Duration::from_secs(10);
/// How long a rank may take to notice in a call that another is lost.
const NOTICE: Duration = Duration::from_secs(10);
/// A pause between two looks counts as this at most: a process that was itself stopped blames nobody.
const LOOK: Duration = Duration::from_secs(1);

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
    /// Of each rank: its last beat, and for how long it has been the same.
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
        let reason = match cause {
            Cause::Failed => self.memory.line(rank),
            Cause::Ended => "its process has ended".to_owned(),
            Cause::Silent => format!("no sign of life for {} s", SILENT.as_secs()),
        };
        let host = self.host.clone();
        Some(RankError::Lost { rank, host, reason })
    }

    /// Looks at the others; returns the rank that was lost first.
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

/// The thread that beats, and looks at the others.
pub(super) struct Watch {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub fn start(liveness: Arc<Liveness>, when_lost: impl Fn(&RankError) + Send + 'static) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stopped);
        let body = move || run(&liveness, &is_stopped, &when_lost);
        Self {
            stopped,
            thread: Some(std::thread::spawn(body)),
        }
    }

    pub fn stop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(liveness: &Liveness, stopped: &AtomicBool, when_lost: &dyn Fn(&RankError)) {
    let mut lost: Option<(Instant, RankError)> = None;
    let mut n_beats = 0_u32;
    while !stopped.load(Ordering::Acquire) {
        liveness.memory.next_beat(liveness.rank);
        n_beats += 1;
        if lost.is_none() && n_beats.is_multiple_of(5) {
            lost = liveness.look().map(|error| (Instant::now(), error));
        }
        if let Some((since, error)) = &lost {
            let noticed = liveness.noticed.load(Ordering::Acquire);
            let left = liveness.memory.state(liveness.rank) == State::Left;
            if !noticed && !left && since.elapsed() > NOTICE {
                when_lost(error);
                return;
            }
        }
        std::thread::sleep(BEAT);
    }
}
