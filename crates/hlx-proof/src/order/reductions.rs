//! The trees of products, rows, columns, shards, whole buffers, layer norm and embedding.

use super::tree::{Tree, terms};
use super::*;
use hlx_core::{arith, cpu::with_flush};
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use hlx_kernels::product::{MatMul, matmul};
use hlx_kernels::reduce::{column_sum, global_norm, row_sum, shard_sum, sum};
use hlx_kernels::softmax::{softmax_backward, softmax_forward};
use hlx_kernels::{embedding, testing};

/// The chain over k, from zero, from a bias and from a stored value; operands as they lie and
/// transposed; sizes within and across a tile's step.
#[test]
fn product_is_a_chain_over_k() {
    for (k, m, trans_a, trans_b) in [
        (5, 1, false, false),
        (40, 3, true, false),
        (67, 70, false, true),
    ] {
        let masks = Masks::all(k);
        let shape = MatMul {
            trans_a,
            trans_b,
            ..MatMul::new(m, masks.len(), k)
        };
        let b = if trans_b {
            masks.rows()
        } else {
            masks.columns(0..k)
        };
        assert_order(
            "matmul",
            &masks,
            &Tree::chain(terms(k)),
            |device, mem| {
                let a = mem.input(device, &vec![1.0; m * k])?;
                let (b, c) = (mem.input(device, &b)?, mem.output(device, m * masks.len())?);
                matmul(device, &a, &b, None, &c, &shape)?;
                Ok(c)
            },
            // The last row of C; the others hold the same.
            |out, pair| f64::from(out[(m - 1) * masks.len() + pair]),
        );
    }
}

/// The masks in A, so that a pair is a row of C.
#[test]
fn product_is_a_chain_in_every_row() {
    let (k, n) = (37, 9);
    let masks = Masks::all(k);
    assert_order(
        "matmul",
        &masks,
        &Tree::chain(terms(k)),
        |device, mem| {
            let a = mem.input(device, &masks.rows())?;
            let b = mem.input(device, &vec![1.0; k * n])?;
            let c = mem.output(device, masks.len() * n)?;
            matmul(device, &a, &b, None, &c, &MatMul::new(masks.len(), n, k))?;
            Ok(c)
        },
        |out, pair| f64::from(out[pair * n + n - 1]),
    );
}

#[test]
fn product_starts_at_the_bias_or_the_stored_value() {
    // Term 0 is the start.
    let masks = Masks::all(35);
    for accumulate in [false, true] {
        let shape = MatMul {
            accumulate,
            ..MatMul::new(1, masks.len(), 34)
        };
        assert_order(
            "matmul",
            &masks,
            &Tree::chain(terms(35)),
            |device, mem| {
                let a = mem.input(device, &[1.0; 34])?;
                let b = mem.input(device, &masks.columns(1..35))?;
                let start = mem.input(device, &masks.columns(0..1))?;
                if accumulate {
                    matmul(device, &a, &b, None, &start, &shape)?;
                    return Ok(start);
                }
                let c = mem.output(device, masks.len())?;
                matmul(device, &a, &b, Some(&start), &c, &shape)?;
                Ok(c)
            },
            plain,
        );
    }
}

/// Rows in both kernels (33 and 129 columns are held in registers), with empty lanes, full
/// lanes, and a third round begun.
const ROWS: [usize; 5] = [2, 33, 128, 129, 261];

#[test]
fn row_sum_is_lanes_and_halves() {
    for n in ROWS {
        let masks = Masks::all(n);
        assert_order(
            "row_sum",
            &masks,
            &Tree::lanes(terms(n)),
            |device, mem| {
                let (x, out) = (
                    mem.input(device, &masks.rows())?,
                    mem.output(device, masks.len())?,
                );
                row_sum(device, &x, &out, masks.len(), n)?;
                Ok(out)
            },
            plain,
        );
    }
}

/// With y = 1, `dx = dy - sum dy`: read where dy is 1.
#[test]
fn softmax_backward_is_lanes_and_halves() {
    for n in [3, 33, 129, 140] {
        let masks = Masks::all(n);
        assert_order(
            "softmax_backward",
            &masks,
            &Tree::lanes(terms(n)),
            |device, mem| {
                let y = mem.input(device, &vec![1.0; n * masks.len()])?;
                let dy = mem.input(device, &masks.rows())?;
                let dx = mem.output(device, n * masks.len())?;
                softmax_backward(device, &y, &dy, &dx, masks.len(), n)?;
                Ok(dx)
            },
            |dx, pair| 1.0 - f64::from(dx[pair * n + masks.unit(pair)]),
        );
    }
}

