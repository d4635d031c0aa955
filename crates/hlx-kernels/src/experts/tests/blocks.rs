//! Experts in blocks: every device has the bits of the products of each expert's own rows.

use super::*;
use crate::product::blocks::{BLOCK_FORMATS, BlockFormat, BlockRows, block_product};
use crate::product::experts_block_product;
use crate::product::floats::Epilogue;
use crate::product::quantised::tests::{awkward, every_way};
use crate::product::quantised::{Digits, Preparation, Prepared};

/// The weights of all experts, each of its own integers.
fn weights(
    device: &Device,
    format: &'static BlockFormat,
    sizes: [usize; 2],
    experts: usize,
) -> Result<Vec<BlockRows>> {
    let weight = |expert: usize| BlockRows::drawn(device, format, sizes, 5 + expert as u64);
    (0..experts).map(weight).collect()
}

/// Each expert's rows apart from those of the others, by [`block_product`] on the CPU.
fn apart(
    format: &'static BlockFormat,
    case: &Case,
    x: &[f32],
    [n, k]: [usize; 2],
) -> Result<Vec<f32>> {
    let device = hlx_core::testing::cpu()?;
    let mut expected = vec![f32::NAN; case.rows.len() * n];
    for (expert, weight) in weights(&device, format, [n, k], case.choices.experts)?
        .iter()
        .enumerate()
    {
        let own = case.of(expert, 0, 1);
        if own.is_empty() {
            continue;
        }
        let of_own: Vec<f32> = own
            .iter()
            .flat_map(|&row| x[row * k..][..k].to_vec())
            .collect();
        let of = Preparation::of_rows(own.len(), k, Digits::Two);
        let a = Prepared::new(&device, &device.buffer_of(&of_own)?, of)?;
        let y = device.alloc(own.len() * n)?;
        block_product(&device, &a, weight, None, &y, Epilogue::None)?;
        let y: Vec<f32> = device.download(&y)?;
        for (row, y) in own.into_iter().zip(y.chunks(n)) {
            expected[row * n..][..n].copy_from_slice(y);
        }
    }
    Ok(expected)
}

fn check(format: &'static BlockFormat, case: &Case, [n, k]: [usize; 2]) {
    let (rows, experts) = (case.rows.len(), case.choices.experts);
    let x = awkward(1, rows, k);
    let name = format!("experts of {} {rows} {n} {k}", format.name);
    let outputs = run_everywhere(&name, |device, memory| {
        let (_, bounds) = case.table(device, 1)?;
        let x = memory.input(device, &x)?;
        let apart = weights(device, format, [n, k], experts)?;
        let joined = BlockRows::side_by_side(device, apart.clone())?;
        // Some of them side by side: several launches, which keep each other's rows.
        let mixed: Vec<BlockRows> = [&joined[..1], &apart[1..2], &joined[2..]].concat();
        let mut outputs = Vec::new();
        for device in &every_way(device) {
            let of = Preparation::of_rows(rows, k, Digits::Two);
            let matrices = Matrices::rows(1, rows, k);
            let x = Factor::Quantised(Prepared::new(device, &x, of)?, matrices);
            for weights in [&joined, &mixed] {
                let y = memory.output(device, rows * n)?;
                experts_block_product(device, &x, weights, &bounds, &y)?;
                outputs.push(y);
            }
        }
        Ok(outputs)
    });
    let expected = apart(format, case, &x, [n, k]).expect("products");
    for output in &outputs {
        for (at, (found, expected)) in output.iter().zip(&expected).enumerate() {
            let is_same = canonical_bits(*found) == canonical_bits(*expected);
            assert!(is_same, "{name}, {at}: {found:e} {expected:e}");
        }
    }
}

#[test]
fn products_are_those_of_each_experts_rows() {
    for (i, format) in BLOCK_FORMATS.iter().enumerate() {
        let block = format.block;
        // Of whole panels, and of a part of one, which no launch reads together with others.
        let sizes = [
            [64, block],
            [32, 2 * block],
            [17, block],
            [80, 4096 + block],
        ];
        for (j, case) in cases().enumerate() {
            if (i + j) % 3 == 0 || format.name == "Q4_K" {
                check(format, &case, sizes[(i + j) % 4]);
            }
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let case = Case::new(3, 1, 2);
    let (_, bounds) = case.table(&device, 1)?;
    let x = device.buffer_of(&[1.0_f32; 3 * 64])?;
    let of = Preparation::of_rows(3, 64, Digits::Two);
    let x = Factor::Quantised(Prepared::new(&device, &x, of)?, Matrices::rows(1, 3, 64));
    let y = device.alloc(3 * 16)?;
    let format = BlockFormat::named("Q8_0").expect("a format");
    let one = |sizes: [usize; 2]| BlockRows::drawn(&device, format, sizes, 1);
    let refused = |weights: &[BlockRows]| {
        let error = experts_block_product(&device, &x, weights, &bounds, &y);
        error.expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&[one([16, 64])?, one([32, 64])?]),
        "experts_product: a weight of [32, 64], expected [16, 64] as the first"
    );
    assert_eq!(
        refused(&[]),
        "experts_product: weights in blocks are for rows of two digits and one expert at least"
    );
    let lines = refused(&[one([16, 64])?]);
    assert!(lines.starts_with("experts_product: bounds has"), "{lines}");
    Ok(())
}
