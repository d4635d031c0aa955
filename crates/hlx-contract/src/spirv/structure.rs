//! That a function's control flow is structured: constructs with one way in and known ways out.
//!
//! "SPIR-V Specification", section 2.11. Drivers translate constructs by recursion.

use std::collections::HashSet;

use super::dominance::{Tree, post_order};

/// What a block's merge instruction says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merge {
    Selection { merge: usize, switch: bool },
    Loop { merge: usize, target: usize },
}

/// Constructs within each other at most; the specification allows 1,023 and compilers make tens.
const MAX_NESTING: usize = 256;

/// A region with one way in, and the blocks that its own ways out lead to.
struct Construct {
    header: usize,
    /// Heads of the regions that are cut out of what the header dominates.
    without: Vec<usize>,
    exits: Vec<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Selection,
    Switch,
    Loop,
    Continue,
}

/// A fault: the block and what is wrong with it.
pub(super) type Fault = (usize, String);

/// Structure is judged on the graph in which headers lead to their merge blocks and continue
/// targets too, so that unreachable blocks are part of a construct too.
pub(super) struct Structure<'a> {
    successors: &'a [Vec<usize>],
    merges: &'a [Option<Merge>],
    /// Every block behind those that it leads to, in the graph with the added edges.
    order: Vec<usize>,
    tree: Tree,
    constructs: Vec<Construct>,
}

impl<'a> Structure<'a> {
    pub fn new(successors: &'a [Vec<usize>], merges: &'a [Option<Merge>]) -> Self {
        let mut augmented = successors.to_vec();
        let mut constructs = Vec::new();
        for (header, merge) in merges.iter().enumerate() {
            match *merge {
                None => {}
                Some(Merge::Selection { merge, switch }) => {
                    augmented[header].push(merge);
                    constructs.push(Construct {
                        header,
                        without: vec![merge],
                        exits: vec![merge],
                        kind: if switch {
                            Kind::Switch
                        } else {
                            Kind::Selection
                        },
                    });
                }
                Some(Merge::Loop { merge, target }) => {
                    augmented[header].extend([merge, target]);
                    if target != header {
                        constructs.push(Construct {
                            header,
                            without: vec![merge, target],
                            exits: vec![merge, target],
                            kind: Kind::Loop,
                        });
                    }
                    constructs.push(Construct {
                        header: target,
                        without: vec![merge],
                        exits: vec![merge, header],
                        kind: Kind::Continue,
                    });
                }
            }
        }
        let tree = Tree::of(&augmented);
        Self {
            successors,
            merges,
            order: post_order(&augmented),
            tree,
            constructs,
        }
    }

    pub fn check(&self) -> Result<(), Fault> {
        self.check_merges()?;
        self.check_back_edges()?;
        let around = self.around()?;
        for block in 0..self.successors.len() {
            if self.tree.is_reachable(block) {
                self.check_exits(block, &around)?;
            } else if !self.successors[block].is_empty() || self.merges[block].is_some() {
                return Err((block, "a block that nothing leads to goes on".to_owned()));
            }
        }
        Ok(())
    }

    /// The constructs that each block lies in. A construct ends, for all that a block dominates,
    /// where that block is cut out of it: so they pass down the tree.
    fn around(&self) -> Result<Vec<Vec<usize>>, Fault> {
        let mut headed = vec![Vec::new(); self.successors.len()];
        for (place, construct) in self.constructs.iter().enumerate() {
            headed[construct.header].push(place);
        }
        let mut blocks: Vec<usize> = (0..self.successors.len()).collect();
        blocks.sort_by_key(|&block| self.tree.enter[block]);
        let mut around = vec![Vec::new(); self.successors.len()];
        for block in blocks
            .into_iter()
            .filter(|&block| self.tree.is_reachable(block))
        {
            let outer: &[usize] = self.tree.parent[block].map_or(&[], |parent| &around[parent]);
            let ends = |place: &usize| self.constructs[*place].without.contains(&block);
            let mut inside: Vec<usize> = outer.iter().copied().filter(|p| !ends(p)).collect();
            inside.extend(headed[block].iter().copied().filter(|place| !ends(place)));
            if inside.len() > MAX_NESTING {
                return Err((
                    block,
                    format!("constructs nest more than {MAX_NESTING} deep"),
                ));
            }
            around[block] = inside;
        }
        Ok(around)
    }

