//! The order of a recorded graph's launches: by levels, so that what does not depend on each
//! other runs side by side between two barriers.

use std::collections::HashMap;

use super::hazards::Range;

/// How many levels before the recording's front a launch may run. Without a bound, work whose
/// inputs have long been there (values computed again for the backward pass) would move to the
/// graph's start and keep its results in memory from there on.
const LOOKAHEAD: usize = 2;

/// What a launch does to a range of words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub range: Range,
    pub writes: bool,
}

/// Gives every launch a level: above those of all earlier launches that it depends on, by a read
/// after a write, a write after a read or a write after a write of the same word. Launches of one
/// level are independent, and the levels in order do what the recording does.
pub(super) fn levels(launches: &[Vec<Access>]) -> Vec<usize> {
    let mut touched: HashMap<u64, Vec<(Access, usize)>> = HashMap::new();
    let mut front = 0_usize;
    let mut levels = Vec::with_capacity(launches.len());
    for accesses in launches {
        let mut level = front.saturating_sub(LOOKAHEAD);
        for access in accesses {
            for (earlier, earlier_level) in touched.get(&access.range.block).into_iter().flatten() {
                let conflict = access.writes || earlier.writes;
                if conflict && *earlier_level >= level && access.range.overlaps(&earlier.range) {
                    level = earlier_level + 1;
                }
            }
        }
        for access in accesses {
            let block = touched.entry(access.range.block).or_default();
            block.push((*access, level));
        }
        front = front.max(level);
        levels.push(level);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(block: u64, start: usize, writes: bool) -> Access {
        let end = start + 64;
        Access {
            range: Range { block, start, end },
            writes,
        }
    }

    #[test]
    fn independent_launches_share_a_level() {
        let (read, write) = (
            |block| access(block, 0, false),
            |block| access(block, 0, true),
        );
        let launches = [
            vec![read(1), write(2)],
            vec![read(2), write(3)],   // after the first
            vec![read(2), write(4)],   // beside the second
            vec![access(2, 64, true)], // other words: no hazard
            vec![read(4), write(5)],
            vec![read(3), read(5), write(6)], // after both branches
            vec![write(1)],                   // after its reader
        ];
        assert_eq!(levels(&launches), [0, 1, 1, 0, 2, 3, 1]);
    }

    #[test]
    fn nothing_moves_far_before_the_front() {
        let mut launches = vec![vec![access(1, 0, true)]];
        for _ in 0..20 {
            launches.push(vec![access(1, 0, false), access(1, 0, true)]);
        }
        launches.push(vec![access(2, 0, true)]);
        let found = levels(&launches);
        assert_eq!(found[20], 20);
        assert_eq!(found[21], 20 - LOOKAHEAD);
    }
}
