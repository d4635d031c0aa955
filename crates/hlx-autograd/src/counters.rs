//! The counters of random numbers that a checkpoint's second run takes from its first, so that it draws the
//! same numbers: PyTorch's `preserve_rng_state`.

use std::cell::RefCell;
use std::collections::VecDeque;

use hlx_core::Buffer;

/// A checkpoint that runs on this thread.
enum Run {
    /// The first time: its counters are saved.
    First(VecDeque<Buffer>),
    /// The second time: it takes them.
    Second(VecDeque<Buffer>),
}

thread_local! {
    /// The checkpoints that run, the innermost last.
    static RUNS: RefCell<Vec<Run>> = const { RefCell::new(Vec::new()) };
}

/// Makes a counter of random numbers, such as a [`DropoutMask`](crate::DropoutMask)'s: within the second run of a
/// [checkpoint](crate::Tensor::checkpoint) the one that the first run made in its place.
///
/// # Errors
/// Those of `make`.
pub fn counter<E>(make: impl FnOnce() -> Result<Buffer, E>) -> Result<Buffer, E> {
    // A second run has what all runs around it would give.
    let replayed = RUNS.with_borrow_mut(|runs| {
        let inner = runs.iter_mut().enumerate().rev();
        let mut taken = inner.filter_map(|(place, run)| match run {
            Run::First(_) => None,
            Run::Second(counters) => Some((place, counters)),
        });
        let (place, counters) = taken.next()?;
        counters.pop_front().map(|counter| (place + 1, counter))
    });
    let (from, counter) = match replayed {
        Some(replayed) => replayed,
        None => (0, make()?),
    };
    RUNS.with_borrow_mut(|runs| {
        for run in runs.iter_mut().skip(from) {
            if let Run::First(counters) = run {
                counters.push_back(counter.clone());
            }
        }
    });
    Ok(counter)
}

/// Runs a closure, and returns the counters that it made.
pub(crate) fn first<R>(body: impl FnOnce() -> R) -> (R, VecDeque<Buffer>) {
    let (result, run) = during(Run::First(VecDeque::new()), body);
    match run {
        Some(Run::First(counters)) => (result, counters),
        _ => (result, VecDeque::new()),
    }
}

/// Runs a closure again with the counters of its first run.
pub(crate) fn second<R>(counters: VecDeque<Buffer>, body: impl FnOnce() -> R) -> R {
    during(Run::Second(counters), body).0
}

/// Runs a closure within a run, which ends with it, by a panic too.
fn during<R>(run: Run, body: impl FnOnce() -> R) -> (R, Option<Run>) {
    struct End(usize);
    impl Drop for End {
        fn drop(&mut self) {
            RUNS.with_borrow_mut(|runs| runs.truncate(self.0));
        }
    }
    let depth = RUNS.with_borrow_mut(|runs| {
        runs.push(run);
        runs.len()
    });
    let _end = End(depth - 1);
    let result = body();
    let run = RUNS.with_borrow_mut(|runs| (runs.len() == depth).then(|| runs.pop()).flatten());
    (result, run)
}
