//! Control flow of a function: its blocks, who dominates whom, and that it is structured.
//!
//! "SPIR-V Specification", sections 2.11 and 2.16. Drivers translate structured control flow by
//! recursion over constructs and lean on these rules without checking them.

use std::collections::{HashMap, HashSet};

use super::grammar::op;
use super::module::{Function, Instruction, Module};

/// Blocks of a function, and constructs times edges, at most: bounds the time that checks take.
const MAX_BLOCKS: usize = 1 << 16;
const MAX_WORK: usize = 1 << 28;

/// What a block's merge instruction says.
#[derive(Clone, Copy, Debug)]
enum Merge {
    Selection { merge: usize, switch: bool },
    Loop { merge: usize, target: usize },
}

/// Dominance as intervals: a block dominates those whose interval lies in its own.
#[derive(Debug)]
struct Tree {
    parent: Vec<Option<usize>>,
    enter: Vec<usize>,
    leave: Vec<usize>,
}

/// The checked control flow of a function.
#[derive(Debug)]
pub(super) struct ControlFlow {
    predecessors: Vec<Vec<usize>>,
    tree: Tree,
    /// The block of a label, and of every instruction.
    block_of: HashMap<u32, usize>,
}

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

impl ControlFlow {
    /// Reads a function's blocks and checks them.
    pub fn read(module: &Module, function: &Function) -> Result<Self, String> {
        let blocks = &function.blocks;
        if blocks.len() > MAX_BLOCKS {
            return Err(format!(
                "a function of {} blocks, expected at most {MAX_BLOCKS}",
                blocks.len()
            ));
        }
        let label = |block: usize| module.instructions[blocks[block].start].ids.result;
        let block_of: HashMap<u32, usize> = (0..blocks.len()).map(|b| (label(b), b)).collect();
        let mut reader = Reader {
            module,
            block_of: &block_of,
        };
        let mut successors = Vec::with_capacity(blocks.len());
        let mut merges = Vec::with_capacity(blocks.len());
        for range in blocks {
            let (next, merge) = reader.block(range)?;
            successors.push(next);
            merges.push(merge);
        }
        let predecessors = reversed(&successors);
        if !predecessors[0].is_empty() {
            return Err(format!(
                "%{}: a branch to a function's first block",
                label(0)
            ));
        }
        let flow = Self {
            tree: Tree::of(&successors),
            predecessors,
            block_of,
        };
        let structure = Structure::new(&successors, &merges);
        structure
            .check()
            .map_err(|(block, reason)| format!("block %{}: {reason}", label(block)))?;
        flow.check_order().map_err(|block| {
            format!(
                "block %{}: it stands before the block that dominates it",
                label(block)
            )
        })?;
        Ok(flow)
    }

    /// The block of a label of this function.
    pub fn block(&self, label: u32) -> Option<usize> {
        self.block_of.get(&label).copied()
    }

    /// The blocks that branch to a block, each once.
    pub fn predecessors(&self, block: usize) -> &[usize] {
        &self.predecessors[block]
    }

    /// Whether control can come to a block.
    pub fn is_reachable(&self, block: usize) -> bool {
        self.tree.is_reachable(block)
    }

    /// Whether every way to `other` leads through `one`.
    pub fn dominates(&self, one: usize, other: usize) -> bool {
        self.tree.dominates(one, other)
    }

    fn check_order(&self) -> Result<(), usize> {
        let early = |(block, parent): (usize, &Option<usize>)| {
            parent.is_some_and(|parent| parent > block).then_some(block)
        };
        self.tree
            .parent
            .iter()
            .enumerate()
            .find_map(early)
            .map_or(Ok(()), Err)
    }
}

struct Reader<'a> {
    module: &'a Module,
    block_of: &'a HashMap<u32, usize>,
}

