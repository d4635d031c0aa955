//! The searches find the best of what they go through, and any values have a block.

use hlx_core::arith::philox4x32;

use super::sweep::Sweep;
use super::*;
use crate::blocks::widen;

/// Normal values, every 50th of which is ten times as large if `tails` says so.
pub(super) fn weights_of(n: usize, seed: u32, tails: bool) -> Vec<f32> {
    let value = |at: usize| {
        let [a, b, ..] = philox4x32([at as u32, seed, 0, 0], [1, 2]);
        let (value, _) = hlx_core::arith::normal_pair(a, b);
        match tails && at.is_multiple_of(50) {
            true => value * 0.2,
            false => value * 0.02,
        }
    };
    (0..n).map(value).collect()
}

fn quantised() -> impl Iterator<Item = BlockKind> {
    BlockKind::ALL.into_iter().filter(|kind| !kind.is_float())
}

fn error_of(kind: BlockKind, values: &[f32], bytes: &[u8]) -> f64 {
    let found = widen(kind, bytes).expect("whole blocks");
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    values.iter().zip(&found).map(square).sum()
}

/// The best of 20,000 scales, tried one by one.
fn best_of_many(x: &[f64], w: &[f64], (least, most): (f64, f64)) -> f64 {
    let largest = x.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let error = |scale: f64| -> f64 {
        let of = |(x, w): (&f64, &f64)| {
            let q = (x / scale).round_ties_even().clamp(least, most);
            w * (x - scale * q).powi(2)
        };
        x.iter().zip(w).map(of).sum()
    };
    let scales = (1..20_000).map(|step| largest / (-least * 0.75) * f64::from(step) / 20_000.0);
    let both = scales.flat_map(|scale| [scale, -scale]);
    both.map(error).fold(f64::INFINITY, f64::min)
}

#[test]
fn no_other_scale_is_better_than_that_of_the_sweep() {
    for seed in 0..40 {
        let x: Vec<f64> = weights_of(32, seed, seed % 2 == 0)
            .into_iter()
            .map(f64::from)
            .collect();
        let w: Vec<f64> = (0..32)
            .map(|at| f64::from(1 + (at * 7 + seed) % 5))
            .collect();
        for (least, most) in [(-8.0, 7.0), (-4.0, 3.0), (-16.0, 15.0)] {
            let sweep = Sweep {
                x: &x,
                w: &w,
                least,
                most,
                both_signs: true,
            };
            let scale = sweep.best_scale(&mut Vec::new());
            let of = |(x, w): (&f64, &f64)| {
                let q = (x / scale).round_ties_even().clamp(least, most);
                w * (x - scale * q).powi(2)
            };
            let found: f64 = x.iter().zip(&w).map(of).sum();
            let best = best_of_many(&x, &w, (least, most));
            assert!(
                found <= best * 1.0001,
                "{seed} {least}: {found}, expected {best}"
            );
        }
    }
}

#[test]
fn values_that_a_block_holds_are_kept_exactly() {
    for kind in quantised() {
        let blocks = crate::blocks::testing_blocks(kind, 20);
        for bytes in blocks.chunks_exact(kind.block_bytes()) {
            // Scales of a size that a model has.
            let mut block = Block::unpack(kind, bytes).expect("a block");
            (block.d, block.dmin) = (0.0625, 0.125);
            let mut values = vec![0.0; kind.block_values()];
            block.values(kind, &mut values);
            let found = quantise(kind, &values, values.len(), None).expect("a block");
            let norm: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
            let error = error_of(kind, &values, &found);
            // Small kinds with all bits in use are found again; others come close to it.
            let bound = match kind {
                BlockKind::Q4_0 | BlockKind::Q5_0 | BlockKind::MXFP4 => 0.0,
                BlockKind::Q2K => 0.02,
                _ => 0.001,
            };
            assert!(
                error <= bound * norm,
                "{kind:?}: {} of the norm",
                error / norm
            );
        }
    }
}

