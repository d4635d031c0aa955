//! Which launches of a recording form a chain.
//!
//! Launches are visited in the order of the recording. A chain stays open until a launch must run
//! after one of its own: one that reads what the chain writes, or writes what the chain reads or
//! writes. If that launch can take up the chain, it becomes its next stage; otherwise it closes it. So
//! whatever is launched between the first and the last stage does not depend on the chain, and the
//! whole chain runs where its last stage was launched. Open chains never touch what another one
//! writes, so several that a launch reads become one.

use std::collections::HashMap;
use std::sync::Arc;

use super::{CHAIN_NAME, CpuBody, Fusable, Joined, Limits, MAX_STAGES, Source, Stage};
use crate::error::CoreError;
use crate::view::{Access, Range};

/// Launches after which a chain that none of them took up is closed: a chain that grows later keeps
/// what it reads in memory until then.
const PATIENCE: usize = 32;

/// One launch, fill or copy of a recording.
pub(crate) struct Node<'a> {
    /// What it does to each window, in the order of its bindings.
    pub accesses: &'a [Access],
    /// For a launch that may be joined with others.
    pub fusable: Option<&'a Arc<dyn Fusable>>,
}

/// What a recording carries out.
#[derive(Debug)]
pub(crate) enum Planned {
    /// One launch as it is, by its index.
    Alone(usize),
    /// Several as one.
    Chain(Chain),
}

/// A chain with its bindings, each by the launch of the recording and the number among its bindings.
#[derive(Debug)]
pub(crate) struct Chain {
    pub members: Vec<usize>,
    pub stages: Vec<Stage>,
    /// What is read, then what is stored.
    pub bindings: Vec<(usize, usize)>,
}

impl Chain {
    /// The body of the chain on the CPU device.
    pub fn on_cpu(&self) -> CpuBody {
        match self.stages.last() {
            Some(last) => last.launch.join_on_cpu(&self.stages),
            None => Box::new(|_| {}),
        }
    }

    /// The launch of the chain on a Vulkan device.
    pub fn join(&self) -> Result<Joined, CoreError> {
        let last = self.stages.last();
        let last = last.ok_or_else(|| CoreError::invalid(CHAIN_NAME, "a chain of no launches"))?;
        last.launch.join(&self.stages)
    }
}

/// A chain that may grow.
struct Open {
    chain: Chain,
    accesses: Vec<Access>,
    /// The launch that joined it last.
    touched: usize,
}

/// Joins launches of a recording; returns what is carried out, in order. `is_dropped` tells of a
/// block whether nobody can read it once the graph has run.
pub(crate) fn fuse(
    nodes: &[Node<'_>],
    is_dropped: &dyn Fn(u64) -> bool,
    limits: Limits,
) -> Vec<Planned> {
    let mut uses: HashMap<u64, usize> = HashMap::new();
    for access in nodes.iter().flat_map(|node| node.accesses) {
        *uses.entry(access.range.block).or_default() += 1;
    }
    let mut grouping = Grouping {
        nodes,
        is_dropped,
        uses,
        limits,
        open: Vec::new(),
        planned: Vec::with_capacity(nodes.len()),
    };
    for index in 0..nodes.len() {
        grouping.visit(index);
    }
    grouping.close(|_| true);
    grouping.planned.sort_by_key(|(last, _)| *last);
    let planned = grouping.planned.into_iter();
    planned.map(|(_, planned)| planned).collect()
}

struct Grouping<'a> {
    nodes: &'a [Node<'a>],
    is_dropped: &'a dyn Fn(u64) -> bool,
    /// How many windows of all launches lie in a block.
    uses: HashMap<u64, usize>,
    limits: Limits,
    open: Vec<Open>,
    /// What is closed, by its last launch.
    planned: Vec<(usize, Planned)>,
}

