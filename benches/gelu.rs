//! Criterion benchmarks of GELU, forward and backward: `cargo bench -p hlx-bench --bench gelu`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "gelu");
}

criterion_group!(benches, bench);
criterion_main!(benches);
