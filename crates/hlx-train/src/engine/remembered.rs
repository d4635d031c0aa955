//! Which sequences a device has read last: what its cache is likely to hold.

use std::collections::VecDeque;

/// The sequences that were read last, of some tokens in all.
#[derive(Debug)]
pub(super) struct Remembered {
    /// The one that was used last comes last.
    sequences: VecDeque<Vec<u32>>,
    n_tokens: usize,
    limit: usize,
}

impl Remembered {
    /// Remembers `limit` tokens at most.
    pub fn new(limit: usize) -> Self {
        Self {
            sequences: VecDeque::new(),
            n_tokens: 0,
            limit,
        }
    }

    /// Remembers a sequence, in the place of those that it continues.
    pub fn add(&mut self, ids: &[u32]) {
        if ids.is_empty() || ids.len() > self.limit {
            return;
        }
        self.sequences.retain(|one| !ids.starts_with(one));
        self.sequences.push_back(ids.to_vec());
        self.n_tokens = self.sequences.iter().map(Vec::len).sum();
        while self.n_tokens > self.limit {
            let dropped = self.sequences.pop_front();
            self.n_tokens -= dropped.map_or(0, |one| one.len());
        }
    }

    /// The tokens of the longest beginning of a prompt.
    pub fn beginning_of(&self, prompt: &[u32]) -> usize {
        let alike = |one: &Vec<u32>| one.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        self.sequences.iter().map(alike).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_last_is_remembered() {
        let mut remembered = Remembered::new(8);
        remembered.add(&[1, 2, 3]);
        remembered.add(&[1, 2, 3, 4]);
        assert_eq!(remembered.sequences.len(), 1, "one continues the other");
        remembered.add(&[5, 6]);
        assert_eq!(remembered.beginning_of(&[1, 2, 3, 9]), 3);
        assert_eq!(remembered.beginning_of(&[5, 6, 7]), 2);
        assert_eq!(remembered.beginning_of(&[2]), 0);
        remembered.add(&[7, 7, 7]);
        assert_eq!(
            remembered.beginning_of(&[1, 2]),
            0,
            "the oldest is forgotten"
        );
        assert_eq!(remembered.beginning_of(&[5, 6]), 2);
        remembered.add(&[9; 9]);
        assert_eq!(remembered.beginning_of(&[9]), 0, "it has no room");
    }
}
