"""Files for the tests of contracts and of the compute layer."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
GEMM = (EXAMPLES / "python/gemm.spv").read_bytes()
AXPY = (EXAMPLES / "axpy.spv").read_bytes()
