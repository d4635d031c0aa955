//! Launches of a recording whose results nobody reads: a graph leaves them out.

use std::collections::{HashMap, HashSet};

use crate::view::{Range, View};

/// Tells of each launch, fill and copy of a recording, by their windows in order, whether the graph
/// needs it: it writes words that a later one reads which is needed itself, or memory that is read from
/// outside. `dropped` holds the blocks that nobody can read once the graph has run.
///
/// Words that a launch writes again with the values that they have ([`Binding::Rewrite`](crate::Binding::Rewrite))
/// are no reason to retain it. If there is another reason, it is the one that later launches read these words
/// from, and the earlier launch that has written them is needed for its other results alone.
pub(crate) fn needed(recorded: &[&[View]], dropped: &HashSet<u64>) -> Vec<bool> {
    let mut read: HashMap<u64, Vec<Range>> = HashMap::new();
    let mut needed = vec![false; recorded.len()];
    for (views, needed) in recorded.iter().zip(&mut needed).rev() {
        let is_read = |view: &View| {
            let range = view.range();
            let reads = read.get(&range.block);
            !dropped.contains(&range.block)
                || reads.is_some_and(|reads| reads.iter().any(|other| other.overlaps(&range)))
        };
        let mut results = views.iter().filter(|view| view.writes && !view.rewrites);
        *needed = results.any(is_read);
        if !*needed {
            continue;
        }
        for range in views.iter().filter(|view| view.rewrites).map(View::range) {
            let reads = read.entry(range.block).or_default();
            reads.retain(|other| !range.covers(other));
        }
        for range in views.iter().filter(|view| view.reads).map(View::range) {
            read.entry(range.block).or_default().push(range);
        }
    }
    needed
}

/// The windows, by launch and argument, into which a needed launch writes again what an earlier one that is needed, too,
/// has written: the graph may give them other memory, so that neither launch waits for the other.
pub(crate) fn written_twice(recorded: &[&[View]], needed: &[bool]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let launches = || recorded.iter().enumerate().filter(|(at, _)| needed[*at]);
    for (at, views) in launches() {
        for (argument, view) in views.iter().enumerate().filter(|(_, view)| view.rewrites) {
            let range = view.range();
            let has = |other: &View| other.writes && other.range().covers(&range);
            let mut earlier = launches().take_while(|(earlier, _)| *earlier < at);
            if earlier.any(|(_, views)| views.iter().any(has)) {
                found.push((at, argument));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::launch::Binding;
    use crate::memory::{BlockSource, Buffer, HostAllocator, MemoryPlan};

    /// Buffers of a graph whose handles are gone by its end, except for the last one's.
    struct Buffers {
        all: Vec<Buffer>,
        dropped: HashSet<u64>,
    }

    impl Buffers {
        fn new(n: usize) -> Self {
            let source = Arc::new(BlockSource::new("test", "cpu", Arc::new(HostAllocator)));
            let plan = MemoryPlan::new(source);
            let all = (0..n).map(|_| plan.allocate(64).expect("a buffer"));
            let all: Vec<Buffer> = all.collect();
            let dropped = all[..n - 1].iter().map(|buffer| buffer.block().id);
            let dropped = dropped.collect();
            Self { all, dropped }
        }

        /// Which launches are needed, and what they write twice.
        fn needed(&self, launches: &[&[Binding<'_>]]) -> (Vec<bool>, Vec<(usize, usize)>) {
            let views = launches
                .iter()
                .map(|bindings| bindings.iter().map(View::of));
            let views: Vec<Vec<View>> = views.map(Iterator::collect).collect();
            let views: Vec<&[View]> = views.iter().map(Vec::as_slice).collect();
            let needed = needed(&views, &self.dropped);
            let twice = written_twice(&views, &needed);
            (needed, twice)
        }
    }

    /// A norm as floats and as digits, with the statistics that both write, and those who read them.
    fn of_norm(reads_floats: bool, reads_digits: bool, reads_stats: bool) -> Vec<bool> {
        let buffers = Buffers::new(5);
        let [x, floats, digits, stats, out] = &buffers.all[..] else {
            unreachable!("five buffers");
        };
        use Binding::{Read, Rewrite, Write};
        let mut last = vec![Read(x), Write(out)];
        for (is_read, buffer) in [
            (reads_floats, floats),
            (reads_digits, digits),
            (reads_stats, stats),
        ] {
            last.extend(is_read.then_some(Read(buffer)));
        }
        let (mut found, twice) = buffers.needed(&[
            &[Read(x), Write(floats), Write(stats)],
            &[Read(x), Write(digits), Rewrite(stats)],
            &last,
        ]);
        assert_eq!(found.pop(), Some(true));
        let both = found == [true; 2];
        assert_eq!(twice, if both { vec![(1, 2)] } else { vec![] });
        found
    }

    #[test]
    fn of_two_launches_that_write_the_same_words_those_are_needed_whose_other_results_are_read() {
        assert_eq!(of_norm(true, true, true), [true, true]);
        assert_eq!(of_norm(true, false, true), [true, false]);
        assert_eq!(of_norm(false, true, true), [false, true]);
        assert_eq!(of_norm(true, true, false), [true, true]);
        assert_eq!(of_norm(false, true, false), [false, true]);
    }

    #[test]
    fn one_of_them_is_needed_for_the_words_alone() {
        assert_eq!(of_norm(false, false, true), [true, false]);
        assert_eq!(of_norm(false, false, false), [false, false]);
    }

    #[test]
    fn who_reads_the_words_in_between_needs_the_earlier_launch() {
        let buffers = Buffers::new(4);
        let [floats, digits, stats, out] = &buffers.all[..] else {
            unreachable!("four buffers");
        };
        use Binding::{Read, ReadWrite, Rewrite, Write};
        let found = buffers.needed(&[
            &[Write(floats), Write(stats)],
            &[Read(stats), Write(out)],
            &[Write(digits), Rewrite(stats)],
            &[Read(stats), Read(digits), ReadWrite(out)],
        ]);
        assert_eq!(found, ([true; 4].to_vec(), vec![(2, 1)]));
    }

    #[test]
    fn words_that_are_read_from_outside_keep_the_earlier_launch() {
        let buffers = Buffers::new(2);
        let [digits, stats] = &buffers.all[..] else {
            unreachable!("two buffers");
        };
        use Binding::{Rewrite, Write};
        let found = buffers.needed(&[&[Write(stats)], &[Write(digits), Rewrite(stats)]]);
        assert_eq!(found, ([true, false].to_vec(), vec![]));
    }

    #[test]
    fn a_part_of_the_words_is_not_all_of_them() {
        let buffers = Buffers::new(3);
        let [digits, stats, out] = &buffers.all[..] else {
            unreachable!("three buffers");
        };
        let half = stats.slice(0, 32).expect("a window");
        use Binding::{Read, Rewrite, Write};
        let found = buffers.needed(&[
            &[Write(stats)],
            &[Write(digits), Rewrite(&half)],
            &[Read(stats), Read(digits), Write(out)],
        ]);
        assert_eq!(found, ([true; 3].to_vec(), vec![(1, 1)]));
    }
}
