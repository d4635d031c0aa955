"""PyTorch's own samples of its operators, carried out by `import hlx`: results and gradients against PyTorch's.

The samples are `crates/hlx-autograd/tests/fixtures/pytorch_samples.bin`; PyTorch is not needed. The verdicts
and tolerances are those of the Rust test of the same name.
"""
