//! The orders of reductions over any axes, of running sums and of additions by index.

use std::ops::Range;

use hlx_core::{Buffer, DType, Device};
use hlx_kernels::indexing::{index_add, scatter_add};
use hlx_kernels::reduce_axes::{Reduction, reduce};
use hlx_kernels::scan::cumsum;
use hlx_kernels::testing::{TestMemory, devices, run_on};
use hlx_kernels::{KernelError, Layout, Operand};

use super::tree::{Tree, terms};
use super::{Masks, assert_order, plain};

/// Terms of two pieces and a part of one.
pub(super) const PIECES: usize = 2 * 4096 + 300;

impl Masks {
    /// Pairs within a piece, across its lanes, and between pieces: all pairs of that many terms are too
    /// many.
    pub(super) fn of_pieces() -> Self {
        let ends = [
            0,
            1,
            64,
            127,
            128,
            129,
            4095,
            4096,
            4224,
            8191,
            8192,
            8320,
            PIECES - 1,
        ];
        let pairs = ends.iter().enumerate();
        let pairs = pairs.flat_map(|(at, &i)| ends[at + 1..].iter().map(move |&j| (i, j)));
        Self {
            n: PIECES,
            pairs: pairs.collect(),
        }
    }
}

/// Compares the sizes of the subtrees that the pairs reveal with the specified ones.
pub(super) fn assert_sizes<B>(name: &str, masks: &Masks, specified: &Tree, body: B, first: usize)
where
    B: Fn(&Device, &mut TestMemory) -> Result<Buffer, KernelError>,
{
    for device in devices() {
        let out = run_on(name, device, |device, mem| Ok(vec![body(device, mem)?]));
        for (pair, &(i, j)) in masks.pairs.iter().enumerate() {
            let size = masks.n - out[0][first + pair] as usize;
            let expected = specified.meet(i, j);
            assert_eq!(
                size,
                expected,
                "{name}: terms {i} and {j} on {}",
                device.info()
            );
        }
    }
}

/// Pieces of 4,096 terms, each a chain, added in order.
fn chained_pieces(n: usize) -> Tree {
    let terms = terms(n);
    let pieces = terms.chunks(4096).map(|piece| Tree::chain(piece.to_vec()));
    Tree::chain(pieces)
}

/// The sum over `axes` of a tensor of this shape; the elements of the result are the pairs.
fn summed(
    device: &Device,
    mem: &mut TestMemory,
    x: &[f32],
    shape: &[usize],
    axes: &[usize],
) -> Result<Buffer, KernelError> {
    let others = (0..shape.len()).filter(|axis| !axes.contains(axis));
    let out = mem.output(device, others.map(|axis| shape[axis]).product())?;
    let (buffer, layout) = (mem.input(device, x)?, Layout::contiguous(shape)?);
    let operand = Operand {
        buffer: &buffer,
        layout: &layout,
    };
    reduce(device, Reduction::Sum, operand, axes, &out)?;
    Ok(out)
}

#[test]
fn sums_over_inner_and_outer_axes_are_lanes_and_halves() {
    for n in [2, 33, 128, 129, 261] {
        let masks = Masks::all(n);
        let specified = Tree::lanes(terms(n));
        let (rows, columns) = (masks.rows(), masks.columns(0..n));
        let inner = |device: &Device, mem: &mut TestMemory| {
            summed(device, mem, &rows, &[masks.len(), n], &[1])
        };
        let outer = |device: &Device, mem: &mut TestMemory| {
            summed(device, mem, &columns, &[n, masks.len()], &[0])
        };
        assert_order("sum over the inner axis", &masks, &specified, inner, plain);
        assert_order("sum over the outer axis", &masks, &specified, outer, plain);
    }
}

