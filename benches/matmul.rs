//! Times the matrix product on the CPU device and on every hardware GPU: squares, and the
//! products of a transformer's step. `cargo bench -p hlx-bench --bench matmul`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hlx_core::{Context, DeviceKind};
use hlx_kernels::matmul::{MatMul, matmul};

/// The shapes and their names. Rates are printed in elements: one is a multiply-add, so that
/// 1 Gelem/s is 2 GFLOP/s.
fn shapes(ctx: &Context) -> Vec<(String, MatMul)> {
    let sides: &[usize] = if ctx.is_cpu() {
        &[256, 512, 1024, 2048]
    } else {
        &[512, 1024, 2048, 4096, 8192]
    };
    let squares = sides
        .iter()
        .map(|&n| (format!("square {n}"), MatMul::new(n, n, n)));
    let forward = [
        (1024, 768, 256),
        (1024, 1024, 256),
        (1024, 256, 1024),
        (16_384, 256, 768),
    ]
    .into_iter()
    .map(|(m, n, k)| (format!("rows {m}x{n}x{k}"), MatMul::new(m, n, k)));
    let weight_gradients = [(256, 768, 128), (256, 1024, 128), (768, 768, 2048)]
        .into_iter()
        .map(|(m, n, k)| {
            let shape = MatMul {
                batch: 8,
                trans_a: true,
                ..MatMul::new(m, n, k)
            };
            (format!("8 weight gradients {m}x{n}x{k}"), shape)
        });
    squares.chain(forward).chain(weight_gradients).collect()
}

fn bench_device(criterion: &mut Criterion, ctx: &Context) {
    let mut group = criterion.benchmark_group(format!("matmul {}", ctx.info().selector));
    group.sample_size(20);
    for (name, s) in shapes(ctx) {
        let buffer = |len: usize| {
            let data: Vec<f32> = (0..len).map(|i| (i % 97) as f32 / 97.0 - 0.5).collect();
            ctx.buffer_f32(&data).expect("device memory")
        };
        let [a, b, c] = [s.m * s.k, s.k * s.n, s.m * s.n].map(|size| buffer(s.batch * size));
        group.throughput(Throughput::Elements((s.batch * s.m * s.n * s.k) as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|times| {
                let start = std::time::Instant::now();
                for _ in 0..times {
                    matmul(ctx, &a, &b, None, &c, &s).expect("launch");
                }
                ctx.sync().expect("sync");
                start.elapsed()
            });
        });
    }
}

fn bench(criterion: &mut Criterion) {
    for info in Context::devices() {
        if info.kind != DeviceKind::VulkanSoftware {
            let ctx = Context::open(&info.selector).expect("a listed device opens");
            bench_device(criterion, &ctx);
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
