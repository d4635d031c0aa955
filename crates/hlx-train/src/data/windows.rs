//! Windows of a text at random places: what training reads where fixed windows would repeat.

use anyhow::Result;

use super::{Dataset, Sample, Span};
use crate::random::{Purpose, words};

/// Windows of equal length that begin at any byte of the part of a text that is trained on.
///
/// The place of a window is a function of seed, epoch and its number in the epoch, so that a run that
/// is resumed reads what the uninterrupted one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomWindows {
    seed: u64,
    /// The first byte where a window may begin.
    first: usize,
    /// Bytes of a window: one more than it predicts.
    length: usize,
    /// Places where a window may begin.
    n_starts: u64,
}

impl RandomWindows {
    /// Windows over the first `n_train` samples of a text, which are contiguous, as long as the first.
    pub fn new(data: &Dataset, n_train: usize, seed: u64) -> Self {
        let first = data.spans[0].start;
        let length = data.spans[0].end - first;
        let end = data.spans[n_train.max(1) - 1].end;
        Self {
            seed,
            first,
            length,
            n_starts: (end - length - first + 1) as u64,
        }
    }

    /// The window of this number in an epoch.
    ///
    /// # Errors
    /// As [`Dataset::sample`].
    pub fn sample<'a>(&self, data: &'a Dataset, epoch: u64, number: usize) -> Result<Sample<'a>> {
        let start = self.start(epoch, number);
        data.sample_of(Span {
            start,
            end: start + self.length,
            n_given: 1,
        })
    }

    /// Where it begins: 64 random bits times the number of places, over 2^64.
    fn start(&self, epoch: u64, number: usize) -> usize {
        let [high, low, ..] = words(self.seed, Purpose::Window, epoch as u32, number as u32);
        let bits = u128::from(high) << 32 | u128::from(low);
        self.first + ((bits * u128::from(self.n_starts)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Format;

    fn text(len: usize) -> Dataset {
        let bytes: Vec<u8> = (0..len).map(|at| b'a' + (at % 26) as u8).collect();
        Dataset::from_bytes(&bytes, "d", Format::Text, 8).expect("loads")
    }

    #[test]
    fn windows_begin_at_every_byte_of_the_trained_part_and_nowhere_else() {
        let data = text(60);
        let n_train = data.split(0.5, 0).train.len();
        // 4 windows of 8 predicted bytes: the bytes 0 to 32.
        assert_eq!(n_train, 4);
        let windows = RandomWindows::new(&data, n_train, 3);
        let mut counts = [0_usize; 25];
        for number in 0..5000 {
            let start = windows.start(0, number);
            counts[start] += 1;
            let sample = windows.sample(&data, 0, number).expect("read");
            assert_eq!((sample.time(), sample.n_targets()), (8, 8));
            let expected = data.bytes.read(start as u64..start as u64 + 9);
            assert_eq!(*sample.tokens, expected.expect("read"));
        }
        // 200 are expected of each place, with a deviation of 14.
        assert!(
            counts.iter().all(|&n| (130..270).contains(&n)),
            "{counts:?}"
        );
    }

    #[test]
    fn seed_epoch_and_number_decide_the_place() {
        let data = text(600);
        let starts = |seed, epoch| -> Vec<usize> {
            let windows = RandomWindows::new(&data, 40, seed);
            (0..32).map(|number| windows.start(epoch, number)).collect()
        };
        assert_eq!(starts(1, 2), starts(1, 2));
        assert_ne!(starts(1, 2), starts(1, 3));
        assert_ne!(starts(1, 2), starts(2, 2));
    }

    #[test]
    fn a_text_shorter_than_a_window_is_one_window() {
        let data = text(5);
        let windows = RandomWindows::new(&data, 1, 0);
        let sample = windows.sample(&data, 7, 9).expect("read");
        assert_eq!(sample, data.sample(0).expect("read"));
    }
}
