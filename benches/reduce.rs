//! Criterion benchmarks of column sums and the global norm: `cargo bench -p hlx-bench --bench reduce`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "reduce");
}

criterion_group!(benches, bench);
criterion_main!(benches);
