//! The exhaustive comparison with large strides, and that it finds what differs.

use super::*;
use hlx_core::arith;
use hlx_kernels::testing::devices;

/// Prime, so that it meets every exponent with many significands.
const STRIDE: u32 = 199_999;

/// The bounds that `docs/numerics.md` states.
const BOUNDS: [(&str, f64); 22] = [
    ("recip", 0.5),
    ("sqrt", 0.5),
    ("rsqrt", 0.75),
    ("exp", 1.02),
    ("log", 0.9),
    ("sigmoid", 2.0),
    ("tanh", 2.0),
    ("erf", 1.2),
    ("sin", 1.6),
    ("cos", 1.6),
    ("exp2", 0.85),
    ("expm1", 1.5),
    ("log2", 1.1),
    ("log10", 1.0),
    ("log1p", 1.5),
    ("tan", 2.0),
    ("asin", 1.25),
    ("acos", 1.25),
    ("atan", 1.25),
    ("sinh", 1.65),
    ("cosh", 1.65),
    ("pos0", 0.0),
];

#[test]
fn every_function_is_equal_and_within_its_bound() {
    let cpu = hlx_core::testing::cpu().expect("the CPU device");
    let run = Run {
        stride: STRIDE,
        chunk: 1 << 14,
    };
    for device in devices() {
        for function in &FUNCTIONS {
            let mut done = 0;
            let found = run
                .check(device, &cpu, function, &mut |progress| done = progress.done)
                .expect("a run");
            assert_eq!((done, found.inputs), (run.inputs(), run.inputs()));
            assert_eq!(found.first, None, "{} on {}", function.name, device.info());
            let bound = BOUNDS.iter().find(|(name, _)| *name == function.name);
            match (bound, found.worst) {
                (Some((name, bound)), Some(worst)) => assert!(
                    worst.ulp <= *bound,
                    "{name}({:#010x}) is {} ulp off, more than {bound}",
                    worst.input,
                    worst.ulp
                ),
                (bound, worst) => assert!(bound.is_none() && worst.is_none(), "{}", function.name),
            }
        }
    }
}

#[test]
fn operations_of_many_arguments_are_equal() {
    let cpu = hlx_core::testing::cpu().expect("the CPU device");
    let run = PairRun {
        triples: 100_000,
        chunk: 30_000,
    };
    for device in devices() {
        for (name, found) in run.check(device, &cpu, &mut |_| {}).expect("a run") {
            assert_eq!(found.inputs, run.triples, "{name}");
            assert_eq!(found.first, None, "{name} on {}", device.info());
        }
    }
}

#[test]
fn a_difference_is_found_and_the_first_is_named() {
    let expected: Vec<u32> = (0..40_000).collect();
    let mut found = expected.clone();
    found[20_000] ^= 1;
    found[39_999] ^= 1;
    // NaNs of different payloads are one.
    let mut with_nan = expected.clone();
    (found[7], with_nan[7]) = (0x7fee_0000, 0xffc0_0001);
    let all = compare_chunk(&found, &with_nan, None, &|at| [at as u32 + 5, 0, 0]);
    assert_eq!((all.inputs, all.differing), (40_000, 2));
    let first = Difference {
        inputs: [20_005, 0, 0],
        found: 20_001,
        expected: 20_000,
    };
    assert_eq!(all.first, Some(first));
}

#[test]
fn errors_are_measured_and_the_largest_is_named() {
    let mut results: Vec<u32> = (0..100).map(|i| (1.0 + i as f32).to_bits()).collect();
    results[40] += 3;
    let word = |at: usize| [(1.0 + at as f32).to_bits(), 0, 0];
    let all = compare_chunk(&results, &results, Some(|x| x), &word);
    let worst = all.worst.expect("a reference was given");
    assert_eq!((worst.ulp, worst.input), (3.0, 41.0_f32.to_bits()));
    // A result that should be finite is infinitely wrong.
    let all = compare_chunk(&[0x7f80_0000], &[0x7f80_0000], Some(|x| x), &word);
    assert_eq!(all.worst.map(|worst| worst.ulp), Some(f64::INFINITY));
}

#[test]
fn triples_are_the_edges_first() {
    let first: Vec<[u32; 3]> = (0..8).map(triple).collect();
    assert_eq!(first[5], [1 << 31, 0, 1 << 31]);
    let last = triple(EDGE_TRIPLES - 1);
    assert_eq!(last, [0xffc0_0000; 3]);
    assert!(arith::abs(f32::from_bits(triple(EDGE_TRIPLES + 1)[0])) < 1024.0);
}