/// The mean is the sum over n, correctly rounded.
#[test]
fn layer_norm_mean_is_lanes_and_halves() {
    for n in [3, 33, 129, 140] {
        let masks = Masks::all(n);
        assert_order(
            "layer_norm_forward",
            &masks,
            &Tree::lanes(terms(n)),
            |device, mem| {
                let x = mem.input(device, &masks.rows())?;
                let weight = mem.input(device, &vec![1.0; n])?;
                let y = mem.output(device, n * masks.len())?;
                let stats = mem.output(device, 2 * masks.len())?;
                norm_forward(
                    device,
                    &Norm::layer(masks.len(), n, 1e-5),
                    &NormForward {
                        x: &x,
                        weight: &weight,
                        bias: Some(&weight),
                        y: &y,
                        stats: &stats,
                    },
                )?;
                Ok(stats)
            },
            |stats, pair| f64::from(stats[2 * pair]) * n as f64,
        );
    }
}

/// With mean 0 and rstd 1, n is x. First `dy` holds the masks and x is 0: `dx = 1 - sum / C`
/// where dy is 1. Then x holds them and dy is 1: `dx = (1 - 1) - sum / C` where x is 1.
#[test]
fn layer_norm_backward_sums_are_lanes_and_halves() {
    for n in [3, 33, 129, 140] {
        let masks = Masks::all(n);
        for masked_x in [false, true] {
            let constant = vec![if masked_x { 1.0 } else { 0.0 }; n * masks.len()];
            let (x, dy) = if masked_x {
                (masks.rows(), constant)
            } else {
                (constant, masks.rows())
            };
            assert_order(
                "layer_norm_backward_input",
                &masks,
                &Tree::lanes(terms(n)),
                |device, mem| {
                    let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
                    let weight = mem.input(device, &vec![1.0; n])?;
                    let stats = mem.input(device, &[0.0, 1.0].repeat(masks.len()))?;
                    let dx = mem.output(device, n * masks.len())?;
                    let rows = masks.len();
                    norm_backward_input(
                        device,
                        &Norm::layer(rows, n, 1e-5),
                        &NormBackwardInput {
                            x: &x,
                            weight: &weight,
                            stats: &stats,
                            dy: &dy,
                            residual: None,
                            dx: &dx,
                        },
                    )?;
                    Ok(dx)
                },
                |dx, pair| {
                    let dx = f64::from(dx[pair * n + masks.unit(pair)]);
                    let start = if masked_x { 0.0 } else { 1.0 };
                    (start - dx) * n as f64
                },
            );
        }
    }
}

/// With mean 0 and rstd 1: dweight with the masks in x and dy = 1, dbias with them in dy.
#[test]
fn layer_norm_parameters_are_chains_over_rows() {
    let masks = Masks::all(37);
    let cols = masks.len();
    // Two shards: the second is read, so that a chain across shards would show.
    for (accumulate, of_bias) in [(false, false), (false, true), (true, false), (true, true)] {
        let first = usize::from(accumulate);
        let rows = 37 - first;
        let mut masked = vec![1.0; rows * cols];
        masked.extend(masks.columns(first..37));
        let ones = vec![1.0; masked.len()];
        let mut stored = vec![1.0; cols];
        stored.extend(masks.columns(0..1));
        assert_order(
            "layer_norm_backward_params",
            &masks,
            &Tree::chain(terms(37)),
            |device, mem| {
                let (x, dy) = if of_bias {
                    (&ones, &masked)
                } else {
                    (&masked, &ones)
                };
                let (x, dy) = (mem.input(device, x)?, mem.input(device, dy)?);
                let stats = mem.input(device, &[0.0, 1.0].repeat(2 * rows))?;
                let (dweight, dbias) = (mem.input(device, &stored)?, mem.input(device, &stored)?);
                norm_backward_params(
                    device,
                    &Norm::layer(2 * rows, cols, 1e-5),
                    &NormBackwardParams {
                        x: &x,
                        stats: &stats,
                        dy: &dy,
                        dweight: &dweight,
                        dbias: Some(&dbias),
                        shards: 2,
                        accumulate,
                    },
                )?;
                Ok(if of_bias { dbias } else { dweight })
            },
            |sums, pair| f64::from(sums[cols + pair]),
        );
    }
}

#[test]
fn column_sum_is_a_chain_over_the_rows_of_a_shard() {
    for (n, accumulate) in [(2, false), (70, false), (41, true)] {
        let masks = Masks::all(n);
        let first = usize::from(accumulate);
        let (rows, cols) = (n - first, masks.len());
        let mut x = vec![1.0; rows * cols];
        x.extend(masks.columns(first..n));
        let mut stored = vec![1.0; cols];
        stored.extend(masks.columns(0..1));
        assert_order(
            "column_sum",
            &masks,
            &Tree::chain(terms(n)),
            |device, mem| {
                let (x, out) = (mem.input(device, &x)?, mem.input(device, &stored)?);
                column_sum(device, &x, &out, 2, rows, cols, accumulate)?;
                Ok(out)
            },
            |out, pair| f64::from(out[cols + pair]),
        );
    }
}

