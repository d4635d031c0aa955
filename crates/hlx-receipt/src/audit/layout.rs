//! How a run is cut into stretches: from each state that was stored to the next.

use serde::{Deserialize, Serialize};

use crate::{ReceiptError, Result};

/// The stretches of a run, in order, written as rows of equal ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Layout(Vec<SameStretches>);

/// Stretches of one length that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SameStretches {
    /// Steps done where the first begins.
    pub from: u64,
    /// The steps of each.
    pub steps: u64,
    /// How many there are.
    pub count: u64,
}

/// Stretches of a run at most.
const MOST_STRETCHES: u64 = 1 << 20;
/// Steps that JSON has exactly.
const MOST_STEPS: u64 = 1 << 53;

impl Layout {
    /// The layout with a stretch between each of these steps and the next.
    ///
    /// # Errors
    /// [`ReceiptError::Audit`] for fewer than two steps, steps that do not increase, and too many of them.
    pub fn of_steps(steps: &[u64]) -> Result<Self> {
        let mut rows: Vec<SameStretches> = Vec::new();
        for pair in steps.windows(2) {
            let length = pair[1].saturating_sub(pair[0]);
            match rows.last_mut() {
                Some(row) if row.steps == length => row.count += 1,
                _ => rows.push(SameStretches {
                    from: pair[0],
                    steps: length,
                    count: 1,
                }),
            }
        }
        let layout = Self(rows);
        let checked = layout.check();
        checked.map_err(|reason| ReceiptError::Audit(format!("the run: {reason}")))?;
        Ok(layout)
    }

    /// Checks a layout that was read.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut end = self.0.first().ok_or("has no stretch")?.from;
        let mut n = 0_u64;
        for row in &self.0 {
            if row.from != end || row.steps == 0 || row.count == 0 {
                return Err("its stretches do not follow each other".to_owned());
            }
            let length = row.steps.checked_mul(row.count);
            let next = length.and_then(|length| end.checked_add(length));
            end = next
                .filter(|&end| end <= MOST_STEPS)
                .ok_or("has too many steps")?;
            n = n.saturating_add(row.count);
        }
        match n <= MOST_STRETCHES {
            true => Ok(()),
            false => Err(format!(
                "has {n} stretches, expected at most {MOST_STRETCHES}"
            )),
        }
    }

    /// How many stretches there are.
    pub fn n_stretches(&self) -> u64 {
        self.0.iter().map(|row| row.count).sum()
    }

    /// The steps of all of them.
    pub fn n_steps(&self) -> u64 {
        self.0.iter().map(|row| row.steps * row.count).sum()
    }

    /// The first and the last step of a stretch.
    pub fn stretch(&self, mut index: u64) -> Option<[u64; 2]> {
        for row in &self.0 {
            if index < row.count {
                let from = row.from + index * row.steps;
                return Some([from, from + row.steps]);
            }
            index -= row.count;
        }
        None
    }

    /// Steps done where the first stretch begins and where the last ends.
    pub fn ends(&self) -> [u64; 2] {
        let from = self.0.first().map_or(0, |row| row.from);
        [from, from + self.n_steps()]
    }

    /// The fewest stretches that have `wrong` steps together: the longest ones.
    pub fn fewest_for(&self, mut wrong: u64) -> u64 {
        let mut rows = self.0.clone();
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.steps));
        let mut n = 0;
        for row in rows {
            let needed = wrong.div_ceil(row.steps).min(row.count);
            n += needed;
            wrong = wrong.saturating_sub(needed * row.steps);
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_the_steps_that_it_was_made_of() {
        let steps = [3, 5, 7, 9, 10, 11, 20];
        let layout = Layout::of_steps(&steps).expect("a layout");
        assert_eq!(layout.0.len(), 3);
        let found: Vec<_> = (0..layout.n_stretches())
            .map(|at| layout.stretch(at).expect("a stretch"))
            .collect();
        let expected: Vec<_> = steps.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        assert_eq!(found, expected);
        assert_eq!((layout.n_steps(), layout.ends()), (17, [3, 20]));
        assert_eq!(layout.stretch(6), None);
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        for steps in [&[][..], &[4], &[4, 4], &[4, 3], &[0, u64::MAX]] {
            assert!(Layout::of_steps(steps).is_err(), "{steps:?}");
        }
        let row = |from, steps, count| SameStretches { from, steps, count };
        for rows in [
            vec![row(0, 1, u64::MAX)],
            vec![row(0, 1, MOST_STRETCHES + 1)],
            vec![row(0, u64::MAX, 2)],
            vec![row(0, 2, 2), row(5, 1, 1)],
            vec![row(0, 2, 0)],
        ] {
            assert!(Layout(rows.clone()).check().is_err(), "{rows:?}");
        }
    }
}