    fn check_merges(&self) -> Result<(), Fault> {
        let mut taken = HashSet::new();
        for (header, merge) in self.merges.iter().enumerate() {
            let (merge, target) = match *merge {
                None => continue,
                Some(Merge::Selection { merge, .. }) => (merge, None),
                Some(Merge::Loop { merge, target }) => (merge, Some(target)),
            };
            if merge == header || target == Some(merge) {
                return Err((
                    header,
                    "its merge block is part of its construct".to_owned(),
                ));
            }
            if !taken.insert(merge) {
                return Err((merge, "two headers merge here".to_owned()));
            }
            let owns =
                |block| !self.tree.is_reachable(header) || self.tree.dominates(header, block);
            if !owns(merge) || target.is_some_and(|target| !owns(target)) {
                return Err((
                    header,
                    "it does not dominate its merge block or continue target".to_owned(),
                ));
            }
        }
        let targets = self
            .merges
            .iter()
            .enumerate()
            .filter_map(|(header, merge)| match merge {
                Some(Merge::Loop { target, .. }) if *target != header => Some(*target),
                _ => None,
            });
        let mut seen = HashSet::new();
        for target in targets {
            if taken.contains(&target) || !seen.insert(target) {
                return Err((target, "a continue target has two roles".to_owned()));
            }
        }
        Ok(())
    }

    /// Loops are entered at their header, by one edge back from their continue construct.
    fn check_back_edges(&self) -> Result<(), Fault> {
        let mut number = vec![usize::MAX; self.successors.len()];
        for (place, &block) in self.order.iter().enumerate() {
            number[block] = place;
        }
        let mut back_edges = vec![0; self.successors.len()];
        for &block in &self.order {
            for &target in self.successors[block]
                .iter()
                .filter(|&&t| number[t] >= number[block])
            {
                let Some(Merge::Loop {
                    target: continues, ..
                }) = self.merges[target]
                else {
                    return Err((
                        block,
                        "it branches back to a block that is no loop header".to_owned(),
                    ));
                };
                if !self.tree.dominates(target, block) || !self.tree.dominates(continues, block) {
                    return Err((
                        block,
                        "it branches back to a loop that it is no end of".to_owned(),
                    ));
                }
                back_edges[target] += 1;
            }
        }
        for (block, merge) in self.merges.iter().enumerate() {
            let expected =
                matches!(merge, Some(Merge::Loop { .. })) && self.tree.is_reachable(block);
            if expected && back_edges[block] != 1 {
                return Err((
                    block,
                    format!(
                        "{} blocks branch back to it, expected one",
                        back_edges[block]
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Branches enter a construct at its header, and leave it to its own exits, or to those of the
    /// loop or switch around.
    fn check_exits(&self, block: usize, around: &[Vec<usize>]) -> Result<(), Fault> {
        let inside = |construct: &usize, block: usize| around[block].contains(construct);
        let constructs = || {
            around[block]
                .iter()
                .map(|&place| (place, &self.constructs[place]))
        };
        let depth = |construct: &Construct| self.tree.enter[construct.header];
        let innermost = |is_one: fn(Kind) -> bool| {
            let found = constructs().filter(|(_, construct)| is_one(construct.kind));
            found
                .map(|(_, construct)| construct)
                .max_by_key(|construct| depth(construct))
        };
        let of_loop = innermost(|kind| matches!(kind, Kind::Loop | Kind::Continue));
        // Code inside a loop cannot branch to the end of a switch around the loop.
        let of_switch = innermost(|kind| kind == Kind::Switch)
            .filter(|switch| of_loop.is_none_or(|inner| depth(inner) <= depth(switch)));
        let leaves = |target: &usize| {
            let exits = |construct: Option<&Construct>| {
                construct.is_some_and(|construct| construct.exits.contains(target))
            };
            exits(of_loop) || exits(of_switch)
        };
        let next = &self.successors[block];
        for (place, construct) in constructs().filter(|(_, c)| c.kind == Kind::Continue) {
            let out = next.is_empty() || next.iter().any(|&target| !inside(&place, target));
            let returns = construct
                .exits
                .last()
                .is_some_and(|header| next.contains(header));
            if out && !returns {
                let reason = "it leaves a continue construct that it is no end of";
                return Err((block, reason.to_owned()));
            }
        }
        for target in next {
            let mut left = constructs().filter(|(place, _)| !inside(place, *target));
            if left.any(|(_, construct)| !construct.exits.contains(target) && !leaves(target)) {
                return Err((block, "it branches out of a construct".to_owned()));
            }
            let mut entered = around[*target].iter().filter(|place| !inside(place, block));
            if entered.any(|&place| self.constructs[place].header != *target) {
                return Err((block, "it branches into a construct".to_owned()));
            }
        }
        let forks = next.len() > 1 && self.merges[block].is_none();
        let own_exit = |target: &usize| {
            leaves(target) || constructs().any(|(_, construct)| construct.exits.contains(target))
        };
        if forks && !next.iter().any(own_exit) {
            let reason = "it branches two ways without a merge block";
            return Err((block, reason.to_owned()));
        }
        Ok(())
    }
}
