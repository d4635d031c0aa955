//! Tests of the CPU's bodies: every instruction set and thread count has the bits of the chain.

use hlx_core::cpu::simd_levels;

use super::*;
use crate::testing::pairs_next_to_the_smallest;

/// Threads that flush subnormals, as those of the CPU device do.
fn flushing_pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .spawn_handler(|thread| {
            std::thread::Builder::new().spawn(|| with_flush(|| thread.run()))?;
            Ok(())
        })
        .build()
        .expect("pool")
}

/// The diagonal of each product, and what it is added to, lie next to 2^-126: a processor that
/// flushes before rounding (AArch64) has to find that out and compute the tile again.
#[test]
fn results_next_to_the_smallest_number_have_the_bits_of_the_chain() {
    let n = 37;
    let (x, y) = pairs_next_to_the_smallest(5, n);
    for from in STARTS {
        let mut case = Case::new(shape(n, n, 2, [false, false]), from, |_, len| {
            vec![0.0; len]
        });
        for i in 0..n {
            case.a[2 * i] = x[i];
            case.b[i] = y[i];
            // The second step moves some of the sums by less than half of 2^-149.
            case.a[2 * i + 1] = if i % 3 == 0 { x[i] * 1e-10 } else { 0.0 };
            case.b[n + i] = -y[i];
        }
        let smallest = f32::MIN_POSITIVE;
        case.bias = (0..n).map(|i| [0.0, smallest, -smallest][i % 3]).collect();
        case.c = (0..n * n)
            .map(|i| [0.0, smallest, -smallest][i % 3])
            .collect();
        let want = case.chain();
        let on_it = want.iter().filter(|c| c.abs() == smallest).count();
        assert!(on_it > n / 3, "{on_it} results are 2^-126");
        for level in simd_levels() {
            let mut c = case.c.clone();
            with_flush(|| {
                cpu::matmul(
                    level,
                    &case.shape,
                    &case.a,
                    (&case.b, DType::F32),
                    case.bias(),
                    &mut c,
                )
            });
            assert_same_bits(&format!("{from:?} {level:?}"), &c, &want);
        }
        case.run(SMALLEST);
    }
}

#[test]
fn every_instruction_set_and_thread_count_has_the_bits_of_the_chain() {
    let levels = simd_levels();
    let sizes = [
        (1, 1, 1),
        (1, 96, 7),
        (14, 32, 5),
        (29, 128, 3),
        (31, 48, 9),
        (127, 129, 33),
        (30, 17, 900),
        (150, 520, 40),
        (300, 65, 390),
    ];
    for threads in [1, 3] {
        let pool = flushing_pool(threads);
        for (i, (m, n, k)) in sizes.into_iter().enumerate() {
            for (j, trans) in TRANSPOSES.into_iter().enumerate() {
                let data = if i % 2 == 0 { normal } else { values };
                let case = Case::new(shape(m, n, k, trans), STARTS[(i + j) % 3], data);
                let want = case.chain();
                for &level in &levels {
                    let mut c = case.c.clone();
                    pool.install(|| {
                        cpu::matmul(
                            level,
                            &case.shape,
                            &case.a,
                            (&case.b, DType::F32),
                            case.bias(),
                            &mut c,
                        );
                    });
                    assert_same_bits(&format!("{:?} {level:?}", case.shape), &c, &want);
                }
            }
        }
    }
}
