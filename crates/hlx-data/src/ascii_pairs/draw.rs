//! The random numbers of one pair.

use crate::random::{ASCII_PAIR, below, words};

/// Draws for one pair: a function of seed, pair and the number of draws so far.
pub(super) struct Draw {
    seed: u64,
    pair: u32,
    count: u32,
}

impl Draw {
    pub fn new(seed: u64, pair: u32) -> Self {
        Self {
            seed,
            pair,
            count: 0,
        }
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        let word = words(self.seed, ASCII_PAIR, self.pair, self.count / 4)[self.count as usize % 4];
        self.count += 1;
        below(word, n as u32) as usize
    }

    /// Whether an event of this many chances in a hundred happens.
    pub fn percent(&mut self, chances: usize) -> bool {
        self.below(100) < chances
    }

    /// One of the items.
    pub fn one<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// One of the items, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let total = items.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(total);
        for &(weight, item) in items {
            if left < weight {
                return item;
            }
            left -= weight;
        }
        items[0].1
    }
}
