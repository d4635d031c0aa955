//! Criterion benchmarks of the sum of two tensors: `cargo bench -p hlx-bench --bench elementwise`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "elementwise");
}

criterion_group!(benches, bench);
criterion_main!(benches);
