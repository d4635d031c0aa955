//! Control flow of a function: its blocks, their dominance, and that it is structured.
//!
//! "SPIR-V Specification", sections 2.11 and 2.16. Drivers translate structured control flow by
//! recursion over constructs and rely on these rules without checking them.

use std::collections::HashMap;

use super::dominance::{Tree, reversed};
use super::grammar::op;
use super::module::{Function, Instruction, Module};
use super::structure::{Merge, Structure};

/// Blocks of a function at most.
const MAX_BLOCKS: usize = 1 << 16;

/// The checked control flow of a function.
#[derive(Debug)]
pub(super) struct ControlFlow {
    predecessors: Vec<Vec<usize>>,
    tree: Tree,
    /// The block of a label, and of every instruction.
    block_of: HashMap<u32, usize>,
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
                "block %{}: it precedes the block that dominates it",
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

    /// Whether a block is reachable.
    pub fn is_reachable(&self, block: usize) -> bool {
        self.tree.is_reachable(block)
    }

    /// Whether every path to `other` goes through `one`.
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
            return Err(merge.fault("it is not the last but one of its block"));
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