impl Reader<'_> {
    fn target(&self, from: &Instruction, label: u32) -> Result<usize, String> {
        let found = self.block_of.get(&label).copied();
        found.ok_or_else(|| from.fault(format!("%{label} is no block of this function")))
    }

    /// The blocks that a block branches to, each once, and its merge instruction.
    fn block(
        &mut self,
        range: &std::ops::Range<usize>,
    ) -> Result<(Vec<usize>, Option<Merge>), String> {
        let instructions = &self.module.instructions[range.clone()];
        let (Some(end), before) = (instructions.last(), instructions.iter().rev().nth(1)) else {
            return Err("an empty block".to_owned());
        };
        let merges = |i: &&Instruction| matches!(i.opcode, op::LoopMerge | op::SelectionMerge);
        let merge = instructions.iter().find(merges);
        if let Some(merge) = merge.filter(|merge| before.is_none_or(|b| b.index != merge.index)) {
            return Err(merge.fault("it does not stand before the end of its block"));
        }
        let labels: &[u32] = match end.opcode {
            op::Branch => &end.ids.used,
            op::BranchConditional | op::Switch => &end.ids.used[1..],
            _ => &[],
        };
        let mut next = Vec::new();
        for &label in labels {
            let target = self.target(end, label)?;
            if !next.contains(&target) {
                next.push(target);
            }
        }
        let merge = merge.map(|merge| self.merge(merge, end)).transpose()?;
        if end.opcode == op::Switch && merge.is_none() {
            return Err(end.fault("without OpSelectionMerge"));
        }
        Ok((next, merge))
    }

    fn merge(&self, merge: &Instruction, end: &Instruction) -> Result<Merge, String> {
        let used = &merge.ids.used;
        let switch = end.opcode == op::Switch;
        match (merge.opcode, end.opcode) {
            (op::SelectionMerge, op::BranchConditional | op::Switch) => Ok(Merge::Selection {
                merge: self.target(merge, used[0])?,
                switch,
            }),
            (op::LoopMerge, op::Branch | op::BranchConditional) => Ok(Merge::Loop {
                merge: self.target(merge, used[0])?,
                target: self.target(merge, used[1])?,
            }),
            _ => Err(merge.fault("the block does not branch")),
        }
    }
}

fn reversed(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (block, next) in successors.iter().enumerate() {
        for &target in next {
            predecessors[target].push(block);
        }
    }
    predecessors
}

impl Tree {
    /// Dominators by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    fn of(successors: &[Vec<usize>]) -> Self {
        let order = post_order(successors);
        let mut number = vec![usize::MAX; successors.len()];
        for (place, &block) in order.iter().enumerate() {
            number[block] = place;
        }
        let predecessors = reversed(successors);
        let mut parent: Vec<Option<usize>> = vec![None; successors.len()];
        let meet = |parent: &[Option<usize>], mut a: usize, mut b: usize| {
            while a != b {
                while number[a] < number[b] {
                    a = parent[a].unwrap_or(0);
                }
                while number[b] < number[a] {
                    b = parent[b].unwrap_or(0);
                }
            }
            a
        };
        loop {
            let mut changed = false;
            for &block in order.iter().rev().filter(|&&block| block != 0) {
                let ready = |&p: &usize| p == 0 || parent[p].is_some();
                let known = predecessors[block].iter().copied().filter(ready);
                let found = known.reduce(|a, b| meet(&parent, a, b));
                if found != parent[block] {
                    parent[block] = found;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        Self::numbered(parent)
    }

    fn numbered(parent: Vec<Option<usize>>) -> Self {
        let mut children = vec![Vec::new(); parent.len()];
        for (block, parent) in parent.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(block);
            }
        }
        let (mut enter, mut leave) = (vec![0; parent.len()], vec![0; parent.len()]);
        let (mut clock, mut stack) = (0, vec![(0, 0)]);
        while let Some((block, next)) = stack.pop() {
            if next == 0 {
                clock += 1;
                enter[block] = clock;
            }
            match children[block].get(next) {
                Some(&child) => {
                    stack.push((block, next + 1));
                    stack.push((child, 0));
                }
                None => leave[block] = clock,
            }
        }
        Self {
            parent,
            enter,
            leave,
        }
    }

    fn is_reachable(&self, block: usize) -> bool {
        self.enter[block] != 0
    }

    fn dominates(&self, one: usize, other: usize) -> bool {
        self.is_reachable(one)
            && self.enter[one] <= self.enter[other]
            && self.leave[other] <= self.leave[one]
            && self.is_reachable(other)
    }
}

/// The blocks that can be reached, each behind those that it leads to.
fn post_order(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(successors.len());
    let mut seen = vec![false; successors.len()];
    seen[0] = true;
    let mut stack = vec![(0, 0)];
    while let Some((block, next)) = stack.pop() {
        match successors[block].get(next) {
            Some(&target) => {
                stack.push((block, next + 1));
                if !seen[target] {
                    seen[target] = true;
                    stack.push((target, 0));
                }
            }
            None => order.push(block),
        }
    }
    order
}

