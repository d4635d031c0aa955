//! Which parts of an allocation were changed in place, and when: with it, whoever holds a buffer for later
//! learns whether it still holds what it held.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts the moments of the process.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// Returns a new moment: a number larger than all before it, in this process.
pub fn next_moment() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// Returns the last moment that [`next_moment`] has returned; 0 before the first.
pub fn last_moment() -> u64 {
    CLOCK.load(Ordering::Relaxed) - 1
}

/// A change in place of some words.
struct Change {
    words: Range<usize>,
    moment: u64,
    rebased: bool,
}

/// The changes in place of an allocation.
#[derive(Default)]
pub(crate) struct Changes {
    /// The last change's moment, 0 before the first.
    latest: AtomicU64,
    all: Mutex<Vec<Change>>,
}

impl Changes {
    fn all(&self) -> MutexGuard<'_, Vec<Change>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change. Earlier ones within its words go, so that changes of the same windows again
    /// and again take no memory.
    pub fn note(&self, words: Range<usize>, rebased: bool) {
        let moment = next_moment();
        let mut all = self.all();
        let within = |old: &Change| words.start <= old.words.start && old.words.end <= words.end;
        all.retain(|old| !within(old) || (old.rebased && !rebased));
        all.push(Change {
            words,
            moment,
            rebased,
        });
        self.latest.store(moment, Ordering::Release);
    }

    /// Whether one of these words was changed after a moment; with `rebased`, by such a change.
    pub fn after(&self, moment: u64, words: &Range<usize>, rebased: bool) -> bool {
        if self.latest.load(Ordering::Acquire) <= moment {
            return false;
        }
        self.all().iter().any(|change| {
            change.moment > moment
                && (change.rebased || !rebased)
                && change.words.start < words.end
                && words.start < change.words.end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_where_it_was_made_and_after_it() {
        let changes = Changes::default();
        let before = last_moment();
        assert!(!changes.after(before, &(0..100), false));
        changes.note(10..20, false);
        assert!(changes.after(before, &(19..30), false));
        assert!(!changes.after(before, &(20..30), false));
        assert!(!changes.after(before, &(0..100), true));
        assert!(!changes.after(last_moment(), &(0..100), false));
    }

    #[test]
    fn a_change_replaces_those_within_it_and_keeps_what_they_said() {
        let changes = Changes::default();
        let before = last_moment();
        for _ in 0..100 {
            changes.note(0..8, false);
            changes.note(8..16, true);
        }
        assert_eq!(changes.all().len(), 2);
        changes.note(0..16, false);
        assert!(changes.after(before, &(8..9), true));
        assert!(!changes.after(before, &(0..8), true));
        changes.note(0..16, true);
        assert_eq!(changes.all().len(), 1);
    }
}