#[test]
fn sums_over_two_axes_take_their_terms_in_row_major_order() {
    let (outer, inner) = (9, 11);
    let masks = Masks::all(outer * inner);
    // [outer, pairs, inner]
    let blocks = (0..outer).flat_map(|o| (0..masks.len()).map(move |pair| (o, pair)));
    let x: Vec<f32> = blocks
        .flat_map(|(o, pair)| (0..inner).map(move |i| (pair, o * inner + i)))
        .map(|(pair, k)| masks.term(pair, k))
        .collect();
    assert_order(
        "sum over two axes",
        &masks,
        &Tree::lanes(terms(outer * inner)),
        |device, mem| summed(device, mem, &x, &[outer, masks.len(), inner], &[0, 2]),
        plain,
    );
}

#[test]
fn long_sums_over_outer_axes_are_pieces_of_4096() {
    let masks = Masks::of_pieces();
    let columns = masks.columns(0..PIECES);
    let shape = [PIECES, masks.len()];
    assert_sizes(
        "sum over the outer axis",
        &masks,
        &Tree::flat(terms(PIECES)),
        |device, mem| summed(device, mem, &columns, &shape, &[0]),
        0,
    );
}

#[test]
fn running_sums_are_chains_in_pieces_of_4096() {
    let running = |masks: &Masks| {
        let (n, pairs) = (masks.n, masks.len());
        let x = masks.columns(0..n);
        move |device: &Device, mem: &mut TestMemory| {
            let (buffer, out) = (mem.input(device, &x)?, mem.output(device, x.len())?);
            let layout = Layout::contiguous(&[n, pairs])?;
            let operand = Operand {
                buffer: &buffer,
                layout: &layout,
            };
            cumsum(device, operand, 0, &out)?;
            Ok(out)
        }
    };
    let masks = Masks::all(70);
    let last = |out: &[f32], pair: usize| f64::from(out[69 * masks.len() + pair]);
    let chain = Tree::chain(terms(70));
    assert_order("cumsum", &masks, &chain, running(&masks), last);
    let masks = Masks::of_pieces();
    let last = (PIECES - 1) * masks.len();
    assert_sizes(
        "cumsum",
        &masks,
        &chained_pieces(PIECES),
        running(&masks),
        last,
    );
}

/// The terms `range` of all pairs added to row 1 of `[2, pairs]`, which holds `stored`.
fn added(
    device: &Device,
    mem: &mut TestMemory,
    masks: &Masks,
    range: Range<usize>,
    by_element: bool,
) -> Result<Buffer, KernelError> {
    let (n, pairs) = (range.len(), masks.len());
    let mut stored = vec![0.0; 2 * pairs];
    if range.start == 1 {
        stored[pairs..].copy_from_slice(&masks.columns(0..1));
    }
    let source = mem.input(device, &masks.columns(range))?;
    let target = mem.input(device, &stored)?;
    let index = mem.input_u32(device, &vec![1; n])?.view_as(DType::U32, n)?;
    let (wide, line) = (Layout::contiguous(&[n, pairs])?, Layout::contiguous(&[n])?);
    let source = Operand {
        buffer: &source,
        layout: &wide,
    };
    let index = |layout| Operand {
        buffer: &index,
        layout,
    };
    if by_element {
        let repeated = line.unsqueeze(1).and_then(|line| line.expand(&[n, pairs]));
        let repeated = repeated.expect("a column repeats");
        scatter_add(
            device,
            &target,
            &[2, pairs],
            0,
            index(&repeated),
            source,
            None,
        )?;
    } else {
        index_add(device, &target, &[2, pairs], 0, index(&line), source, None)?;
    }
    Ok(target)
}

#[test]
fn additions_by_index_are_chains_in_pieces_of_4096() {
    for by_element in [false, true] {
        for first in [0, 1] {
            let masks = Masks::all(41);
            assert_order(
                "additions by index",
                &masks,
                &Tree::chain(terms(41)),
                |device, mem| added(device, mem, &masks, first..41, by_element),
                |out, pair| f64::from(out[masks.len() + pair]),
            );
        }
        let masks = Masks::of_pieces();
        assert_sizes(
            "additions by index",
            &masks,
            &chained_pieces(PIECES),
            |device, mem| added(device, mem, &masks, 0..PIECES, by_element),
            masks.len(),
        );
    }
}
