//! How likely a forged run passes an audit.

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::number::Whole;

/// The chance that a run with wrong steps passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chance {
    /// Wrong steps.
    pub wrong_steps: Whole,
    /// The fewest stretches that have room for them: where a forger puts them who knows the method.
    pub wrong_stretches: Whole,
    /// The chance that none of these stretches is chosen.
    pub passes: f64,
}

/// The chance that none of `wrong` stretches among `n` is one of `checked` that are chosen without replacement:
/// C(n - wrong, checked) / C(n, checked), the hypergeometric distribution at 0.
///
/// The product of n - wrong - i over n - i for i in 0..checked is computed in f64, in this order, so that every reader
/// finds the same bits.
pub fn chance_of_passing(n: u64, wrong: u64, checked: u64) -> f64 {
    let right = n.saturating_sub(wrong);
    if checked > right {
        return 0.0;
    }
    let factor = |i: u64| (right - i) as f64 / (n - i) as f64;
    (0..checked).map(factor).product()
}

/// The chances of a certificate: for 1 step, and for 1, 5, 10, 25 and 50 of 100 of the steps, rounded up.
pub fn table(layout: &Layout, checked: u64) -> Vec<Chance> {
    let steps = layout.n_steps();
    let percent = |part: u64| (u128::from(steps) * u128::from(part)).div_ceil(100) as u64;
    let mut wrong: Vec<u64> = [1, 5, 10, 25, 50].map(percent).to_vec();
    wrong.push(1.min(steps));
    wrong.sort_unstable();
    wrong.dedup();
    let chance = |wrong_steps: u64| {
        let wrong_stretches = layout.fewest_for(wrong_steps);
        Chance {
            wrong_steps: Whole(wrong_steps),
            wrong_stretches: Whole(wrong_stretches),
            passes: chance_of_passing(layout.n_stretches(), wrong_stretches, checked),
        }
    };
    wrong.into_iter().map(chance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to choose `checked` of `n`, as sets of bits.
    fn choices(n: u32, checked: u32) -> impl Iterator<Item = u32> {
        (0..1_u32 << n).filter(move |set| set.count_ones() == checked)
    }

    #[test]
    fn chances_are_those_that_counting_gives() {
        for n in 1..=9_u32 {
            for wrong in 0..=n {
                for checked in 0..=n {
                    let all = choices(n, checked).count();
                    let blind = choices(n, checked).filter(|set| set.trailing_zeros() >= wrong);
                    let expected = blind.count() as f64 / all as f64;
                    let found = chance_of_passing(n.into(), wrong.into(), checked.into());
                    assert!(
                        (found - expected).abs() < 1e-15,
                        "{n} {wrong} {checked}: {found} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_forger_uses_the_longest_stretches() {
        let layout = Layout::of_steps(&[0, 10, 20, 50]).expect("a layout");
        assert_eq!(
            [0, 1, 30, 31, 40, 41, 50, 51].map(|n| layout.fewest_for(n)),
            [0, 1, 1, 2, 2, 3, 3, 3]
        );
        let table = table(&layout, 1);
        assert_eq!(table[0].passes, 2.0 / 3.0);
        assert_eq!(table.last().map(|last| last.wrong_steps), Some(Whole(25)));
    }
}