#[test]
fn blocks_do_not_depend_on_the_number_of_threads() {
    let values = weights_of(256 * 300, 3, true);
    let importance: Vec<f32> = (0..512).map(|at| (at % 7) as f32).collect();
    for kind in quantised() {
        let with = |n| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build();
            let pool = pool.expect("threads");
            pool.install(|| quantise(kind, &values, 512, Some(&importance)).expect("blocks"))
        };
        assert!(with(1) == with(3), "{kind:?}");
        let last = quantise(kind, &values[values.len() - 512..], 512, Some(&importance));
        assert!(with(2).ends_with(&last.expect("blocks")), "{kind:?}");
    }
}

#[test]
fn importance_moves_the_error_to_other_columns() {
    let values = weights_of(256 * 64, 5, false);
    let importance: Vec<f32> = (0..256)
        .map(|at| if at % 8 == 0 { 100.0 } else { 1.0 })
        .collect();
    let of_important = |kind, bytes: &[u8]| -> f64 {
        let found = widen(kind, bytes).expect("whole blocks");
        let both = values.iter().zip(&found).step_by(8);
        both.map(|(a, b)| f64::from(a - b).powi(2)).sum()
    };
    for kind in quantised() {
        let plain = quantise(kind, &values, 256, None).expect("blocks");
        let guided = quantise(kind, &values, 256, Some(&importance)).expect("blocks");
        let [plain, guided] = [&plain, &guided].map(|bytes| of_important(kind, bytes));
        assert!(guided < plain, "{kind:?}: {guided}, {plain}");
    }
}

#[test]
fn any_finite_values_have_a_block() {
    let edges = [
        0.0,
        -0.0,
        1e-40,
        -1e-30,
        1e-8,
        3e-5,
        1.0,
        -70_000.0,
        1e20,
        f32::MAX,
        f32::MIN_POSITIVE,
        -1.0,
    ];
    for kind in quantised() {
        for (at, &edge) in edges.iter().enumerate() {
            for other in [0.0, edge, -edge, 1.0, edges[(at + 5) % 12]] {
                let mut values = vec![other; 256];
                (values[0], values[77]) = (edge, edge);
                let bytes = quantise(kind, &values, 256, None).expect("blocks");
                let found = widen(kind, &bytes).expect("whole blocks");
                assert!(
                    found.iter().all(|value| value.is_finite()),
                    "{kind:?} {edge} {other}"
                );
                let n = kind.block_values();
                if values[..n].iter().all(|&value| value == 0.0) {
                    assert!(found[..n].iter().all(|&value| value == 0.0), "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_quantised_is_refused() {
    let refused = |kind, values: &[f32], columns, importance: Option<&[f32]>| {
        let error = quantise(kind, values, columns, importance).expect_err("refused");
        error.to_string()
    };
    let zeros = [0.0; 512];
    assert_eq!(
        refused(BlockKind::Q4K, &zeros, 128, None),
        "quantise: rows of 128 values, expected a multiple of 256, the block of Q4_K"
    );
    assert_eq!(
        refused(BlockKind::Q4_0, &zeros[..48], 32, None),
        "quantise: 48 values, expected rows of 32"
    );
    assert_eq!(
        refused(BlockKind::Q4_0, &zeros, 32, Some(&[1.0; 31])),
        "quantise: an importance for 31 columns, expected 32"
    );
    assert_eq!(
        refused(BlockKind::Q4_0, &zeros, 32, Some(&[-1.0; 32])),
        "quantise: the importance of column 0 is -1"
    );
    let mut broken = zeros;
    broken[300] = f32::NAN;
    assert_eq!(
        refused(BlockKind::Q6K, &broken, 256, None),
        "quantise: value 300 is NaN"
    );
    broken[300] = 70_000.0;
    assert_eq!(
        refused(BlockKind::F16, &broken, 512, None),
        "narrow: value 300 is 70000, which f16 does not reach"
    );
}
