//! The transport between the ranks of one machine: a file that all of them map.
//!
//! A folder in `/dev/shm`, or where temporary files lie, that no other user can open, holds the mapped file and one lock file per rank,
//! which the rank holds as long as it lives: the system releases it when the process ends in any way, so
//! that others notice. Once all ranks are connected the folder is removed; a crash leaves nothing behind.

pub(crate) mod memory;
mod stale;
mod watch;

use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::memory::{Chunk, Memory, SLOTS, State};
use self::watch::Liveness;
use crate::pause::Pause;
use crate::secret::private;
use crate::transport::{Transport, host_name};
use crate::watch::{Cause, Watch};
use crate::{RankError, Result, Secret};

const MEMORY: &str = "memory";
/// What the names of lock files begin with.
const RANK: &str = "rank-";
/// What the folders' names begin with.
const PREFIX: &str = "hlx-ranks-";
/// How long ranks may take to start.
const START: Duration = Duration::from_secs(120);
/// Bytes each way from which on two threads copy.
const BOTH_AT_ONCE: usize = 1 << 22;

/// The shared memory of a run's ranks, as one of them sees it.
pub struct SharedMemory {
    rank: usize,
    host: String,
    memory: Arc<Memory>,
    liveness: Arc<Liveness>,
    secret: Secret,
    /// Chunks exchanged so far.
    counts: Mutex<Counts>,
    watch: Watch,
    /// Held while this rank lives.
    _lock: File,
    folder: PathBuf,
}

impl SharedMemory {
    /// Makes the folder of `n_ranks` ranks that know a secret, each of which opens it. No other user can.
    ///
    /// # Errors
    /// [`RankError::Start`] with the system's message, such as a full `/dev/shm`.
    pub fn create(n_ranks: usize, secret: &Secret) -> Result<PathBuf> {
        let shm = Path::new("/dev/shm");
        let parent = match shm.is_dir() {
            true => shm.to_owned(),
            false => std::env::temp_dir(),
        };
        stale::remove(&parent);
        let failed = |error: std::io::Error| RankError::start(parent.display(), error);
        let word = private::random_word().map_err(failed)?;
        let folder = parent.join(format!("{PREFIX}{}-{word}", std::process::id()));
        let failed = |error: std::io::Error| RankError::start(folder.display(), error);
        private::create(&folder).map_err(failed)?;
        let made = || -> std::io::Result<()> {
            for rank in 0..n_ranks {
                memory::create_private(&lock_path(&folder, rank))?;
            }
            Memory::create(&folder.join(MEMORY), n_ranks, secret)
        };
        made()
            .inspect_err(|_| _ = fs::remove_dir_all(&folder))
            .map_err(failed)?;
        Ok(folder)
    }

    /// Opens the folder as one of its ranks. `when_lost` is called, on another thread, if a rank is lost
    /// and this one has not noticed it in a call for 10 s: a process ends itself there.
    ///
    /// # Errors
    /// [`RankError::Start`]: no such folder, one of another user or that others can open, another secret, a rank that
    /// another process is.
    pub fn open(
        folder: &Path,
        rank: usize,
        secret: &Secret,
        when_lost: impl Fn(&RankError) + Send + 'static,
    ) -> Result<Self> {
        let failed = |error: std::io::Error| RankError::start(folder.display(), error);
        private::check(folder).map_err(failed)?;
        let memory = Memory::open(&folder.join(MEMORY), secret).map_err(failed)?;
        let memory = Arc::new(memory);
        if rank >= memory.n_ranks() {
            let reason = format!("rank {rank}, expected less than {}", memory.n_ranks());
            return Err(RankError::start(folder.display(), reason));
        }
        let lock = File::open(lock_path(folder, rank)).map_err(failed)?;
        if lock.try_lock().is_err() {
            let reason = format!("another process is rank {rank}");
            return Err(RankError::start(folder.display(), reason));
        }
        let locks = (0..memory.n_ranks()).map(|rank| File::open(lock_path(folder, rank)));
        let locks = locks
            .collect::<std::io::Result<Vec<File>>>()
            .map_err(failed)?;
        let host = host_name();
        let liveness = Arc::new(Liveness::new(rank, &host, Arc::clone(&memory), locks));
        memory.prove(rank, secret);
        memory.set_state(rank, State::Connected);
        let n_ranks = memory.n_ranks();
        let counts = Counts {
            sent: Sent::none(n_ranks),
            from: vec![0; n_ranks],
        };
        Ok(Self {
            watch: Watch::start(liveness.clone(), when_lost),
            rank,
            host,
            memory,
            liveness,
            secret: secret.clone(),
            counts: Mutex::new(counts),
            _lock: lock,
            folder: folder.to_owned(),
        })
    }

