//! The cases of `hlx-bench` under criterion, for its statistics over time: `cargo bench -p
//! hlx-bench`, or `cargo bench -p hlx-bench -- softmax` for the cases whose names hold a word.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hlx_bench::cases::{Amount, cases, scale_of};
use hlx_bench::work::prepare;
use hlx_core::{Device, DeviceKind};

/// Times every operation on the CPU device and every hardware GPU; rates are bytes per second, or
/// floating-point operations as elements per second.
fn bench(criterion: &mut Criterion) {
    for info in Device::devices() {
        if info.kind == DeviceKind::VulkanSoftware {
            continue;
        }
        let device = Device::open(&info.selector).expect("a listed device opens");
        let mut group = criterion.benchmark_group(&info.selector);
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(2));
        let operations = cases(scale_of(&device, false)).into_iter();
        for case in operations.filter(|case| case.label.is_none()) {
            group.throughput(match case.amount() {
                Amount::Flops(flops) => Throughput::Elements(flops as u64),
                Amount::Bytes(bytes) => Throughput::Bytes(bytes as u64),
            });
            // Prepared inside, so that the cases that a filter leaves out take no memory.
            group.bench_function(BenchmarkId::from_parameter(case.name()), |bencher| {
                let launches = prepare(&device, &case).expect("device memory");
                bencher.iter_custom(|times| {
                    let start = Instant::now();
                    for _ in 0..times {
                        launches().expect("launch");
                    }
                    device.sync().expect("sync");
                    start.elapsed()
                });
            });
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
