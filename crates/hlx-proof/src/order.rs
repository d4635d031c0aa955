//! The order of summation, shown: what tree each reduction really carries out, found by probing
//! from outside, against the tree that its specification states.
//!
//! The method (Xie et al. 2025, FPRev): of `n` terms, `i` is `M = 2^60`, `j` is `-M` and all
//! others are 1. A one that meets either M before they cancel is lost, because `M + 1 = M`; the
//! ones that survive stand outside the smallest subtree that holds both. So `n - sum` is the
//! size of that subtree, and the sizes of all pairs are the tree. See `docs/numerics.md`.

mod any_axes;
mod attention;
mod norms;
mod reductions;
mod tree;

use hlx_core::{Buffer, Device};

use hlx_kernels::KernelError;
use hlx_kernels::testing::{TestMemory, devices, run_on};
use tree::{Table, Tree};

/// Absorbs any number of ones that a test adds, and its square is finite.
const MASK: f32 = (1_u64 << 60) as f32;

/// The masked terms of all pairs `i < j` of `n` terms.
struct Masks {
    n: usize,
    pairs: Vec<(usize, usize)>,
}

impl Masks {
    fn all(n: usize) -> Self {
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        Self {
            n,
            pairs: pairs.collect(),
        }
    }

    fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Term `k` of pair `pair`.
    fn term(&self, pair: usize, k: usize) -> f32 {
        let (i, j) = self.pairs[pair];
        if k == i {
            MASK
        } else if k == j {
            -MASK
        } else {
            1.0
        }
    }

    /// `[pairs, n]`: a pair's terms lie together.
    fn rows(&self) -> Vec<f32> {
        let rows = (0..self.len()).flat_map(|pair| (0..self.n).map(move |k| (pair, k)));
        rows.map(|(pair, k)| self.term(pair, k)).collect()
    }

    /// `[terms, pairs]`: one term of all pairs lies together.
    fn columns(&self, terms: std::ops::Range<usize>) -> Vec<f32> {
        let columns = terms.flat_map(|k| (0..self.len()).map(move |pair| (pair, k)));
        columns.map(|(pair, k)| self.term(pair, k)).collect()
    }

    /// The first of a pair's terms that is a one.
    fn unit(&self, pair: usize) -> usize {
        let (i, j) = self.pairs[pair];
        (0..self.n).find(|&k| k != i && k != j).unwrap_or(0)
    }

    /// The tree that the survivors of each pair reveal.
    fn reveal(&self, survivors: impl IntoIterator<Item = f64>) -> Result<Tree, String> {
        let mut table = Table::new(self.n);
        let mut counted = 0;
        for (&(i, j), survivors) in self.pairs.iter().zip(survivors) {
            let rounded = survivors.round();
            let possible = (0.0..=(self.n - 2) as f64).contains(&rounded);
            if !possible || (survivors - rounded).abs() > 0.01 {
                return Err(format!("terms {i} and {j}: {survivors} ones survive"));
            }
            table.set(i, j, self.n - rounded as usize);
            counted += 1;
        }
        assert_eq!(counted, self.pairs.len(), "a result a pair");
        table.reveal()
    }
}

/// Compares a revealed tree with the one specified: an error prints both and where they part.
fn compare(name: &str, n: usize, found: &Tree, specified: &Tree) -> Result<(), String> {
    if found == specified {
        return Ok(());
    }
    let (f, s) = (found.table(n), specified.table(n));
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let parted = pairs.clone().find(|&(i, j)| f.get(i, j) != s.get(i, j));
    let (i, j) = parted.unwrap_or_default();
    Err(format!(
        "{name}: terms {i} and {j} meet among {} terms, specified {}\n  found     {}\n  specified {}",
        f.get(i, j),
        s.get(i, j),
        found.show(),
        specified.show()
    ))
}

