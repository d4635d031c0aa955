//! Criterion benchmarks of AdamW over a flat buffer: `cargo bench -p hlx-bench --bench optimizer`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "optimizer");
}

criterion_group!(benches, bench);
criterion_main!(benches);