/// A fault: the block and what is wrong with it.
type Fault = (usize, String);

/// Structure is judged on the graph in which headers lead to their merge blocks and continue
/// targets too, so that blocks that control never comes to have their place.
struct Structure<'a> {
    successors: &'a [Vec<usize>],
    merges: &'a [Option<Merge>],
    /// Every block behind those that it leads to, in the graph with the added edges.
    order: Vec<usize>,
    tree: Tree,
    constructs: Vec<Construct>,
}

impl<'a> Structure<'a> {
    fn new(successors: &'a [Vec<usize>], merges: &'a [Option<Merge>]) -> Self {
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

    fn check(&self) -> Result<(), Fault> {
        self.check_merges()?;
        self.check_back_edges()?;
        let edges: usize = self.successors.iter().map(Vec::len).sum();
        if self.constructs.len().saturating_mul(edges.max(1)) > MAX_WORK {
            return Err((0, "the function is too large to be checked".to_owned()));
        }
        for block in 0..self.successors.len() {
            if self.tree.is_reachable(block) {
                self.check_exits(block)?;
            } else if !self.successors[block].is_empty() || self.merges[block].is_some() {
                return Err((block, "a block that nothing leads to goes on".to_owned()));
            }
        }
        Ok(())
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

    fn contains(&self, construct: &Construct, block: usize) -> bool {
        self.tree.dominates(construct.header, block)
            && !construct
                .without
                .iter()
                .any(|&out| self.tree.dominates(out, block))
    }

    /// Branches enter a construct at its header, and leave it to its own exits, or to those of the loop or switch around.
    fn check_exits(&self, block: usize) -> Result<(), Fault> {
        let around = || self.constructs.iter().filter(|c| self.contains(c, block));
        let innermost = |kinds: &[Kind]| {
            let kinds = kinds.to_vec();
            around()
                .filter(move |construct| kinds.contains(&construct.kind))
                .max_by_key(|construct| self.tree.enter[construct.header])
        };
        let of_loop = innermost(&[Kind::Loop, Kind::Continue]);
        let of_switch = innermost(&[Kind::Switch]);
        let loop_exits = of_loop.map_or(&[][..], |construct| &construct.exits);
        // A switch around the loop is out of reach.
        let within = |switch: &&Construct| {
            let depth = |construct: &Construct| self.tree.enter[construct.header];
            of_loop.is_none_or(|inner| depth(inner) <= depth(switch))
        };
        let switch_exits = of_switch.filter(within).map_or(&[][..], |c| &c.exits);
        let leaves = |target: &usize| loop_exits.contains(target) || switch_exits.contains(target);
        // A continue construct ends with the block that branches back.
        let ends = |construct: &&Construct| {
            let next = &self.successors[block];
            let out = next.iter().any(|&target| !self.contains(construct, target));
            construct.kind == Kind::Continue
                && (out || next.is_empty())
                && !construct
                    .exits
                    .last()
                    .is_some_and(|header| next.contains(header))
        };
        if around().any(|construct| ends(&construct)) {
            return Err((
                block,
                "it leaves a continue construct that it is no end of".to_owned(),
            ));
        }
        for target in &self.successors[block] {
            for construct in around().filter(|construct| !self.contains(construct, *target)) {
                if !construct.exits.contains(target) && !leaves(target) {
                    return Err((block, "it branches out of a construct".to_owned()));
                }
            }
        }
        for target in &self.successors[block] {
            let enters = |c: &&Construct| self.contains(c, *target) && !self.contains(c, block);
            if self
                .constructs
                .iter()
                .filter(enters)
                .any(|c| c.header != *target)
            {
                return Err((block, "it branches into a construct".to_owned()));
            }
        }
        let forks = self.successors[block].len() > 1 && self.merges[block].is_none();
        let own_exit = |target: &usize| {
            leaves(target) || around().any(|construct| construct.exits.contains(target))
        };
        if forks && !self.successors[block].iter().any(own_exit) {
            return Err((
                block,
                "it branches two ways without a merge block".to_owned(),
            ));
        }
        Ok(())
    }
}