impl Grouping<'_> {
    fn visit(&mut self, index: usize) {
        self.close(|open| open.touched + PATIENCE < index);
        let nodes = self.nodes;
        let accesses = nodes[index].accesses;
        let must_wait = |open: &Open| {
            let mut pairs = open.accesses.iter();
            pairs.any(|earlier| accesses.iter().any(|access| access.conflicts(earlier)))
        };
        let waits: Vec<usize> = (0..self.open.len())
            .filter(|&at| must_wait(&self.open[at]))
            .collect();
        if nodes[index].fusable.is_none() {
            self.close(must_wait);
            self.planned.push((index, Planned::Alone(index)));
            return;
        }
        let joined = self.taken_up(&waits, index);
        if let Some((taken, _)) = &joined {
            // They are part of the new chain.
            for &at in taken.iter().rev() {
                self.open.remove(at);
            }
        }
        self.close(must_wait);
        let chain = joined.map(|(_, chain)| chain);
        let chain = chain.or_else(|| self.chain(vec![index]));
        match chain {
            Some(chain) => self.open.push(self.opened(chain, index)),
            None => self.planned.push((index, Planned::Alone(index))),
        }
    }

    /// The chain that a launch makes of all open ones that it waits for, else of the longest of them
    /// that takes it; with the places of those that it contains.
    fn taken_up(&self, waits: &[usize], index: usize) -> Option<(Vec<usize>, Chain)> {
        let attempt = |taken: Vec<usize>| {
            let members = taken.iter().flat_map(|&at| &self.open[at].chain.members);
            let mut members: Vec<usize> = members.copied().chain([index]).collect();
            members.sort_unstable();
            Some((taken, self.chain(members)?))
        };
        if waits.is_empty() {
            return None;
        }
        let mut single = waits.to_vec();
        single.sort_by_key(|&at| std::cmp::Reverse(self.open[at].chain.members.len()));
        attempt(waits.to_vec()).or_else(|| {
            let mut alone = single.into_iter().filter(|_| waits.len() > 1);
            alone.find_map(|at| attempt(vec![at]))
        })
    }

    fn opened(&self, chain: Chain, touched: usize) -> Open {
        let of = |&member: &usize| self.nodes[member].accesses.iter().copied();
        let accesses = chain.members.iter().flat_map(of).collect();
        Open {
            chain,
            accesses,
            touched,
        }
    }

    /// Closes open chains.
    fn close(&mut self, which: impl Fn(&Open) -> bool) {
        let open = std::mem::take(&mut self.open).into_iter();
        let (closed, open): (Vec<Open>, Vec<Open>) = open.partition(which);
        self.open = open;
        for Open { chain, .. } in closed {
            let last = chain.members.last().copied().unwrap_or(0);
            let planned = match chain.members[..] {
                [only] => Planned::Alone(only),
                _ => Planned::Chain(chain),
            };
            self.planned.push((last, planned));
        }
    }

    /// Launches in the order of the recording as a chain, if they can be one.
    fn chain(&self, members: Vec<usize>) -> Option<Chain> {
        if members.len() > MAX_STAGES {
            return None;
        }
        let results = self.results(&members)?;
        let mut bound: Vec<((usize, usize), Range)> = Vec::new();
        let mut stages = Vec::with_capacity(members.len());
        for (place, &member) in members.iter().enumerate() {
            let launch = self.nodes[member].fusable?;
            let operands = self.nodes[member].accesses.split_last()?.1;
            let mut sources = Vec::with_capacity(operands.len());
            for (operand, access) in operands.iter().enumerate() {
                let touches = |result: &Range| result.overlaps(&access.range);
                let source = match results.iter().position(touches) {
                    Some(from) => {
                        let whole = results[from] == access.range && launch.is_each(operand);
                        if from >= place || !whole {
                            return None;
                        }
                        Source::Stage(from)
                    }
                    None => Source::Bound(place_of(&mut bound, (member, operand), access.range)),
                };
                sources.push(source);
            }
            stages.push(Stage {
                launch: Arc::clone(launch),
                sources,
                is_stored: true,
            });
        }
        let last = stages.len() - 1;
        for (place, result) in results.iter().enumerate() {
            stages[place].is_stored = place == last || !self.is_inner(&members, result.block);
        }
        let mut bindings: Vec<(usize, usize)> = bound.into_iter().map(|(from, _)| from).collect();
        for (stage, &member) in stages.iter().zip(&members) {
            if stage.is_stored {
                bindings.push((member, stage.sources.len()));
            }
        }
        let fits = bindings.len() <= self.limits.bindings;
        let joins = fits && stages[last].launch.joins(&stages, self.limits);
        joins.then_some(Chain {
            members,
            stages,
            bindings,
        })
    }

    /// What each launch writes, if they write as many elements to words of their own.
    fn results(&self, members: &[usize]) -> Option<Vec<Range>> {
        let mut results: Vec<Range> = Vec::with_capacity(members.len());
        let count = self.nodes[*members.first()?].fusable?.elements();
        for &member in members {
            let result = self.nodes[member].accesses.last()?;
            let apart = results.iter().all(|other| !other.overlaps(&result.range));
            if !apart || self.nodes[member].fusable?.elements() != count {
                return None;
            }
            results.push(result.range);
        }
        Some(results)
    }

    /// Whether a block is read and written by these launches alone, also after the graph.
    fn is_inner(&self, members: &[usize], block: u64) -> bool {
        let accesses = members.iter().flat_map(|&m| self.nodes[m].accesses);
        let own = accesses
            .filter(|access| access.range.block == block)
            .count();
        (self.is_dropped)(block) && self.uses.get(&block) == Some(&own)
    }
}

