//! The results of a checkpoint's first run that are held, so that the second one need not compute it again.

use std::cell::RefCell;
use std::collections::VecDeque;

use hlx_core::Buffer;

use crate::Result;
use crate::graph::saved::Saved;

/// The results of operations in the order in which they ran.
pub(crate) type Results = VecDeque<Vec<Saved>>;

/// What operations on this thread do with results that are worth holding until the second run.
enum Run {
    /// They only compute them.
    Plain,
    /// They are saved, too.
    First(Results),
    /// They are taken from the first run.
    Second(Results),
}

thread_local! {
    static RUN: RefCell<Run> = const { RefCell::new(Run::Plain) };
}

/// Runs a closure, and returns the results that its operations saved.
pub(crate) fn first<R>(body: impl FnOnce() -> R) -> (R, Results) {
    let (result, run) = during(Run::First(Results::new()), body);
    match run {
        Run::First(results) => (result, results),
        Run::Plain | Run::Second(_) => (result, Results::new()),
    }
}

/// Runs a closure again; its operations take the results of the first run.
pub(crate) fn second<R>(results: Results, body: impl FnOnce() -> R) -> R {
    during(Run::Second(results), body).0
}

/// Runs a closure whose operations save and take nothing.
pub(crate) fn plain<R>(body: impl FnOnce() -> R) -> R {
    during(Run::Plain, body).0
}

/// The results of an operation: those of the first run, unless they were changed in place since; else
/// computed.
pub(crate) fn results<const N: usize>(
    compute: impl FnOnce() -> Result<[Buffer; N]>,
) -> Result<[Buffer; N]> {
    let earlier = RUN.with_borrow_mut(|run| match run {
        Run::Second(all) => all.pop_front(),
        Run::Plain | Run::First(_) => None,
    });
    if let Some(earlier) = earlier
        && let Ok(values) = earlier
            .iter()
            .map(Saved::values)
            .collect::<Result<Vec<_>>>()
        && let Ok(results) = <[Buffer; N]>::try_from(values)
    {
        // Operands of products that the first run has made of them are made again, as for results that are computed again.
        results.iter().for_each(Buffer::forget);
        return Ok(results);
    }
    let results = compute()?;
    RUN.with_borrow_mut(|run| {
        if let Run::First(all) = run {
            let save = |buffer: &Buffer| Saved::held(buffer.clone(), "(kept)".to_owned());
            all.push_back(results.iter().map(save).collect());
        }
    });
    Ok(results)
}

/// Runs a closure under `run`, and returns what became of it; what was before is restored when the
/// closure ends, by a panic too.
fn during<R>(run: Run, body: impl FnOnce() -> R) -> (R, Run) {
    struct Restore(Run);
    impl Restore {
        fn swap(&mut self) {
            RUN.with_borrow_mut(|run| std::mem::swap(run, &mut self.0));
        }
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            self.swap();
        }
    }
    let mut before = Restore(run);
    before.swap();
    let result = body();
    let run = RUN.with_borrow_mut(|run| std::mem::replace(run, Run::Plain));
    (result, run)
}
