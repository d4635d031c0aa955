//! Criterion benchmarks of the matrix product: squares, transposes, and the products of a transformer's step: `cargo bench -p hlx-bench --bench matmul`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "matmul");
}

criterion_group!(benches, bench);
criterion_main!(benches);
