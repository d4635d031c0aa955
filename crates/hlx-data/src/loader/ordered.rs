//! Numbered jobs on worker threads, whose results are taken in the order of their numbers.
//!
//! At most `ahead` jobs have begun without having been taken, so that memory is bounded however slow
//! the taker is.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A job's result, or the message of its panic.
pub type Outcome<R> = Result<R, String>;

/// What a number's job does.
type Work<R> = dyn Fn(u64) -> R + Send + Sync;

/// The results of the jobs of a range, done by worker threads and taken in order. A job is a function of its
/// number.
///
/// ```
/// use hlx_data::Ordered;
///
/// let squares = Ordered::new(2..5, |number| number * number, 2, 4);
/// let found: Vec<u64> = std::iter::from_fn(|| squares.next()).flatten().collect();
/// assert_eq!(found, [4, 9, 16]);
/// ```
pub struct Ordered<R> {
    shared: Arc<Shared<R>>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared<R> {
    work: Box<Work<R>>,
    ahead: u64,
    state: Mutex<State<R>>,
    /// Signalled when a job may begin, or none will any more.
    room: Condvar,
    /// Signalled when a result has come.
    filled: Condvar,
}

struct State<R> {
    /// The first job that has not begun.
    next: u64,
    /// The first job whose result has not been taken.
    taken: u64,
    end: u64,
    ready: BTreeMap<u64, Outcome<R>>,
    stopped: bool,
}

impl<R: Send + 'static> Ordered<R> {
    /// Starts the threads; without any, [`Ordered::next`] does the work. `ahead` bounds the jobs that have
    /// begun and are not taken.
    pub fn new(
        jobs: Range<u64>,
        work: impl Fn(u64) -> R + Send + Sync + 'static,
        workers: usize,
        ahead: usize,
    ) -> Self {
        let state = State {
            next: jobs.start,
            taken: jobs.start,
            end: jobs.end,
            ready: BTreeMap::new(),
            stopped: false,
        };
        let shared = Arc::new(Shared {
            work: Box::new(work),
            ahead: ahead.max(1) as u64,
            state: Mutex::new(state),
            room: Condvar::new(),
            filled: Condvar::new(),
        });
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.serve())
        };
        let workers = (0..workers).map(start).collect();
        Self { shared, workers }
    }

    /// Waits for the next job's result, or does the job where there are no threads; `None` after the last job.
    pub fn next(&self) -> Option<Outcome<R>> {
        if self.workers.is_empty() {
            return self.work_here();
        }
        let mut state = self.shared.lock();
        while state.taken < state.end {
            let taken = state.taken;
            if let Some(outcome) = state.ready.remove(&taken) {
                state.taken += 1;
                self.shared.room.notify_one();
                return Some(outcome);
            }
            state = wait(&self.shared.filled, state);
        }
        None
    }

    /// The next job's result if it is there.
    pub(super) fn next_ready(&self) -> Option<Outcome<R>> {
        let mut state = self.shared.lock();
        let taken = state.taken;
        let outcome = state.ready.remove(&taken)?;
        state.taken += 1;
        self.shared.room.notify_one();
        Some(outcome)
    }

    fn work_here(&self) -> Option<Outcome<R>> {
        let mut state = self.shared.lock();
        let job = state.taken;
        (job < state.end).then(|| {
            state.taken += 1;
            drop(state);
            self.shared.outcome(job)
        })
    }
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does jobs until there is none left.
    fn serve(&self) {
        while let Some(job) = self.begin() {
            let outcome = self.outcome(job);
            self.lock().ready.insert(job, outcome);
            self.filled.notify_one();
        }
    }

    fn begin(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.next >= state.end {
                return None;
            }
            if state.next < state.taken + self.ahead {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = wait(&self.room, state);
        }
    }

    fn outcome(&self, job: u64) -> Outcome<R> {
        caught(|| (self.work)(job))
    }
}

impl<R> Drop for Ordered<R> {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.room.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, and has nothing else that panics.
            let _ = worker.join();
        }
    }
}

fn wait<'a, R>(condition: &Condvar, state: MutexGuard<'a, State<R>>) -> MutexGuard<'a, State<R>> {
    condition
        .wait(state)
        .unwrap_or_else(PoisonError::into_inner)
}

/// A job's result, or the message of its panic. Nothing that a panic has left half done may be used again: the
/// results end with an error.
pub(super) fn caught<R>(job: impl FnOnce() -> R) -> Outcome<R> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|payload| message(&*payload))
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}
