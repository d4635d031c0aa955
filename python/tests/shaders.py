"""Shaders for the tests of contracts and of the compute layer, and a contract."""

from pathlib import Path

import hlx

EXAMPLES = Path(__file__).parents[2] / "examples"
GEMM = (EXAMPLES / "python/gemm.spv").read_bytes()
AXPY = (EXAMPLES / "axpy.spv").read_bytes()


def gemm(**fields: object) -> dict[str, object]:
    """The contract of a product of two 2 x 2 matrices, with other fields."""
    shader = hlx.collapse({"900": {"spirv_binary": GEMM}})
    a, b = hlx.collapse([[1, 2], [3, 4]]), hlx.collapse([[5, 6], [7, 8]])
    return {"kernel_name": "gemm", "shader_handle": shader, "inputs": [a, b], "outputs": [[2, 2]], **fields}
