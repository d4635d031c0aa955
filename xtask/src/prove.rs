//! `cargo xtask prove`: builds the benchmark program and runs its proof of determinism.

use crate::{Outcome, bench};

pub const HELP: &str = "\
cargo xtask prove [--device D] [--out DIR] [OPTIONS]

Shows that results do not change, and what that costs:

  product  the contract product of 1024 x 1024, 1,000 times: how many handles came out
  batches  the model `small` at batch 1, 2, 4, .. 128: the first call in a fresh process, ten cold
           and ten warm calls each, with the digest of the first sequence's logits

Writes product.csv, batches.csv and a picture of each. Exit status: 0 one handle and one digest,
1 otherwise.

  --device D        auto (default), cpu, vulkan or vulkan:N
  --out DIR         the folder for the files (proof)
  --runs N          runs of the product
  --repeats N       cold and warm calls at each batch size
  --max-batch N     the largest batch
  --model NAME      mini, tiny, small, medium or gpt2
  --product-only    the product alone; --batches-only, the batch sizes alone
  --pytorch PYTHON  measure PyTorch too, eager and compiled, with this Python
  --quick           a small product, a small model and few runs

docs/benchmarks/determinism.md says what first, cold and warm mean.";

pub fn run(args: &[String]) -> Outcome {
    let mut all = vec!["prove".to_owned()];
    all.extend_from_slice(args);
    bench::run(&all)
}
