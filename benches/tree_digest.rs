//! Criterion benchmarks of the digest of parameters: `cargo bench -p hlx-bench --bench tree_digest`.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    common::family(criterion, "tree_digest");
}

criterion_group!(benches, bench);
criterion_main!(benches);
