//! Criterion benchmarks of the embedding, its lookup and its gradient: `cargo bench -p hlx-bench --bench embedding`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "embedding");
}

criterion_group!(benches, bench);
criterion_main!(benches);
