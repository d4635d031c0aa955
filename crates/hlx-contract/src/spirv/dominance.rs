//! Dominance among the blocks of a function.

/// Dominance as a tree, and as intervals: a block dominates those whose interval lies in its own.
#[derive(Debug)]
pub(super) struct Tree {
    pub parent: Vec<Option<usize>>,
    pub enter: Vec<usize>,
    leave: Vec<usize>,
}

impl Tree {
    /// Dominators by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    pub fn of(successors: &[Vec<usize>]) -> Self {
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

    pub fn is_reachable(&self, block: usize) -> bool {
        self.enter[block] != 0
    }

    pub fn dominates(&self, one: usize, other: usize) -> bool {
        self.is_reachable(one)
            && self.enter[one] <= self.enter[other]
            && self.leave[other] <= self.leave[one]
            && self.is_reachable(other)
    }
}

/// The blocks that lead to each block.
pub(super) fn reversed(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (block, next) in successors.iter().enumerate() {
        for &target in next {
            predecessors[target].push(block);
        }
    }
    predecessors
}

/// The blocks that can be reached, each behind those that it leads to.
pub(super) fn post_order(successors: &[Vec<usize>]) -> Vec<usize> {
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
