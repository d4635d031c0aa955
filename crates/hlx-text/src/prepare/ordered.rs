//! Work on several threads whose results are taken in the order of their inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::{Result, TextError};

/// Takes inputs from `next` one after the other, has `threads` threads `work` on them, and gives the
/// results to `take` in the inputs' order. The first error in that order ends it all. Each thread
/// holds one input at a time.
pub(super) fn ordered<I: Send, O: Send>(
    threads: usize,
    next: impl FnMut() -> Result<Option<I>> + Send,
    work: impl Fn(I) -> Result<O> + Sync,
    take: impl FnMut(O) -> Result<()> + Send,
) -> Result<()> {
    let line = Line {
        inputs: Mutex::new((next, 0_u64)),
        turn: Mutex::new(Turn {
            number: 0,
            take,
            ended: None,
        }),
        passed: Condvar::new(),
    };
    thread::scope(|scope| {
        for started in 0..threads.max(1) {
            let spawned = thread::Builder::new().spawn_scoped(scope, || line.serve(&work));
            if spawned.is_err() {
                // The system grants no more threads; the results are the same with fewer.
                if started == 0 {
                    line.serve(&work);
                }
                break;
            }
        }
    });
    let turn = line.turn.into_inner();
    let turn = turn.unwrap_or_else(PoisonError::into_inner);
    turn.ended.unwrap_or(Ok(()))
}

/// What the threads share.
struct Line<N, T> {
    /// The inputs, and the number of the next one.
    inputs: Mutex<(N, u64)>,
    turn: Mutex<Turn<T>>,
    /// Signalled when a result was taken.
    passed: Condvar,
}

struct Turn<T> {
    /// The number of the result that is taken next.
    number: u64,
    take: T,
    /// The end: there is no more input, or an error.
    ended: Option<Result<()>>,
}

impl<N, T> Line<N, T> {
    fn serve<I, O>(&self, work: &impl Fn(I) -> Result<O>)
    where
        N: FnMut() -> Result<Option<I>>,
        T: FnMut(O) -> Result<()>,
    {
        loop {
            let (input, number) = {
                let mut inputs = lock(&self.inputs);
                let number = inputs.1;
                inputs.1 += 1;
                (caught(|| (inputs.0)()), number)
            };
            let result =
                input.and_then(|input| input.map(|input| caught(|| work(input))).transpose());
            let mut turn = lock(&self.turn);
            while turn.number != number && turn.ended.is_none() {
                turn = self
                    .passed
                    .wait(turn)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if turn.ended.is_some() {
                return;
            }
            let taken = match result {
                Ok(Some(result)) => (turn.take)(result),
                Ok(None) => {
                    turn.ended = Some(Ok(()));
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                turn.ended = Some(Err(error));
            }
            turn.number += 1;
            self.passed.notify_all();
        }
    }
}

/// Makes an error of a panic: other threads wait for the result. Nothing that a panic has left half done
/// is used again, as the error ends the work.
fn caught<O>(work: impl FnOnce() -> Result<O>) -> Result<O> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let message = text.unwrap_or_default();
        Err(TextError::argument(
            "data_prepare",
            format!("panicked: {message}"),
        ))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_inputs_and_end_with_the_first_error() {
        let panics = ordered(3, || Ok(Some(1)), |_| -> Result<()> { panic!("lost") }, Ok);
        let line = panics.expect_err("a panic").to_string();
        assert_eq!(line, "data_prepare: panicked: lost");
        for threads in [1, 2, 5] {
            for fault in [None, Some(3), Some(17)] {
                let (mut number, mut taken) = (0_u64, Vec::new());
                let next = || {
                    number += 1;
                    Ok((number <= 40).then_some(number))
                };
                let work = |number: u64| {
                    thread::sleep(std::time::Duration::from_micros(number * 37 % 300));
                    // Later inputs fail too: the first one's error must win.
                    match fault.is_some_and(|fault| number >= fault) {
                        true => Err(TextError::argument("work", number)),
                        false => Ok(number),
                    }
                };
                let done = ordered(threads, next, work, |number| {
                    taken.push(number);
                    Ok(())
                });
                let last = fault.map_or(40, |fault| fault - 1);
                assert!(taken.into_iter().eq(1..=last), "{threads} threads");
                let line = done.err().map(|error| error.to_string());
                assert_eq!(line, fault.map(|fault| format!("work: {fault}")));
            }
        }
    }
}
