"""Settings of products in PyTorch's CUDA backend; they change nothing here, as `hlx.backends` says."""


class _Matmul:
    """What a program sets of products."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False
    fp32_precision = "ieee"


#: Settings of products.
matmul: _Matmul = _Matmul()