/// The place of a range among those bound, where it is put if it is new.
fn place_of(bound: &mut Vec<((usize, usize), Range)>, from: (usize, usize), range: Range) -> usize {
    let found = bound.iter().position(|(_, other)| *other == range);
    found.unwrap_or_else(|| {
        bound.push((from, range));
        bound.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch of 64 elements whose operands are all read element by element.
    struct Each;

    impl Fusable for Each {
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn elements(&self) -> usize {
            64
        }
        fn is_each(&self, _: usize) -> bool {
            true
        }
        fn joins(&self, _: &[Stage], _: Limits) -> bool {
            true
        }
        fn join(&self, _: &[Stage]) -> Result<Joined, CoreError> {
            Err(CoreError::invalid("test", "not joined here"))
        }
        fn join_on_cpu(&self, _: &[Stage]) -> CpuBody {
            Box::new(|_| {})
        }
    }

    /// Blocks read, the block written, and whether the launch may be joined.
    type Launch = (&'static [u64], u64, bool);

    fn planned(launches: &[Launch], held: &[u64]) -> Vec<Planned> {
        let access = |&block: &u64, writes| Access {
            range: Range {
                block,
                start: 0,
                end: 64,
            },
            writes,
        };
        let each: Arc<dyn Fusable> = Arc::new(Each);
        let accesses: Vec<Vec<Access>> = launches
            .iter()
            .map(|(reads, write, _)| {
                let reads = reads.iter().map(|block| access(block, false));
                reads.chain([access(write, true)]).collect()
            })
            .collect();
        let nodes: Vec<Node<'_>> = launches
            .iter()
            .zip(&accesses)
            .map(|((_, _, fusable), accesses)| Node {
                accesses,
                fusable: fusable.then_some(&each),
            })
            .collect();
        let limits = Limits {
            bindings: 8,
            push_bytes: 128,
        };
        fuse(&nodes, &|block| !held.contains(&block), limits)
    }

    /// The members of each chain, or the launch alone, in the order in which they are carried out.
    fn order(planned: &[Planned]) -> Vec<Vec<usize>> {
        let members = |planned: &Planned| match planned {
            Planned::Alone(index) => vec![*index],
            Planned::Chain(chain) => chain.members.clone(),
        };
        planned.iter().map(members).collect()
    }

    fn stored(planned: &Planned) -> Vec<bool> {
        match planned {
            Planned::Alone(_) => vec![true],
            Planned::Chain(chain) => chain.stages.iter().map(|stage| stage.is_stored).collect(),
        }
    }

    #[test]
    fn a_chain_stores_what_others_read_and_what_is_held() {
        let launches: [Launch; 5] = [
            (&[1], 2, true),
            (&[2, 1], 3, true),
            (&[3, 2], 4, true),
            (&[4], 5, true),
            (&[3], 6, false), // reads the second result
        ];
        let found = planned(&launches, &[2, 5, 6]);
        assert_eq!(order(&found), [vec![0, 1, 2, 3], vec![4]]);
        assert_eq!(stored(&found[0]), [true, true, false, true]);
        let Planned::Chain(chain) = &found[0] else {
            panic!("a chain");
        };
        assert_eq!(
            chain.stages[2].sources,
            [Source::Stage(1), Source::Stage(0)]
        );
        assert_eq!(chain.bindings, [(0, 0), (0, 1), (1, 2), (3, 1)]);
    }

    #[test]
    fn a_launch_between_closes_a_chain_only_if_it_must_run_behind_it() {
        let launches: [Launch; 5] = [
            (&[1], 2, true),
            (&[7], 8, false), // elsewhere
            (&[2], 3, true),  // continues
            (&[9], 1, false), // writes what the chain reads
            (&[3], 4, true),  // a chain of its own
        ];
        let found = planned(&launches, &[4]);
        assert_eq!(order(&found), [vec![1], vec![0, 2], vec![3], vec![4]]);
    }

    #[test]
    fn two_chains_that_meet_become_one() {
        let launches: [Launch; 3] = [(&[1], 2, true), (&[3], 4, true), (&[2, 4], 5, true)];
        let found = planned(&launches, &[5]);
        assert_eq!(order(&found), [vec![0, 1, 2]]);
        assert_eq!(stored(&found[0]), [false, false, true]);
    }

    #[test]
    fn a_chain_writes_no_word_twice_and_none_that_it_reads() {
        let launches: [Launch; 3] = [(&[1], 2, true), (&[2], 1, true), (&[1], 2, true)];
        let found = planned(&launches, &[2]);
        assert_eq!(order(&found), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn a_chain_has_at_most_twelve_links_and_the_bindings_of_the_device() {
        let chain: Vec<Launch> = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
            .iter()
            .chain(&[(8, 9), (9, 10), (10, 11), (11, 12), (12, 13), (13, 14)])
            .map(|&(from, to): &(u64, u64)| (&*Vec::leak(vec![from]), to, true))
            .collect();
        let found = order(&planned(&chain, &[14]));
        assert_eq!(found, [(0..12).collect::<Vec<_>>(), vec![12]]);
        // Every result is held: eight bindings are one operand and seven results.
        let found = order(&planned(&chain, &(2..15).collect::<Vec<_>>()));
        assert_eq!(found[0], (0..7).collect::<Vec<_>>());
    }
}
