//! Summation trees: built from a specification, revealed from a table, compared, printed.

/// An unordered binary tree whose leaves are the numbered terms of a sum. The left child holds
/// the smaller least leaf, so that equal trees are equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    Leaf(usize),
    Sum(Box<Tree>, Box<Tree>),
}

impl Tree {
    /// `a + b`.
    pub fn sum(a: Tree, b: Tree) -> Tree {
        if a.least() < b.least() {
            Tree::Sum(Box::new(a), Box::new(b))
        } else {
            Tree::Sum(Box::new(b), Box::new(a))
        }
    }

    /// `((t0 + t1) + t2) + ...`
    pub fn chain(terms: impl IntoIterator<Item = Tree>) -> Tree {
        let chained = terms.into_iter().reduce(Tree::sum);
        chained.expect("a sum has a term")
    }

    /// Neighbours pairwise, an odd one out passing to the next level.
    pub fn pairwise(mut level: Vec<Tree>) -> Tree {
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| Tree::chain(pair.iter().cloned()))
                .collect();
        }
        Tree::chain(level)
    }

    /// The order of a row: 128 lanes, then halves. A lane without a term is +0 and no leaf.
    pub fn lanes(terms: Vec<Tree>) -> Tree {
        let mut lanes: Vec<Option<Tree>> = vec![None; 128];
        let join = |a: Option<Tree>, b: Option<Tree>| match (a, b) {
            (Some(a), Some(b)) => Some(Tree::sum(a, b)),
            (a, b) => a.or(b),
        };
        for (col, term) in terms.into_iter().enumerate() {
            lanes[col % 128] = join(lanes[col % 128].take(), Some(term));
        }
        for distance in [64, 32, 16, 8, 4, 2, 1] {
            for lane in 0..distance {
                lanes[lane] = join(lanes[lane].take(), lanes[lane + distance].take());
            }
        }
        lanes[0].take().expect("a row has a term")
    }

    /// Rows of 4,096, each as lanes, until one value is left.
    pub fn flat(mut terms: Vec<Tree>) -> Tree {
        while terms.len() > 1 {
            terms = terms
                .chunks(4096)
                .map(|row| Tree::lanes(row.to_vec()))
                .collect();
        }
        Tree::chain(terms)
    }

    fn least(&self) -> usize {
        // The left child holds it.
        let mut tree = self;
        loop {
            match tree {
                Tree::Leaf(leaf) => return *leaf,
                Tree::Sum(left, _) => tree = left,
            }
        }
    }

    /// The leaves, in order of place.
    pub fn leaves(&self) -> Vec<usize> {
        match self {
            Tree::Leaf(leaf) => vec![*leaf],
            Tree::Sum(a, b) => [a.leaves(), b.leaves()].concat(),
        }
    }

    /// The sum of `terms` in this order, in HLX arithmetic if the thread flushes.
    pub fn evaluate(&self, terms: &[f32]) -> f32 {
        match self {
            Tree::Leaf(leaf) => terms[*leaf],
            Tree::Sum(a, b) => a.evaluate(terms) + b.evaluate(terms),
        }
    }

    /// The number of leaves under the lowest common ancestor of two, without the whole table.
    pub fn meet(&self, i: usize, j: usize) -> usize {
        /// Leaves, how many of the two are among them, and the size where both first were.
        fn walk(tree: &Tree, pair: [usize; 2]) -> (usize, usize, usize) {
            let Tree::Sum(a, b) = tree else {
                let found = pair.iter().filter(|leaf| **leaf == tree.least()).count();
                return (1, found, 0);
            };
            let (a, b) = (walk(a, pair), walk(b, pair));
            let (size, found) = (a.0 + b.0, a.1 + b.1);
            let met = a.2 + b.2;
            (size, found, if found == 2 && met == 0 { size } else { met })
        }
        walk(self, [i, j]).2
    }

    /// For each pair of leaves, the number of leaves under their lowest common ancestor.
    pub fn table(&self, n: usize) -> Table {
        let mut table = Table::new(n);
        self.fill(&mut table);
        table
    }

    fn fill(&self, table: &mut Table) -> Vec<usize> {
        match self {
            Tree::Leaf(leaf) => vec![*leaf],
            Tree::Sum(a, b) => {
                let (left, right) = (a.fill(table), b.fill(table));
                let size = left.len() + right.len();
                for &i in &left {
                    for &j in &right {
                        table.set(i, j, size);
                    }
                }
                [left, right].concat()
            }
        }
    }

    /// The tree in one line: a chain over neighbouring terms is `first..last`, anything else a
    /// sum in parentheses; cut after 600 characters.
    pub fn show(&self) -> String {
        let mut text = self.text();
        if text.len() > 600 {
            text.truncate(600);
            text += " ...";
        }
        text
    }

    fn text(&self) -> String {
        // Down the left spine, gathering what is added, last first.
        let (mut added, mut tree) = (Vec::new(), self);
        while let Tree::Sum(left, right) = tree {
            added.push(right);
            tree = left;
        }
        let first = tree.least();
        let mut next = first + 1;
        while let Some(Tree::Leaf(leaf)) = added.last().map(|tree| tree.as_ref())
            && *leaf == next
        {
            added.pop();
            next += 1;
        }
        let start = match next - first {
            1 => first.to_string(),
            _ => format!("{first}..{}", next - 1),
        };
        let rest = added.iter().rev().map(|tree| tree.text());
        rest.fold(start, |text, term| format!("({text} + {term})"))
    }
}

/// Leaves under the lowest common ancestor of each pair of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    n: usize,
    sizes: Vec<usize>,
}

impl Table {
    pub fn new(n: usize) -> Self {
        Self {
            n,
            sizes: vec![1; n * n],
        }
    }

    pub fn get(&self, i: usize, j: usize) -> usize {
        self.sizes[i * self.n + j]
    }

    pub fn set(&mut self, i: usize, j: usize, size: usize) {
        self.sizes[i * self.n + j] = size;
        self.sizes[j * self.n + i] = size;
    }

    /// The tree that the table is of (after Xie et al. 2025, over a whole table), or
    /// what no binary tree of sums explains.
    pub fn reveal(&self) -> Result<Tree, String> {
        let tree = self.subtree(&(0..self.n).collect::<Vec<_>>());
        let explained = tree.table(self.n);
        for i in 0..self.n {
            for j in 0..i {
                let (found, explained) = (self.get(i, j), explained.get(i, j));
                if found != explained {
                    return Err(format!(
                        "no binary tree: terms {j} and {i} meet among {found} terms, \
                         the others say {explained}"
                    ));
                }
            }
        }
        Ok(tree)
    }

    /// The tree over some leaves: what the first one meets, nearest first.
    fn subtree(&self, leaves: &[usize]) -> Tree {
        let (&first, rest) = leaves.split_first().expect("a tree has a leaf");
        let mut rest = rest.to_vec();
        rest.sort_by_key(|&leaf| self.get(first, leaf));
        let groups = rest.chunk_by(|&a, &b| self.get(first, a) == self.get(first, b));
        let siblings = groups.map(|group| {
            let mut group = group.to_vec();
            group.sort_unstable();
            self.subtree(&group)
        });
        siblings.fold(Tree::Leaf(first), Tree::sum)
    }
}

/// Terms `0, 1, 2, ...`.
pub fn terms(n: usize) -> Vec<Tree> {
    (0..n).map(Tree::Leaf).collect()
}
