//! Launches of a recording whose results nobody reads: a graph leaves them out.

use std::collections::{HashMap, HashSet};

use crate::view::{Range, View};

/// Tells of each launch, fill and copy of a recording, by their windows in order, whether the graph
/// needs it: it writes words that a later one reads which is needed itself, or memory that is read from
/// outside. `dropped` holds the blocks that nobody can read once the graph has run.
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
        *needed = views.iter().any(|view| view.writes && is_read(view));
        if *needed {
            for range in views.iter().filter(|view| view.reads).map(View::range) {
                read.entry(range.block).or_default().push(range);
            }
        }
    }
    needed
}