#[test]
fn shards_are_pairwise_and_the_stored_value_comes_last() {
    for shards in [2, 3, 4, 5, 6, 7, 8, 16, 21, 64] {
        let masks = Masks::all(shards);
        assert_order(
            "shard_sum",
            &masks,
            &Tree::pairwise(terms(shards)),
            |device, mem| {
                let x = mem.input(device, &masks.columns(0..shards))?;
                let out = mem.output(device, masks.len())?;
                shard_sum(device, &x, &out, shards, masks.len(), false)?;
                Ok(out)
            },
            plain,
        );
        // Term `shards` is the stored value, added to the whole tree.
        let masks = Masks::all(shards + 1);
        let accumulated = Tree::sum(Tree::pairwise(terms(shards)), Tree::Leaf(shards));
        assert_order(
            "shard_sum",
            &masks,
            &accumulated,
            |device, mem| {
                let x = mem.input(device, &masks.columns(0..shards))?;
                let out = mem.input(device, &masks.columns(shards..shards + 1))?;
                shard_sum(device, &x, &out, shards, masks.len(), true)?;
                Ok(out)
            },
            plain,
        );
    }
}

/// Positions of one token among those of others; two shards, the second read.
#[test]
fn embedding_gradient_is_a_chain_over_the_positions_of_a_token() {
    for accumulate in [false, true] {
        let masks = Masks::all(33);
        let first = usize::from(accumulate);
        let (width, rows) = (masks.len(), 2 * (33 - first));
        // Every second position is of token 1, whose gradients would hide the masks.
        let ids: Vec<u32> = (0..2 * rows).map(|position| position as u32 % 2).collect();
        let mut dy = vec![1.0; rows * width];
        for k in first..33 {
            dy.extend(masks.columns(k..k + 1));
            dy.extend(vec![4.0 * MASK; width]);
        }
        let mut stored = vec![1.0; 4 * width];
        stored[2 * width..3 * width].copy_from_slice(&masks.columns(0..1));
        assert_order(
            "embedding_backward",
            &masks,
            &Tree::chain(terms(33)),
            |device, mem| {
                let (ids, dy) = (mem.input_u32(device, &ids)?, mem.input(device, &dy)?);
                let dweight = mem.input(device, &stored)?;
                let sizes = embedding::EmbeddingSizes {
                    shards: 2,
                    rows_per_shard: rows,
                    vocabulary: 2,
                    width,
                };
                embedding::embedding_backward(device, &ids, &dy, &dweight, sizes, accumulate)?;
                Ok(dweight)
            },
            |dweight, pair| f64::from(dweight[2 * width + pair]),
        );
    }
}

/// A buffer of more than two rows of 4,096 has too many pairs: those within a row, across its
/// lanes and between rows are probed, and compared with the specified sizes.
#[test]
fn whole_buffer_is_rows_of_4096_and_then_a_row() {
    let n = 2 * 4096 + 300;
    let specified = Tree::flat(terms(n));
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
        n - 1,
    ];
    for device in devices() {
        for (at, &i) in ends.iter().enumerate() {
            for &j in &ends[at + 1..] {
                let mut x = vec![1.0; n];
                (x[i], x[j]) = (MASK, -MASK);
                let out = run_on("sum", device, |device, mem| {
                    let (x, out) = (mem.input(device, &x)?, mem.output(device, 1)?);
                    sum(device, &x, &out)?;
                    Ok(vec![out])
                });
                let size = n - out[0][0] as usize;
                assert_eq!(
                    size,
                    specified.meet(i, j),
                    "terms {i} and {j} on {}",
                    device.info()
                );
            }
        }
    }
}

/// Sums of positive terms cannot be masked. Their results are those of the specified tree over
/// the same terms, for values that other orders round differently.
#[test]
fn positive_sums_have_the_bits_of_the_specified_tree() {
    let n = 2 * 4096 + 300;
    let x: Vec<f32> = testing::normal(31, n).iter().map(|x| x * 3.0).collect();
    let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
    let tree = Tree::flat(terms(n));
    let norm = with_flush(|| arith::sqrt(tree.evaluate(&squares)));
    let top = x[..300].iter().copied().fold(f32::MIN, f32::max);
    let powers: Vec<f32> = x[..300]
        .iter()
        .map(|x| with_flush(|| arith::exp(x - top)))
        .collect();
    let total = with_flush(|| Tree::lanes(terms(300)).evaluate(&powers));
    let got = testing::run_everywhere("positive sums", |device, mem| {
        let (all, row) = (mem.input(device, &x)?, mem.input(device, &x[..300])?);
        let (norm, y) = (mem.output(device, 1)?, mem.output(device, 300)?);
        global_norm(device, &all, &norm)?;
        softmax_forward(device, &row, &y, 1, 300)?;
        Ok(vec![norm, y])
    });
    assert_eq!(got[0][0], norm);
    let inverse = arith::div(1.0, total);
    let expected: Vec<f32> = powers.iter().map(|p| with_flush(|| p * inverse)).collect();
    assert_eq!(got[1], expected);
    // The values show the order: one chain gives other bits.
    assert_ne!(
        Tree::chain(terms(n)).evaluate(&squares),
        tree.evaluate(&squares)
    );
    assert_ne!(Tree::chain(terms(300)).evaluate(&powers), total);
}
