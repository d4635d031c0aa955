//! Criterion benchmarks of cross-entropy, forward and backward: `cargo bench -p hlx-bench --bench cross_entropy`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "cross_entropy");
}

criterion_group!(benches, bench);
criterion_main!(benches);
