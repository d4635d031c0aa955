//! What a checkpoint keeps of its first run, so that the second one need not compute it again.

use std::cell::RefCell;
use std::collections::VecDeque;

use hlx_core::Buffer;

use crate::Result;
use crate::graph::saved::Saved;

/// The results of operations in the order in which they ran.
pub(crate) type Kept = VecDeque<Vec<Saved>>;

/// What operations on this thread do with results that are worth keeping.
enum Run {
    /// They only compute them.
    Plain,
    /// They are kept, too.
    First(Kept),
    /// They are taken from the first run.
    Second(Kept),
}

thread_local! {
    static RUN: RefCell<Run> = const { RefCell::new(Run::Plain) };
}

/// Runs a closure, and returns what its operations keep.
pub(crate) fn first<R>(body: impl FnOnce() -> R) -> (R, Kept) {
    let (result, run) = during(Run::First(Kept::new()), body);
    match run {
        Run::First(kept) => (result, kept),
        Run::Plain | Run::Second(_) => (result, Kept::new()),
    }
}

/// Runs a closure again; its operations take what they kept.
pub(crate) fn second<R>(kept: Kept, body: impl FnOnce() -> R) -> R {
    during(Run::Second(kept), body).0
}

/// Runs a closure whose operations keep and take nothing.
pub(crate) fn plain<R>(body: impl FnOnce() -> R) -> R {
    during(Run::Plain, body).0
}

/// The results of an operation: those of the first run, unless they were changed in place since; else
/// computed.
pub(crate) fn results<const N: usize>(
    compute: impl FnOnce() -> Result<[Buffer; N]>,
) -> Result<[Buffer; N]> {
    let kept = RUN.with_borrow_mut(|run| match run {
        Run::Second(kept) => kept.pop_front(),
        Run::Plain | Run::First(_) => None,
    });
    if let Some(kept) = kept
        && let Ok(values) = kept.iter().map(Saved::values).collect::<Result<Vec<_>>>()
        && let Ok(results) = <[Buffer; N]>::try_from(values)
    {
        // Operands of products that the first run has made of them are made again, as those of what is computed again.
        results.iter().for_each(Buffer::forget);
        return Ok(results);
    }
    let results = compute()?;
    RUN.with_borrow_mut(|run| {
        if let Run::First(kept) = run {
            let keep = |buffer: &Buffer| Saved::kept(buffer.clone(), "(kept)".to_owned());
            kept.push_back(results.iter().map(keep).collect());
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