/// Reveals the tree of a kernel on every device. `body` returns one buffer; `survivors` reads
/// from it, for a pair, how many ones survived.
fn assert_order<B>(
    name: &str,
    masks: &Masks,
    specified: &Tree,
    body: B,
    survivors: impl Fn(&[f32], usize) -> f64,
) where
    B: Fn(&Device, &mut TestMemory) -> Result<Buffer, KernelError>,
{
    let mut leaves = specified.leaves();
    leaves.sort_unstable();
    assert!(
        leaves.into_iter().eq(0..masks.n),
        "{name}: the specification"
    );
    for device in devices() {
        let out = run_on(name, device, |device, mem| Ok(vec![body(device, mem)?]));
        let survivors = (0..masks.len()).map(|pair| survivors(&out[0], pair));
        let found = masks.reveal(survivors);
        let compared = found.and_then(|found| compare(name, masks.n, &found, specified));
        if let Err(message) = compared {
            panic!("{name} on {}: {message}", device.info());
        }
    }
}

/// One result per pair, the survivors themselves.
fn plain(out: &[f32], pair: usize) -> f64 {
    f64::from(out[pair])
}

mod probing {
    //! The probe itself: it must distinguish orders.

    use super::*;
    use tree::terms;

    /// What a host sum in the order of `tree` reveals.
    fn probe(tree: &Tree, n: usize) -> Result<Tree, String> {
        let masks = Masks::all(n);
        let rows = masks.rows();
        masks.reveal(rows.chunks(n).map(|row| f64::from(tree.evaluate(row))))
    }

    #[test]
    fn every_order_is_revealed_as_it_is() {
        for n in [2, 3, 7, 33, 150] {
            let backwards = terms(n).into_iter().rev();
            let orders = [
                Tree::chain(terms(n)),
                Tree::chain(backwards),
                Tree::pairwise(terms(n)),
                Tree::lanes(terms(n)),
            ];
            for tree in &orders {
                assert_eq!(probe(tree, n).as_ref(), Ok(tree), "{n} terms");
                let table = tree.table(n);
                assert_eq!(table.get(0, n - 1), tree.meet(0, n - 1));
                assert_eq!(table.get(0, n / 2), tree.meet(0, n / 2));
            }
        }
    }

    #[test]
    fn a_different_order_is_told_apart_and_printed() {
        let (chain, pairs) = (Tree::chain(terms(8)), Tree::pairwise(terms(8)));
        let found = probe(&pairs, 8).expect("a tree");
        let message = compare("product", 8, &found, &chain).expect_err("another order");
        assert_eq!(
            message,
            "product: terms 0 and 2 meet among 4 terms, specified 3\n  \
             found     ((0..1 + 2..3) + (4..5 + 6..7))\n  specified 0..7"
        );
        // Two terms exchanged in a chain of 40.
        let mut exchanged = terms(40);
        exchanged.swap(17, 18);
        let found = probe(&Tree::chain(exchanged), 40).expect("a tree");
        assert!(compare("product", 40, &found, &Tree::chain(terms(40))).is_err());
    }

    #[test]
    fn what_is_no_tree_of_sums_is_refused() {
        // Three terms added at once: every pair meets among three.
        let masks = Masks::all(3);
        assert!(masks.reveal([0.0, 0.0, 0.0]).is_err());
        // A sum that loses no ones is exact, not a tree of rounded sums.
        assert!(masks.reveal([1.0, 1.0, 1.0]).is_err());
        // Half a one.
        assert!(masks.reveal([0.5, 1.0, 0.0]).is_err());
    }

    /// A kernel that sums pairwise, held against a chain: the comparison fails on every device.
    #[test]
    fn a_kernel_of_another_order_fails() {
        let masks = Masks::all(8);
        let chain = Tree::chain(terms(8));
        for device in devices() {
            let out = run_on("shard_sum", device, |device, mem| {
                let x = mem.input(device, &masks.columns(0..8))?;
                let out = mem.output(device, masks.len())?;
                hlx_kernels::reduce::shard_sum(device, &x, &out, 8, masks.len(), false)?;
                Ok(vec![out])
            });
            let found = masks.reveal(out[0].iter().map(|sum| f64::from(*sum)));
            let found = found.expect("a tree");
            assert!(compare("shard_sum", 8, &found, &chain).is_err());
        }
    }
}
