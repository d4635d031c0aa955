//! Calls of other crates with data of strangers: a panic becomes an error, without a line of its own.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// How many guarded calls this thread is in.
    static GUARDED: Cell<usize> = const { Cell::new(0) };
}

/// Leaves a guarded call, by its end or by a panic.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        GUARDED.with(|guarded| guarded.set(guarded.get().saturating_sub(1)));
    }
}

/// Runs `call`; a panic in it is returned as its message.
///
/// The hook of the process prints panics as before, except those of threads that are in such a call.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if GUARDED.with(Cell::get) == 0 {
                before(info);
            }
        }));
    });
    GUARDED.with(|guarded| guarded.set(guarded.get() + 1));
    let leave = Leave;
    // What `call` borrows is dropped or only read by those that get the error.
    let result = catch_unwind(AssertUnwindSafe(call));
    drop(leave);
    result.map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_guarded_call_is_its_message() {
        assert_eq!(guarded(|| 7), Ok(7));
        let text = guarded(|| -> u32 { panic!("no {}", "such") });
        assert_eq!(text, Err("no such".to_owned()));
        assert_eq!(GUARDED.with(Cell::get), 0);
    }
}
