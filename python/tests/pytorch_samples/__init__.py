"""PyTorch's own samples of its operators, carried out by `import hlx`: results and gradients against PyTorch's.

PyTorch is not needed. There are two fixtures:

- `crates/hlx-autograd/tests/fixtures/pytorch_samples.bin`, of the operations that HLX has in Rust, with the verdicts
  and tolerances of the Rust test of the same name;
- `python/tests/fixtures/composed_samples.bin`, of operations that the package composes of them.
"""
