//! Runs the cases of one family under criterion, on the CPU device and on every hardware GPU.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use hlx_bench::cases::{Amount, cases, scale_of, select};
use hlx_bench::work::prepare;
use hlx_core::{Context, DeviceKind};

/// Times a family; rates are bytes a second, or operations as elements a second.
pub fn family(criterion: &mut Criterion, name: &str) {
    for info in Context::devices() {
        if info.kind == DeviceKind::VulkanSoftware {
            continue;
        }
        let ctx = Context::open(&info.selector).expect("a listed device opens");
        let mut group = criterion.benchmark_group(format!("{name} {}", info.selector));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(2));
        for case in select(cases(scale_of(&ctx, false)), Some(name)).expect("a family") {
            let launches = prepare(&ctx, &case).expect("device memory");
            group.throughput(match case.amount() {
                Amount::Flops(flops) => Throughput::Elements(flops as u64),
                Amount::Bytes(bytes) => Throughput::Bytes(bytes as u64),
            });
            group.bench_function(BenchmarkId::from_parameter(case.name()), |bencher| {
                bencher.iter_custom(|times| {
                    let start = Instant::now();
                    for _ in 0..times {
                        launches().expect("launch");
                    }
                    ctx.sync().expect("sync");
                    start.elapsed()
                });
            });
        }
    }
}
