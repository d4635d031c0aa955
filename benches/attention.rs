//! Criterion benchmarks of causal attention, forward and backward: `cargo bench -p hlx-bench --bench attention`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "attention");
}

criterion_group!(benches, bench);
criterion_main!(benches);
