//! What was made of a buffer's values and may be used again, such as the operand of a product: it is remembered with
//! the buffer's memory until the values change.

use std::any::Any;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::dtype::DType;

/// What an allocation remembers.
#[derive(Default)]
pub(crate) struct Memo(Mutex<Vec<Entry>>);

struct Entry {
    words: Range<usize>,
    dtype: DType,
    made: Box<dyn Any + Send + Sync>,
    /// A graph that is being recorded computes it: nobody else may read it.
    of_recording: bool,
}

impl Entry {
    /// What was made of exactly these words.
    fn made_of<T: 'static>(&self, words: &Range<usize>, dtype: DType) -> Option<&T> {
        let is_of = self.words == *words && self.dtype == dtype;
        self.made.downcast_ref().filter(|_| is_of)
    }
}

impl Memo {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was made of these words, in the place of what it replaces.
    pub fn add<T: Send + Sync + 'static>(
        &self,
        key: (Range<usize>, DType),
        made: T,
        replaces: impl Fn(&T) -> bool,
        of_recording: bool,
    ) {
        let (words, dtype) = key;
        self.remove(|old| old.made_of(&words, dtype).is_some_and(&replaces));
        self.entries().push(Entry {
            words,
            dtype,
            made: Box::new(made),
            of_recording,
        });
    }

    /// What was made of exactly these words and fits.
    pub fn find<T: Clone + 'static>(
        &self,
        key: &(Range<usize>, DType),
        fits: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let entries = self.entries();
        let mut made = entries.iter().filter_map(|one| one.made_of(&key.0, key.1));
        made.find(|made| fits(made)).cloned()
    }

    /// Forgets what was made of values that change.
    pub fn forget(&self, changed: &Range<usize>) {
        self.remove(|old| old.words.start < changed.end && changed.start < old.words.end);
    }

    /// Forgets what a recording computes, as the recording ends.
    pub fn forget_recorded(&self) {
        self.remove(|old| old.of_recording);
    }

    fn remove(&self, is_old: impl Fn(&Entry) -> bool) {
        let mut entries = self.entries();
        // What is dropped may be buffers, whose memory has locks of its own.
        let old: Vec<Entry> = entries.extract_if(.., |entry| is_old(entry)).collect();
        drop(entries);
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(range: Range<usize>) -> (Range<usize>, DType) {
        (range, DType::F32)
    }

    #[test]
    fn what_was_made_is_found_by_its_words_and_type_until_they_change() {
        let memo = Memo::default();
        memo.add(words(0..8), "first", |_| false, false);
        memo.add(words(8..16), "second", |_| false, false);
        let find = |place| memo.find(&place, |_: &&str| true);
        assert_eq!(find(words(0..8)), Some("first"));
        assert_eq!(find(words(8..16)), Some("second"));
        assert_eq!(find(words(0..16)), None);
        assert_eq!(find((0..8, DType::BF16)), None);
        assert_eq!(memo.find(&words(0..8), |_: &u32| true), None);
        memo.forget(&(7..8));
        assert_eq!(find(words(0..8)), None);
        assert_eq!(find(words(8..16)), Some("second"));
    }

    #[test]
    fn what_replaces_another_takes_its_place() {
        let memo = Memo::default();
        for made in [1, 2, 11] {
            memo.add(words(0..8), made, |old| old % 10 == made % 10, false);
        }
        assert_eq!(memo.entries().len(), 2);
        assert_eq!(memo.find(&words(0..8), |made| made % 10 == 1), Some(11));
    }

    #[test]
    fn what_a_recording_computes_is_forgotten_with_it() {
        let memo = Memo::default();
        memo.add(words(0..8), 1, |_| false, true);
        memo.add(words(0..8), 2, |_| false, false);
        memo.forget_recorded();
        assert_eq!(memo.find(&words(0..8), |_: &i32| true), Some(2));
    }
}
