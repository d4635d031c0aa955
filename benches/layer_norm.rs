//! Criterion benchmarks of layer norm, forward, backward and the gradients of gain and bias: `cargo bench -p hlx-bench --bench layer_norm`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "layer_norm");
}

criterion_group!(benches, bench);
criterion_main!(benches);
