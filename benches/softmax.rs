//! Criterion benchmarks of softmax, forward and backward: `cargo bench -p hlx-bench --bench softmax`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "softmax");
}

criterion_group!(benches, bench);
criterion_main!(benches);