    /// Waits until all ranks have opened the folder; `check` says whether one has ended before, and why.
    ///
    /// # Errors
    /// [`RankError::Lost`] for a rank that has ended or does not come within two minutes.
    pub fn connect(&self, mut check: impl FnMut() -> Option<(usize, String)>) -> Result<()> {
        let begun = Instant::now();
        for rank in 0..self.memory.n_ranks() {
            while self.memory.state(rank) == State::Starting {
                let ended = check();
                let late = begun.elapsed() > START;
                let late = late.then(|| (rank, "has not started".to_owned()));
                if let Some((rank, reason)) = ended.or(late) {
                    self.memory.blame(rank, Cause::Ended);
                    let host = self.host.clone();
                    return Err(RankError::Lost { rank, host, reason });
                }
                self.liveness.check()?;
                std::thread::sleep(Duration::from_millis(2));
            }
            if !self.memory.has_proved(rank, &self.secret) {
                let host = self.host.clone();
                let reason = "does not know the secret of this run".to_owned();
                return Err(RankError::Lost { rank, host, reason });
            }
        }
        Ok(())
    }

    /// Removes the folder's names, once a call has shown that all ranks are connected.
    pub fn remove_folder(&self) {
        Self::remove(&self.folder);
    }

    /// Removes a folder that [`SharedMemory::create`] has made.
    pub fn remove(folder: &Path) {
        // Windows removes no open file: what is left there goes with the temporary files.
        let _ = fs::remove_dir_all(folder);
    }

    /// Publishes the next chunk of a message, if a slot is free; returns the bytes taken.
    fn send_some(&self, peer: usize, out: &[u8], counts: &mut Sent) -> usize {
        let slot = (counts.all % SLOTS as u64) as usize;
        if out.is_empty() || !self.memory.is_free(self.rank, slot) {
            return 0;
        }
        let n = out.len().min(self.memory.slot_bytes());
        counts.all += 1;
        counts.to[peer] += 1;
        let (to, number) = (peer, counts.to[peer]);
        self.memory
            .publish(self.rank, slot, Chunk { to, number }, &out[..n]);
        n
    }

    /// Takes the next chunk of a rank, if it is there; returns its bytes.
    fn take_some(&self, peer: usize, into: &mut [u8], from: &mut [u64]) -> Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let (to, number) = (self.rank, from[peer] + 1);
        let taken = self.memory.take(peer, Chunk { to, number }, into);
        let n = taken.map_err(|found| self.wrong_length(peer, found, into.len()))?;
        from[peer] += u64::from(n > 0);
        Ok(n)
    }

    /// Sends and receives chunks until both messages are done.
    fn exchange(
        &self,
        peer: usize,
        mut out: &[u8],
        into: &mut [u8],
        sent: &mut Sent,
        from: &mut [u64],
    ) -> Result<()> {
        let (mut received, mut pause) = (0, Pause::default());
        while !out.is_empty() || received < into.len() {
            let n_out = self.send_some(peer, out, sent);
            out = &out[n_out..];
            let n_in = self.take_some(peer, &mut into[received..], from)?;
            received += n_in;
            if n_out + n_in > 0 {
                pause = Pause::default();
            } else if pause.wait() {
                self.liveness.check()?;
                // What it sent before it left is there already.
                if self.memory.state(peer) == State::Left && pause.has_waited() {
                    let (rank, host) = (peer, self.host.clone());
                    let reason = "has left the run".to_owned();
                    return Err(RankError::Lost { rank, host, reason });
                }
            }
        }
        Ok(())
    }

    fn wrong_length(&self, peer: usize, found: usize, expected: usize) -> RankError {
        RankError::Length {
            rank: peer,
            host: self.host.clone(),
            found,
            expected,
        }
    }
}

/// Chunks that a rank has exchanged.
struct Counts {
    sent: Sent,
    /// Received from each rank.
    from: Vec<u64>,
}

struct Sent {
    /// To any rank: they take the slots one after another.
    all: u64,
    to: Vec<u64>,
}

impl Sent {
    fn none(n_ranks: usize) -> Self {
        Self {
            all: 0,
            to: vec![0; n_ranks],
        }
    }
}

fn lock_path(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("{RANK}{rank}"))
}

impl Transport for SharedMemory {
    fn rank(&self) -> usize {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.memory.n_ranks()
    }

    fn host(&self, _: usize) -> String {
        self.host.clone()
    }

    fn swap(&self, peer: usize, out: &[u8], into: &mut [u8]) -> Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Counts { sent, from } = &mut *counts;
        if out.len().min(into.len()) < BOTH_AT_ONCE {
            return self.exchange(peer, out, into, sent, from);
        }
        // Both copies of a long message at once.
        let (mut none_sent, mut none_from) = (Sent::none(0), Vec::new());
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| self.exchange(peer, out, &mut [], sent, &mut none_from));
            let received = self.exchange(peer, &[], into, &mut none_sent, from);
            let sent = sending.join().unwrap_or_else(|panic| resume_unwind(panic));
            received.and(sent)
        })
    }

    fn carries_data(&self) -> bool {
        true
    }

    fn fail(&self, line: &str) {
        self.memory.set_line(self.rank, line);
        self.memory.blame(self.rank, Cause::Failed);
        self.memory.set_state(self.rank, State::Left);
    }

    fn leave(&self) {
        self.memory.set_state(self.rank, State::Left);
    }

    fn lost(&self) -> Option<RankError> {
        self.liveness.lost()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.watch.stop();
        let _ = self._lock.unlock();
    }
}

#[cfg(test)]
pub(crate) mod tests;
